"""What tuning on a GPU adds: default and tuned artifacts of the same workload, in turn.

    tuned.py --suite suite.py [--dtype bfloat16] [--scale full] [--own-server] [--seconds 140] NAME...

A process records the programs of the workloads' graphs; when it has left the GPU, the service tunes them one after
another (a worker measures only on a GPU that nobody uses), for as long as --seconds allow; then a process runs both
generations of each workload in turn. Prints a line of JSON for each workload: milliseconds a step of eager, default and
tuned (medians of single steps between CUDA events), the ratio of paired steps with its 95% interval, the largest
relative difference of their results, and for each program the seconds of tuning and what was turned, with the time over
the default's of each site; then a table.

NAME "micro": all workloads of that group. --own-server: with a server of its own that verifies nothing (at full size
that takes longer than tuning; what is tuned is compared with eager here); else the one of PREHEAT_SERVER.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
Row = dict[str, Any]


def interval(ratios: list[float]) -> tuple[float, float]:
    """Of the median, by order statistics: 95%."""
    ordered, n = sorted(ratios), len(ratios)
    reach = math.ceil(0.98 * math.sqrt(n))
    return ordered[max(0, n // 2 - reach)], ordered[min(n - 1, n // 2 + reach)]


# --- In a process that has the GPU ---


def step_times(device: str, work: Any, runs: dict[str, Any], rounds: int, seconds: float) -> dict[str, list[float]]:
    """Milliseconds of single steps, in turn."""
    import torch

    times: dict[str, list[float]] = {name: [] for name in runs}
    end_of_all = time.monotonic() + seconds
    for round_ in range(rounds):
        for name in sorted(runs, key=lambda n: hash((round_, n))):
            if device == "cpu":
                start = time.perf_counter()
                work.step(runs[name])
                times[name].append((time.perf_counter() - start) * 1e3)
                continue
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            work.step(runs[name])
            end.record()
            end.synchronize()
            times[name].append(begin.elapsed_time(end))
        if round_ >= 20 and time.monotonic() > end_of_all:
            break
    return times


def compare(options: argparse.Namespace, work: Any, runs: dict[str, Any], results: dict[str, Any]) -> Row:
    step_times(options.device, work, runs, 10, options.each)
    times = step_times(options.device, work, runs, options.rounds, options.each)
    pairs = [t / f for t, f in zip(times["tuned"], times["fast"], strict=True)]
    off = max(
        ((a.double() - b.double()).norm() / b.double().norm().clamp_min(1e-30)).item()
        for a, b in zip(results["tuned"], results["eager"], strict=True)
    )
    row: Row = {f"{name}_ms": round(statistics.median(t), 4) for name, t in times.items()}
    low, high = interval(pairs)
    return row | {"ratio": round(statistics.median(pairs), 4), "interval": [round(low, 4), round(high, 4)],
                  "pairs": len(pairs), "difference": off}  # fmt: skip


def one(options: argparse.Namespace, name: str) -> Row:
    import run_suite
    import torch

    torch._dynamo.reset()
    item = run_suite.load_suite(options.suite)[name]
    work = run_suite.Workload(item, getattr(torch, options.dtype), options.scale, options.device)
    modes = ["fast"] if options.child == "record" else ["fast", "tuned"]
    runs = {mode: torch.compile(work.module, backend="preheat", options={"mode": mode}) for mode in modes}
    runs["eager"] = work.module
    results: dict[str, Any] = {}
    for mode, run in runs.items():
        for _ in range(2 if options.child == "record" else 4):
            results[mode] = work.results(run)
    return {} if options.child == "record" else compare(options, work, runs, results)


def child(options: argparse.Namespace) -> None:
    """A line of JSON for each workload: of recording, the bundles that it has added."""
    import torch

    for name in options.names:
        row: Row = {"workload": name}
        folder = pathlib.Path(os.environ.get("PREHEAT_RECORD", os.devnull))
        before = set(folder.glob("*.preheat"))
        try:
            row |= one(options, name)
        except Exception as error:  # the others are measured all the same
            row["error"] = f"{type(error).__name__}: {error}"[-600:]
        row["bundles"] = sorted(str(path) for path in set(folder.glob("*.preheat")) - before)
        print(json.dumps(row), flush=True)
        if options.device == "cuda":
            torch.cuda.empty_cache()


# --- Around it ---


def python(options: argparse.Namespace, names: list[str], kind: str, environment: dict[str, str]) -> dict[str, Row]:
    command = [sys.executable, __file__, "--suite", options.suite, "--dtype", options.dtype, "--scale", options.scale]
    command += ["--device", options.device, "--each", str(options.each), "--rounds", str(options.rounds)]
    done = subprocess.run([*command, "--child", kind, *names], env=os.environ | environment, capture_output=True,
                          text=True, timeout=900)  # fmt: skip
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    found = {row["workload"]: row for row in rows}
    lost = {"error": done.stderr[-600:], "bundles": []}
    return {name: found.get(name, lost | {"workload": name}) for name in names}


def tune(bundle: pathlib.Path, options: argparse.Namespace, seconds: float) -> list[Row]:
    begin = time.monotonic()
    command = ["compilectl", "--json", "compile", str(bundle), "--mode", "tuned"]
    command += ["--target", options.target] if options.device == "cuda" else []
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return [{"program": bundle.stem, "seconds": round(seconds, 1), "error": "it took longer than there was time"}]
    spent = round(time.monotonic() - begin, 1)
    if done.returncode != 0:
        return [{"program": bundle.stem, "seconds": spent, "error": done.stdout[-400:] + done.stderr[-400:]}]
    document = json.loads(done.stdout)
    return [tuned_row(bundle.stem, program, spent) for program in document.get("programs", [document])]


def tuned_row(name: str, program: Row, seconds: float) -> Row:
    explained = subprocess.run(["compilectl", "--json", "explain", program["key"]], capture_output=True, text=True)
    tuning = json.loads(explained.stdout).get("tuning") or {}
    sites = tuning.get("sites", [])
    near = [s for s in sites if s["default_us"] <= 1.1 * s["best_us"]]
    return {"program": name, "tuned": program["tuned"], "seconds": seconds, "sites": len(sites),
            "choices": sum(s["candidates"] > 1 for s in sites), "near": len(near),
            "default_us": round(sum(s["default_us"] for s in sites)), "ratio": tuning.get("ratio"),
            "turned": [site_row(s) for s in sites if s["schedule"] != "default"],
            "slowest": [site_row(s) for s in sorted(sites, key=lambda s: -s["default_us"])[:3]]}  # fmt: skip


def site_row(site: Row) -> Row:
    row = {key: site.get(key) for key in ("name", "schedule", "candidates", "default_us", "best_us")}
    return row | {"over_default": [site.get(key) for key in ("ratio", "interval")]}


def tune_all(rows: dict[str, Row], options: argparse.Namespace, end: float) -> None:
    """In the order of the names, until `end`."""
    for row in rows.values():
        row["programs"] = []
        for bundle in map(pathlib.Path, row.pop("bundles")):
            left = end - time.monotonic()
            row["programs"] += tune(bundle, options, left) if left > 3 else [{"error": "no time was left"}]
        print(f"{row['workload']}: {sum(p.get('seconds', 0) for p in row['programs']):.0f} s", file=sys.stderr)


def table(rows: list[Row]) -> str:
    lines = ["| workload | eager ms | default | tuned | tuned over default, 95% | by the tuner | turned |",
             "| --- | ---: | ---: | ---: | --- | ---: | --- |"]  # fmt: skip
    for row in rows:
        programs = row.get("programs", [])
        if "ratio" not in row:
            why = row.get("error") or [p["error"] for p in programs if "error" in p]
            lines.append(f"| {row['workload']} | {why} |")
            continue
        turned = [f"{site['name']}: {site['schedule']}" for p in programs for site in p.get("turned", [])]
        by = ", ".join(f"{p['ratio']:.3f}" for p in programs if p.get("ratio"))
        low, high = row["interval"]
        lines.append(f"| {row['workload']} | {row['eager_ms']:.3f} | {row['fast_ms']:.4f} | {row['tuned_ms']:.4f} "
                     f"| {row['ratio']:.3f} [{low:.3f}, {high:.3f}] | {by} | {'; '.join(turned) or '-'} |")  # fmt: skip
    return "\n".join(lines)


@contextlib.contextmanager
def own_server(wanted: bool) -> Iterator[None]:
    if not wanted:
        yield
        return
    with tempfile.TemporaryDirectory() as folder, socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        taken.close()
        config, data = pathlib.Path(folder, "preheatd.yaml"), os.path.join(folder, "server")
        config.write_text("verify: false\n")
        os.environ |= {"PREHEAT_SERVER": f"localhost:{port}", "PREHEAT_CACHE_DIR": os.path.join(folder, "cache")}
        command = ["compilectl", "server", "start", "--data-dir", data, "--port", str(port), "--http-port", "0"]
        subprocess.run([*command, "--config", str(config)], check=True, stdout=sys.stderr)
        try:
            yield
        finally:
            subprocess.run(["compilectl", "server", "stop", "--data-dir", data], stdout=sys.stderr)


def named(options: argparse.Namespace) -> list[str]:
    if "micro" not in options.names:
        return options.names
    import run_suite

    suite = run_suite.load_suite(options.suite)
    return [n for name in options.names for n in ([k for k in suite if suite[k].group == name] or [name])]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="+")
    parser.add_argument("--suite", required=True)
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--scale", default="full")
    parser.add_argument("--target", default="cuda:sm_90")
    parser.add_argument("--device", default="cuda", help="cpu: to try this program out")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--each", type=float, default=0.6, help="seconds of a workload's rounds, from 20 on")
    parser.add_argument("--seconds", type=float, default=3600, help="in all; what is not tuned then is left out")
    parser.add_argument("--own-server", action="store_true")
    parser.add_argument("--child", choices=["record", "time"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return child(options)
    begin, names = time.monotonic(), named(options)
    with own_server(options.own_server), tempfile.TemporaryDirectory() as folder:
        rows = python(options, names, "record", {"PREHEAT_RECORD": folder, "PREHEAT_REQUIRED": "1"})
        recorded = time.monotonic() - begin
        print(f"recorded: {recorded:.0f} s", file=sys.stderr)
        # To run them once more takes most of what it did, and what is timed.
        tune_all(rows, options, begin + options.seconds - 0.8 * recorded - options.each * len(names))
        ready = [n for n in names if "error" not in rows[n] and all("error" not in p for p in rows[n]["programs"])]
        timed = python(options, ready, "time", {"PREHEAT_REQUIRED": "1"}) if ready else {}
    for name in names:
        rows[name] |= {key: value for key, value in timed.get(name, {}).items() if key != "bundles"}
        print(json.dumps(rows[name]), flush=True)
    print(table(list(rows.values())))
    print(f"{time.monotonic() - begin:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
