"""Writes the bundle of a training job and has it compiled, so that the job itself compiles nothing.

python warm_before_launch.py mlp.preheat buckets.yaml     once, where the model is: in CI, say
compilectl warm --shapes buckets.yaml                     anywhere: the bundle holds no weights
python warm_before_launch.py --train                      the job. It prints compiled: 0
"""

from __future__ import annotations

import pathlib
import sys

import torch
from torch import nn

import preheat


def make_model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 8))


def write(bundle: str, shapes: str) -> None:
    # One size is enough: as given, as a range and as 1 are the variants that torch can ask for.
    preheat.export(make_model(), (torch.randn(16, 32),), bundle, train=True, dynamic={"input": {0: "batch"}})
    source = pathlib.Path(bundle).resolve()
    pathlib.Path(shapes).write_text(
        f"version: 1\ndefaults: {{target: cpu, mode: fast}}\nmodels:\n  - {{name: mlp, source: {source}}}\n"
    )
    print(f"wrote {bundle} and {shapes}; now: compilectl warm --shapes {shapes}")


def train() -> None:
    model = make_model()
    fast = torch.compile(model, backend="preheat")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in (16, 24, 7, 1):  # the second size makes torch ask for the range
        loss = fast(torch.randn(batch, 32)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    print(preheat.report())
    print("compiled:", preheat.report().to_dict()["results"].get("compiled", 0))


if __name__ == "__main__":
    if sys.argv[1:] == ["--train"]:
        train()
    else:
        write(*sys.argv[1:3])
