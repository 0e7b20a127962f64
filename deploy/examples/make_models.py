"""Writes the archives that buckets.yaml names, with seeded random weights.

python make_models.py [FOLDER]        FOLDER: models/ beside this file; archives that are there are kept
"""

from __future__ import annotations

import json
import pathlib
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

Dim = torch.export.Dim


class Example(NamedTuple):
    model: torch.nn.Module
    args: tuple[torch.Tensor, ...]
    dynamic: Any
    names: dict[str, str]  # "input.axis" -> what buckets.yaml calls that dimension


def bert() -> Example:
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=8192,
        hidden_size=256,
        num_hidden_layers=4,
        num_attention_heads=4,
        intermediate_size=1024,
        max_position_embeddings=512,
    )
    args = (torch.randint(0, 8192, (2, 64)), torch.ones(2, 64, dtype=torch.long))
    dims = {0: Dim("batch", min=1, max=64), 1: Dim("seq", min=1, max=512)}
    return Example(BertModel(config), args, (dims, dims), {"input_ids.0": "batch", "input_ids.1": "seq"})


def resnet18() -> Example:
    import timm

    dims = {0: Dim("batch", min=1, max=256)}
    return Example(timm.create_model("resnet18"), (torch.randn(2, 3, 224, 224),), (dims,), {"x.0": "batch"})


def mlp() -> Example:
    layers = [torch.nn.Linear(256, 1024), torch.nn.GELU(), torch.nn.Linear(1024, 256), torch.nn.LayerNorm(256)]
    return Example(
        torch.nn.Sequential(*layers), (torch.randn(8, 256),), ({0: Dim("batch", min=1, max=256)},), {"input.0": "batch"}
    )


def write(make: Callable[[], Example], path: pathlib.Path) -> None:
    torch.manual_seed(0)
    example = make()
    program = torch.export.export(example.model.eval(), example.args, dynamic_shapes=example.dynamic)
    torch.export.save(program, path, extra_files={"preheat/dims.json": json.dumps(example.names)})


def main() -> None:
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "models"
    folder.mkdir(parents=True, exist_ok=True)
    for make in (bert, resnet18, mlp):
        path = folder / f"{make.__name__}.pt2"
        if path.exists():
            continue
        partial = path.with_name(f"{make.__name__}.partial.pt2")
        write(make, partial)
        partial.rename(path)  # whole or absent
        print(f"wrote {path}")


if __name__ == "__main__":
    main()
