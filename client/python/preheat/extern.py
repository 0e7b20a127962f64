"""Extern calls: operators without a native form, run by torch between the runtime's kernels.

The call's text is described in compiler/capture/decompose/extern_call.h.
"""

from __future__ import annotations

import ctypes
import functools
import json
import logging
import pathlib
import threading
from collections.abc import Callable
from typing import Any

import torch

from preheat import collectives, dtypes, native

_TORCH_ABI = 2
_state = threading.local()


def take_error() -> BaseException | None:
    """What the last extern call of this thread raised, once."""
    error = getattr(_state, "error", None)
    _state.error = None
    return error


def handler(context: collectives.Context | None = None) -> tuple[int, int | None]:
    """The function pointer for preheat_bind, and its context. The function lives as long as the process.

    libpreheat_torch's, where it stands beside the runtime and was built for this torch: it needs no GIL and no Python
    per call. Otherwise, and for what needs a context, the one below, which does the same.
    """
    own = ctypes.cast(_handle, ctypes.c_void_p).value or 0
    compiled = native_library()
    if context is not None:
        return own, context.number
    return (
        ctypes.cast(compiled.preheat_torch_extern, ctypes.c_void_p).value or own if compiled is not None else own
    ), None


@functools.cache
def native_library() -> ctypes.PyDLL | None:
    """libpreheat_torch, where it stands beside the runtime and was built for this torch. Its functions keep the GIL."""
    path = pathlib.Path(native.library_path()).with_name("libpreheat_torch.so")
    if not path.exists():
        return None
    try:
        lib = ctypes.PyDLL(str(path))
        lib.preheat_torch_version.restype = ctypes.c_char_p
        lib.preheat_torch_call.restype = ctypes.py_object
        lib.preheat_torch_call.argtypes = [ctypes.c_void_p, ctypes.py_object]
        lib.preheat_torch_train.restype = ctypes.py_object
        lib.preheat_torch_train.argtypes = [ctypes.c_void_p, ctypes.py_object]
        lib.preheat_torch_take_status.restype = ctypes.c_void_p
        fits = (
            lib.preheat_torch_abi() == _TORCH_ABI
            and lib.preheat_torch_version().decode() == torch.__version__.partition("+")[0]
        )
        return lib if fits else None
    except (OSError, AttributeError) as error:
        logging.getLogger("preheat").info("preheat: extern calls go through Python: %s", error)
        return None


def operator(name: str) -> torch._ops.OpOverload:
    """ "aten.sort.stable" as torch has it; AttributeError when it has none."""
    space, _, rest = name.partition(".")
    packet, _, overload = rest.rpartition(".")
    return getattr(getattr(getattr(torch.ops, space), packet), overload)


@native.ExternHandler
def _handle(context: int | None, call: Any) -> int | None:
    try:
        _run(call.contents, collectives.find_context(context) if context else None)
        return None
    except BaseException as error:  # nothing may cross the C frames below
        _state.error = error
        message = f"{call.contents.op.decode(errors='replace')}: {error}".encode()
        return native.library().preheat_status_new(b"INTERNAL", b"extern_failed", message)


def _run(call: native.ExternCall, context: collectives.Context | None) -> None:
    op, arguments, skipped = _parse(call.call)
    operands = [tensor_at(call.operands[i]) for i in range(call.num_operands)]
    if "flash_attention" in str(op):  # its random state: program.py
        operands = [t.view(torch.uint64) if t.dtype == torch.int64 else t for t in operands]
    if "view_as_complex" in str(op):  # takes only pairs; a copy in the program is none in the plan
        operands = [t if t.stride(-1) == 1 else t.clone(memory_format=torch.contiguous_format) for t in operands]
    args, kwargs = arguments(operands, context)
    if "efficient_attention_backward" in str(op) and not torch.cuda.is_current_stream_capturing():
        names = [formal.name for formal in op._schema.arguments]  # torch looks into its random state by itself
        args = [a.cpu() if n.startswith("philox_") else a for n, a in zip(names, args, strict=False)]
    with torch.no_grad(), torch._C._DisableAutocast():  # whatever casts there are to be stand in the graph
        returned = op(*args, **kwargs) if context is None else context.run(op, args, kwargs)
    taken = [r for i, r in enumerate(flatten(returned)) if i not in skipped]
    for i in range(call.num_results):
        result = taken[i]
        if result is None or (context is not None and context.keep(op, call.results[i].data, result)):
            continue
        target = tensor_at(call.results[i])
        if result.dtype == torch.uint64:
            result = result.view(torch.int64)
        if target.shape != result.shape or target.dtype != result.dtype:
            raise RuntimeError(
                f"result {i} is {result.dtype}{list(result.shape)}, the program says {target.dtype}{list(target.shape)}"
            )
        if target.is_cuda and result.device.type == "cpu" and result.dim() == 0:
            target.fill_(result.item())  # a seed: as a kernel's argument it reaches the GPU without a wait
        else:
            target.copy_(result)


def flatten(returned: Any) -> list[torch.Tensor | None]:
    out: list[torch.Tensor | None] = []
    for part in returned if isinstance(returned, (tuple, list)) else (returned,):
        out.extend(part) if isinstance(part, (tuple, list)) else out.append(part)
    return out


class _GpuBytes:
    """Memory of the runtime's on a GPU, as torch.as_tensor takes it."""

    def __init__(self, address: int, size: int) -> None:
        self.__cuda_array_interface__ = {"shape": (size,), "typestr": "|u1", "data": (address, False), "version": 3}


def tensor_at(t: native.Tensor) -> torch.Tensor:
    """The runtime's memory as a tensor; nothing is copied."""
    sizes, strides = t.sizes[: t.rank], t.strides[: t.rank]
    for d in reversed(range(t.rank)):  # strides of dimensions of one element: libraries look at them
        if sizes[d] == 1:
            strides[d] = 1 if d + 1 == t.rank else strides[d + 1] * sizes[d + 1]
    dtype = dtypes.from_number(t.dtype)
    if not t.data or 0 in sizes:
        return torch.empty_strided(
            sizes, strides, dtype=dtype, device="cuda" if t.device_type == native.CUDA else "cpu"
        )
    extent = 1 + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True))
    if t.device_type == native.CUDA:
        owner = _GpuBytes(t.data, extent * dtype.itemsize)
        return torch.as_tensor(owner, device=f"cuda:{t.device_index}").view(dtype).as_strided(sizes, strides)
    memory = (ctypes.c_char * (extent * dtype.itemsize)).from_address(t.data)
    return torch.frombuffer(memory, dtype=dtype).as_strided(sizes, strides)


Arguments = Callable[[list[torch.Tensor], collectives.Context | None], tuple[list[Any], dict[str, Any]]]


@functools.lru_cache(maxsize=4096)
def _parse(text: bytes) -> tuple[torch._ops.OpOverload, Arguments, frozenset[int]]:
    call = json.loads(text)
    given = [(a["n"], bool(a.get("k")), _value(a["n"], a["v"])) for a in call["args"]]
    op = operator(call["op"])
    order = [formal.name for formal in op._schema.arguments]

    def arguments(
        operands: list[torch.Tensor], context: collectives.Context | None
    ) -> tuple[list[Any], dict[str, Any]]:
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for name, keyword, value in given:
            # Positional only while nothing before it was left out.
            if not keyword and len(args) < len(order) and order[len(args)] == name:
                args.append(value(operands, context))
            else:
                kwargs[name] = value(operands, context)
        return args, kwargs

    return op, arguments, frozenset(call.get("none", ()))


def _value(name: str, v: Any) -> Callable[[list[torch.Tensor], Any], Any]:
    if not isinstance(v, dict):
        if collectives.is_group(name) and isinstance(v, str):
            return lambda _, context: context.group(v)
        return lambda *_: v
    ((kind, content),) = v.items()
    if kind == "t":
        return lambda operands, _: operands[content]
    if kind == "ts":
        return lambda operands, _: [None if i is None else operands[i] for i in content]
    fixed = _fixed(kind, content)
    return lambda *_: fixed


def _fixed(kind: str, content: Any) -> Any:
    match kind:
        case "f":
            return float(content)
        case "c":
            return complex(float(content[0]), float(content[1]))
        case "is" | "bs":
            return list(content)
        case "fs":
            return [float(f) for f in content]
        case "dtype":
            return dtypes.from_name(content)
        case "layout" | "memory_format":
            return getattr(torch, content)
        case "device":
            return torch.device(content)
    raise ValueError(f"an argument of kind {kind!r} is not known")
