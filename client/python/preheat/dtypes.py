"""Element types: torch's and Preheat's numbers (compiler/ir/dtype.h; messages count from one)."""

from __future__ import annotations

import torch

_BY_NUMBER = (
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
    torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128,
)  # fmt: skip
_NUMBERS = {dtype: number for number, dtype in enumerate(_BY_NUMBER)}
_BY_NAME = dict(
    zip(("bool", "u8", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64", "c64", "c128"), _BY_NUMBER, strict=True)
)


def from_number(number: int) -> torch.dtype:
    return _BY_NUMBER[number]


def from_name(name: str) -> torch.dtype:
    return _BY_NAME[name]


def number(dtype: torch.dtype) -> int | None:
    """The runtime's number, or None for a type that Preheat does not have. A uint64 is carried as int64, bit by bit."""
    return _NUMBERS[torch.int64] if dtype == torch.uint64 else _NUMBERS.get(dtype)
