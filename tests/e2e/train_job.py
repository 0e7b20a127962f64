"""A training job for test_train.py: three steps of a model, on as many ranks as it is launched on; or its bundle."""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import sys

import preheat
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "client" / "python" / "examples"))
from gpt2 import Gpt2, Size  # noqa: E402


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Dropout(0.1), nn.Linear(64, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


def make(name: str) -> tuple[nn.Module, list[torch.Tensor]]:
    """The model and a batch for each step."""
    torch.manual_seed(0)
    if name == "mlp":  # of any batch
        return Mlp(), [torch.randn(n, 32) for n in (16, 24, 7, 1)]
    if name == "gpt2":  # larger than DistributedDataParallel's first bucket
        size = Size(layers=2, heads=4, width=256, vocabulary=2048, context=64)
        return Gpt2(size), [torch.randint(0, size.vocabulary, (2, 32)) for _ in range(3)]
    from torchvision.models import resnet18

    return resnet18(num_classes=10), [torch.randn(2, 3, 64, 64) for _ in range(2)]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model", choices=("mlp", "gpt2", "resnet18"))
    parser.add_argument("--export", default="")
    args = parser.parse_args()
    torch.set_num_threads(1)
    model, batches = make(args.model)
    if args.export:
        dynamic = {"x": {0: "batch"}} if args.model == "mlp" else None
        preheat.export(model, (batches[0],), args.export, train=True, dynamic=dynamic)
        return
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
        model = nn.parallel.DistributedDataParallel(model)
    fast = torch.compile(model, backend="preheat")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for batch in batches:
        out = fast(batch)
        F.cross_entropy(out.flatten(0, -2), torch.zeros(out.flatten(0, -2).shape[0], dtype=torch.long)).backward()
        optimizer.step()
        optimizer.zero_grad()
    report = preheat.report().to_dict()
    sys.stdout.write(json.dumps({"results": report["results"], "fallbacks": report["fallbacks"]}) + "\n")
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
