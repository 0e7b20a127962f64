"""A run in one call of libpreheat_torch: arguments looked at, results made, everything enqueued."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import torch

from preheat import dtypes, extern, frozen, native, runtime


class _Input(ctypes.Structure):
    _fields_ = [
        ("argument", ctypes.c_int64), ("dtype", ctypes.c_int32), ("rank", ctypes.c_int32),
        ("sizes", ctypes.c_void_p), ("strides", ctypes.c_void_p), ("address", ctypes.c_void_p),
    ]  # fmt: skip


class _Output(ctypes.Structure):
    _fields_ = [
        ("dtype", ctypes.c_int32), ("rank", ctypes.c_int32), ("sizes", ctypes.c_void_p), ("strides", ctypes.c_void_p),
    ]  # fmt: skip


class _Watched(ctypes.Structure):
    _fields_ = [
        ("argument", ctypes.c_int64), ("address", ctypes.c_void_p), ("version", ctypes.c_int64),
        ("num_samples", ctypes.c_int64), ("sample_bytes", ctypes.c_int64), ("step", ctypes.c_int64),
        ("samples", ctypes.c_void_p),
    ]  # fmt: skip


class _Step(ctypes.Structure):
    _fields_ = [
        ("session", ctypes.c_void_p), ("symbols", ctypes.c_void_p),
        ("inputs", ctypes.POINTER(_Input)), ("num_inputs", ctypes.c_size_t),
        ("watched", ctypes.POINTER(_Watched)), ("num_watched", ctypes.c_size_t),
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
        watched: Sequence[tuple[int, frozen.Seen]] = (),
    ) -> None:
        """`inputs`: those that are not frozen. `watched`: arguments that are, as the session took them."""
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
        watches = (_Watched * max(len(watched), 1))()
        for slot, (argument, seen) in zip(watches, watched, strict=False):
            slot.argument, slot.address, slot.version, slot.step = argument, seen.address, seen.version, seen.step
            if seen.samples is not None:
                slot.num_samples, slot.sample_bytes = seen.samples.numel(), seen.samples.element_size()
                slot.samples = seen.samples.data_ptr()
        self._alive.append(watched)
        gpu = device.type == "cuda"
        self._step = _Step(
            session.handle, ctypes.addressof(symbols), ins, len(inputs), watches, len(watched), outs, len(outputs),
            native.CUDA if gpu else 0, device.index if gpu else 0,
        )  # fmt: skip
        self.address = ctypes.addressof(self._step)

    def _numbers(self, values: Sequence[int]) -> int:
        array = (ctypes.c_int64 * max(len(values), 1))(*values)
        self._alive.append(array)
        return ctypes.addressof(array)

    def __call__(self, given: list[Any]) -> list[torch.Tensor] | None:
        """The outputs, or None when an argument is otherwise: nothing has run then. Raises what the run says."""
        if self._call is None:
            return None  # no libpreheat_torch for this torch
        outputs = self._call(self.address, given)
        if outputs is None and (status := self._take()):
            runtime.Session.check(status)
        return outputs
