"""libpreheat_runtime by ctypes: executables and sessions over torch's tensors."""

from __future__ import annotations

import array
import ctypes
import functools
import os
import pathlib
import platform
from collections.abc import Mapping, Sequence
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


class _Blob(ctypes.Structure):
    _fields_ = [("digest", ctypes.c_char_p), ("data", ctypes.c_char_p), ("size", ctypes.c_size_t)]


class _LoadOptions(ctypes.Structure):
    _fields_ = [("cache_dir", ctypes.c_char_p), ("num_threads", ctypes.c_int32)]


class _InputInfo(ctypes.Structure):
    _fields_ = [(n, ctypes.c_int32) for n in ("kind", "dtype", "rank", "frozen", "is_size", "mutated")]


class _OutputInfo(ctypes.Structure):
    _fields_ = [(n, ctypes.c_int32) for n in ("dtype", "rank", "mutates", "aliases_input")]


class _BindOptions(ctypes.Structure):
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
            [c_char_p, size_t, ctypes.POINTER(_Blob), size_t, ctypes.POINTER(_LoadOptions), pointers],
        ),
        "executable_release": (None, [c_void_p]),
        "num_inputs": (size_t, [c_void_p]),
        "num_outputs": (size_t, [c_void_p]),
        "input": (_InputInfo, [c_void_p, size_t]),
        "output": (_OutputInfo, [c_void_p, size_t]),
        "num_symbols": (size_t, [c_void_p]),
        "symbol_name": (c_char_p, [c_void_p, size_t]),
        "bind_symbols": (c_void_p, [c_void_p, tensors, size_t, int64_p]),
        "input_shape": (None, [c_void_p, int64_p, size_t, int64_p, int64_p]),
        "output_shape": (None, [c_void_p, int64_p, size_t, int64_p, int64_p]),
        "arena_bytes": (ctypes.c_int64, [c_void_p, int64_p]),
        "bind": (c_void_p, [c_void_p, ctypes.POINTER(_BindOptions), pointers]),
        "session_release": (None, [c_void_p]),
        "session_refresh": (c_void_p, [c_void_p, tensors, size_t]),
        "session_run": (c_void_p, [c_void_p, tensors, size_t, tensors, size_t, c_void_p]),
        "session_run_raw": (c_void_p, [c_void_p, int64_p, pointers, pointers, c_void_p, c_void_p]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(lib, f"preheat_{name}")
        function.restype, function.argtypes = result, arguments


@functools.cache
def _run_raw() -> Any:
    """preheat_session_run_raw with plain addresses for arguments: ctypes takes a third of the time to pass them."""
    prototype = ctypes.CFUNCTYPE(ctypes.c_void_p, *[ctypes.c_void_p] * 6)
    return prototype(("preheat_session_run_raw", library()))


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


class Executable:
    """An artifact, loaded: immutable, shared by sessions. Thread-safe."""

    def __init__(self, handle: int) -> None:
        self._handle = handle
        lib = library()
        self.symbols = [lib.preheat_symbol_name(handle, i).decode() for i in range(lib.preheat_num_symbols(handle))]
        self.inputs = [lib.preheat_input(handle, i) for i in range(lib.preheat_num_inputs(handle))]
        self.outputs = [lib.preheat_output(handle, i) for i in range(lib.preheat_num_outputs(handle))]

    @staticmethod
    def load(plan: bytes, code: Mapping[str, bytes], code_dir: str = "") -> Executable:
        blobs = (_Blob * max(len(code), 1))(*((d.encode(), data, len(data)) for d, data in code.items()))
        options = _LoadOptions(code_dir.encode() or None, 0)
        out = ctypes.c_void_p()
        if torch.cuda.is_initialized():
            from preheat import gpu

            gpu.share()
            library().preheat_allow_tf32_convolutions(torch.backends.cudnn.allow_tf32)
        check(
            library().preheat_executable_load(
                plan, len(plan), blobs, len(code), ctypes.byref(options), ctypes.byref(out)
            )
        )
        return Executable(out.value or 0)

    @property
    def handle(self) -> int:
        return self._handle

    def bind(self, frozen: Sequence[torch.Tensor] = (), groups: Sequence[str] = ()) -> Session:
        """`groups`: names of the process groups that the program calls group:0, group:1, ..."""
        return Session(self, frozen, groups)

    def arena_bytes(self, symbols: Any) -> int:
        return library().preheat_arena_bytes(self._handle, symbols)

    def bind_symbols(self, inputs: Sequence[torch.Tensor | int]) -> Any:
        """The symbols' values (an array of int64) that these inputs give, everything checked."""
        array, alive = describe(inputs)
        symbols = (ctypes.c_int64 * max(len(self.symbols), 1))()
        check(library().preheat_bind_symbols(self._handle, array, len(inputs), symbols))
        del alive
        return symbols

    def empty_outputs(self, symbols: Any, device: torch.device | str = "cpu") -> list[torch.Tensor]:
        """Memory of torch's for every output that mutates no input."""
        lib, out = library(), []
        for i, info in enumerate(self.outputs):
            if info.mutates >= 0:
                continue
            sizes, strides = (ctypes.c_int64 * max(info.rank, 1))(), (ctypes.c_int64 * max(info.rank, 1))()
            lib.preheat_output_shape(self._handle, symbols, i, sizes, strides)
            out.append(
                torch.empty_strided(
                    sizes[: info.rank], strides[: info.rank], dtype=dtypes.from_number(info.dtype), device=device
                )
            )
        return out

    def __del__(self) -> None:
        if self._handle and library is not None:
            library().preheat_executable_release(self._handle)


class Session:
    """An executable with its frozen inputs. Several threads may call `run` at once, but not beside `refresh`."""

    def __init__(self, executable: Executable, frozen: Sequence[torch.Tensor] = (), groups: Sequence[str] = ()) -> None:
        from preheat import collectives, extern

        self.executable, self.frozen, self._handle = executable, list(frozen), 0
        array, alive = describe(self.frozen)
        self._context = collectives.Context(groups) if groups else None
        handler, context = extern.handler(self._context)
        options = _BindOptions(array, len(self.frozen), 0, handler, context)
        out = ctypes.c_void_p()
        check(library().preheat_bind(executable.handle, ctypes.byref(options), ctypes.byref(out)))
        del alive
        self._handle = out.value or 0

    @property
    def handle(self) -> int:
        return self._handle

    def run(self, inputs: Sequence[torch.Tensor | int]) -> list[torch.Tensor]:
        """`inputs`: every input that is not frozen, in order, sizes as ints. Everything is checked."""
        wanted = len(self.executable.inputs) - len(self.frozen)
        if len(inputs) != wanted:
            raise PreheatError("INVALID_ARGUMENT", "input_count", f"expected {wanted} inputs, got {len(inputs)}")
        infos = iter(self.frozen)
        given = iter(inputs)
        every = [next(infos) if info.frozen else next(given) for info in self.executable.inputs]
        outputs = self.executable.empty_outputs(self.executable.bind_symbols(every), device_of(every))
        self.run_into(inputs, outputs)
        return outputs

    def run_into(self, inputs: Sequence[torch.Tensor | int], outputs: Sequence[torch.Tensor]) -> None:
        """The same with memory of the caller's for the results."""
        array, alive = describe(inputs)
        results, alive_too = describe(outputs)
        status = library().preheat_session_run(self._handle, array, len(inputs), results, len(outputs),
                                                stream_of(outputs))  # fmt: skip
        del alive, alive_too
        self.check(status)

    def run_unchecked(
        self, symbols: Any, inputs: Sequence[torch.Tensor | int], outputs: Sequence[torch.Tensor]
    ) -> None:
        """The same for a caller that has compared types itself; `symbols` as from `bind_symbols`."""
        pointers = (ctypes.c_void_p * (len(inputs) or 1))(*[0 if isinstance(t, int) else t.data_ptr() for t in inputs])
        results = (ctypes.c_void_p * (len(outputs) or 1))(*[t.data_ptr() for t in outputs])
        stream = stream_of(outputs)
        self.check(library().preheat_session_run_raw(self._handle, symbols, pointers, results, None, stream))

    def run_at(self, symbols: int, inputs: array.array[int], outputs: Sequence[torch.Tensor]) -> None:
        """`run_unchecked` for a caller in a hurry: addresses of the symbols, and of every input that is not frozen."""
        results = array.array("Q", [t.data_ptr() for t in outputs])
        status = _run_raw()(
            self._handle, symbols, inputs.buffer_info()[0], results.buffer_info()[0], None, stream_of(outputs)
        )
        if status:
            self.check(status)

    def refresh(self, frozen: Sequence[torch.Tensor] | None = None) -> None:
        """The frozen inputs have other contents now, or are other tensors."""
        if frozen is not None:
            self.frozen = list(frozen)
        array, alive = describe(self.frozen)
        check(library().preheat_session_refresh(self._handle, array, len(self.frozen)))
        del alive

    @staticmethod
    def check(status: int | None) -> None:
        """As `check`; what an extern call raised in this thread is raised as it was."""
        if not status:
            return
        from preheat import extern

        original = extern.take_error()
        if original is not None:
            library().preheat_status_free(status)
            raise original
        check(status)

    def __del__(self) -> None:
        if self._handle and library is not None:
            library().preheat_session_release(self._handle)
