"""What this process fetched, compiled and ran eagerly: counted per graph, printed as a table."""

from __future__ import annotations

import collections
import threading
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass
class Graph:
    """One graph that torch handed over.

    `result`: "hit", "compiled", "coalesced", "empty" (nothing to compute) or "eager", with the reason.
    """

    key: str
    kind: str  # "forward", "backward", "inference"
    result: str
    seconds: float
    kernels_before: int = 0
    kernels_after: int = 0
    native_ops: dict[str, int] = field(default_factory=dict)
    extern_ops: dict[str, int] = field(default_factory=dict)
    reason: str = ""


class Report:
    """A copy of the counts at one moment."""

    def __init__(self, graphs: list[Graph], seconds_saved: float, fallbacks: dict[str, int]) -> None:
        self.graphs, self.seconds_saved, self.fallbacks = graphs, seconds_saved, fallbacks

    def to_dict(self) -> dict[str, Any]:
        results = collections.Counter(g.result for g in self.graphs)
        return {
            "graphs": [asdict(g) for g in self.graphs],
            "seconds_saved": self.seconds_saved,
            "results": dict(results),
            "fallbacks": dict(self.fallbacks),
        }

    def __str__(self) -> str:
        rows = [("key", "kind", "result", "seconds", "kernels", "extern", "")]
        for g in self.graphs:
            kernels = f"{g.kernels_before} -> {g.kernels_after}"
            rows.append(
                (
                    g.key[:12],
                    g.kind,
                    g.result,
                    f"{g.seconds:.2f}",
                    kernels,
                    str(sum(g.extern_ops.values())),
                    g.reason[:60],
                )
            )
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        lines = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]
        lines.append(f"seconds saved: {self.seconds_saved:.1f}")
        lines += [f"ran eagerly, {count} times: {reason}" for reason, count in sorted(self.fallbacks.items())]
        return "\n".join(lines)

    __repr__ = __str__


_lock = threading.Lock()
_graphs: list[Graph] = []
_saved: dict[str, float] = {}  # key -> seconds of compilation that its first fetch spared
_fallbacks: collections.Counter[str] = collections.Counter()  # calls that ran eagerly, by reason


def record(graph: Graph, seconds_saved: float = 0.0) -> None:
    with _lock:
        _graphs.append(graph)
        if seconds_saved > 0:
            _saved.setdefault(graph.key, seconds_saved)


def add_extern_ops(ops: dict[str, int]) -> None:
    """Operators that torch runs beside the last graph recorded, which is a piece of a larger one."""
    with _lock:
        for graph in _graphs[-1:]:
            graph.extern_ops = dict(collections.Counter(graph.extern_ops) + collections.Counter(ops))


def count_fallback(reason: str) -> None:
    """A call of a compiled graph that had to run eagerly."""
    with _lock:
        _fallbacks[reason] += 1


def report() -> Report:
    """What was counted since the start or the last `reset_report`."""
    with _lock:
        return Report(list(_graphs), sum(_saved.values()), dict(_fallbacks))


def reset_report() -> None:
    """Forgets what was counted so far."""
    with _lock:
        _graphs.clear()
        _saved.clear()
        _fallbacks.clear()
