"""What a run costs the host on a GPU: a plan of about 100 kernels, by itself and through torch.compile.

    launch_cost.py        (a server in PREHEAT_SERVER; microseconds, medians of 200 calls that are not waited for)

Cases: nothing moved; 4 inputs elsewhere at each call; 100 outputs elsewhere at each call; and how often memory was
asked for in steady state.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import preheat
import torch
from preheat import compiled_graph


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


def chain(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, d: torch.Tensor) -> torch.Tensor:
    """Softmax along one dimension and then the other: no two of them are one kernel."""
    x = a + b + c + d
    for i in range(100):
        x = torch.softmax(x * 1.01, dim=i % 2)
    return x


def many(x: torch.Tensor) -> list[torch.Tensor]:
    return [torch.softmax(x * (1 + i / 100), -1) for i in range(100)]


def main() -> None:
    made: list[compiled_graph.CompiledGraph] = []
    original = compiled_graph.CompiledGraph.__init__

    def note(self: compiled_graph.CompiledGraph, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        made.append(self)

    compiled_graph.CompiledGraph.__init__ = note  # type: ignore[method-assign]
    row: dict[str, Any] = {}
    with torch.no_grad():
        sets = [[torch.randn(256, 256, device="cuda") for _ in range(4)] for _ in range(2)]
        run = torch.compile(chain, backend="preheat")
        for i in range(6):
            run(*sets[i % 2])
        graph = made[-1]
        row["kernels"] = preheat.report().to_dict()["graphs"][-1]["kernels_after"]
        row["graph call, nothing moved"] = microseconds(lambda i: graph(list(sets[0])))
        row["graph call, 4 inputs moved"] = microseconds(lambda i: graph(list(sets[i % 2])))
        row["compiled function, nothing moved"] = microseconds(lambda i: run(*sets[0]))
        row["compiled function, 4 inputs moved"] = microseconds(lambda i: run(*sets[i % 2]))
        row.update(raw(graph, sets))
        before = torch.cuda.memory_stats()["num_device_alloc"]
        for i in range(50):
            run(*sets[i % 2])
        torch.cuda.synchronize()
        row["device allocations in 50 calls"] = torch.cuda.memory_stats()["num_device_alloc"] - before
        fresh = torch.compile(many, backend="preheat")
        x = torch.randn(256, 256, device="cuda")
        held: list[Any] = [None, None, None]

        def call(i: int) -> None:  # results of the last calls are kept, so each call's lie elsewhere
            held[i % 3] = fresh(x)

        row["100 outputs moved"] = microseconds(call)
        row["100 outputs where they were"] = microseconds(lambda i: fresh(x) and None)
    print(json.dumps(row, indent=1))


def raw(graph: compiled_graph.CompiledGraph, sets: list[list[torch.Tensor]]) -> dict[str, float]:
    """The C function alone, its arguments made beforehand; ctypes is counted in."""
    import ctypes

    from preheat import native

    (layout,) = graph._layouts.values()
    session = graph._session
    assert session is not None
    out = torch.empty(256, 256, device="cuda")
    pointers = [(ctypes.c_void_p * 4)(*[t.data_ptr() for t in s]) for s in sets]
    outputs = (ctypes.c_void_p * 1)(out.data_ptr())
    function = native.library().preheat_session_run_raw
    call = lambda s: function(session.handle, layout.symbols, s, outputs, None, None)  # noqa: E731
    return {
        "run_raw, nothing moved": microseconds(lambda i: call(pointers[0])),
        "run_raw, 4 inputs moved": microseconds(lambda i: call(pointers[i % 2])),
    }


if __name__ == "__main__":
    main()
