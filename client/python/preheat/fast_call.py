"""A run in one call of libpreheat_torch: arguments looked at, results made, everything enqueued."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import torch

from preheat import dtypes, extern, runtime


class _Input(ctypes.Structure):
    _fields_ = [
        ("argument", ctypes.c_int64), ("dtype", ctypes.c_int32), ("rank", ctypes.c_int32),
        ("sizes", ctypes.c_void_p), ("strides", ctypes.c_void_p), ("address", ctypes.c_void_p),
    ]  # fmt: skip


class _Output(ctypes.Structure):
    _fields_ = [
        ("dtype", ctypes.c_int32), ("rank", ctypes.c_int32), ("sizes", ctypes.c_void_p), ("strides", ctypes.c_void_p),
    ]  # fmt: skip


class _Step(ctypes.Structure):
    _fields_ = [
        ("session", ctypes.c_void_p), ("symbols", ctypes.c_void_p),
        ("inputs", ctypes.POINTER(_Input)), ("num_inputs", ctypes.c_size_t),
        ("outputs", ctypes.POINTER(_Output)), ("num_outputs", ctypes.c_size_t),
        ("device_type", ctypes.c_int32), ("device_index", ctypes.c_int32),
    ]  # fmt: skip


# An input: (argument, dtype, sizes, strides); a tensor that is passed each time; or None for a size.
Input = tuple[int, torch.dtype, tuple[int, ...], tuple[int, ...]] | torch.Tensor | None
Output = tuple[tuple[int, ...], tuple[int, ...], torch.dtype]


class FastCall:
    """For one set of sizes. Whatever is not as it was said goes another way."""

    def __init__(
        self,
        session: runtime.Session,
        symbols: Any,
        inputs: Sequence[Input],
        outputs: Sequence[Output],
        device: torch.device,
    ) -> None:
        lib = extern.native_library()
        self._call, self._take = (lib.preheat_torch_call, lib.preheat_torch_take_status) if lib else (None, None)
        self._alive: list[Any] = [session, symbols]
        ins = (_Input * max(len(inputs), 1))()
        for slot, given in zip(ins, inputs, strict=False):
            slot.argument = -1
            if isinstance(given, torch.Tensor):
                slot.address = given.data_ptr()
                self._alive.append(given)
            elif given is not None:
                slot.argument, dtype, sizes, strides = given
                slot.dtype, slot.rank = dtypes.number(dtype), len(sizes)
                slot.sizes, slot.strides = self._numbers(sizes), self._numbers(strides)
        outs = (_Output * max(len(outputs), 1))()
        for slot, (sizes, strides, dtype) in zip(outs, outputs, strict=False):
            slot.dtype, slot.rank = dtypes.number(dtype), len(sizes)
            slot.sizes, slot.strides = self._numbers(sizes), self._numbers(strides)
        gpu = device.type == "cuda"
        self._step = _Step(
            session.handle, ctypes.addressof(symbols), ins, len(inputs), outs, len(outputs),
            runtime.CUDA if gpu else 0, device.index if gpu else 0,
        )  # fmt: skip
        self._address = ctypes.addressof(self._step)

    def _numbers(self, values: Sequence[int]) -> int:
        array = (ctypes.c_int64 * max(len(values), 1))(*values)
        self._alive.append(array)
        return ctypes.addressof(array)

    def __call__(self, given: list[Any]) -> list[torch.Tensor] | None:
        """The outputs, or None when an argument is otherwise: nothing has run then. Raises what the run says."""
        if self._call is None:
            return None
        outputs = self._call(self._address, given)
        if outputs is None and (status := self._take()):
            runtime.Session.check(status)
        return outputs
