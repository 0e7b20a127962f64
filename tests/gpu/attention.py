"""Attention on a GPU by each of torch's three kernels, forward and backward: a library call of our own without
dropout, torch's with it.

    attention.py [--time]   (a server in PREHEAT_SERVER)      prints a line a case; fails if one is not as it must be

Each call has a seed of its own, under which eager must give the same outputs and gradients: also when the call is
started from a recording, whose random numbers must not be those of the recorded call. `--time`: then how long some
shapes take, by our call and by torch's (which the option "exclude" asks for), forward and with gradients.
"""

from __future__ import annotations

import dataclasses
import statistics
import sys

import preheat
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

CALLS = 5  # step by step, recorded, started
OPERATORS = [
    "_scaled_dot_product_" + k + "_attention" + b for k in ("cudnn", "flash", "efficient") for b in ("", "_backward")
]


@dataclasses.dataclass(frozen=True)
class Case:
    backend: SDPBackend = SDPBackend.CUDNN_ATTENTION
    dropout: float = 0.0
    causal: bool = True
    batch: int = 4
    rows: int = 128
    heads: int = 4
    keys: int = 4  # heads of k and v
    width: int = 64
    dtype: torch.dtype = torch.bfloat16
    mask: str = ""  # "rows": bool, as transformers make a causal one; "padding": bool; "heads": numbers, each head's

    def __str__(self) -> str:
        mask = f"mask of {self.mask}" if self.mask else "causal" if self.causal else "all"
        shape = f"[{self.batch}, {self.heads}/{self.keys}, {self.rows}, {self.width}]"
        return f"{self.backend.name} dropout {self.dropout} {mask} {shape} {str(self.dtype)[6:]}"


def mask_of(case: Case) -> torch.Tensor | None:
    sees = torch.ones(case.rows, case.rows, dtype=torch.bool).tril()
    if case.mask == "rows":
        return sees[None, None]
    if case.mask == "padding":
        lengths = case.rows - 3 * torch.arange(case.batch)
        return (torch.arange(case.rows) < lengths[:, None])[:, None, None]
    if case.mask == "heads":  # a slope for each head's distance, as ALiBi has it
        away = torch.arange(case.rows)[None] - torch.arange(case.rows)[:, None]
        return -away.abs() * 0.1 * torch.arange(1, case.heads + 1)[:, None, None]
    return None


class Block(torch.nn.Module):
    """Heads out of one projection, as transformers have them."""

    def __init__(self, case: Case) -> None:
        super().__init__()
        self.case = case
        self.project = torch.nn.Linear(256, (case.heads + 2 * case.keys) * case.width)
        self.register_buffer("mask", mask_of(case), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        c = self.case
        heads = self.project(x).view(*x.shape[:2], c.heads + 2 * c.keys, c.width).transpose(1, 2)
        q, k, v = heads.split([c.heads, c.keys, c.keys], 1)
        out = torch.nn.functional.scaled_dot_product_attention(
            q, k, v, attn_mask=self.mask, dropout_p=c.dropout, is_causal=c.causal, enable_gqa=c.heads != c.keys
        )
        return torch.nn.functional.gelu(out.transpose(1, 2).flatten(2))


def results(block: Block, run: object, x: torch.Tensor, seed: int) -> list[torch.Tensor]:
    torch.manual_seed(seed)
    out = run(x)  # type: ignore[operator]
    out.square().mean().backward()
    gradients = [p.grad.clone() for p in block.parameters()]
    block.zero_grad()
    return [out.detach().clone(), *gradients]


def error(got: torch.Tensor, exact: torch.Tensor) -> float:
    return float((got.double() - exact).norm() / exact.norm())


def check(case: Case) -> str:
    torch._dynamo.reset()
    preheat.reset_report()
    block = Block(case).to("cuda", case.dtype)
    x = torch.randn(case.batch, case.rows, 256, device="cuda", dtype=case.dtype)
    compiled = torch.compile(block, backend="preheat")
    exact = None
    if not case.dropout:
        wide = Block(case).to("cuda", torch.float64)
        wide.load_state_dict({k: v.double() for k, v in block.state_dict().items()})
        with sdpa_kernel(SDPBackend.MATH):
            exact = results(wide, wide, x.double(), 0)
    previous, worst = None, 0.0
    with sdpa_kernel(case.backend):
        for seed in range(CALLS):
            got, want = results(block, compiled, x, seed), results(block, block, x, seed)
            for i, (g, w) in enumerate(zip(got, want, strict=True)):
                if exact is not None:
                    ours, eagers = error(g, exact[i]), error(w, exact[i])
                    worst = max(worst, ours / eagers)
                    if not ours <= 2 * eagers + 1e-3:
                        return f"call {seed}, result {i}: {ours:.3g} from float64, eager {eagers:.3g}"
                elif not error(g, w.double()) < 2e-2:
                    return f"call {seed} differs from eager: {error(g, w.double()):.3g}"
            if case.dropout and previous is not None and torch.equal(previous, got[0]):
                return f"call {seed} has the random numbers of the call before"
            previous = got[0]
    report = preheat.report().to_dict()
    if eager := [g for g in report["graphs"] if g["result"] == "eager"] or report.get("fallbacks"):
        return f"ran eagerly: {eager}"
    externs = sorted({op for g in report["graphs"] for op in g["extern_ops"]})
    if bool(externs) != bool(case.dropout):
        return f"extern calls: {externs}"
    return f"right, error {worst:.2f} of eager's" if exact is not None else "right, by torch"


def cases() -> list[Case]:
    three = (SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.CUDNN_ATTENTION)
    found = [Case(backend, dropout) for backend in three for dropout in (0.0, 0.1)]
    found += [Case(causal=False, dtype=torch.float16), Case(keys=1, heads=8), Case(keys=2, causal=False)]
    found += [Case(width=width, rows=rows) for width, rows in ((128, 257), (80, 77), (32, 50), (8, 16), (96, 1000))]
    found += [Case(three[0], width=128, keys=2, rows=300)]
    for mask in ("rows", "padding"):
        found += [Case(causal=False, mask=mask), Case(causal=False, mask=mask, rows=77)]
        found += [Case(three[1], causal=False, mask=mask)]
    found += [Case(three[1], causal=False, mask="heads")]  # eager has no other kernel for it
    return found


def check_reproducible() -> str:
    """Under torch.use_deterministic_algorithms gradients are torch's, and the same each time."""
    torch._dynamo.reset()
    preheat.reset_report()
    case = Case(SDPBackend.FLASH_ATTENTION, rows=512)
    block = Block(case).to("cuda", case.dtype)
    x = torch.randn(case.batch, case.rows, 256, device="cuda", dtype=case.dtype)
    torch.use_deterministic_algorithms(True)
    try:
        with sdpa_kernel(case.backend):
            compiled = torch.compile(block, backend="preheat")
            first, *others = [results(block, compiled, x, 0) for _ in range(4)]
    finally:
        torch.use_deterministic_algorithms(False)
    externs = {op for g in preheat.report().to_dict()["graphs"] for op in g["extern_ops"]}
    same = all(torch.equal(a, b) for other in others for a, b in zip(first, other, strict=True))
    return "right" if same and externs else f"same each time: {same}, extern calls: {sorted(externs)}"


def milliseconds(run: object) -> float:
    """Of one call, the median of 20 rounds of five."""
    times = []
    for _ in range(25):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(5):
            run()  # type: ignore[operator]
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) / 5)
    return statistics.median(times[5:])


def times(case: Case) -> str:
    found = []
    for options in ({}, {"exclude": ["aten." + op for op in OPERATORS]}):
        torch._dynamo.reset()
        block = Block(case).to("cuda", case.dtype)
        x = torch.randn(case.batch, case.rows, 256, device="cuda", dtype=case.dtype)
        compiled = torch.compile(block, backend="preheat", options=options)

        def forward(compiled: object = compiled, x: torch.Tensor = x) -> None:
            with torch.no_grad():
                compiled(x)  # type: ignore[operator]

        def train(compiled: object = compiled, x: torch.Tensor = x) -> None:
            compiled(x).square().mean().backward()  # type: ignore[operator]

        found.append((milliseconds(forward), milliseconds(train)))
    (forward_ours, train_ours), (forward_torch, train_torch) = found
    return (
        f"forward {forward_ours:.3f} ms, torch's {forward_torch:.3f}; step {train_ours:.3f}, torch's {train_torch:.3f}"
    )


def main() -> int:
    wrong = 0
    for case in cases():
        try:
            found = check(case)
        except Exception as e:
            found = f"{type(e).__name__}: {e}"[:300]
        wrong += not found.startswith("right")
        print(f"{case}: {found}", flush=True)
    found = check_reproducible()
    wrong += found != "right"
    print(f"deterministic algorithms: {found}", flush=True)
    if "--time" in sys.argv:
        for case in (
            Case(batch=8, heads=12, keys=12, rows=512),
            Case(batch=4, heads=32, keys=8, rows=2048, width=128),
            Case(batch=1, heads=16, keys=16, rows=128),
        ):
            print(f"{case}: {times(case)}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
