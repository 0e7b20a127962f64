"""Times the architectures of architectures.py: eager, Inductor and Preheat in one process, on the same tensors.

    python bench.py [--only bert,resnet18] [--sizes small,large] [--modes plain,frozen] [--backends inductor,preheat]
    python bench.py --out rows.jsonl --minutes 3        a piece of it: again and again until nothing is left

Every row is a process of its own with an empty Inductor cache and an empty server (from build/release/bin, or --bin).
The compilers are called in turn (A B C A B C ...); a number is the median over all rounds, in milliseconds. `matmul`
is the share of eager's time in matrix products, convolutions and attention; first calls are seconds from the compile
call to the first result, torch imported already. Let nothing else run: a third process on two cores makes threaded
kernels several times slower. Ends with 1 when a compiler failed or gave something else than eager, with 2 when rows
are left to measure.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import pathlib
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from harness import BIN, Row, Rows, add_piece_options, in_process, machine, ours, server, show

_PRODUCTS = ("mm", "conv", "attention", "linear")  # parts of the names of ATen's operators
_WRONG = 1e-3  # relative error from which a result is not eager's
Call = Callable[[], Any]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="architectures, separated by commas")
    parser.add_argument("--sizes", default="small,large")
    parser.add_argument("--modes", default="plain,frozen")
    parser.add_argument("--backends", default="inductor,preheat", help="beside eager")
    parser.add_argument("--seconds", type=float, default=1.0, help="of timing for each compiler")
    parser.add_argument("--bin", type=pathlib.Path, default=BIN)
    parser.add_argument("--row", help=argparse.SUPPRESS)
    add_piece_options(parser)
    options = parser.parse_args()
    if options.row:
        show(_measure_row(options))
        return 0
    from architectures import ARCHITECTURES

    print(machine(), flush=True)
    print(_HEAD, flush=True)
    rows = Rows(options, machine=machine(), backends=options.backends, seconds=options.seconds)
    for name in options.only.split(",") if options.only else list(ARCHITECTURES):
        for size in options.sizes.split(","):
            for mode in options.modes.split(","):
                measure = partial(_run_row, options, name, size, mode)
                row = rows.take(measure, name=name, size=size, mode=mode)
                if row:
                    print(_line(row), flush=True)
    print(_summary(rows.good()))
    print(rows.ending())
    return 1 if _wrong(rows.good()) else rows.status()


# --- One row, in a process of its own ---


def _run_row(options: argparse.Namespace, name: str, size: str, mode: str) -> Row:
    with tempfile.TemporaryDirectory() as folder, _server_of(options, folder) as address:
        env = dict(os.environ, PREHEAT_SERVER=address, PREHEAT_CACHE_DIR=f"{folder}/preheat", PREHEAT_REQUIRED="1",
                   TORCHINDUCTOR_CACHE_DIR=f"{folder}/inductor", **ours(options.bin))  # fmt: skip
        command = [__file__, "--row", f"{name},{size},{mode}", "--backends", options.backends]
        return in_process([*command, "--seconds", str(options.seconds)], env, options.row_seconds)


def _server_of(options: argparse.Namespace, folder: str) -> contextlib.AbstractContextManager[str]:
    needed = "preheat" in options.backends.split(",")
    return server(options.bin, folder) if needed else contextlib.nullcontext("")


def _measure_row(options: argparse.Namespace) -> Row:
    import torch
    from architectures import build

    name, size, mode = options.row.split(",")
    model, inputs = build(name, size == "large")
    row: Row = {"first_call": {}, "error_of": {}}
    with torch.no_grad():
        reference = model(*inputs)
        calls: dict[str, Call] = {"eager": lambda: model(*inputs)}
        for backend in options.backends.split(","):
            compiled = _compile(model, backend, frozen=mode == "frozen")
            start = time.perf_counter()
            got = compiled(*inputs)
            row["first_call"][backend] = time.perf_counter() - start
            row["error_of"][backend] = float((got - reference).norm() / reference.norm())
            calls[backend] = lambda compiled=compiled: compiled(*inputs)
        row["ms"] = _interleaved(calls, options.seconds)
        row["matmul"] = _product_share(calls["eager"])
    return row


def _compile(model: Any, backend: str, frozen: bool) -> Any:
    import torch

    torch._dynamo.reset()
    if backend == "preheat":
        return torch.compile(model, backend="preheat", options={"freeze": frozen})
    if backend == "inductor":
        import torch._inductor.config

        torch._inductor.config.freezing = frozen
    return torch.compile(model, backend=backend)


def _interleaved(calls: dict[str, Call], seconds: float) -> dict[str, float]:
    for call in calls.values():
        for _ in range(3):
            call()
    times: dict[str, list[float]] = {name: [] for name in calls}
    rounds, end = 0, time.perf_counter() + seconds * len(calls)
    while rounds < 10 or (time.perf_counter() < end and rounds < 500):
        rounds += 1
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            times[name].append((time.perf_counter() - start) * 1e3)
    return {name: statistics.median(ms) for name, ms in times.items()}


def _product_share(eager: Call) -> float:
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        for _ in range(5):
            eager()
    own = {e.key.removeprefix("aten::"): e.self_cpu_time_total for e in profiled.key_averages()}
    products = sum(us for op, us in own.items() if any(p in op for p in _PRODUCTS))
    return products / max(sum(own.values()), 1e-9)


# --- The table ---

_HEAD = (
    f"{'architecture':16} {'size':6} {'mode':7} {'eager ms':>9} {'inductor':>9} {'preheat':>9} {'x eager':>8} "
    f"{'x best':>7} {'matmul':>7} {'first call s':>16} {'error':>8}"
)


def _line(row: Row) -> str:
    head = f"{row['name']:16} {row['size']:6} {row['mode']:7} "
    if "error" in row:
        return head + row["error"]
    ms = row["ms"]
    numbers = [f"{ms[b]:9.3f}" if b in ms else f"{'-':>9}" for b in ("eager", "inductor", "preheat")]
    gains = [f"{gain:8.2f}" if gain else f"{'-':>8}" for gain in (_gain(row, "eager"), _gain(row, "best"))]
    first = "/".join(f"{s:.1f}" for s in row["first_call"].values())
    error = row["error_of"].get("preheat")
    return (
        head
        + f"{' '.join(numbers)} {gains[0]} {gains[1][1:]} {row['matmul']:7.0%} {first:>16} "
        + (f"{error:8.1e}" if error is not None else "")
    )


def _gain(row: Row, over: str) -> float | None:
    ms = row["ms"]
    if "preheat" not in ms:
        return None
    other = ms["eager"] if over == "eager" else min(ms["eager"], ms.get("inductor", math.inf))
    return other / ms["preheat"]


def _name(row: Row) -> str:
    return f"{row['name']} {row['size']} {row['mode']}"


def _wrong(rows: list[Row]) -> list[str]:
    """Results that are not eager's; NaN is none that is."""
    return [f"{_name(r)} ({b})" for r in rows for b, error in r["error_of"].items() if not error <= _WRONG]


def _summary(rows: list[Row]) -> str:
    def geometric(over: str) -> str:
        gains = [g for g in (_gain(r, over) for r in rows) if g]
        return f"{math.exp(sum(map(math.log, gains)) / len(gains)):.3f}" if gains else "-"

    def below(over: str, least: float) -> str:
        return ", ".join(f"{_name(r)} {_gain(r, over):.2f}" for r in rows if (_gain(r, over) or 1) < least) or "none"

    first = [r["first_call"] for r in rows if {"inductor", "preheat"} <= r["first_call"].keys()]
    share = max((f["preheat"] / f["inductor"] for f in first), default=math.nan)
    return (
        f"{len(rows)} rows: geometric mean over eager {geometric('eager')}, over the better of eager and Inductor "
        f"{geometric('best')}; over 5% slower than eager: {below('eager', 0.95)}; over 5% slower than the better: "
        f"{below('best', 0.95)}; first call at most {share:.2f} of Inductor's; "
        f"not eager's result: {', '.join(_wrong(rows)) or 'none'}"
    )


if __name__ == "__main__":
    sys.exit(main())
