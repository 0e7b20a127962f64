"""preheat.export: a torch.export archive that keeps the names of dimensions, or a bundle of what training submits."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import torch

from preheat import capture

# In an archive's extra files; compiler/capture/export_archive.h says what the reader expects.
DIMS_FILE = "preheat/dims.json"


def export(
    model: torch.nn.Module,
    args: tuple[Any, ...],
    path: str | os.PathLike[str],
    *,
    kwargs: Mapping[str, Any] | None = None,
    dynamic: capture.Dynamic | None = None,
    train: bool = False,
) -> None:
    """Writes what `compilectl` compiles. The ending of `path` decides:

    .pt2      a torch.export archive with weights and sample inputs. Equal names in `dynamic` are one dimension.
    .preheat  the programs that torch.compile(model, backend="preheat") would submit for these arguments, without
              weights: inference, or with `train` forward and backward, by itself and under DistributedDataParallel.
              Sizes in `dynamic` are taken as given, as a range and as 1, which torch compiles apart. Warmed, they spare
              a job every compile.
    """
    target, kwargs, dynamic = pathlib.Path(path), dict(kwargs or {}), dict(dynamic or {})
    named = capture.arguments_by_name(model, args, kwargs)
    unknown = sorted(set(dynamic) - set(named))
    if unknown:
        raise ValueError(f"forward has no argument {', '.join(unknown)}; it is called with {', '.join(named)}")
    if target.suffix == ".pt2":
        if train:
            raise ValueError("a .pt2 archive holds no backward graph: write a .preheat bundle to train")
        _write_archive(model, args, kwargs, dynamic, named, target)
    elif target.suffix == ".preheat":
        target.write_bytes(capture.bundle(model, args, kwargs, dynamic, train))
    else:
        raise ValueError(f"{target} must end in .pt2 or .preheat")


# --- .pt2 ---


def _write_archive(
    model: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    dynamic: capture.Dynamic,
    named: dict[str, Any],
    target: pathlib.Path,
) -> None:
    dims: dict[str, Any] = {}
    shapes = {
        name: _map_axes(dynamic.get(name), lambda dim: dims.setdefault(dim, torch.export.Dim(dim))) for name in named
    }
    exported = torch.export.export(model, args, kwargs, dynamic_shapes=shapes if dynamic else None)
    if _casts(exported):
        exported = exported.run_decompositions({})  # traced again: autocast's casts become operators
    names = _dim_names(exported, dynamic, named)
    torch.export.save(exported, str(target), extra_files={DIMS_FILE: json.dumps(names, sort_keys=True)})


def _casts(exported: torch.export.ExportedProgram) -> bool:
    """Whether a part of it runs under autocast, which archives keep as a region with a rule instead of as operators."""
    graphs = (m for m in exported.graph_module.modules() if isinstance(m, torch.fx.GraphModule))
    return any(node.target is torch.ops.higher_order.wrap_with_autocast for m in graphs for node in m.graph.nodes)


def _map_axes(spec: Any, make: Callable[[str], Any]) -> Any:
    """The same structure with names of dimensions replaced; what is no name stays."""
    if isinstance(spec, str):
        return make(spec)
    if isinstance(spec, Mapping):
        return {key: _map_axes(value, make) for key, value in spec.items()}
    if isinstance(spec, (list, tuple)):
        return type(spec)(_map_axes(value, make) for value in spec)
    return spec


def _dim_names(
    exported: torch.export.ExportedProgram, dynamic: capture.Dynamic, named: dict[str, Any]
) -> dict[str, str]:
    """{"x.0": "batch"}, by the names that the exported graph gives its inputs."""
    inputs = iter(exported.graph_signature.user_inputs)
    names: dict[str, str] = {}
    for argument, value in named.items():
        for leaf, spec in capture.leaves(value, dynamic.get(argument)):
            placeholder = next(inputs)
            if isinstance(leaf, torch.Tensor):
                names.update({f"{placeholder}.{axis}": dim for axis, dim in capture.axes(spec) if isinstance(dim, str)})
    return names
