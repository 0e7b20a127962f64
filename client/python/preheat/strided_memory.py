"""Operators that address memory by strides: as_strided and its kin."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from preheat import aten
from preheat.errors import Unsupported

_STRIDED = {"aten.as_strided.default", "aten.as_strided_copy.default", "aten.as_strided_scatter.default"}


def addresses_memory(op: str) -> bool:
    return op in _STRIDED


def whole_memory(target: torch._ops.OpOverload, node: fx.Node) -> list[tuple[Any, Any, bool]]:
    """Arguments of an operator that addresses memory: of the tensor that owns it, from that tensor's first element.

    An argument may be a view of memory that the program never sees: only its own elements can be addressed.
    """
    given = {formal.name: value for formal, value, _ in aten.given_arguments(target, node)}
    view = given["self"]
    root = aten.owner_of_memory(view)
    seen, base = view.meta["val"], root.meta["val"]
    value = lambda a: a.meta["val"] if isinstance(a, fx.Node) else a  # noqa: E731
    start = value(given.get("storage_offset"))
    offset = (seen.storage_offset() if start is None else start) - base.storage_offset()
    sizes = seen.shape if "size" not in given else [value(n) for n in given["size"]]
    end = offset + sum((n - 1) * stride for n, stride in zip(sizes, map(value, given["stride"]), strict=True))
    extent = sum((n - 1) * stride for n, stride in zip(base.shape, base.stride(), strict=True))
    known = all(isinstance(n, int) for n in (offset, end, extent))
    if known and 0 not in sizes and not 0 <= offset <= end <= extent:
        raise Unsupported(f"{aten.op_name(target)} addresses memory outside of its operand")
    given |= {"self": root, "storage_offset": offset}
    if root is not view and "src" in given:
        raise Unsupported(f"{aten.op_name(target)} of a view")  # its result would have the other tensor's shape
    return [(f, given[f.name], bool(f.kwarg_only)) for f in target._schema.arguments if f.name in given]
