"""Writes exported models with seeded random weights: the architectures that tests and examples run.

    python make.py FOLDER [--only mlp,bert] [--more] [--reference] [--list]

FOLDER gets NAME.pt2 for each; with --reference the folder NAME of cases.py instead, what a C++ test reads. --more takes
further architectures of transformers and timm along: what those that are promised need should hold for these too.
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


# A transformer as small as one can be.
SMALL = dict(
    vocab_size=100,
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=64,
    max_position_embeddings=64,
)


def bert_model() -> torch.nn.Module:
    from transformers import BertConfig, BertModel

    return BertModel(BertConfig(**SMALL))


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

    config = transformers.CONFIG_MAPPING[name](**{**SMALL, **fields})
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


def llm(name: str, **fields: Any) -> Case:
    """A decoder that predicts the next token, without its cache."""
    model = transformer(name, **{"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0, **fields})
    return Case(First(model, ("input_ids", "attention_mask"), use_cache=False), ids_and_mask(2, 16))


def encoder(name: str, **fields: Any) -> Case:
    return Case(First(transformer(name, **fields), ("input_ids", "attention_mask")), ids_and_mask(2, 16))


def t5_encoder() -> Case:
    from transformers import T5Config, T5EncoderModel

    config = T5Config(vocab_size=100, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4)
    return Case(First(T5EncoderModel(config), ("input_ids", "attention_mask")), ids_and_mask(2, 16))


def bart() -> Case:
    layers = {
        f"{side}_{what}": value
        for side in ("encoder", "decoder")
        for what, value in (("layers", 1), ("attention_heads", 4), ("ffn_dim", 64))
    }
    model = transformer("bart", d_model=32, **layers)
    names = ("input_ids", "attention_mask", "decoder_input_ids")
    ids, mask = ids_and_mask(2, 16)
    return Case(First(model, names, use_cache=False), (ids, mask, ids[:, :8]))


def clip_vision() -> Case:
    from transformers import CLIPVisionConfig, CLIPVisionModel

    config = CLIPVisionConfig(
        hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, image_size=32, patch_size=8
    )
    return Case(First(CLIPVisionModel(config), ("pixel_values",)), image(32))


def segformer() -> Case:
    from transformers import SegformerConfig, SegformerForSemanticSegmentation

    config = SegformerConfig(
        depths=[1, 1, 1, 1],
        hidden_sizes=[8, 16, 32, 32],
        num_attention_heads=[1, 2, 4, 4],
        decoder_hidden_size=32,
        num_labels=5,
    )
    return Case(First(SegformerForSemanticSegmentation(config), ("pixel_values",)), image(64))


def whisper_encoder() -> Case:
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    config = WhisperConfig(
        d_model=32,
        encoder_layers=2,
        encoder_attention_heads=4,
        encoder_ffn_dim=64,
        num_mel_bins=16,
        max_source_positions=16,
    )
    return Case(First(WhisperEncoder(config), ("input_features",)), (torch.randn(2, 16, 32),))


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
        for parameter in model.parameters():  # a head of zeros would hide every error
            if not parameter.any():
                parameter.normal_(0, 0.02)
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
    "t5_encoder": t5_encoder,
    "swin": lambda: timm_model(
        "swin_tiny_patch4_window7_224", 64, img_size=64, window_size=4, embed_dim=24, depths=(2, 2), num_heads=(2, 4)
    ),
    "efficientnet_b0": lambda: timm_model("efficientnet_b0", 32),
}
# Tried beyond what is promised: another spelling of attention, another norm, another way to route channels.
MORE: dict[str, Callable[[], Case]] = {
    "regnet": lambda: timm_model("regnety_002", 32),
    "deit": lambda: timm_model("deit_tiny_distilled_patch16_224", 32, img_size=32, depth=2),
    "mobilevit": lambda: timm_model("mobilevit_xxs", 64),
    "mobilenetv2": lambda: timm_model("mobilenetv2_050", 32),
    "resnext": lambda: timm_model("resnext50_32x4d", 32),
    "seresnet": lambda: timm_model("seresnet18", 32),
    "res2net": lambda: timm_model("res2net50_14w_8s", 32),
    "densenet": lambda: timm_model("densenet121", 32),
    "inception": lambda: timm_model("inception_v3", 96),
    "vgg": lambda: timm_model("vgg11_bn", 32),
    "poolformer": lambda: timm_model("poolformer_s12", 64),
    "convmixer": lambda: timm_model("convmixer_768_32", 28),
    "coatnet": lambda: timm_model("coatnet_nano_rw_224", 64, img_size=64),
    "maxvit": lambda: timm_model("maxvit_rmlp_pico_rw_256", 64, img_size=64),
    "beit": lambda: timm_model("beit_base_patch16_224", 32, img_size=32, depth=2, embed_dim=48, num_heads=4),
    "cait": lambda: timm_model("cait_xxs24_224", 32, img_size=32, depth=2),
    "xcit": lambda: timm_model("xcit_nano_12_p16_224", 32, img_size=32, depth=2),
    "edgenext": lambda: timm_model("edgenext_xx_small", 64),
    "efficientformer": lambda: timm_model("efficientformer_l1", 224),
    "levit": lambda: timm_model("levit_128s", 224),
    "ghostnet": lambda: timm_model("ghostnet_050", 32),
    "hrnet": lambda: timm_model("hrnet_w18_small", 64),
    "dla": lambda: timm_model("dla34", 64),
    "dpn": lambda: timm_model("dpn68", 64),
    "cspdarknet": lambda: timm_model("cspdarknet53", 64),
    "repvgg": lambda: timm_model("repvgg_a0", 32),
    "rexnet": lambda: timm_model("rexnet_100", 32),
    "nfnet": lambda: timm_model("nf_resnet50", 32),
    "gmlp": lambda: timm_model("gmlp_ti16_224", 32, img_size=32),
    "resmlp": lambda: timm_model("resmlp_12_224", 32, img_size=32),
    "twins": lambda: timm_model("twins_svt_small", 64, img_size=64),
    "pvt": lambda: timm_model("pvt_v2_b0", 64),
    "focalnet": lambda: timm_model("focalnet_tiny_srf", 64),
    "davit": lambda: timm_model("davit_tiny", 64),
    "mvit": lambda: timm_model("mvitv2_tiny", 64, img_size=64),
    "volo": lambda: timm_model("volo_d1_224", 64, img_size=64),
    "eva": lambda: timm_model("eva02_tiny_patch14_224", 28, img_size=28, depth=2),
    "swinv2": lambda: timm_model(
        "swinv2_tiny_window8_256", 64, img_size=64, window_size=4, embed_dim=24, depths=(2, 2), num_heads=(2, 4)
    ),
    "convnextv2": lambda: timm_model("convnextv2_atto", 32),
    "roberta": lambda: encoder("roberta"),
    "electra": lambda: encoder("electra", embedding_size=16),
    "albert": lambda: encoder("albert", embedding_size=16),
    "mpnet": lambda: encoder("mpnet"),
    "deberta_v2": lambda: encoder(
        "deberta-v2", relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=8
    ),
    "bart": bart,
    "opt": lambda: llm("opt", ffn_dim=64, word_embed_proj_dim=32),
    "qwen2": lambda: llm("qwen2", num_key_value_heads=2),
    "qwen3": lambda: llm("qwen3", num_key_value_heads=2, head_dim=8),
    "gemma": lambda: llm("gemma", num_key_value_heads=2, head_dim=8),
    "gemma2": lambda: llm("gemma2", num_key_value_heads=2, head_dim=8, sliding_window=8),
    "mistral": lambda: llm("mistral", num_key_value_heads=2, sliding_window=8),
    "mixtral": lambda: llm("mixtral", num_key_value_heads=2, num_local_experts=4),
    "phi": lambda: llm("phi"),
    "falcon": lambda: llm("falcon", new_decoder_architecture=False, alibi=True),
    "gpt_neox": lambda: llm("gpt_neox"),
    "gptj": lambda: llm("gptj", n_embd=32, n_layer=2, n_head=4, n_positions=64, rotary_dim=4),
    "bloom": lambda: llm("bloom", n_layer=2, n_head=4),
    "clip_vision": clip_vision,
    "segformer": segformer,
    "whisper_encoder": whisper_encoder,
}
# Written as archives, and no cases of the C++ test.
ARCHIVES_ONLY = ("t5_encoder", "swin", "efficientnet_b0")
# Those whose reference run is small enough for the interpreter of the IR; the others are only lowered.
EVALUATED = ("mlp", "mlp_dynamic", "bert", "bert_dynamic", "distilbert", "gpt2", "llama")


def make(name: str, folder: pathlib.Path, reference: bool) -> None:
    torch.manual_seed(0)
    case = {**ARCHITECTURES, **MORE}[name]()
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
    parser.add_argument("--more", action="store_true", help="further architectures too")
    parser.add_argument("--list", action="store_true", help="print the names and stop")
    options = parser.parse_args()
    names = list(ARCHITECTURES) + (list(MORE) if options.more else [])
    if options.list:
        print("\n".join(names))
        return
    options.folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    if options.reference:
        names = [name for name in names if name not in ARCHIVES_ONLY]
    for name in options.only.split(",") if options.only else names:
        make(name, options.folder, options.reference)


if __name__ == "__main__":
    main()
