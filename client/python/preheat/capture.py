"""The programs that a job would submit, caught without a server: what preheat.export puts into a bundle."""

from __future__ import annotations

import contextlib
import inspect
import itertools
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils import _pytree as pytree

from preheat import recorder
from preheat._proto import program_pb2
from preheat.built_program import BuiltProgram
from preheat.errors import Unsupported

# {"x": {0: "batch"}}: by the name of a parameter of forward, then axis; containers hold the same structure.
Dynamic = Mapping[str, Any]
Captured = list[tuple[str, program_pb2.Program]]  # kind, program

_DDP_BUCKET_BYTES = 25 << 20  # DistributedDataParallel's default
_DDP_FIRST_BUCKET_BYTES = 1 << 20


def bundle(
    model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic: Dynamic, train: bool
) -> bytes:
    """Every program of every variant, equal ones once, as the bytes of a .preheat file."""
    call = _Call(model, args, kwargs, dynamic)
    programs: dict[str, tuple[str, str, program_pb2.Program]] = {}
    splits = (False, True) if train and _is_split_by_ddp(model) else (False,)
    for variant, split in itertools.product(call.variants(), splits):
        with _split_as_by_ddp() if split else contextlib.nullcontext():
            captured = _capture(model, *call.arguments(variant), train)
        for kind, proto in captured:
            for symbol, place in list(proto.debug_info.dim_names.items()):
                proto.debug_info.dim_names[symbol] = call.dim_names.get(place, place)
            programs.setdefault(recorder.content(proto), (f"{kind}-{len(programs)}", kind, proto))
    return recorder.bundle(list(programs.values()))


# --- Variants of the arguments ---


@dataclass
class _Variant:
    """Sizes that differ from the given ones, by the name of the dimension; and the dimensions that are ranges."""

    sizes: dict[str, int] = field(default_factory=dict)
    ranges: frozenset[str] = frozenset()


class _Call:
    """One call of the model, as its guards may come to see it."""

    def __init__(self, model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic: Dynamic) -> None:
        self._args, self._kwargs = args, kwargs
        self._dims: dict[int, list[tuple[int, str]]] = {}  # id of a tensor -> (axis, name)
        self._least: dict[str, int] = {}
        self.dim_names: dict[str, str] = {}  # "x.0" -> "batch"
        for argument, value in arguments_by_name(model, args, kwargs).items():
            for leaf, spec in leaves(value, dynamic.get(argument)):
                if isinstance(leaf, torch.Tensor):
                    for axis, dim in axes(spec):
                        self._add(leaf, axis, _dim_name(dim, f"{argument}.{axis}"), f"{argument}.{axis}")

    def _add(self, t: torch.Tensor, axis: int, name: str, place: str) -> None:
        self._dims.setdefault(id(t), []).append((axis, name))
        self._least[name] = min(t.shape[axis], self._least.get(name, t.shape[axis]))
        self.dim_names[place] = name

    def variants(self) -> Iterator[_Variant]:
        """As given, which a job sees first; as ranges; and each one as 1, which torch has in no range."""
        yield _Variant()
        names = frozenset(self._least)
        grown = {name: 2 for name, size in self._least.items() if size < 2}
        if names:
            yield _Variant(grown, names)
        for name in sorted(names):
            yield _Variant({**grown, name: 1}, names - {name})

    def arguments(self, variant: _Variant) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Copies, so that neither marks nor writes reach the caller's tensors. One tensor passed twice stays one."""
        copies: dict[int, torch.Tensor] = {}

        def copy(t: torch.Tensor) -> torch.Tensor:
            if id(t) not in copies:
                copies[id(t)] = self._copy(t, variant)
            return copies[id(t)]

        return pytree.tree_map_only(torch.Tensor, copy, (self._args, self._kwargs))

    def _copy(self, t: torch.Tensor, variant: _Variant) -> torch.Tensor:
        out = t.detach().clone()
        for axis, name in self._dims.get(id(t), ()):
            if name in variant.sizes:
                wanted = torch.arange(variant.sizes[name], device=t.device) % max(t.shape[axis], 1)
                out = out.index_select(axis, wanted)
        out.requires_grad_(t.requires_grad)
        for axis, name in self._dims.get(id(t), ()):
            if name in variant.ranges:
                torch._dynamo.mark_dynamic(out, axis)
        return out


def _dim_name(dim: Any, place: str) -> str:
    return dim if isinstance(dim, str) else getattr(dim, "__name__", place)


def arguments_by_name(model: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    return dict(inspect.signature(model.forward).bind(*args, **kwargs).arguments)


def leaves(value: Any, spec: Any) -> Iterator[tuple[Any, Any]]:
    """Leaves of an argument in torch's order, each with its part of the specification."""
    if isinstance(value, Mapping):
        for key in value:
            yield from leaves(value[key], spec.get(key) if isinstance(spec, Mapping) else None)
    elif isinstance(value, (list, tuple)):
        for i, element in enumerate(value):
            yield from leaves(element, spec[i] if isinstance(spec, (list, tuple)) else None)
    else:
        yield value, spec


def axes(spec: Any) -> Iterator[tuple[int, Any]]:
    if isinstance(spec, Mapping):
        yield from spec.items()
    elif isinstance(spec, (list, tuple)):
        yield from ((axis, dim) for axis, dim in enumerate(spec) if dim is not None)


# --- One step, caught ---


def _capture(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], train: bool) -> Captured:
    """The programs of one step, in the order in which they would be submitted; the step itself runs eagerly."""
    from preheat import backend

    programs: Captured = []
    refused: list[str] = []

    def submit(kind: str, built: BuiltProgram) -> None:
        programs.append((kind, built.proto))

    torch._dynamo.reset()
    compiled = torch.compile(model, backend=backend.capturing(submit, refused.append))
    try:
        with _unchanged(model):
            _step(compiled, args, kwargs, train)
    finally:
        torch._dynamo.reset()
    if refused:
        raise Unsupported(f"no program can be made of a graph: {refused[0]}")
    return programs


def _step(model: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], train: bool) -> None:
    with torch.set_grad_enabled(train):
        outputs = pytree.tree_leaves(model(*args, **kwargs))
    losses = [o.sum() for o in outputs if isinstance(o, torch.Tensor) and o.requires_grad]
    if train and losses:
        torch.autograd.backward(losses)


@contextlib.contextmanager
def _unchanged(model: torch.nn.Module) -> Iterator[None]:
    """Gradients, buffers and the random generator are afterwards what they were."""
    gradients = [(p, p.grad) for p in model.parameters()]
    buffers = [(b, b.detach().clone()) for b in model.buffers()]
    with torch.random.fork_rng(devices=[]):
        for p, _ in gradients:
            p.grad = None
        try:
            yield
        finally:
            for p, grad in gradients:
                p.grad = grad
            with torch.no_grad():
                for b, before in buffers:
                    b.copy_(before)


# --- DistributedDataParallel ---


def _is_split_by_ddp(model: torch.nn.Module) -> bool:
    """Whether Dynamo cuts its graph where DistributedDataParallel's buckets of gradients end."""
    trained = sum(p.numel() * p.element_size() for p in model.parameters() if p.requires_grad)
    return torch.distributed.is_available() and trained > _DDP_FIRST_BUCKET_BYTES


@contextlib.contextmanager
def _split_as_by_ddp() -> Iterator[None]:
    """Dynamo takes models for parts of a DistributedDataParallel, of which it reads the size of buckets and no more."""
    ddp = torch.nn.parallel.DistributedDataParallel
    before = ddp._active_ddp_module
    ddp._active_ddp_module = types.SimpleNamespace(bucket_bytes_cap=_DDP_BUCKET_BYTES)  # type: ignore[assignment]
    try:
        yield
    finally:
        ddp._active_ddp_module = before
