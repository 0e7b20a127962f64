"""Collectives of torch.distributed in compiled graphs: extern calls that overlap with what does not need their result.

Programs name process groups group:0, group:1, ... in order of first appearance, so that all ranks, whose groups have
names of their own, share one key. The names are given back to torch at each call.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

_NAMESPACE = "_c10d_functional"
_WAIT = torch.ops._c10d_functional.wait_tensor.default
_COPIES_ITS_INPUT = ("all_reduce", "broadcast")  # before the call returns; the others read it until they are waited for


def is_group(argument_name: str) -> bool:
    """Whether an operator's argument of this name is the name of a process group."""
    return argument_name == "group_name"


def settle(graph: fx.Graph) -> None:
    """Has each collective's result waited for before anything else takes it, and as late as its first use.

    Collectives themselves stay in their order, which all ranks must share.
    """
    collectives = [n for n in graph.nodes if _is_collective(n)]
    if not collectives:
        return
    for node in collectives:
        parts = [node] if isinstance(node.meta.get("val"), torch.Tensor) else list(node.users)
        for part in parts:
            _wait_before_use(graph, part)
    late = {n for n in graph.nodes if _is_wait(n)}
    for node in graph.nodes:  # views of a late value come as late
        if node.op == "call_function" and _is_view(node) and node.args and node.args[0] in late:
            late.add(node)
    for node in reversed(list(graph.nodes)):
        if node in late and node.users:
            min(node.users).prepend(node)


def _is_collective(node: fx.Node) -> bool:
    target = node.target
    return isinstance(target, torch._ops.OpOverload) and target.namespace == _NAMESPACE and target is not _WAIT


def _is_wait(node: fx.Node) -> bool:
    return node.target is _WAIT


def _is_view(node: fx.Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and node.target.is_view


def _wait_before_use(graph: fx.Graph, node: fx.Node) -> None:
    users = [u for u in node.users if not _is_wait(u)]
    if users or not node.users:
        with graph.inserting_after(node):
            wait = graph.call_function(_WAIT, (node,))
        wait.meta = dict(node.meta)
        for user in users:
            user.replace_input_with(node, wait)


class Context:
    """What one session's extern calls need beside their text: names of its groups, and results under way."""

    def __init__(self, groups: Sequence[str]) -> None:
        self.groups = list(groups)
        self.number = next(_numbers)
        self._under_way: dict[int, torch.Tensor] = {}  # by the address where the program wants the result
        _contexts[self.number] = self

    def group(self, name: str) -> str:
        return self.groups[int(name.partition(":")[2])]

    def run(self, op: torch._ops.OpOverload, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """Calls the operator; a collective is only started, unless it is the one that waits."""
        if op is _WAIT:
            return op(self._under_way.pop(args[0].data_ptr(), args[0]))
        if op.namespace == _NAMESPACE and op._schema.name.partition("::")[2] not in _COPIES_ITS_INPUT:
            # The runtime may give the input's memory to a later step before the collective has read it.
            args = torch.utils._pytree.tree_map_only(torch.Tensor, torch.clone, args)
        return op(*args, **kwargs)

    def keep(self, op: torch._ops.OpOverload, address: int, result: torch.Tensor) -> bool:
        """Whether the result is only under way: wait_tensor of what lies at the address will hand it over."""
        if op.namespace != _NAMESPACE or op is _WAIT:
            return False
        self._under_way[address] = result
        return True


_numbers = itertools.count(1)
_contexts: weakref.WeakValueDictionary[int, Context] = weakref.WeakValueDictionary()
find_context: Callable[[int], Context | None] = _contexts.get
