"""Inference with frozen weights: packed once, then only run.

python infer.py      compiles, or fetches what an earlier run compiled
"""

from __future__ import annotations

import time

import torch
from torch import nn

import preheat


def main() -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(256, 4, 1024, activation="gelu", batch_first=True, norm_first=True)
    model = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False).eval()
    fast = torch.compile(model, backend="preheat", options={"freeze": True})
    x = torch.randn(4, 64, 256)
    with torch.no_grad():
        start = time.perf_counter()
        got = fast(x)
        print(f"first call: {time.perf_counter() - start:.2f} s")
        want = model(x)
        print(f"largest difference from eager: {float((got - want).abs().max()):.1e}")
        for name, fn in (("eager", model), ("preheat", fast)):
            start = time.perf_counter()
            for _ in range(20):
                fn(x)
            print(f"{name:8} {(time.perf_counter() - start) / 20 * 1e3:.2f} ms")
    print(preheat.report())


if __name__ == "__main__":
    main()
