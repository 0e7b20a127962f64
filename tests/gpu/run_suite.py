"""Workloads of a suite on a GPU: torch.compile(backend="preheat") beside eager and, on request, Inductor.

    run_suite.py --suite suite.py [--dtype bfloat16] [--backends preheat,inductor,inductor-ro] [NAME...]

Every backend's outputs (and gradients, of training workloads) are compared with float64: an error may be twice eager's
own. A time is the median of single steps between CUDA events. Prints a line of JSON for each workload.
"""

from __future__ import annotations

import argparse
import copy
import importlib.util
import json
import statistics
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

import torch

Step = Callable[[Any], list[torch.Tensor]]


def synchronize() -> None:
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()


def load_suite(path: str) -> Any:
    spec = importlib.util.spec_from_file_location("suite", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["suite"] = module
    spec.loader.exec_module(module)
    return module.SUITE


def leaves(result: Any) -> list[torch.Tensor]:
    return [t for t in torch.utils._pytree.tree_leaves(result) if isinstance(t, torch.Tensor)]


class Workload:
    """One step of it, for any callable that computes what the module does."""

    def __init__(self, item: Any, dtype: torch.dtype, scale: str, device: str = "cuda") -> None:
        torch.manual_seed(0)
        self.module, self.inputs = item.build(device=device, dtype=dtype, scale=scale)
        self.train = item.kind == "train"
        self.upstream: list[torch.Tensor] = []  # the gradient fed back, random but the same for everyone

    def _targets(self, module: Any, inputs: tuple[Any, ...]) -> list[torch.Tensor]:
        return [t for t in [*inputs, *module.parameters()] if isinstance(t, torch.Tensor) and t.requires_grad]

    def results(self, run: Any, module: Any = None, inputs: tuple[Any, ...] | None = None) -> list[torch.Tensor]:
        """Outputs and gradients."""
        module, inputs = module or self.module, self.inputs if inputs is None else inputs
        if not self.train:
            with torch.no_grad():
                return [o.clone() for o in leaves(run(*inputs))]
        outputs = leaves(run(*inputs))
        if not self.upstream:
            self.upstream = [torch.randn_like(o) for o in outputs]
        targets = self._targets(module, inputs)
        torch.autograd.backward(outputs, [u.to(o.dtype) for u, o in zip(self.upstream, outputs, strict=True)])
        gradients = [t.grad for t in targets if t.grad is not None]
        for t in targets:
            t.grad = None
        return [o.detach().clone() for o in outputs] + gradients

    def step(self, run: Any) -> None:
        if not self.train:
            with torch.no_grad():
                run(*self.inputs)
            return
        torch.autograd.backward(leaves(run(*self.inputs)), self.upstream)
        for t in self._targets(self.module, self.inputs):
            t.grad = None

    def exact(self) -> list[torch.Tensor]:
        wide = tuple(
            t.detach().double().requires_grad_(t.requires_grad)
            if isinstance(t, torch.Tensor) and t.is_floating_point()
            else t
            for t in self.inputs
        )
        module = copy.deepcopy(self.module).double()
        return self.results(module, module, wide)

    def median_ms(self, run: Any, seconds: float) -> float:
        for _ in range(5):
            self.step(run)
        torch.cuda.synchronize()
        times: list[float] = []
        end = time.perf_counter() + seconds
        while len(times) < 10 or (time.perf_counter() < end and len(times) < 200):
            start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            self.step(run)
            stop.record()
            stop.synchronize()
            times.append(start.elapsed_time(stop))
        return statistics.median(times)


def error(got: list[torch.Tensor], want: list[torch.Tensor]) -> float:
    """The largest of the tensors' errors, relative to the norm of what is right. A gradient that is zero in exact
    arithmetic is all rounding: it is measured against the largest one."""
    if len(got) != len(want):
        return float("inf")
    floating = [(g.double(), w.double()) for g, w in zip(got, want, strict=True) if w.is_floating_point()]
    least = 1e-2 * max((w.norm().item() for _, w in floating), default=0.0)
    errors = [(g - w).norm().item() / (max(w.norm().item(), least) or 1.0) for g, w in floating]
    return max(errors, default=0.0) if all(e == e for e in errors) else float("inf")


def compiled(module: Any, backend: str) -> Any:
    if backend == "inductor":
        return torch.compile(module)
    if backend == "inductor-ro":
        return torch.compile(module, mode="reduce-overhead")
    return torch.compile(module, backend=backend)


def measure(name: str, item: Any, options: argparse.Namespace) -> dict[str, Any]:
    work = Workload(item, getattr(torch, options.dtype), options.scale)
    row: dict[str, Any] = {"name": name, "dtype": options.dtype}
    eager = work.results(work.module)
    reference = work.exact()
    row["eager_error"] = error(eager, reference)
    row["eager_ms"] = round(work.median_ms(work.module, options.seconds), 4)
    for backend in options.backends.split(","):
        torch._dynamo.reset()
        try:
            row.update(
                {f"{backend}_{key}": value for key, value in run_backend(work, backend, reference, options).items()}
            )
        except Exception as problem:  # the next one is measured all the same
            traceback.print_exc()
            row[f"{backend}_failed"] = f"{type(problem).__name__}: {problem}"[:400]
        torch.cuda.empty_cache()
    row["right"] = row.get("preheat_error", float("inf")) <= 2 * row["eager_error"] + 1e-6
    return row


def run_backend(
    work: Workload, backend: str, reference: list[torch.Tensor], options: argparse.Namespace
) -> dict[str, Any]:
    if backend == "preheat":
        import preheat

        preheat.reset_report()
    run = compiled(work.module, backend)
    torch.cuda.synchronize()
    begin = time.perf_counter()
    first = work.results(run)
    torch.cuda.synchronize()
    facts: dict[str, Any] = {"first_s": round(time.perf_counter() - begin, 2)}
    facts["error"] = error(first, reference)
    del first
    for _ in range(2):  # what is recorded and started again is right as well
        facts["error"] = max(facts["error"], error(work.results(run), reference))
    facts["ms"] = round(work.median_ms(run, options.seconds), 4)
    if options.profile:
        facts["profile"] = profile(work, run)
    if backend == "preheat":
        report = preheat.report().to_dict()
        graphs = report["graphs"]
        facts["kernels"] = sum(g["kernels_after"] for g in graphs)
        facts["graphs"] = [f"{g['kind']} {g['result']} {g['seconds']:.2f}s" for g in graphs]
        facts["extern"] = {op: n for g in graphs for op, n in g["extern_ops"].items()}
        facts["fallbacks"] = report.get("fallbacks", {})
        if options.hits:
            torch._dynamo.reset()
            begin = time.perf_counter()
            work.results(compiled(work.module, backend))
            torch.cuda.synchronize()
            facts["again_s"] = round(time.perf_counter() - begin, 2)
            facts["again"] = [
                f"{g['result']} {g['seconds']:.3f}s" for g in preheat.report().to_dict()["graphs"][len(graphs) :]
            ]
    return facts


def profile(work: Workload, run: Any) -> list[str]:
    """The kernels of one step that take longest: microseconds, count, name."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as record

    with record(activities=[ProfilerActivity.CUDA]) as seen:
        work.step(run)
        torch.cuda.synchronize()
    kernels = [e for e in seen.key_averages() if e.device_type == torch.autograd.DeviceType.CUDA]
    kernels.sort(key=lambda e: -e.self_device_time_total)
    total = sum(e.self_device_time_total for e in kernels)
    lines = [f"{e.self_device_time_total:.0f} us x{e.count} {e.key[:70]}" for e in kernels[:16]]
    return [f"{total:.0f} us in {sum(e.count for e in kernels)} kernels", *lines]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", required=True)
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--scale", default="full")
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--backends", default="preheat")
    parser.add_argument("--kind", default="", help="infer, train, micro or model: only those")
    parser.add_argument("--hits", action="store_true", help="also compile once more, from the warm service")
    parser.add_argument("--profile", action="store_true", help="also which kernels take longest")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    suite, wrong = load_suite(options.suite), 0
    chosen = [n for n, w in suite.items() if options.kind in ("", w.kind, w.group)]
    for name in options.names or chosen:
        try:
            row = measure(name, suite[name], options)
            wrong += not row["right"] and "preheat" in options.backends
        except Exception as problem:
            traceback.print_exc()
            row = {"name": name, "failed": f"{type(problem).__name__}: {problem}"[:600]}
            wrong += 1
        print(json.dumps(row), flush=True)
        torch.cuda.empty_cache()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
