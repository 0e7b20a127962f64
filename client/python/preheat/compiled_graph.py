"""A graph that the service compiled, as torch calls it."""

from __future__ import annotations

import array
import ctypes
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd import forward_ad

from preheat import dtypes, frozen, runtime
from preheat.built_program import BuiltProgram, Result, Source
from preheat.expressions import evaluator
from preheat.fast_call import FastCall

_ALIGNMENT = 16  # bytes, what programs promise of their inputs
_MAX_LAYOUTS = 64


@dataclass
class _Layout:
    """Everything that depends on the sizes of one call."""

    symbols: Any  # array of int64, in the executable's order
    symbols_at: int  # its address
    inputs: list[tuple[int, tuple[int, ...], tuple[int, ...]]]  # argument, sizes, strides
    outputs: list[tuple[tuple[int, ...], tuple[int, ...], torch.dtype]]
    results: list[Callable[[list[Any], list[Any], list[torch.Tensor]], Any]]
    addresses: Callable[[list[Any]], array.array[int] | None]  # of what is not frozen; None: something must be fitted
    checked: bool = False  # the runtime has checked one call of it
    fast: FastCall | None = None  # from then on


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
        self._device = built.device
        self.built, self._executable, self._eager, self._on_fallback = built, executable, eager, on_fallback
        self._layouts: dict[tuple[int, ...], _Layout] = {}
        self._symbol_sources = list(built.symbols.values())
        self._evaluate = _layout_function(built)
        self._frozen = [i for i, info in enumerate(executable.inputs) if info.frozen]
        self._thawed = [i for i, info in enumerate(executable.inputs) if not info.frozen]
        self.signature: Any = None  # training.Signature, of a forward or inference graph
        self.is_static = not built.symbols and not self._frozen and not built.groups
        outputs = [("output", i) for i in range(len(built.outputs))]
        self.is_plain = [(r.kind, r.index) for r in built.results] == outputs  # the results are the program's outputs
        self._lock = threading.Lock()
        self._session = None if self._frozen else executable.bind(groups=built.groups)
        self._watch = frozen.Watch()

    def __call__(self, args: list[Any]) -> list[Any]:
        given = list(args)
        args.clear()
        if forward_ad._current_level >= 0 and any(map(_has_tangent, given)):
            return self._eager(given)  # whose operators know how tangents go on
        try:
            if torch.autograd.profiler._is_profiler_enabled:
                with torch.profiler.record_function(self.name):
                    return self._run_on_device(given)
            return self._run_on_device(given)
        except Exception as error:
            if self.built.groups and not isinstance(error, _Misfit):
                raise  # collectives that the other ranks have seen cannot be had twice
            # Programs write into nothing that eager would read, so the graph may run again: either eager fails as
            # well, and says so in its own words, or the failure is ours.
            results = self._eager(given)
            self._on_fallback(f"{type(error).__name__.lstrip('_')}: {error}")
            return results

    def fast_call(self) -> FastCall | None:
        """Of a static graph, once it has run."""
        layout = self._layouts.get(())
        return layout.fast if layout is not None and self.is_static else None

    def _run_on_device(self, given: list[Any]) -> list[Any]:
        if self._device.type != "cuda" or torch.cuda.current_device() == self._device.index:
            return self._run(given)
        with torch.cuda.device(self._device):
            return self._run(given)

    def _run(self, given: list[Any]) -> list[Any]:
        layout = self._layout(given)
        if layout.fast is not None and (not self._frozen or self._watch.seen is not None):
            made = layout.fast(given)
            if made is not None:
                return made if self.is_plain else [make(given, given, made) for make in layout.results]
        session = self._session if not self._frozen else self._bound(given, layout)
        outputs = _new_outputs(layout, self._device)
        addresses = layout.addresses(given) if layout.checked and self._device.type == "cpu" else None
        if addresses is not None:  # every argument lies as the program says
            session.run_at(layout.symbols_at, addresses, outputs)
            return [make(given, given, outputs) for make in layout.results]
        fitted = _fit_all(given, layout, self._device)
        passed = [self._input(fitted, i) for i in self._thawed]
        if layout.checked:
            session.run_unchecked(layout.symbols, passed, outputs)
        else:
            session.run_into(passed, outputs)
            layout.checked = True
            layout.fast = self._fast_call(session, layout)
        return [make(given, fitted, outputs) for make in layout.results]

    def _fast_call(self, session: runtime.Session, layout: _Layout) -> FastCall:
        shapes = {argument: (sizes, strides) for argument, sizes, strides in layout.inputs}
        inputs: list[Any] = []
        for i in self._thawed:
            source, value = self.built.inputs[i], self.built.proto.values[self.built.proto.inputs[i].value]
            if source.constant is not None:
                inputs.append(source.constant)
            elif value.HasField("tensor"):
                dtype = dtypes.from_number(value.tensor.dtype - 1)
                inputs.append((source.argument, dtype, *shapes[source.argument]))
            else:
                inputs.append(None)
        arguments = [self.built.inputs[i].argument for i in self._frozen]
        watched = [(a, seen) for a, seen in zip(arguments, self._watch.seen or (), strict=False) if a >= 0]
        return FastCall(session, layout.symbols, inputs, layout.outputs, self._device, watched)

    def _input(self, arguments: list[Any], index: int) -> Any:
        """What the program's input of that number is in a call with these arguments."""
        source = self.built.inputs[index]
        return arguments[source.argument] if source.constant is None else source.constant

    # --- Sizes ---

    def _layout(self, given: list[Any]) -> _Layout:
        values = tuple([given[i] if d < 0 else given[i].shape[d] for i, d in self._symbol_sources])
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
        built = self.built
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
        symbols = (ctypes.c_int64 * max(len(ordered), 1))(*ordered)
        shapes = {argument: (sizes, strides) for argument, sizes, strides in inputs}
        addresses = _address_function([built.inputs[i] for i in self._thawed], shapes)
        return _Layout(symbols, ctypes.addressof(symbols), inputs, outputs, results, addresses)

    # --- Frozen inputs ---

    def _bound(self, given: list[Any], layout: _Layout) -> runtime.Session:
        """The session with the frozen inputs as they are now, which are packed anew when they have changed."""
        watched = [self._input(given, i) for i in self._frozen]
        with self._lock:
            if self._watch.changed(watched):
                fitted = _fit_all(given, layout, self._device)
                now = [self._input(fitted, i) for i in self._frozen]
                if self._session is None:
                    self._session = self._executable.bind(now, self.built.groups)
                else:
                    self._session.refresh(now)
                self._watch.look(watched)
                for known in self._layouts.values():  # what they know of frozen inputs is of before
                    known.checked, known.fast = False, None
        return self._session  # type: ignore[return-value]


def _has_tangent(t: Any) -> bool:
    return isinstance(t, torch.Tensor) and forward_ad.unpack_dual(t).tangent is not None


class _Misfit(Exception):
    """These arguments are not those that the graph was compiled for."""


def _new_outputs(layout: _Layout, device: torch.device) -> list[torch.Tensor]:
    """Memory of torch's own at each call: a result stays what it is when the graph runs again."""
    if device.type != "cpu":
        return [torch.empty_strided(n, s, dtype=dtype, device=device) for n, s, dtype in layout.outputs]
    return [_empty(sizes, strides, dtype) for sizes, strides, dtype in layout.outputs]


def _empty_strided(sizes: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    return torch.empty_strided(sizes, strides, dtype=dtype)


# Torch's own short cut, a third of the time of the other, where this torch has it.
_empty = getattr(torch._C._dynamo.guards, "_empty_strided_cpu", _empty_strided)


def _address_function(
    sources: Sequence[Source], shapes: dict[int, tuple[tuple[int, ...], tuple[int, ...]]]
) -> Callable[[list[Any]], array.array[int] | None]:
    """The addresses of a call's tensors in the order of `sources`, or None when one does not lie as its shape says.

    Straight-line code: this runs in each call, for each of hundreds of parameters.
    """
    values: dict[str, Any] = {"array": array.array}
    lines, checks, addresses = [], [], []
    for n, source in enumerate(sources):
        if source.constant is not None:
            addresses.append(str(source.constant.data_ptr()))
        elif source.argument not in shapes:  # a size, which the symbols carry
            addresses.append("0")
        else:
            values[f"n{n}"], values[f"s{n}"] = shapes[source.argument]
            lines += [f"t = given[{source.argument}]", f"a{n} = t.data_ptr()"]
            lazy = " or t.is_neg() or t.is_conj()"
            lines += [f"if t.shape != n{n} or t.stride() != s{n}{lazy}: return None"]
            checks.append(f"a{n}")
            addresses.append(f"a{n}")
    if checks:
        lines.append(f"if ({' | '.join(checks)}) & {_ALIGNMENT - 1}: return None")
    lines.append(f"return array('Q', ({''.join(a + ', ' for a in addresses)}))")
    exec("def function(given):\n" + "".join(f"    {line}\n" for line in lines), values)
    return values["function"]


def _fit_all(given: list[Any], layout: _Layout, device: torch.device) -> list[Any]:
    fitted = list(given)
    for index, sizes, strides in layout.inputs:
        fitted[index] = _fit(given[index], sizes, strides, device)
    return fitted


def _fit(t: Any, sizes: tuple[int, ...], strides: tuple[int, ...], device: torch.device) -> torch.Tensor:
    """The tensor, or a copy of it that lies as the program says: its memory may not be as it was when traced."""
    if not isinstance(t, torch.Tensor) or t.shape != sizes:
        raise _Misfit("an argument has another shape")
    t = _plain(t)
    if t.device != device:  # a scalar of the CPU's
        t = t.to(device, non_blocking=True)
    if t.stride() != strides and t.numel() != 0:
        if any(a != b and n > 1 for a, b, n in zip(t.stride(), strides, sizes, strict=True)):
            return _copy(t, sizes, strides)
        t = t.as_strided(sizes, strides)  # strides of dimensions of one element mean nothing
    return _copy(t, sizes, strides) if t.data_ptr() % _ALIGNMENT else t


def _plain(t: torch.Tensor) -> torch.Tensor:
    """With its elements in memory as they are: torch negates and conjugates lazily, by a bit of the tensor."""
    return t.resolve_conj().resolve_neg() if t.is_neg() or t.is_conj() else t


def _copy(t: torch.Tensor, sizes: tuple[int, ...], strides: tuple[int, ...]) -> torch.Tensor:
    # Dimensions that repeat one element are copied once.
    once = tuple(1 if stride == 0 else size for size, stride in zip(sizes, strides, strict=True))
    copy = torch.empty_strided(once, strides, dtype=t.dtype, device=t.device)
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
