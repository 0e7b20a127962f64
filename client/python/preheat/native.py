"""libpreheat_runtime's C ABI by ctypes: its types, its functions, its statuses as errors."""

from __future__ import annotations

import ctypes
import functools
import os
import pathlib
import platform
from collections.abc import Sequence
from typing import Any

import torch

from preheat import dtypes
from preheat._proto import compile_pb2 as pb
from preheat.errors import PreheatError

ABI = 1
CUDA = 1  # preheat_device_type
_FIX_RUNTIME = "install the package and its runtime together, or name the runtime that belongs to it in PREHEAT_RUNTIME"


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p), ("dtype", ctypes.c_int32), ("rank", ctypes.c_int32),
        ("sizes", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("device_type", ctypes.c_int32), ("device_index", ctypes.c_int32),
    ]  # fmt: skip


class ExternCall(ctypes.Structure):
    _fields_ = [
        ("op", ctypes.c_char_p), ("call", ctypes.c_char_p),
        ("operands", ctypes.POINTER(Tensor)), ("num_operands", ctypes.c_size_t),
        ("results", ctypes.POINTER(Tensor)), ("num_results", ctypes.c_size_t),
        ("defined", ctypes.POINTER(ctypes.c_int64)), ("num_defined", ctypes.c_size_t),
        ("stream", ctypes.c_void_p),
    ]  # fmt: skip


ExternHandler = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ExternCall))


class Blob(ctypes.Structure):
    _fields_ = [("digest", ctypes.c_char_p), ("data", ctypes.c_char_p), ("size", ctypes.c_size_t)]


class LoadOptions(ctypes.Structure):
    _fields_ = [("cache_dir", ctypes.c_char_p), ("num_threads", ctypes.c_int32)]


class InputInfo(ctypes.Structure):
    _fields_ = [(n, ctypes.c_int32) for n in ("kind", "dtype", "rank", "frozen", "is_size", "mutated")]


class OutputInfo(ctypes.Structure):
    _fields_ = [(n, ctypes.c_int32) for n in ("dtype", "rank", "mutates", "aliases_input")]


class BindOptions(ctypes.Structure):
    _fields_ = [
        ("frozen", ctypes.POINTER(Tensor)), ("num_frozen", ctypes.c_size_t), ("device_index", ctypes.c_int32),
        ("extern_handler", ctypes.c_void_p), ("extern_context", ctypes.c_void_p),
    ]  # fmt: skip


class GpuHost(ctypes.Structure):
    """preheat_gpu_host."""

    Allocate = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32, ctypes.c_void_p)
    Free = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
    BeginCapture = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int32, ctypes.c_void_p)
    EndCapture = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int32)
    _fields_ = [
        ("context", ctypes.c_void_p), ("allocate", Allocate), ("free", Free), ("begin_capture", BeginCapture),
        ("end_capture", EndCapture),
    ]  # fmt: skip


def library_path() -> str:
    """PREHEAT_RUNTIME, else lib/ beside the package, else the build folder of a checkout."""
    if chosen := os.environ.get("PREHEAT_RUNTIME"):
        return chosen
    package = pathlib.Path(__file__).resolve().parent
    places = [package / "lib", *(p / "build" / "release" / "lib" for p in package.parents[:4])]
    for place in places:
        if (place / "libpreheat_runtime.so").exists():
            return str(place / "libpreheat_runtime.so")
    raise PreheatError("FAILED_PRECONDITION", "no_runtime", "libpreheat_runtime.so was not found", str(places[0]),
                       "build it (deploy/build.sh) or name it in PREHEAT_RUNTIME")  # fmt: skip


@functools.cache
def library() -> ctypes.CDLL:
    path = library_path()
    try:
        lib = ctypes.CDLL(path)
    except OSError as error:
        raise PreheatError("FAILED_PRECONDITION", "no_runtime", f"cannot open the runtime: {error}", path) from None
    lib.preheat_runtime_abi.restype = ctypes.c_uint32
    if (abi := lib.preheat_runtime_abi()) != ABI:
        raise PreheatError(
            "FAILED_PRECONDITION", "runtime_abi", f"the runtime has ABI {abi}, this package needs {ABI}", path,
            _FIX_RUNTIME,
        )  # fmt: skip
    try:
        _declare(lib)
    except AttributeError as error:  # within one ABI functions are added, never changed
        raise PreheatError("FAILED_PRECONDITION", "runtime_abi", f"the runtime is older than this package: {error}",
                           path, _FIX_RUNTIME) from None  # fmt: skip
    return lib


def _declare(lib: ctypes.CDLL) -> None:
    c_void_p, c_char_p, size_t, int64_p = (
        ctypes.c_void_p,
        ctypes.c_char_p,
        ctypes.c_size_t,
        ctypes.POINTER(ctypes.c_int64),
    )
    tensors, pointers = ctypes.POINTER(Tensor), ctypes.POINTER(ctypes.c_void_p)
    signatures: dict[str, tuple[Any, list[Any]]] = {
        "plan_version_min": (ctypes.c_uint32, []),
        "plan_version_max": (ctypes.c_uint32, []),
        "host_target": (c_char_p, []),
        "set_gpu_host": (None, [ctypes.POINTER(GpuHost)]),
        "allow_tf32_convolutions": (None, [ctypes.c_int32]),
        **{f"status_{field}": (c_char_p, [c_void_p]) for field in ("code", "kind", "message", "where", "fix")},
        "status_free": (None, [c_void_p]),
        "status_new": (c_void_p, [c_char_p, c_char_p, c_char_p]),
        "executable_load": (
            c_void_p,
            [c_char_p, size_t, ctypes.POINTER(Blob), size_t, ctypes.POINTER(LoadOptions), pointers],
        ),
        "executable_release": (None, [c_void_p]),
        "num_inputs": (size_t, [c_void_p]),
        "num_outputs": (size_t, [c_void_p]),
        "input": (InputInfo, [c_void_p, size_t]),
        "output": (OutputInfo, [c_void_p, size_t]),
        "num_symbols": (size_t, [c_void_p]),
        "symbol_name": (c_char_p, [c_void_p, size_t]),
        "bind_symbols": (c_void_p, [c_void_p, tensors, size_t, int64_p]),
        "input_shape": (None, [c_void_p, int64_p, size_t, int64_p, int64_p]),
        "output_shape": (None, [c_void_p, int64_p, size_t, int64_p, int64_p]),
        "arena_bytes": (ctypes.c_int64, [c_void_p, int64_p]),
        "bind": (c_void_p, [c_void_p, ctypes.POINTER(BindOptions), pointers]),
        "session_release": (None, [c_void_p]),
        "session_refresh": (c_void_p, [c_void_p, tensors, size_t]),
        "session_run": (c_void_p, [c_void_p, tensors, size_t, tensors, size_t, c_void_p]),
        "session_run_raw": (c_void_p, [c_void_p, int64_p, pointers, pointers, c_void_p, c_void_p]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(lib, f"preheat_{name}")
        function.restype, function.argtypes = result, arguments


def check(status: int | None) -> None:
    """Raises what a status of the runtime says; frees it."""
    if not status:
        return
    lib = library()
    fields = [
        getattr(lib, f"preheat_status_{f}")(status).decode(errors="replace")
        for f in ("code", "kind", "message", "where", "fix")
    ]
    lib.preheat_status_free(status)
    raise PreheatError(*fields)


def cuda_target() -> str:
    """This machine's GPU as a target: its own architecture, or the oldest of its generation that there is code for."""
    if not torch.cuda.is_available():
        raise PreheatError("FAILED_PRECONDITION", "no_cuda_driver", "torch finds no GPU that it can use", "target",
                           "name the target in full: cuda:sm_90")  # fmt: skip
    major, minor = torch.cuda.get_device_capability()
    known = [(8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (12, 0)]
    fitting = [k for k in known if k[0] == major and k[1] <= minor]
    if not fitting:
        raise PreheatError("INVALID_ARGUMENT", "unsupported_target", f"no code can be made for sm_{major}{minor}",
                           "target", "GPUs from sm_80 to sm_120 are served")  # fmt: skip
    return f"cuda:sm_{fitting[-1][0]}{fitting[-1][1]}"


def environment() -> pb.ClientEnvironment:
    """What this process is, for the server to gate and to key by."""
    lib = library()
    return pb.ClientEnvironment(
        min_plan_version=lib.preheat_plan_version_min(),
        max_plan_version=lib.preheat_plan_version_max(),
        runtime_abi=ABI,
        cpu=lib.preheat_host_target().decode(),
        threads=torch.get_num_threads(),
        torch=torch.__version__.partition("+")[0],
        glibc=platform.libc_ver()[1],
        client_version="0.1.0",
    )


def describe(tensors: Sequence[torch.Tensor | int]) -> tuple[Any, list[Any]]:
    """An array of preheat_tensor and what must stay alive while it is used. An int is a size."""
    array, alive = (Tensor * max(len(tensors), 1))(), []
    for slot, t in zip(array, tensors, strict=False):
        sizes = [t] if isinstance(t, int) else list(t.shape)
        strides = [1] if isinstance(t, int) else list(t.stride())
        slot.sizes = c_sizes = (ctypes.c_int64 * max(len(sizes), 1))(*sizes)
        slot.strides = c_strides = (ctypes.c_int64 * max(len(sizes), 1))(*strides)
        slot.rank = len(sizes)
        alive += [c_sizes, c_strides, t]
        if isinstance(t, int):
            slot.dtype = 5
            continue
        number = dtypes.number(t.dtype)
        if number is None or t.device.type not in ("cpu", "cuda"):
            raise PreheatError(
                "INVALID_ARGUMENT", "dtype_mismatch", f"no tensor of {t.dtype} on {t.device} can be passed"
            )
        slot.dtype, slot.data = number, t.data_ptr() or None
        if t.device.type == "cuda":
            slot.device_type, slot.device_index = CUDA, t.device.index
    return array, alive


def device_of(tensors: Sequence[torch.Tensor | int]) -> torch.device:
    """Where the tensors lie: the first one's device."""
    return next((t.device for t in tensors if isinstance(t, torch.Tensor)), torch.device("cpu"))


def stream_of(tensors: Sequence[torch.Tensor]) -> int | None:
    """Torch's current stream where they lie; null on a CPU."""
    device = device_of(tensors)
    return torch.cuda.current_stream(device).cuda_stream or None if device.type == "cuda" else None
