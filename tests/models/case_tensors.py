"""What the cases of operators (operators.py) are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

aten = torch.ops.aten
BF16, F16, F32, F64, I64, I32 = torch.bfloat16, torch.float16, torch.float32, torch.float64, torch.int64, torch.int32

Function = Callable[..., Any]
# Name, what is exported, and its inputs.
Case = tuple[str, Function | nn.Module, tuple[Any, ...]]


def f(*shape: int, dtype: torch.dtype = F32) -> Tensor:
    return torch.randn(*shape).to(dtype)


def pos(*shape: int, dtype: torch.dtype = F32) -> Tensor:
    return (torch.rand(*shape) + 0.1).to(dtype)


def i(*shape: int, low: int = -5, high: int = 6, dtype: torch.dtype = I64) -> Tensor:
    return torch.randint(low, high, shape, dtype=dtype)


def m(*shape: int) -> Tensor:
    return torch.rand(*shape) > 0.5
