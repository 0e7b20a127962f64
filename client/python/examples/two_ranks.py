"""Trains on several processes that share what one of them compiles: DDP, FSDP2 or tensor parallel, over gloo.

    torchrun --nproc-per-node 2 two_ranks.py --parallel ddp|fsdp|tp [--backend eager]

Each rank prints a line of JSON: its losses, and how many graphs it compiled and fetched.
"""

from __future__ import annotations

import argparse
import json
import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from gpt2 import Gpt2, Size, batches
from torch import nn

import preheat


def parallelize(model: nn.Module, how: str, ranks: int) -> nn.Module:
    if how == "ddp":
        return nn.parallel.DistributedDataParallel(model)
    mesh = dist.device_mesh.init_device_mesh("cpu", (ranks,))
    if how == "fsdp":
        from torch.distributed.fsdp import fully_shard

        for block in model.blocks:
            fully_shard(block, mesh=mesh)
        return fully_shard(model, mesh=mesh)
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    for block in model.blocks:
        parallelize_module(block, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    return model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parallel", choices=("ddp", "fsdp", "tp"), default="ddp")
    parser.add_argument("--backend", default="preheat")
    parser.add_argument("--steps", type=int, default=5)
    args = parser.parse_args()

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    size = Size(layers=2, heads=4, width=64, vocabulary=256, context=64)
    model = parallelize(Gpt2(size), args.parallel, dist.get_world_size())
    step_of = model if args.backend == "eager" else torch.compile(model, backend=args.backend)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=args.parallel != "tp")
    # Tensor parallel ranks work on one batch together, the others on one each.
    text = batches(size, batch=2, length=32, seed=0 if args.parallel == "tp" else dist.get_rank())
    losses = []
    for _ in range(args.steps):
        ids = next(text)
        loss = F.cross_entropy(step_of(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss.detach()))
    report = preheat.report().to_dict()
    row = {"rank": dist.get_rank(), "losses": losses, "results": report["results"], "fallbacks": report["fallbacks"]}
    sys.stdout.write(json.dumps(row) + "\n")  # in one piece, so that ranks do not write into each other's lines
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
