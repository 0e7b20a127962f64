"""What tuning on a GPU adds: default and tuned artifacts of the same workload, in turn.

    tuned.py --suite suite.py [--dtype bfloat16] [--data DIR] NAME...

For each workload a process records the programs of its graphs and gets their default artifacts; when it has left the
GPU, the service verifies those and tunes them (a worker measures only on a GPU that nobody uses); then a process runs
both generations in turn. Prints a line of JSON for each workload: milliseconds a step of eager, default and tuned
(medians of single steps between CUDA events), the ratio of paired steps with its 95% interval, the largest relative
difference of their results, and for each program the seconds of tuning and what was turned.
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
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent


def interval(ratios: list[float]) -> tuple[float, float]:
    """Of the median, by order statistics: 95%."""
    ordered, n = sorted(ratios), len(ratios)
    reach = math.ceil(0.98 * math.sqrt(n))
    return ordered[max(0, n // 2 - reach)], ordered[min(n - 1, n // 2 + reach)]


def steps(work: Any, runs: dict[str, Any], rounds: int) -> dict[str, list[float]]:
    import torch

    times: dict[str, list[float]] = {name: [] for name in runs}
    for round_ in range(rounds):
        for name in sorted(runs, key=lambda n: hash((round_, n))):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            work.step(runs[name])
            end.record()
            end.synchronize()
            times[name].append(begin.elapsed_time(end))
    return times


def child(options: argparse.Namespace) -> None:
    import run_suite
    import torch

    item = run_suite.load_suite(options.suite)[options.names[0]]
    work = run_suite.Workload(item, getattr(torch, options.dtype), options.scale, "cuda")
    modes = ["fast"] if options.child == "record" else ["fast", "tuned"]
    runs = {mode: torch.compile(work.module, backend="preheat", options={"mode": mode}) for mode in modes}
    runs["eager"] = work.module
    results = {}
    for name, run in runs.items():
        for _ in range(4):
            results[name] = work.results(run)
    if options.child == "record":
        return print(json.dumps({}))
    steps(work, runs, 10)
    times = steps(work, runs, options.rounds)
    pairs = [t / f for t, f in zip(times["tuned"], times["fast"], strict=True)]
    off = max(
        ((a.double() - b.double()).norm() / b.double().norm().clamp_min(1e-30)).item()
        for a, b in zip(results["tuned"], results["eager"], strict=True)
    )
    row = {f"{name}_ms": round(statistics.median(t), 4) for name, t in times.items()}
    low, high = interval(pairs)
    row |= {"ratio": round(statistics.median(pairs), 4), "interval": [round(low, 4), round(high, 4)], "difference": off}
    print(json.dumps(row))


def python(options: argparse.Namespace, name: str, kind: str, environment: dict[str, str]) -> dict[str, Any]:
    command = [sys.executable, __file__, "--suite", options.suite, "--dtype", options.dtype, "--scale", options.scale]
    command += ["--rounds", str(options.rounds), "--child", kind, name]
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        return {"error": done.stderr[-600:]}
    return json.loads(done.stdout.splitlines()[-1])


def tune(bundle: pathlib.Path, options: argparse.Namespace) -> list[dict[str, Any]]:
    begin = time.monotonic()
    command = ["compilectl", "--json", "compile", str(bundle), "--target", options.target, "--mode", "tuned"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    seconds = round(time.monotonic() - begin, 1)
    if done.returncode != 0:
        return [{"program": bundle.stem, "seconds": seconds, "error": done.stdout[-400:] + done.stderr[-400:]}]
    document = json.loads(done.stdout)
    rows = []
    for program in document.get("programs", [document]):
        report = json.loads(
            subprocess.run(["compilectl", "--json", "explain", program["key"]], capture_output=True, text=True).stdout
        )
        tuning = report.get("tuning") or {}
        sites = tuning.get("sites", [])
        turned = [s for s in sites if s["schedule"] != "default"]
        near = [s for s in sites if s["default_us"] <= 1.1 * s["best_us"]]
        rows.append({"program": bundle.stem, "tuned": program["tuned"], "seconds": seconds, "sites": len(sites),
                     "calls": sum(s["candidates"] > 1 for s in sites), "turned": len(turned), "near": len(near),
                     "default_us": round(sum(s["default_us"] for s in sites)),
                     "ratio": tuning.get("ratio")})  # fmt: skip
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="+")
    parser.add_argument("--suite", required=True)
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--scale", default="full")
    parser.add_argument("--target", default="cuda:sm_90")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--child", choices=["record", "time"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return child(options)
    for name in options.names:
        with tempfile.TemporaryDirectory() as folder:
            record = {"PREHEAT_RECORD": folder, "PREHEAT_REQUIRED": "1"}
            row: dict[str, Any] = {"workload": name} | python(options, name, "record", record)
            if "error" not in row:
                row["programs"] = [r for b in sorted(pathlib.Path(folder).glob("*.preheat")) for r in tune(b, options)]
                row |= python(options, name, "time", {"PREHEAT_REQUIRED": "1"})
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
