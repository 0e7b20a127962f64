"""Cases (see operators.py) of regions of programs: branches, modes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from case_tensors import Case, f
from torch import Tensor


def regions() -> Iterator[Case]:
    """Parts of a model that an archive keeps as graphs of their own."""

    def either(chosen: Tensor, x: Tensor, w: Tensor) -> Any:
        one = lambda x, w: ((x @ w).relu() + 1, x[1:].sum(0))  # noqa: E731
        return torch.cond(chosen, one, lambda x, w: (x * w.sum(), x[0].clone()), (x, w))

    yield "cond_true", either, (torch.tensor(True), f(4, 4), f(4, 4))
    yield "cond_false", either, (torch.tensor(False), f(4, 4), f(4, 4))

    def nested(chosen: Tensor, x: Tensor) -> Tensor:
        inner = lambda x: torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))  # noqa: E731
        return torch.cond(chosen, inner, lambda x: x * 2, (x,)) + 1

    yield "cond_nested", nested, (torch.tensor(True), f(4, 4))

    def fails(x: Tensor, i: Tensor, n: Tensor) -> Tensor:
        picked = x[i] + x.index_select(0, i) + x.gather(0, i.view(-1, 1).expand(-1, 4))
        return picked.index_add(0, i, picked) + (i // n + i % n).view(-1, 1)

    def careful(chosen: Tensor, x: Tensor, i: Tensor, n: Tensor) -> Tensor:
        return torch.cond(chosen, fails, lambda x, i, n: x * 2, (x, i, n))

    def careless(chosen: Tensor, x: Tensor, i: Tensor, n: Tensor) -> Tensor:
        return torch.cond(chosen, lambda x, i, n: x * 2, fails, (x, i, n))

    outside, zero = torch.tensor([4, -9, 1, 70]), torch.zeros(4, dtype=torch.long)
    yield "cond_then_would_fail", careful, (torch.tensor(False), f(4, 4), outside, zero)
    yield "cond_else_would_fail", careless, (torch.tensor(True), f(4, 4), outside, zero)
    yield "cond_takes_indices", careful, (torch.tensor(True), f(4, 4), torch.tensor([3, 0, 1, 3]), zero + 2)

    def without(x: Tensor) -> Tensor:
        with torch.no_grad(), torch.autocast("cpu", enabled=False):
            y = x.sin()
        return y + x

    yield "no_grad_no_autocast", without, (f(3, 4),)


GROUPS = (regions,)
