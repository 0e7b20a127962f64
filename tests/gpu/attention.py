"""Attention on a GPU by each of torch's three kernels, with and without dropout, forward and backward.

    attention.py        (a server in PREHEAT_SERVER)      prints a line a case; fails if one is not as it must be

Each call has a seed of its own, under which eager must give the same outputs and gradients: also when the call is
started from a recording, whose random numbers must not be those of the recorded call.
"""

from __future__ import annotations

import sys

import preheat
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

CALLS = 5  # step by step, recorded, started


class Block(torch.nn.Module):
    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.project = torch.nn.Linear(256, 768)
        self.dropout = dropout

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.project(x).view(*x.shape[:2], 3, 4, 64).permute(2, 0, 3, 1, 4)
        out = torch.nn.functional.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout, is_causal=True)
        return torch.nn.functional.gelu(out.transpose(1, 2).reshape(x.shape))


def results(block: Block, run: object, x: torch.Tensor, seed: int) -> list[torch.Tensor]:
    torch.manual_seed(seed)
    out = run(x)  # type: ignore[operator]
    out.square().mean().backward()
    gradients = [p.grad.clone() for p in block.parameters()]
    block.zero_grad()
    return [out.detach().clone(), *gradients]


def check(backend: SDPBackend, dropout: float) -> str:
    torch._dynamo.reset()
    preheat.reset_report()
    block = Block(dropout).to("cuda", torch.bfloat16)
    x = torch.randn(4, 128, 256, device="cuda", dtype=torch.bfloat16)
    compiled = torch.compile(block, backend="preheat")
    previous = None
    with sdpa_kernel(backend):
        for seed in range(CALLS):
            got, want = results(block, compiled, x, seed), results(block, block, x, seed)
            for g, w in zip(got, want, strict=True):
                error = (g.float() - w.float()).norm() / w.float().norm()
                if not error < 2e-2:
                    return f"call {seed} differs from eager: {error:.3g}"
            if dropout and previous is not None and torch.equal(previous, got[0]):
                return f"call {seed} has the random numbers of the call before"
            previous = got[0]
    report = preheat.report().to_dict()
    if eager := [g for g in report["graphs"] if g["result"] == "eager"] or report.get("fallbacks"):
        return f"ran eagerly: {eager}"
    return "right, extern " + ", ".join(sorted({op for g in report["graphs"] for op in g["extern_ops"]}))


def main() -> int:
    wrong = 0
    for backend in (SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.CUDNN_ATTENTION):
        for dropout in (0.0, 0.1):
            try:
                found = check(backend, dropout)
            except Exception as error:
                found = f"{type(error).__name__}: {error}"[:300]
            wrong += not found.startswith("right")
            print(f"{backend.name} dropout {dropout}: {found}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
