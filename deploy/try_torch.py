"""What deploy/try_newest_torch.sh and the wheel's test run: inference, training and dynamic sizes against eager."""

from __future__ import annotations

import sys

import preheat
import torch
from torch import nn


def main() -> int:
    torch.manual_seed(0)
    layers = [nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Dropout(0.1), nn.Linear(32, 4)]
    model = nn.Sequential(*layers)
    fast = torch.compile(model, backend="preheat", dynamic=True)
    worst = 0.0
    for batch in (8, 5):
        x = torch.randn(batch, 16)
        gradients = []
        for fn in (model, fast):
            torch.manual_seed(1)
            model.zero_grad()
            fn(x).square().sum().backward()
            gradients.append([p.grad.clone() for p in model.parameters()])
        worst = max([worst, *(float((a - b).abs().max()) for a, b in zip(*gradients, strict=True))])
    model.eval()
    with torch.no_grad():
        worst = max(worst, float((fast(x) - model(x)).abs().max()))
    report = preheat.report()
    print(report)
    ran_eagerly = [g for g in report.graphs if g.result == "eager"]
    works = worst < 1e-4 and not ran_eagerly and not report.fallbacks and len(report.graphs) >= 3
    print(f"python {sys.version.split()[0]}, torch {torch.__version__}, preheat from {preheat.__file__}")
    print(f"largest difference from eager {worst:.1e}: {'works' if works else 'does NOT work'}")
    return not works


if __name__ == "__main__":
    sys.exit(main())
