"""What torch shares with the runtime on a GPU: its memory, and its place in recorded runs."""

from __future__ import annotations

import contextlib
import functools
import threading
from typing import Any

import torch

from preheat import extern, native

_outer = threading.local()  # the stream that was torch's before a capture


@functools.cache
def share() -> None:
    """Lets the runtime take workspace from torch's allocator and record extern calls. Once a process."""
    native.library().preheat_set_gpu_host(_HOST)


@native.GpuHost.Allocate
def _allocate(_context: Any, size: int, device: int, stream: int | None) -> int | None:
    try:
        return torch.cuda.caching_allocator_alloc(size, device, stream or 0)
    except Exception:  # nothing may cross the C frames below; the runtime says how much was wanted
        return None


@native.GpuHost.Free
def _free(_context: Any, memory: int) -> None:
    with contextlib.suppress(Exception):  # the interpreter may be on its way out
        torch.cuda.caching_allocator_delete(memory)


@functools.cache
def _pool(device: int) -> tuple[int, int]:
    """Memory of recorded calls. It is never used for anything else, so it is never given back."""
    return torch.cuda.graph_pool_handle()


@native.GpuHost.BeginCapture
def _begin_capture(_context: Any, device: int, stream: int) -> int:
    try:
        place = torch.device("cuda", device)
        outer = torch.cuda.current_stream(place)
        torch._C._cuda_beginAllocateCurrentThreadToPool(device, _pool(device))
        torch.cuda.set_stream(torch.cuda.ExternalStream(stream, place))
        _outer.stream = outer
        return 0
    except Exception:
        return 1


@native.GpuHost.EndCapture
def _end_capture(_context: Any, device: int) -> None:
    torch.cuda.set_stream(_outer.stream)
    torch._C._cuda_endAllocateToPool(device, _pool(device))
    extern.take_error()  # a refusal to be captured is no error of the run


_HOST = native.GpuHost(None, _allocate, _free, _begin_capture, _end_capture)
