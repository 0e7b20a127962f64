"""What runs eagerly: with a warning, once for each reason, and a count."""

from __future__ import annotations

import collections
import contextlib
import logging
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from preheat import aten, counts
from preheat.errors import PreheatWarning

logger = logging.getLogger("preheat")


def eager_of(gm: fx.GraphModule) -> Callable[[list[Any]], Any]:
    """The graph as torch runs it, called with a list of its arguments."""
    from functorch.compile import make_boxed_func

    states = [i for i, n in enumerate(n for n in gm.graph.nodes if n.op == "placeholder") if aten.is_state(n)]
    if not states:
        return make_boxed_func(gm.forward)

    def forward(*args: Any) -> Any:  # a compiled forward graph gives random states as int64
        given = list(args)
        for i in states:
            given[i] = given[i].view(torch.uint64)
        return gm.forward(*given)

    return make_boxed_func(forward)


def fall_back(
    gm: fx.GraphModule, kind: str, reason: str, eager: Callable[..., Any], start: float, warn: bool = True
) -> Callable[..., Any]:
    ops = collections.Counter(str(n.target) for n in gm.graph.nodes if isinstance(n.target, torch._ops.OpOverload))
    count = sum(n for op, n in ops.items() if not aten.is_view(op))
    logger.info("preheat: %s graph: eager: %s", kind, reason)
    counts.record(counts.Graph("", kind, "eager", time.monotonic() - start, count, count, {}, dict(ops), reason))
    counts.count_fallback(reason)
    if warn:
        warn_once(reason, f"a {kind} graph runs eagerly: {reason}")
    return eager


def misfit(reason: str) -> None:
    """A call that the compiled graph does not take, which torch runs."""
    counts.count_fallback(reason)
    warn_once(f"call:{reason[:40]}", f"a compiled graph was called eagerly: {reason}")


_warned: set[str] = set()
_warned_lock = threading.Lock()


def warn_once(topic: str, message: str) -> None:
    with _warned_lock:
        if topic in _warned:
            return
        _warned.add(topic)
    with contextlib.suppress(PreheatWarning):  # where warnings are errors, the job goes on all the same
        warnings.warn(f"preheat: {message}", PreheatWarning, stacklevel=2)
