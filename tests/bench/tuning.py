"""What tuning gains on the architectures of architectures.py, and whether it can be believed.

    python tuning.py [--only bert,resnet18] [--size small] [--pairs 200]
    python tuning.py --out rows.jsonl --minutes 3       a piece of it: again and again until nothing is left

Each architecture is compiled by default schedules and by tuned ones, in a process of its own with an empty server, and
the two are then called in turn on the same tensors: `tuned/default` is the median of their ratios over the pairs with
its 95% interval, which the tuner had no part in. `tuner` is the interval that the tuner itself gave. A region is a
kernel or a library call; `turned` of them got another schedule than the default, each with an interval of its own
(--winners prints those), and `within 10%` counts those whose default takes at most 1.1 times what the fastest candidate
takes. Let nothing else run. Ends with 1 when a row failed, with 2 when rows are left to measure.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from typing import Any

from harness import BIN, Row, Rows, add_piece_options, in_process, machine, ours, server, show


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="architectures, separated by commas")
    parser.add_argument("--size", default="small", choices=("small", "large"))
    parser.add_argument("--pairs", type=int, default=200, help="of calls, for each architecture")
    parser.add_argument("--winners", action="store_true", help="also each region that was turned, with its interval")
    parser.add_argument("--bin", type=pathlib.Path, default=BIN)
    parser.add_argument("--row", help=argparse.SUPPRESS)
    add_piece_options(parser)
    options = parser.parse_args()
    if options.row:
        show(_measure(options))
        return 0
    from architectures import ARCHITECTURES

    print(machine(), flush=True)
    print(_HEAD, flush=True)
    rows = Rows(options, machine=machine(), pairs=options.pairs)
    for name in options.only.split(",") if options.only else list(ARCHITECTURES):
        row = rows.take(partial(_run_row, options, name), name=name, size=options.size)
        if row is None:
            continue
        print(_line(row), flush=True)
        if options.winners:
            print("".join(_winner(site) for site in row.get("sites", []) if site["schedule"] != "default"), end="")
    print(_summary(rows.good()))
    print(rows.ending())
    return rows.status()


def _run_row(options: argparse.Namespace, name: str) -> Row:
    with tempfile.TemporaryDirectory() as folder, server(options.bin, folder) as address:
        env = dict(os.environ, PREHEAT_SERVER=address, PREHEAT_CACHE_DIR=f"{folder}/cache", PREHEAT_REQUIRED="1",
                   **ours(options.bin))  # fmt: skip
        command = [__file__, "--row", name, "--size", options.size, "--pairs", str(options.pairs)]
        return in_process([*command, "--bin", str(options.bin)], env, options.row_seconds)


# --- One row, in a process of its own ---


def _measure(options: argparse.Namespace) -> Row:
    import preheat
    import torch
    from architectures import build

    model, inputs = build(options.row, options.size == "large")
    calls = {}
    with torch.no_grad():
        for mode in ("fast", "tuned"):
            calls[mode] = torch.compile(model, backend="preheat", options={"mode": mode})
            calls[mode](*inputs)
        key = preheat.report().graphs[-1].key
        times = _in_turn([lambda call=call: call(*inputs) for call in calls.values()], options.pairs)
    explain = [str(options.bin / "compilectl"), "--json", "explain", key]
    report = json.loads(subprocess.run(explain, check=True, capture_output=True, text=True).stdout)
    tuning = report["tuning"]
    return {"default_ms": statistics.median(times[0]), "interval": _ratio(times[1], times[0]),
            "tuner": tuning["interval"], "busy": tuning["machine_was_busy"], "sites": tuning["sites"],
            "seconds": report["stage_seconds"]["tune"]}  # fmt: skip


def _in_turn(calls: list[Any], pairs: int) -> list[list[float]]:
    times: list[list[float]] = [[] for _ in calls]
    for round_ in range(-3, pairs):
        for i in range(len(calls)):
            which = (i + round_) % len(calls)
            start = time.perf_counter()
            calls[which]()
            if round_ >= 0:
                times[which].append((time.perf_counter() - start) * 1e3)
    return times


def _ratio(a: list[float], b: list[float]) -> list[float]:
    """The median of a/b and its 95% interval by order statistics, whatever the distribution is."""
    ratios = sorted(x / y for x, y in zip(a, b, strict=True))
    n, below, rank = len(ratios), 0.0, 0
    while below + math.comb(n, rank) * 0.5**n <= 0.025:
        below += math.comb(n, rank) * 0.5**n
        rank += 1
    low = max(rank - 1, 0)
    return [statistics.median(ratios), ratios[low], ratios[n - 1 - low]]


# --- The table ---

_HEAD = (
    f"{'architecture':16} {'default ms':>10} {'tuned/default':>23} {'tuner':>15} {'regions':>8} {'turned':>7} "
    f"{'within 10%':>11} {'seconds':>8}"
)


def _measured(row: Row) -> list[dict[str, Any]]:
    """Regions that can be made in more ways than one."""
    return [site for site in row["sites"] if site["candidates"] > 1]


def _within(row: Row) -> int:
    return sum(site["default_us"] <= 1.1 * site["best_us"] for site in _measured(row))


def _line(row: Row) -> str:
    if "error" in row:
        return f"{row['name']:16} {row['error']}"
    value, low, high = row["interval"]
    turned = sum(site["schedule"] != "default" for site in row["sites"])
    tuner = f"[{row['tuner'][0]:.3f}, {row['tuner'][1]:.3f}]"
    return (
        f"{row['name']:16} {row['default_ms']:10.3f} {value:7.3f} [{low:.3f}, {high:.3f}] {tuner:>15} "
        f"{len(_measured(row)):8} {turned:7} {_within(row):11} {row['seconds']:8.1f}"
        + (" (the machine was busy)" if row["busy"] else "")
    )


def _winner(site: dict[str, Any]) -> str:
    low, high = site["interval"]
    return f"    {site['schedule']:24} {site['ratio']:.3f} [{low:.3f}, {high:.3f}] {site['name'][:80]}\n"


def _summary(rows: list[Row]) -> str:
    regions, within = sum(len(_measured(row)) for row in rows), sum(map(_within, rows))
    slower = [row["name"] for row in rows if row["interval"][1] > 1]
    unproved = [
        f"{row['name']}: {site['name'][:40]}"
        for row in rows
        for site in row["sites"]
        if site["schedule"] != "default" and site["interval"][1] >= 1
    ]
    gain = math.exp(sum(math.log(row["interval"][0]) for row in rows) / max(len(rows), 1))
    return (
        f"tuned over default, geometric mean {gain:.3f}; slower by its interval: {', '.join(slower) or 'none'}; "
        f"turned without an interval below 1: {', '.join(unproved) or 'none'}; "
        f"default within 10% of the fastest candidate: {within} of {regions} regions"
    )


if __name__ == "__main__":
    sys.exit(main())
