"""What a run costs the host on a GPU: a plan of about 100 kernels, by itself and through torch.compile.

    launch_cost.py        (a server in PREHEAT_SERVER; microseconds, medians of 200 calls that are not waited for)

Cases: nothing moved; 4 inputs elsewhere at each call, read by kernels or by library calls; a training forward whose
100 results lie elsewhere at each call, followed in each of the ways that there are; how often memory was asked for in
steady state.
"""

from __future__ import annotations

import ctypes
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import preheat
import torch
from preheat import compiled_graph, native


def microseconds(call: Callable[[int], Any], count: int = 200) -> float:
    for i in range(20):
        call(i)
    torch.cuda.synchronize()
    times = []
    for i in range(count):
        begin = time.perf_counter_ns()
        call(i)
        times.append((time.perf_counter_ns() - begin) / 1e3)
        if i % 20 == 19:
            torch.cuda.synchronize()  # so that no queue fills up
    torch.cuda.synchronize()
    return round(statistics.median(times), 2)


def in_all(call: Callable[[int], Any], count: int = 200) -> float:
    """Microseconds a call, host and GPU, when one call follows the other."""
    for i in range(20):
        call(i)
    torch.cuda.synchronize()
    begin = time.perf_counter_ns()
    for i in range(count):
        call(i)
    torch.cuda.synchronize()
    return round((time.perf_counter_ns() - begin) / 1e3 / count, 2)


def chain(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, d: torch.Tensor) -> torch.Tensor:
    """Softmax along one dimension and then the other: no two of them are one kernel."""
    x = a + b + c + d
    for i in range(100):
        x = torch.softmax(x * 1.01, dim=i % 2)
    return x


def products(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, d: torch.Tensor) -> torch.Tensor:
    """The same behind four matrix products, each of which reads one of the inputs."""
    square = (a @ a.T, b @ b.T, c @ c.T, d @ d.T)
    return chain(*square)


def many(x: torch.Tensor) -> list[torch.Tensor]:
    """Results that the backward graph wants: each a kernel's."""
    return [torch.softmax(x * (1 + i / 100), -1) for i in range(100)]


class Raw:
    """The C function alone, its arguments made beforehand; ctypes is counted in."""

    def __init__(self, graph: compiled_graph.CompiledGraph) -> None:
        (self.layout,) = graph._layouts.values()
        assert graph._session is not None
        self.session, self.function = graph._session.handle, native.library().preheat_session_run_raw

    def outputs(self) -> list[torch.Tensor]:
        made = self.layout.outputs
        return [torch.empty_strided(n, s, dtype=dtype, device="cuda") for n, s, dtype in made]

    @staticmethod
    def pointers(tensors: list[torch.Tensor]) -> Any:
        return (ctypes.c_void_p * len(tensors))(*[t.data_ptr() for t in tensors])

    def __call__(self, inputs: Any, outputs: Any) -> None:
        stream = torch.cuda.current_stream().cuda_stream or None
        native.check(self.function(self.session, self.layout.symbols, inputs, outputs, None, stream))


def moved_inputs(made: list[compiled_graph.CompiledGraph], function: Callable[..., Any]) -> dict[str, Any]:
    row: dict[str, Any] = {"function": function.__name__}
    sets = [[torch.randn(256, 256, device="cuda") for _ in range(4)] for _ in range(2)]
    run = torch.compile(function, backend="preheat")
    for i in range(6):
        run(*sets[i % 2])
    graph = made[-1]
    row["kernels"] = preheat.report().to_dict()["graphs"][-1]["kernels_after"]
    raw = Raw(graph)
    given, results = [raw.pointers(s) for s in sets], raw.pointers(kept := raw.outputs())
    for name, sides in (("nothing moved", 1), ("4 inputs moved", 2)):
        row[f"run_raw, {name}"] = microseconds(lambda i, n=sides: raw(given[i % n], results))
        row[f"graph call, {name}"] = microseconds(lambda i, n=sides: graph(list(sets[i % n])))
        row[f"compiled function, {name}"] = microseconds(lambda i, n=sides: run(*sets[i % n]))
    before = torch.cuda.memory_stats()["num_device_alloc"]
    for i in range(50):
        run(*sets[i % 2])
    torch.cuda.synchronize()
    row["device allocations in 50 calls"] = torch.cuda.memory_stats()["num_device_alloc"] - before
    del kept
    return row


SETS = 24  # of results, which take turns


def moved_outputs(made: list[compiled_graph.CompiledGraph]) -> dict[str, Any]:
    x = torch.randn(256, 256, device="cuda", requires_grad=True)
    run = torch.compile(many, backend="preheat")
    for _ in range(4):
        torch.autograd.backward(run(x), [torch.ones_like(x)] * 100)
    forward = next(g for g in made if g.signature is not None and len(g.built.outputs) >= 100)
    raw, given = Raw(forward), Raw.pointers([x])
    held = [raw.outputs() for _ in range(SETS)]
    results = [raw.pointers(outputs) for outputs in held]

    def copy(i: int) -> None:
        raw(given, results[0])
        torch._foreach_copy_(held[1 + i % (SETS - 1)], held[0])

    def recapture(i: int) -> None:
        graph = torch.cuda.CUDAGraph()
        graph.capture_begin()
        raw(given, results[i % SETS])
        graph.capture_end()
        graph.replay()

    ways: dict[str, Callable[[int], Any]] = {
        "where they were": lambda i: raw(given, results[0]),
        "patch": lambda i: raw(given, results[i % SETS]),
        "copy": copy,
    }
    row: dict[str, Any] = {}
    with torch.no_grad():
        for name, call in ways.items():
            row[f"100 outputs, {name}: host"] = microseconds(call)
            row[f"100 outputs, {name}: in all"] = in_all(call)
        with torch.cuda.stream(torch.cuda.Stream()):
            raw(given, results[0])  # its workspace
            row["100 outputs, recapture: host"] = microseconds(recapture, 20)
    keep: list[Any] = [None] * SETS  # results of the last calls, so that each call's lie elsewhere

    def call(i: int) -> None:
        keep[i % SETS] = run(x)

    row["compiled forward, 100 outputs, patch"] = microseconds(call)
    keep.clear()
    row["compiled forward, 100 outputs, where they were"] = microseconds(lambda i: run(x) and None)
    return row


def main() -> None:
    made: list[compiled_graph.CompiledGraph] = []
    original = compiled_graph.CompiledGraph.__init__

    def note(self: compiled_graph.CompiledGraph, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        made.append(self)

    compiled_graph.CompiledGraph.__init__ = note  # type: ignore[method-assign]
    with torch.no_grad():
        for function in (chain, products):
            print(json.dumps(moved_inputs(made, function), indent=1), flush=True)
    print(json.dumps(moved_outputs(made), indent=1))


if __name__ == "__main__":
    main()
