"""A training graph's parts, forward and backward: torch's min-cut partitioner behind our own common subexpressions.

torch's elimination loads Inductor's lowerings to ask them which operators write, three quarters of a second of every
first training call. Ours takes that from the operators' schemas. It also keeps 0.0 and -0.0 apart, which compare equal.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx
from torch.utils._pytree import tree_leaves


def partition(joint: fx.GraphModule, inputs: Any, **options: Any) -> tuple[fx.GraphModule, fx.GraphModule]:
    """What AOTAutograd wants of a partitioner: the forward and the backward module of a joint one, which is changed."""
    from functorch.compile import min_cut_rematerialization_partition
    from torch._functorch import config

    eliminate_common_subexpressions(joint.graph)
    with config.patch(cse=False):
        return min_cut_rematerialization_partition(joint, inputs, **options)


def eliminate_common_subexpressions(graph: fx.Graph) -> int:
    """Makes one of the nodes that compute the same from the same, and counts those that went.

    Kept apart: what is random or has no defined contents, what an operator that writes stands between, what shares its
    memory with a result (eager's results are tensors of their own), and what checkpointing treats differently.
    """
    results = _storages(graph.output_node().all_input_nodes)
    first: dict[Any, fx.Node] = {}
    writes = removed = 0
    for node in list(graph.nodes):
        writes += _writes(node)
        if not _may_merge(node) or not results.isdisjoint(_storages([node])):
            continue
        tags = (node.meta.get("recompute"), node.meta.get("ac_graph_id"))
        try:
            key = (node.target, _key(node.args), _key(node.kwargs), tags, writes)
            same = first.setdefault(key, node)
        except TypeError:  # an argument that cannot be hashed
            continue
        if same is not node:
            node.replace_all_uses_with(same)
            graph.erase_node(node)
            removed += 1
    return removed


def _writes(node: fx.Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable


def _may_merge(node: fx.Node) -> bool:
    if node.op != "call_function" or not _is_known(node.meta.get("val")):
        return False
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return getattr(target, "__module__", "") == operator.getitem.__module__  # getitem, arithmetic of sizes
    if target.namespace not in ("aten", "prims") or _writes(node):
        return False
    undefined = target.overloadpacket.__name__.startswith(("empty", "new_empty"))
    return not undefined and torch.Tag.nondeterministic_seeded not in target.tags


def _is_known(value: Any) -> bool:
    """Tensors, lists of them, and sizes that inputs decide: one that data decides is a new symbol at each node."""
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

        return not free_unbacked_symbols(value)
    if isinstance(value, (list, tuple)):
        return all(_is_known(v) for v in value)
    return isinstance(value, torch.Tensor)


def _storages(nodes: list[fx.Node]) -> set[int]:
    found = set()
    for value in tree_leaves([node.meta.get("val") for node in nodes]):
        if isinstance(value, torch.Tensor):
            try:
                found.add(value.untyped_storage()._cdata)
            except NotImplementedError:  # a sparse tensor's, say: it has none of its own
                continue
    return found


def _key(argument: Any) -> Any:
    """Equal for arguments that are the same: 1 is not 1.0, and 0.0 is not -0.0."""
    if isinstance(argument, (list, tuple)):
        return (list, *map(_key, argument))
    if isinstance(argument, dict):
        return (dict, *((name, _key(value)) for name, value in sorted(argument.items())))
    if isinstance(argument, slice):
        return (slice, _key(argument.start), _key(argument.stop), _key(argument.step))
    if isinstance(argument, (float, complex)):
        return (type(argument), repr(argument))
    return (type(argument), argument)
