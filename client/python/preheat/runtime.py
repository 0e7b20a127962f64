"""Executables and sessions of the runtime over torch's tensors."""

from __future__ import annotations

import array
import ctypes
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from preheat import collectives, dtypes, extern, gpu, native
from preheat.errors import PreheatError


@functools.cache
def _run_raw() -> Any:
    """preheat_session_run_raw with plain addresses for arguments: ctypes takes a third of the time to pass them."""
    prototype = ctypes.CFUNCTYPE(ctypes.c_void_p, *[ctypes.c_void_p] * 6)
    return prototype(("preheat_session_run_raw", native.library()))


class Executable:
    """An artifact, loaded: immutable, shared by sessions. Thread-safe."""

    def __init__(self, handle: int) -> None:
        self._handle = handle
        lib = native.library()
        self.symbols = [lib.preheat_symbol_name(handle, i).decode() for i in range(lib.preheat_num_symbols(handle))]
        self.inputs = [lib.preheat_input(handle, i) for i in range(lib.preheat_num_inputs(handle))]
        self.outputs = [lib.preheat_output(handle, i) for i in range(lib.preheat_num_outputs(handle))]

    @staticmethod
    def load(plan: bytes, code: Mapping[str, bytes], code_dir: str = "") -> Executable:
        blobs = (native.Blob * max(len(code), 1))(*((d.encode(), data, len(data)) for d, data in code.items()))
        options = native.LoadOptions(code_dir.encode() or None, 0)
        out = ctypes.c_void_p()
        if torch.cuda.is_initialized():
            gpu.share()
            native.library().preheat_allow_tf32_convolutions(torch.backends.cudnn.allow_tf32)
        native.check(
            native.library().preheat_executable_load(
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
        return native.library().preheat_arena_bytes(self._handle, symbols)

    def bind_symbols(self, inputs: Sequence[torch.Tensor | int]) -> Any:
        """The symbols' values (an array of int64) that these inputs give, everything checked."""
        array, alive = native.describe(inputs)
        symbols = (ctypes.c_int64 * max(len(self.symbols), 1))()
        native.check(native.library().preheat_bind_symbols(self._handle, array, len(inputs), symbols))
        del alive
        return symbols

    def empty_outputs(self, symbols: Any, device: torch.device | str = "cpu") -> list[torch.Tensor]:
        """Memory of torch's for every output that mutates no input."""
        lib, out = native.library(), []
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
        if self._handle and native is not None:  # None at the end of the process
            native.library().preheat_executable_release(self._handle)


class Session:
    """An executable with its frozen inputs. Several threads may call `run` at once, but not beside `refresh`."""

    def __init__(self, executable: Executable, frozen: Sequence[torch.Tensor] = (), groups: Sequence[str] = ()) -> None:
        self.executable, self.frozen, self._handle = executable, list(frozen), 0
        array, alive = native.describe(self.frozen)
        self._context = collectives.Context(groups) if groups else None
        handler, context = extern.handler(self._context)
        options = native.BindOptions(array, len(self.frozen), 0, handler, context)
        out = ctypes.c_void_p()
        native.check(native.library().preheat_bind(executable.handle, ctypes.byref(options), ctypes.byref(out)))
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
        outputs = self.executable.empty_outputs(self.executable.bind_symbols(every), native.device_of(every))
        self.run_into(inputs, outputs)
        return outputs

    def run_into(self, inputs: Sequence[torch.Tensor | int], outputs: Sequence[torch.Tensor]) -> None:
        """The same with memory of the caller's for the results."""
        array, alive = native.describe(inputs)
        results, alive_too = native.describe(outputs)
        status = native.library().preheat_session_run(self._handle, array, len(inputs), results, len(outputs),
                                                native.stream_of(outputs))  # fmt: skip
        del alive, alive_too
        self.check(status)

    def run_unchecked(
        self, symbols: Any, inputs: Sequence[torch.Tensor | int], outputs: Sequence[torch.Tensor]
    ) -> None:
        """The same for a caller that has compared types itself; `symbols` as from `bind_symbols`."""
        pointers = (ctypes.c_void_p * (len(inputs) or 1))(*[0 if isinstance(t, int) else t.data_ptr() for t in inputs])
        results = (ctypes.c_void_p * (len(outputs) or 1))(*[t.data_ptr() for t in outputs])
        stream = native.stream_of(outputs)
        self.check(native.library().preheat_session_run_raw(self._handle, symbols, pointers, results, None, stream))

    def run_at(self, symbols: int, inputs: array.array[int], outputs: Sequence[torch.Tensor]) -> None:
        """`run_unchecked` for a caller in a hurry: addresses of the symbols, and of every input that is not frozen."""
        results = array.array("Q", [t.data_ptr() for t in outputs])
        status = _run_raw()(
            self._handle, symbols, inputs.buffer_info()[0], results.buffer_info()[0], None, native.stream_of(outputs)
        )
        if status:
            self.check(status)

    def refresh(self, frozen: Sequence[torch.Tensor] | None = None) -> None:
        """The frozen inputs have other contents now, or are other tensors."""
        if frozen is not None:
            self.frozen = list(frozen)
        array, alive = native.describe(self.frozen)
        native.check(native.library().preheat_session_refresh(self._handle, array, len(self.frozen)))
        del alive

    @staticmethod
    def check(status: int | None) -> None:
        """As `check`; what an extern call raised in this thread is raised as it was."""
        if not status:
            return
        original = extern.take_error()
        if original is not None:
            native.library().preheat_status_free(status)
            raise original
        native.check(status)

    def __del__(self) -> None:
        if self._handle and native is not None:  # None at the end of the process
            native.library().preheat_session_release(self._handle)
