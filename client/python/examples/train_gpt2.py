"""Trains a GPT-2 eagerly and with backend="preheat" and holds the two loss curves against each other.

    python train_gpt2.py                      50 steps of 124 million parameters on a CPU; nothing is downloaded
    python train_gpt2.py --layers 2 --width 128 --heads 4 --vocabulary 1000

Run it again in a fresh process: then every graph is fetched, and "compiled" is 0. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import time

import torch
import torch.nn.functional as F
from gpt2 import Gpt2, Size, batches

import preheat


def train(backend: str, size: Size, args: argparse.Namespace) -> list[float]:
    torch.manual_seed(0)
    model = Gpt2(size)
    step_of = model if backend == "eager" else torch.compile(model, backend=backend)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.rate)
    text = batches(size, args.batch, args.length)
    losses = []
    for step in range(args.steps):
        ids = next(text)
        start = time.perf_counter()
        loss = F.cross_entropy(step_of(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss.detach()))
        if step < 3 or step % 10 == 9:
            print(f"{backend:8} step {step:3}  loss {losses[-1]:.6f}  {time.perf_counter() - start:.2f} s", flush=True)
    return losses


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("layers", 12), ("heads", 12), ("width", 768), ("vocabulary", 50257), ("steps", 50)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--rate", type=float, default=1e-4)
    args = parser.parse_args()
    size = Size(args.layers, args.heads, args.width, args.vocabulary, max(args.length, 64))

    eager = train("eager", size, args)
    fast = train("preheat", size, args)
    worst = max(abs(a - b) / abs(b) for a, b in zip(fast, eager, strict=True))
    print(preheat.report())
    results = preheat.report().to_dict()["results"]
    print(json.dumps({"steps": args.steps, "worst_relative_difference": worst, "first": fast[0], "last": fast[-1],
                      "compiled": results.get("compiled", 0), "results": results}))  # fmt: skip


if __name__ == "__main__":
    main()
