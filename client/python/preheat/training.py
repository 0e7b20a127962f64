"""A forward and a backward graph, joined by libpreheat_torch instead of AOTAutograd's Python.

AOTAutograd makes a `torch.autograd.Function` of each pair of graphs, whose forward and backward are Python: 60
microseconds a step, more than the kernels of a small graph. What it does there is the same for most graphs: save some
results, make a node, call the other graph. For those, a node in C++ does it. Around a graph for inference it does
nothing in most cases: that one is called at once. Anything unusual stays with AOTAutograd: results that alias
arguments, writes to arguments with a gradient, sizes that change, subclasses, random state, compiled autograd.
"""

from __future__ import annotations

import contextvars
import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd import forward_ad

from preheat import extern, native
from preheat.built_program import Result
from preheat.compiled_graph import CompiledGraph
from preheat.fast_call import FastCall


@dataclass
class Signature:
    """What AOTAutograd says of a forward graph's results."""

    updated: list[int]  # arguments that the first results are written to
    differentiable: list[bool]  # one a returned result
    checked: int  # saved results whose later changes torch must notice: the first ones


def signature() -> Signature | None:
    """Of the forward or inference graph that is being compiled; None when it has something unusual."""
    tracing = torch._guards.TracingContext.try_get()
    meta = getattr(tracing, "fw_metadata", None)
    if meta is None or torch._dynamo.config.compiled_autograd:
        return None
    unusual = (
        meta.num_outputs_aliased, meta.num_intermediate_bases, meta.num_unsafe_view_outputs, len(meta.tokens),
        meta.is_rng_op_functionalized, meta.num_graphsafe_rng_states, meta.num_symints_saved_for_bw,
        meta.num_opaque_objects_saved_for_bw, meta.dynamic_outputs, meta.num_backward_tokens,
        meta.dynamic_saved_tensors_idxs, meta.indices_of_inputs_that_requires_grad_with_mutations_in_bw,
        meta.num_mutated_graph_handled_indices,
    )  # fmt: skip
    if any(unusual) or not all(issubclass(o.raw_type, torch.Tensor) for o in meta.output_info):
        return None
    if any(type(m).__name__ != "PlainTensorMeta" for m in [*meta.subclass_inp_meta, *meta.subclass_fw_graph_out_meta]):
        return None
    updated = list(meta.mutated_inp_runtime_indices)
    for info in (meta.input_info[i] for i in updated):
        if not info.mutates_data or info.mutates_metadata or info.mutates_storage_metadata or info.requires_grad:
            return None
    unchecked = meta.num_tensors_saved_with_no_vc_check or 0
    return Signature(updated, [o.requires_grad for o in meta.output_info], -unchecked)


# --- Graphs of one compilation ---

_graphs: contextvars.ContextVar[list[tuple[str, Any]] | None] = contextvars.ContextVar("preheat_graphs", default=None)


@contextmanager
def collected() -> Iterator[list[tuple[str, Any]]]:
    """The graphs that `note` is told of within it."""
    graphs: list[tuple[str, Any]] = []
    token = _graphs.set(graphs)
    try:
        yield graphs
    finally:
        _graphs.reset(token)


def note(kind: str, run: Any) -> None:
    if (graphs := _graphs.get()) is not None:
        graphs.append((kind, run))


def joined(aot: Callable[..., Any], graphs: list[tuple[str, Any]]) -> Callable[..., Any]:
    """AOTAutograd's function, with a short cut where one can be had."""
    kinds = [kind for kind, _ in graphs]
    if kinds == ["inference"] and isinstance(graphs[0][1], CompiledGraph):
        return _shortened(aot, graphs[0][1])
    if kinds not in (["forward", "backward"], ["backward", "forward"]):
        return aot
    by_kind = dict(graphs)
    forward, backward = by_kind["forward"], by_kind["backward"]
    if not isinstance(forward, CompiledGraph) or not isinstance(backward, CompiledGraph):
        return aot
    if forward.signature is None or not forward.is_static or not backward.is_static:
        return aot
    return _join(aot, forward, backward)


def _shortened(aot: Callable[..., Any], graph: CompiledGraph) -> Callable[..., Any]:
    if graph.signature is None or graph.signature.updated or not graph.is_static or not graph.is_plain:
        return aot
    fast: FastCall | None = None

    def run(*args: Any) -> Any:
        nonlocal fast
        if fast is None:
            fast = graph.fast_call()
        elif _nothing_watches():
            try:
                if (results := fast(list(args))) is not None:
                    return results
            except Exception:  # the other way meets it again, and says so
                return aot(*args)
        return aot(*args)

    return _untraced(run)


def _nothing_watches() -> bool:
    """Neither torch's profiler, which wants a name, nor tangents, which want torch's own operators."""
    return not torch.autograd.profiler._is_profiler_enabled and forward_ad._current_level < 0


def _join(aot: Callable[..., Any], forward: CompiledGraph, backward: CompiledGraph) -> Callable[..., Any]:
    native: list[_Native] = []
    tries = 8  # calls until both graphs have run once

    def run(*args: Any) -> Any:
        nonlocal tries
        if native and _nothing_watches():
            results = native[0](list(args))
            if results is not None:
                return results
        elif tries and (step := _Native.of(forward, backward)) is not None:
            native.append(step)
        elif tries:
            tries -= 1
        return aot(*args)

    return _untraced(run)


def _untraced(run: Callable[..., Any]) -> Callable[..., Any]:
    """Dynamo looks into nothing that is called from here on. A wrapper for that costs 2 microseconds a call."""
    try:
        from torch._dynamo.eval_frame import set_code_exec_strategy
        from torch._dynamo.types import FrameAction, FrameExecStrategy

        set_code_exec_strategy(run.__code__, FrameExecStrategy(FrameAction.SKIP, FrameAction.SKIP))
        return run
    except (ImportError, TypeError):
        return torch.compiler.disable(run)


# --- As libpreheat_torch has it ---


class _Result(ctypes.Structure):
    _fields_ = [
        ("kind", ctypes.c_int32), ("view", ctypes.c_int32), ("index", ctypes.c_int64), ("rank", ctypes.c_int64),
        ("sizes", ctypes.c_void_p), ("strides", ctypes.c_void_p), ("offset", ctypes.c_int64),
    ]  # fmt: skip


class _Training(ctypes.Structure):
    _fields_ = [
        ("forward", ctypes.c_void_p), ("backward", ctypes.c_void_p), ("results", ctypes.POINTER(_Result)),
        ("updated", ctypes.POINTER(ctypes.c_int64)), ("num_updated", ctypes.c_size_t),
        ("num_returned", ctypes.c_size_t), ("num_saved", ctypes.c_size_t), ("num_checked", ctypes.c_size_t),
        ("differentiable", ctypes.POINTER(ctypes.c_int32)), ("gradients", ctypes.POINTER(_Result)),
        ("num_arguments", ctypes.c_size_t), ("owner", ctypes.py_object),
    ]  # fmt: skip


class _Tables:
    """What a training step points to; each node of autograd's holds a reference."""

    def __init__(self) -> None:
        self.alive: list[Any] = []

    def numbers(self, values: list[int]) -> int:
        array = (ctypes.c_int64 * max(len(values), 1))(*values)
        self.alive.append(array)
        return ctypes.addressof(array)

    def results(self, results: list[Result]) -> Any | None:
        """None when one of them is neither a tensor nor nothing."""
        table = (_Result * max(len(results), 1))()
        for slot, result in zip(table, results, strict=False):
            base = result.base if result.kind == "view" else result
            if base is None or base.kind not in ("none", "output", "argument"):
                return None
            slot.kind, slot.index = ("none", "output", "argument").index(base.kind), base.index
            if result.kind == "view":
                sizes, strides = [int(n) for n in result.sizes], [int(n) for n in result.strides]
                slot.view, slot.rank, slot.offset = 1, len(sizes), int(result.offset)
                slot.sizes, slot.strides = self.numbers(sizes), self.numbers(strides)
        self.alive.append(table)
        return table


class _Native:
    def __init__(self, step: Any, tables: _Tables) -> None:
        lib = extern.native_library()
        assert lib is not None
        self._train, self._take, self._tables, self._step = (
            lib.preheat_torch_train,
            lib.preheat_torch_take_status,
            tables,
            step,
        )
        self._address = ctypes.addressof(step)

    @staticmethod
    def of(forward: CompiledGraph, backward: CompiledGraph) -> _Native | None:
        """None as long as one of the graphs has not run, and when there is no such step."""
        first, second, described = forward.fast_call(), backward.fast_call(), forward.signature
        if first is None or second is None or described is None or extern.native_library() is None:
            return None
        tables = _Tables()
        results, gradients = tables.results(forward.built.results), tables.results(backward.built.results)
        if results is None or gradients is None:
            return None
        updated, returned = len(described.updated), len(described.differentiable)
        saved = len(forward.built.results) - updated - returned
        step = _Training(
            first.address, second.address, results, (ctypes.c_int64 * max(updated, 1))(*described.updated), updated,
            returned, saved, saved + described.checked,
            (ctypes.c_int32 * max(returned, 1))(*described.differentiable), gradients,
            len(backward.built.results), tables,
        )  # fmt: skip
        tables.alive += [first, second, step]
        return _Native(step, tables)

    def __call__(self, args: list[Any]) -> list[torch.Tensor] | None:
        """The results, or None when an argument is otherwise: then nothing has run, or nobody has seen it."""
        results = self._train(self._address, args)
        if results is None and (status := self._take()):
            native.library().preheat_status_free(status)  # AOTAutograd's way will meet it again, and says so
        return results
