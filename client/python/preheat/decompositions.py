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


@functools.cache
def table() -> dict[Any, Callable[..., Any]]:
    from torch._decomp import get_decompositions

    parts = dict(
        get_decompositions([aten._log_softmax, aten._log_softmax_backward_data, aten.nll_loss_forward, aten.detach])
    )
    parts[aten.nll_loss_backward.default] = _nll_loss_backward
    return parts
