"""Workloads of a suite on a GPU: Preheat's plans beside eager and, on request, Inductor.

    run_suite.py --suite shared/bench/suite.py --tool bin/compile_model [--dtype bfloat16] [--inductor] [NAME...]

A workload is exported, compiled by `tool`, run by libpreheat_runtime on torch's tensors, compared with float64
(Preheat's error may be twice eager's own) and timed by CUDA events, median of many. Prints a line of JSON for each.
"""

from __future__ import annotations

import argparse
import copy
import importlib.util
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "client" / "python"))
from preheat import runtime  # noqa: E402


def load_suite(path: str) -> Any:
    spec = importlib.util.spec_from_file_location("suite", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["suite"] = module
    spec.loader.exec_module(module)
    return module.SUITE


def median_ms(run: Any, least: int = 20, seconds: float = 0.3) -> float:
    """Of single calls; a buffer larger than the second-level cache is written between them."""
    flush = torch.empty(256 << 20, dtype=torch.int8, device="cuda")
    for _ in range(3):
        run()
    torch.cuda.synchronize()
    times, begin = [], time.perf_counter()
    while len(times) < least or (time.perf_counter() - begin < seconds and len(times) < 200):
        flush.zero_()
        start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        run()
        stop.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(stop))
    return statistics.median(times)


class Plan:
    """An exported program, compiled and bound to this process's GPU."""

    def __init__(self, module: torch.nn.Module, inputs: tuple[Any, ...], tool: str, target: str) -> None:
        from torch._export.serde import serialize

        exported = torch.export.export(module, inputs)
        self.folder = tempfile.TemporaryDirectory()
        path = pathlib.Path(self.folder.name)
        (path / "model.json").write_bytes(serialize.serialize(exported).exported_program)
        begin = time.perf_counter()
        done = subprocess.run([tool, str(path / "model.json"), target, str(path)], capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(done.stderr.strip()[:1500])
        self.seconds = time.perf_counter() - begin
        self.facts = json.loads(done.stdout)
        code = {p.name: p.read_bytes() for p in path.iterdir() if len(p.name) == 64}
        self.executable = runtime.Executable.load((path / "plan").read_bytes(), code)
        self.session = self.executable.bind()
        self.given = [_value(exported, spec, inputs) for spec in _inputs(exported)]
        _fill_user_inputs(self.given, exported, inputs)

    def run(self) -> list[torch.Tensor]:
        return self.session.run(self.given)

    def timed(self) -> Any:
        """Without allocation and checks, as a front end behind guards calls it."""
        symbols = self.executable.bind_symbols(self.given)
        outputs = self.executable.empty_outputs(symbols, device="cuda")
        return lambda: self.session.run_unchecked(symbols, self.given, outputs)


def _inputs(exported: Any) -> list[Any]:
    return list(exported.graph_signature.input_specs)


def _value(exported: Any, spec: Any, inputs: tuple[Any, ...]) -> Any:
    kind = spec.kind.name
    if kind in ("PARAMETER", "BUFFER"):
        held = exported.state_dict.get(spec.target)
        return (held if held is not None else exported.constants[spec.target]).detach()
    if kind == "CONSTANT_TENSOR":
        return exported.constants[spec.target]
    return None


def _fill_user_inputs(given: list[Any], exported: Any, inputs: tuple[Any, ...]) -> None:
    flat = iter(t.detach() if isinstance(t, torch.Tensor) else t for t in torch.utils._pytree.tree_leaves(inputs))
    for i, value in enumerate(given):
        if value is None:
            given[i] = next(flat)


def error(got: Any, want: Any) -> float:
    """The largest of the outputs' errors relative to the reference's norm."""
    worst = 0.0
    for g, w in zip(got, want, strict=True):
        if not w.is_floating_point():
            continue
        w = w.double()
        scale = w.norm().item() or 1.0
        worst = max(worst, (g.double() - w).norm().item() / scale)
    return worst


def leaves(result: Any) -> list[torch.Tensor]:
    return [t for t in torch.utils._pytree.tree_leaves(result) if isinstance(t, torch.Tensor)]


def measure(name: str, item: Any, options: argparse.Namespace) -> dict[str, Any]:
    dtype = getattr(torch, options.dtype)
    module, inputs = item.build(device="cuda", dtype=dtype, scale=options.scale)
    module.eval()
    row: dict[str, Any] = {"name": name, "dtype": options.dtype}
    with torch.no_grad():
        eager = leaves(module(*inputs))
        row["eager_ms"] = round(median_ms(lambda: module(*inputs)), 4)
        plan = Plan(module, inputs, options.tool, options.target)
        got = plan.run()
        torch.cuda.synchronize()
        wide = [t.double() if isinstance(t, torch.Tensor) and t.is_floating_point() else t for t in inputs]
        try:
            reference = leaves(copy.deepcopy(module).double()(*wide))
        except torch.OutOfMemoryError:
            reference = eager
        row["error"], row["eager_error"] = error(got, reference), error(eager, reference)
        row["right"] = row["error"] <= 2 * row["eager_error"] + 1e-6
        row["preheat_ms"] = round(median_ms(plan.timed()), 4)
        row["seconds"] = round(plan.seconds, 3)  # the tool's whole run
        row.update(plan.facts)
        if options.inductor:
            begin = time.perf_counter()
            compiled = torch.compile(module)
            compiled(*inputs)
            torch.cuda.synchronize()
            row["inductor_first_s"] = round(time.perf_counter() - begin, 2)
            row["inductor_ms"] = round(median_ms(lambda: compiled(*inputs)), 4)
            torch._dynamo.reset()
    return row


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--suite", required=True)
    parser.add_argument("--tool", required=True)
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--scale", default="full")
    parser.add_argument("--inductor", action="store_true")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    major, minor = torch.cuda.get_device_capability()
    options.target = f"cuda:sm_{major}{minor}"
    suite, wrong = load_suite(options.suite), 0
    for name in options.names or [n for n, item in suite.items() if item.kind == "infer"]:
        try:
            row = measure(name, suite[name], options)
            wrong += not row["right"]
        except Exception as problem:  # the next workload is measured all the same
            row = {"name": name, "failed": f"{type(problem).__name__}: {problem}"[:600]}
            wrong += 1
        print(json.dumps(row), flush=True)
        torch.cuda.empty_cache()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
