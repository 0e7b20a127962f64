"""preheat.export: a torch.export archive that keeps the names of dimensions, or a bundle of what training submits."""

from __future__ import annotations

import inspect
import json
import os
import pathlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from preheat import program, recorder
from preheat._proto import program_pb2
from preheat.errors import Unsupported

# In an archive's extra files; compiler/capture/export_archive.h says what the reader expects.
DIMS_FILE = "preheat/dims.json"

# {"x": {0: "batch"}}: by the name of a parameter of forward, then axis; containers hold the same structure.
Dynamic = Mapping[str, Any]


def export(
    model: torch.nn.Module,
    args: tuple[Any, ...],
    path: str | os.PathLike[str],
    *,
    kwargs: Mapping[str, Any] | None = None,
    dynamic: Dynamic | None = None,
    train: bool = False,
) -> None:
    """Writes what `compilectl` compiles. The ending of `path` decides:

    .pt2      a torch.export archive with weights and sample inputs. Equal names in `dynamic` are one dimension.
    .preheat  the programs that torch.compile(model, backend="preheat") would submit for these arguments, without
              weights: inference, or with `train` forward and backward. Warmed, they spare a job every compile.
    """
    target, kwargs, dynamic = pathlib.Path(path), dict(kwargs or {}), dict(dynamic or {})
    named = _named(model, args, kwargs)
    unknown = sorted(set(dynamic) - set(named))
    if unknown:
        raise ValueError(f"forward has no argument {', '.join(unknown)}; it is called with {', '.join(named)}")
    if target.suffix == ".pt2":
        if train:
            raise ValueError("a .pt2 archive holds no backward graph: write a .preheat bundle to train")
        _write_archive(model, args, kwargs, dynamic, named, target)
    elif target.suffix == ".preheat":
        _write_bundle(model, args, kwargs, dynamic, named, target, train)
    else:
        raise ValueError(f"{target} must end in .pt2 or .preheat")


def _named(model: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    bound = inspect.signature(model.forward).bind(*args, **kwargs)
    return dict(bound.arguments)


# --- .pt2 ---


def _write_archive(
    model: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    dynamic: Dynamic,
    named: dict[str, Any],
    target: pathlib.Path,
) -> None:
    dims: dict[str, Any] = {}
    shapes = {
        name: _map_axes(dynamic.get(name), lambda dim: dims.setdefault(dim, torch.export.Dim(dim))) for name in named
    }
    exported = torch.export.export(model, args, kwargs, dynamic_shapes=shapes if dynamic else None)
    names = _dim_names(exported, dynamic, named)
    torch.export.save(exported, str(target), extra_files={DIMS_FILE: json.dumps(names, sort_keys=True)})


def _map_axes(spec: Any, make: Callable[[str], Any]) -> Any:
    """The same structure with names of dimensions replaced; what is no name stays."""
    if isinstance(spec, str):
        return make(spec)
    if isinstance(spec, Mapping):
        return {key: _map_axes(value, make) for key, value in spec.items()}
    if isinstance(spec, (list, tuple)):
        return type(spec)(_map_axes(value, make) for value in spec)
    return spec


def _dim_names(exported: torch.export.ExportedProgram, dynamic: Dynamic, named: dict[str, Any]) -> dict[str, str]:
    """{"x.0": "batch"}, by the names that the exported graph gives its inputs."""
    inputs = iter(exported.graph_signature.user_inputs)
    names: dict[str, str] = {}
    for argument, value in named.items():
        for leaf, spec in _leaves(value, dynamic.get(argument)):
            placeholder = next(inputs)
            if isinstance(leaf, torch.Tensor):
                names.update({f"{placeholder}.{axis}": dim for axis, dim in _axes(spec) if isinstance(dim, str)})
    return names


def _leaves(value: Any, spec: Any) -> Iterator[tuple[Any, Any]]:
    """Leaves of an argument in torch's order, each with its part of the specification."""
    if isinstance(value, Mapping):
        for key in value:
            yield from _leaves(value[key], spec.get(key) if isinstance(spec, Mapping) else None)
    elif isinstance(value, (list, tuple)):
        for i, element in enumerate(value):
            yield from _leaves(element, spec[i] if isinstance(spec, (list, tuple)) else None)
    else:
        yield value, spec


def _axes(spec: Any) -> Iterator[tuple[int, Any]]:
    if isinstance(spec, Mapping):
        yield from spec.items()
    elif isinstance(spec, (list, tuple)):
        yield from ((axis, dim) for axis, dim in enumerate(spec) if dim is not None)


# --- .preheat ---


def _write_bundle(
    model: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    dynamic: Dynamic,
    named: dict[str, Any],
    target: pathlib.Path,
    train: bool,
) -> None:
    for argument, value in named.items():
        for leaf, spec in _leaves(value, dynamic.get(argument)):
            if isinstance(leaf, torch.Tensor):
                for axis, _ in _axes(spec):
                    torch._dynamo.mark_dynamic(leaf, axis)
    programs = _capture(model, args, kwargs, train)
    target.write_bytes(recorder.bundle(programs))


def _capture(
    model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], train: bool
) -> list[tuple[str, str, program_pb2.Program]]:
    """The programs of one step, in the order in which they would be submitted; the step itself runs eagerly."""
    from preheat import backend

    programs: list[tuple[str, str, program_pb2.Program]] = []
    refused: list[str] = []

    def submit(kind: str, built: program.BuiltProgram) -> None:
        programs.append((f"{kind}-{len(programs)}", kind, built.proto))

    torch._dynamo.reset()
    compiled = torch.compile(model, backend=backend.capturing(submit, refused.append))
    try:
        _step(compiled, args, kwargs, train)
    finally:
        torch._dynamo.reset()
    if refused:
        raise Unsupported(f"no program can be made of a graph: {refused[0]}")
    return programs


def _step(model: Any, args: tuple[Any, ...], kwargs: dict[str, Any], train: bool) -> None:
    if not train:
        with torch.no_grad():
            model(*args, **kwargs)
        return
    state = [(p, p.grad) for p in model.parameters()]
    outputs = torch.utils._pytree.tree_leaves(model(*args, **kwargs))
    losses = [o.sum() for o in outputs if isinstance(o, torch.Tensor) and o.requires_grad]
    if losses:
        torch.autograd.backward(losses)
    for p, grad in state:
        p.grad = grad
