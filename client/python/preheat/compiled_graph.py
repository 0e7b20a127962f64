"""A graph that the service compiled, as torch calls it."""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from preheat import dtypes, runtime
from preheat.expressions import evaluator
from preheat.program import BuiltProgram, Result

_ALIGNMENT = 16  # bytes, what programs promise of their inputs
_MAX_LAYOUTS = 64
_with_frozen: weakref.WeakSet[CompiledGraph] = weakref.WeakSet()


@dataclass
class _Layout:
    """Everything that depends on the sizes of one call."""

    symbols: Any  # array of int64, in the executable's order
    inputs: list[tuple[int, tuple[int, ...], tuple[int, ...]]]  # argument, sizes, strides
    outputs: list[tuple[tuple[int, ...], tuple[int, ...], torch.dtype]]
    results: list[Callable[[list[Any], list[Any], list[torch.Tensor]], Any]]
    checked: bool = False  # the runtime has checked one call of it


class CompiledGraph:
    """Takes the list of arguments and clears it, as torch's boxed calls do. Thread-safe.

    `eager` runs the same graph by torch: for arguments that the artifact does not take. `on_fallback` is told why.
    """

    def __init__(
        self,
        built: BuiltProgram,
        executable: runtime.Executable,
        eager: Callable[[list[Any]], Any],
        on_fallback: Callable[[str], None],
        name: str = "preheat",
    ) -> None:
        self.name = name  # of its range in torch's profiler
        self._boxed_call = True  # of the object: torch wraps it in functions that copy what objects have
        self._built, self._executable, self._eager, self._on_fallback = built, executable, eager, on_fallback
        self._layouts: dict[tuple[int, ...], _Layout] = {}
        self._symbol_sources = list(built.symbols.values())
        self._evaluate = _layout_function(built)
        specs = list(zip(built.inputs, executable.inputs, strict=True))
        self._frozen = [i for i, (_, info) in enumerate(specs) if info.frozen]
        self._thawed = [i for i, (_, info) in enumerate(specs) if not info.frozen]
        self._session: runtime.Session | None = None
        self._stamps: list[tuple[int, int]] = []
        self._lock = threading.Lock()
        if self._frozen:
            _with_frozen.add(self)
        else:
            self._session = executable.bind()

    def __call__(self, args: list[Any]) -> list[Any]:
        given = list(args)
        args.clear()
        try:
            if torch.autograd.profiler._is_profiler_enabled:
                with torch.profiler.record_function(self.name):
                    return self._run(given)
            return self._run(given)
        except Exception as error:
            # Programs write into nothing that eager would read, so the graph may run again: either eager fails as
            # well, and says so in its own words, or the failure is ours.
            results = self._eager(given)
            self._on_fallback(f"{type(error).__name__.lstrip('_')}: {error}")
            return results

    def _run(self, given: list[Any]) -> list[Any]:
        layout = self._layout(given)
        fitted = list(given)
        for index, sizes, strides in layout.inputs:
            t = given[index]
            if t.shape != sizes or t.stride() != strides or t.data_ptr() % _ALIGNMENT or t.is_neg() or t.is_conj():
                fitted[index] = _fit(t, sizes, strides)
        inputs = [fitted[s.argument] if s.constant is None else s.constant for s in self._built.inputs]
        session = self._bound(inputs)
        outputs = [torch.empty_strided(sizes, strides, dtype=dtype) for sizes, strides, dtype in layout.outputs]
        passed = [inputs[i] for i in self._thawed]
        if layout.checked:
            session.run_unchecked(layout.symbols, passed, outputs)
        else:
            session.run_into(passed, outputs)
            layout.checked = True
        return [make(given, fitted, outputs) for make in layout.results]

    # --- Sizes ---

    def _layout(self, given: list[Any]) -> _Layout:
        values = tuple(given[i] if d < 0 else given[i].shape[d] for i, d in self._symbol_sources)
        layout = self._layouts.get(values)
        if layout is None:
            layout = self._make_layout(values)
            with self._lock:
                if len(self._layouts) >= _MAX_LAYOUTS:
                    self._layouts.clear()
                self._layouts[values] = layout
        return layout

    def _make_layout(self, values: tuple[int, ...]) -> _Layout:
        numbers = iter(self._evaluate(*values))
        built = self._built
        by_name = dict(zip(built.symbols, values, strict=True))
        ordered = [by_name[name] for name in self._executable.symbols]
        take = lambda texts: tuple(next(numbers) for _ in texts)  # noqa: E731
        inputs = []
        for source, message in zip(built.inputs, built.proto.inputs, strict=True):
            value = built.proto.values[message.value]
            if value.HasField("tensor"):
                sizes, strides = take(value.tensor.sizes), take(value.tensor.strides)
                if source.constant is None:
                    inputs.append((source.argument, sizes, strides))
        outputs = []
        for t in built.outputs:
            outputs.append((take(t.sizes), take(t.strides), dtypes.from_number(t.dtype - 1)))
        results = [_maker(r, take) for r in built.results]
        return _Layout((ctypes.c_int64 * max(len(ordered), 1))(*ordered), inputs, outputs, results)

    # --- Frozen inputs ---

    def _bound(self, inputs: list[Any]) -> runtime.Session:
        if not self._frozen:
            return self._session  # type: ignore[return-value]
        frozen = [inputs[i] for i in self._frozen]
        stamps = [_stamp(t) for t in frozen]
        with self._lock:
            if self._session is None:
                self._session = self._executable.bind(frozen)
            elif stamps != self._stamps:
                self._session.refresh(frozen)
            self._stamps = stamps
        return self._session

    def forget_stamps(self, addresses: set[int]) -> None:
        """The next call packs its frozen inputs anew if any lies at one of the addresses."""
        with self._lock:
            if any(address in addresses for address, _ in self._stamps):
                self._stamps = []


class _Misfit(Exception):
    """These arguments are not those that the graph was compiled for."""


def refresh(addresses: set[int]) -> None:
    for graph in list(_with_frozen):
        graph.forget_stamps(addresses)


def _stamp(t: torch.Tensor) -> tuple[int, int]:
    return t.data_ptr(), -1 if t.is_inference() else t._version


def _fit(t: Any, sizes: tuple[int, ...], strides: tuple[int, ...]) -> torch.Tensor:
    """The tensor, or a copy of it that lies as the program says: its memory may not be as it was when traced."""
    if not isinstance(t, torch.Tensor) or t.shape != sizes:
        raise _Misfit("an argument has another shape")
    if t.is_neg() or t.is_conj():
        t = t.resolve_conj().resolve_neg()
    if t.stride() != strides and t.numel() != 0:
        if any(a != b and n > 1 for a, b, n in zip(t.stride(), strides, sizes, strict=True)):
            return _copy(t, sizes, strides)
        t = t.as_strided(sizes, strides)  # strides of dimensions of one element mean nothing
    return _copy(t, sizes, strides) if t.data_ptr() % _ALIGNMENT else t


def _copy(t: torch.Tensor, sizes: tuple[int, ...], strides: tuple[int, ...]) -> torch.Tensor:
    # Dimensions that repeat one element are copied once.
    once = tuple(1 if stride == 0 else size for size, stride in zip(sizes, strides, strict=True))
    copy = torch.empty_strided(once, strides, dtype=t.dtype)
    for d, (size, small) in enumerate(zip(sizes, once, strict=True)):
        if size != small:
            t = t.narrow(d, 0, 1)
    return copy.copy_(t).as_strided(sizes, strides)


def _layout_function(built: BuiltProgram) -> Callable[..., tuple[int, ...]]:
    """All sizes of the boundary as one function of the symbols, in the order in which _make_layout takes them."""
    texts: list[str] = []
    for message in built.proto.inputs:
        value = built.proto.values[message.value]
        if value.HasField("tensor"):
            texts += [*value.tensor.sizes, *value.tensor.strides]
    for t in built.outputs:
        texts += [*t.sizes, *t.strides]
    for result in built.results:
        texts += _result_texts(result)
    return evaluator(texts, list(built.symbols))


def _result_texts(result: Result) -> list[str]:
    if result.kind == "size":
        return [result.size]
    if result.kind == "view":
        return [*result.sizes, *result.strides, result.offset]
    return []


def _maker(result: Result, take: Callable[[Sequence[str]], tuple[int, ...]]) -> Callable[..., Any]:
    """How a result is made of (arguments, arguments as they were passed, outputs)."""
    index = result.index
    if result.kind == "none":
        return lambda given, fitted, outputs: None
    if result.kind == "size":
        (size,) = take([result.size])
        return lambda given, fitted, outputs: size
    if result.kind == "argument":
        return lambda given, fitted, outputs: given[index]
    if result.kind == "output":
        return lambda given, fitted, outputs: outputs[index]
    sizes, strides, (offset,) = take(result.sizes), take(result.strides), take([result.offset])
    assert result.base is not None
    under = result.base.index
    if result.base.kind == "argument":
        return lambda given, fitted, outputs: fitted[under].as_strided(
            sizes, strides, fitted[under].storage_offset() + offset
        )
    return lambda given, fitted, outputs: outputs[under].as_strided(sizes, strides, offset)
