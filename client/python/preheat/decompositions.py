"""Operators that AOTAutograd takes apart before it cuts a training graph into forward and backward.

The cut keeps for backward what is cheapest to keep, and it sees only how single operators compute from each other. A
cross entropy in one piece keeps its log probabilities, as large as the logits and in float32; in parts it keeps two
numbers a row and computes the rest again. Everything that is not here stays whole: Preheat has forms of its own.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

aten = torch.ops.aten


def _nll_loss_backward(
    grad_output: torch.Tensor,
    self: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None,
    reduction: int,
    ignore_index: int,
    total_weight: torch.Tensor,
) -> Any:
    """A choice by class, which fuses, and not a scatter into zeros."""
    if weight is not None or self.dim() != 2:
        return NotImplemented
    mean = 1
    put = -(grad_output / total_weight if reduction == mean else grad_output)
    put = torch.where(target == ignore_index, torch.zeros_like(put), put).reshape(-1, 1)
    classes = torch.arange(self.shape[1], device=self.device)
    chosen = classes.unsqueeze(0) == target.unsqueeze(1)
    return torch.where(chosen, put, torch.zeros((), dtype=self.dtype, device=self.device))


def _foreach() -> dict[Any, Callable[..., Any]]:
    """Operators on lists of tensors, which optimizers use: element by element, in which form they fuse."""
    packets = [name for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::_foreach_")]
    rows: dict[Any, Callable[..., Any]] = {}
    for name in packets:
        base, _, overload = name.removeprefix("aten::").partition(".")
        one = _ONE_BY_ONE.get(base.removeprefix("_foreach_")) or getattr(torch, base.removeprefix("_foreach_"), None)
        if base.endswith("_") or overload.endswith("out") or one is None:
            continue  # what writes in place comes as what gives values
        op = getattr(getattr(aten, base), overload or "default")
        is_list = [str(a.type).startswith("List[") or a.name == "scalars" for a in op._schema.arguments]
        rows[op] = functools.partial(_each, one, is_list)
    return rows


def _scaled(op: Callable[..., Any], x: Any, a: Any, b: Any, value: Any) -> Any:
    """x + value * (what the operator makes of a and b); the value may be a tensor of one element."""
    return x + value * op(torch.zeros_like(x), a, b) if isinstance(value, torch.Tensor) else op(x, a, b, value=value)


_ONE_BY_ONE: dict[str, Callable[..., Any]] = {
    "norm": lambda x, ord=2, dtype=None: torch.linalg.vector_norm(x, ord, dtype=dtype),
    "copy": lambda x, source, non_blocking=False: aten.copy(x, source, non_blocking),
    "zero": torch.zeros_like,
    "max": lambda x: x.amax() if x.numel() else x,
    "maximum": lambda x, y: torch.maximum(x, y) if isinstance(y, torch.Tensor) else torch.clamp_min(x, y),
    "minimum": lambda x, y: torch.minimum(x, y) if isinstance(y, torch.Tensor) else torch.clamp_max(x, y),
    "addcmul": lambda x, a, b, value=1: _scaled(torch.addcmul, x, a, b, value),
    "addcdiv": lambda x, a, b, value=1: _scaled(torch.addcdiv, x, a, b, value),
}


def _each(one: Callable[..., Any], is_list: list[bool], *args: Any, **kwargs: Any) -> list[Any]:
    count = next(len(a) for a, listed in zip(args, is_list, strict=False) if listed)
    element = lambda a, listed, i: a[i] if listed else a  # noqa: E731
    return [
        one(*(element(a, listed, i) for a, listed in zip(args, is_list, strict=False)), **kwargs) for i in range(count)
    ]


def _log_softmax(x: torch.Tensor, dim: int, half_to_float: bool) -> torch.Tensor:
    """In parts, of which a training graph keeps two numbers a row. Not of f64: it may come of integers, where eager's
    last bit counts."""
    from torch._decomp.decompositions import _log_softmax as in_parts

    return NotImplemented if x.dtype == torch.float64 else in_parts(x, dim, half_to_float)


@functools.cache
def table() -> dict[Any, Callable[..., Any]]:
    from torch._decomp import get_decompositions

    parts = dict(get_decompositions([aten._log_softmax_backward_data, aten.nll_loss_forward, aten.detach]))
    parts[aten._log_softmax.default] = _log_softmax
    parts[aten.nll_loss_backward.default] = _nll_loss_backward
    return parts | _foreach()
