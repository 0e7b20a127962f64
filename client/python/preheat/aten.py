"""What programs need to know of torch's operators and of the nodes that call them."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx

# Run-time checks of what guards already promise; they compute nothing.
_ASSERTIONS = {
    "aten._assert_scalar.default",
    "aten.sym_constrain_range.default",
    "aten.sym_constrain_range_for_size.default",
}

_VIEWS = {
    "aten.view.default", "aten._unsafe_view.default", "aten.permute.default", "aten.transpose.int", "aten.t.default",
    "aten.expand.default", "aten.slice.Tensor", "aten.select.int", "aten.unsqueeze.default", "aten.squeeze.default",
    "aten.squeeze.dim", "aten.squeeze.dims", "aten.alias.default", "aten.detach.default", "aten.diagonal.default",
    "aten.unfold.default", "aten.split.Tensor", "aten.split_with_sizes.default", "aten.unbind.int",
    "aten._reshape_alias.default", "aten.as_strided.default",
}  # fmt: skip


def op_name(target: Any) -> str:
    return str(target)  # an OpOverload prints as "aten.add.Tensor"


def describe(target: Any) -> str:
    return getattr(target, "__name__", None) or str(target)


def is_view(op: str) -> bool:
    return op in _VIEWS


def is_assertion(node: fx.Node) -> bool:
    """A check at run time of what guards promise, which no program has."""
    return op_name(node.target) in _ASSERTIONS


def is_state(node: fx.Node) -> bool:
    """Does the node give a uint64?"""
    value = node.meta.get("val")
    return any(
        isinstance(v, torch.Tensor) and v.dtype == torch.uint64
        for v in (value if isinstance(value, (tuple, list)) else (value,))
    )


def given_arguments(target: torch._ops.OpOverload, node: fx.Node) -> list[tuple[Any, Any, bool]]:
    """Formal parameters that the node gives, in the schema's order: (formal, value, keyword only)."""
    out = []
    for i, formal in enumerate(target._schema.arguments):
        if i < len(node.args):
            out.append((formal, node.args[i], False))
        elif formal.name in node.kwargs:
            out.append((formal, node.kwargs[formal.name], bool(formal.kwarg_only)))
    return out


def owner_of_memory(node: fx.Node) -> fx.Node:
    """The node whose memory this one is a view of, as far as that is certain."""
    while True:
        source = node.args[0] if node.op == "call_function" and node.target is operator.getitem else node
        if not (isinstance(source, fx.Node) and source.op == "call_function" and is_view(op_name(source.target))):
            return node
        base = source.args[0]
        if not isinstance(base, fx.Node) or base.meta["val"].dtype != node.meta["val"].dtype:
            return node
        node = base
