"""Writes exported models with seeded random weights: the architectures that tests and examples run.

    python make.py FOLDER [--only mlp,bert] [--reference] [--list]

FOLDER gets NAME.pt2 for each; with --reference the folder NAME of cases.py instead, what a C++ test reads.
"""

from __future__ import annotations

import argparse
import pathlib
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from cases import saved, write_case, write_model

Dim = torch.export.Dim


class Case(NamedTuple):
    model: torch.nn.Module
    args: tuple[Any, ...]
    dynamic: Any = None
    run: tuple[Any, ...] | None = None  # inputs of the reference run, where they differ from args
    dims: dict[str, int] | None = None


class Mlp(torch.nn.Module):
    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(16, width),
            torch.nn.ReLU(),
            torch.nn.Dropout(0.1),
            torch.nn.Linear(width, width),
            torch.nn.GELU(),
            torch.nn.LayerNorm(width),
            torch.nn.Linear(width, 8),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


class First(torch.nn.Module):
    """The first output of a transformers model, called by position."""

    def __init__(self, model: torch.nn.Module, names: tuple[str, ...], **fixed: Any) -> None:
        super().__init__()
        self.model, self.names, self.fixed = model, names, fixed

    def forward(self, *args: torch.Tensor) -> torch.Tensor:
        return self.model(**dict(zip(self.names, args, strict=True)), **self.fixed)[0]


def ids_and_mask(batch: int, seq: int) -> tuple[torch.Tensor, torch.Tensor]:
    ids = torch.randint(3, 100, (batch, seq))
    mask = torch.ones(batch, seq, dtype=torch.long)
    mask[-1, seq * 3 // 4 :] = 0
    return ids, mask


def mlp() -> Case:
    return Case(Mlp(), (torch.randn(4, 16),))


def mlp_dynamic() -> Case:
    return Case(Mlp(), (torch.randn(4, 16),), ({0: Dim("batch", min=1, max=64)},), (torch.randn(7, 16),), {"x.0": 7})


def bert_model() -> torch.nn.Module:
    from transformers import BertConfig, BertModel

    return BertModel(
        BertConfig(
            vocab_size=100,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=64,
            max_position_embeddings=64,
        )
    )


def bert() -> Case:
    return Case(bert_model(), ids_and_mask(2, 16))


def bert_dynamic() -> Case:
    shape = {0: Dim.AUTO, 1: Dim.AUTO}
    return Case(
        bert_model(),
        ids_and_mask(2, 16),
        (shape, shape),
        ids_and_mask(3, 12),
        {"input_ids.0": 3, "attention_mask.1": 12},
    )


def transformer(name: str, **fields: Any) -> torch.nn.Module:
    import transformers

    small = dict(
        vocab_size=100,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=64,
    )
    config = transformers.CONFIG_MAPPING[name](**{**small, **fields})
    return transformers.AutoModel.from_config(config)


def distilbert() -> Case:
    model = transformer("distilbert", dim=32, n_layers=2, n_heads=4, hidden_dim=64)
    return Case(First(model, ("input_ids", "attention_mask")), ids_and_mask(2, 16))


def gpt2() -> Case:
    model = transformer("gpt2", n_embd=32, n_layer=2, n_head=4, n_positions=64, bos_token_id=1, eos_token_id=2)
    return Case(First(model, ("input_ids", "attention_mask"), use_cache=False), ids_and_mask(2, 16))


def llama() -> Case:
    model = transformer("llama", num_key_value_heads=2)
    return Case(First(model, ("input_ids", "attention_mask"), use_cache=False), ids_and_mask(2, 16))


def image(size: int) -> tuple[torch.Tensor]:
    return (torch.randn(2, 3, size, size),)


def timm_model(name: str, size: int, **options: Any) -> Case:
    import timm

    model = timm.create_model(name, num_classes=10, **options)
    with torch.no_grad():  # running statistics as after some training
        for module in model.modules():
            if isinstance(module, torch.nn.BatchNorm2d):
                module.running_mean.normal_(0, 0.1)
                module.running_var.uniform_(0.5, 1.5)
    return Case(model, image(size))


def resnet18() -> Case:
    return timm_model("resnet18", 32)


def resnet18_dynamic() -> Case:
    case = timm_model("resnet18", 32)
    return case._replace(dynamic=({0: Dim.AUTO},), run=(torch.randn(3, 3, 32, 32),), dims={"x.0": 3})


ARCHITECTURES: dict[str, Callable[[], Case]] = {
    "mlp": mlp,
    "mlp_dynamic": mlp_dynamic,
    "bert": bert,
    "bert_dynamic": bert_dynamic,
    "resnet18": resnet18,
    "resnet18_dynamic": resnet18_dynamic,
    "distilbert": distilbert,
    "gpt2": gpt2,
    "llama": llama,
    "vit": lambda: timm_model("vit_tiny_patch16_224", 32, img_size=32, depth=2),
    "mobilenetv3": lambda: timm_model("mobilenetv3_small_050", 32),
    "convnext": lambda: timm_model("convnext_atto", 32),
    "mixer": lambda: timm_model("mixer_s32_224", 64, img_size=64),
}
# Those whose reference run is small enough for the interpreter of the IR; the others are only lowered.
EVALUATED = ("mlp", "mlp_dynamic", "bert", "bert_dynamic", "distilbert", "gpt2", "llama")


def make(name: str, folder: pathlib.Path, reference: bool) -> None:
    torch.manual_seed(0)
    case = ARCHITECTURES[name]()
    model = case.model.eval()
    program = torch.export.export(model, case.args, dynamic_shapes=case.dynamic)
    if not reference:
        torch.export.save(program, folder / f"{name}.pt2")
    elif name in EVALUATED:
        write_case(folder / name, model, program, case.args if case.run is None else case.run, case.dims)
    else:
        write_model(folder / name, saved(program))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--only", default="", help="names, separated by commas")
    parser.add_argument("--reference", action="store_true", help="write what C++ tests read")
    parser.add_argument("--list", action="store_true", help="print the names and stop")
    options = parser.parse_args()
    if options.list:
        print("\n".join(ARCHITECTURES))
        return
    options.folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    for name in options.only.split(",") if options.only else ARCHITECTURES:
        make(name, options.folder, options.reference)


if __name__ == "__main__":
    main()
