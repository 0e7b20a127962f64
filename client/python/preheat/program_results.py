"""The results of a call: outputs of its program, and what is made of them and of arguments without a kernel."""

from __future__ import annotations

import collections
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import fx

from preheat import aten
from preheat.built_program import Overwritten, Result
from preheat.errors import Unsupported
from preheat.program_values import Values


class Results:
    """Adds outputs to a program. `arguments`: the number of each placeholder."""

    def __init__(self, values: Values, arguments: Mapping[fx.Node, int], overwritten: Overwritten) -> None:
        self.values, self.arguments, self.overwritten = values, arguments, overwritten
        self.outputs: dict[int, int] = {}  # value -> output number

    def of(self, nodes: Sequence[Any]) -> list[Result]:
        """What the call gives, by the nodes of the graph's output."""
        # Memory that eager's results share is one output, of which they are views; so are results that repeat elements,
        # and those that are the whole of a value that the graph computes with: it is not copied for them.
        tensors = {n for n in nodes if isinstance(n, fx.Node) and isinstance(n.meta.get("val"), torch.Tensor)}
        roots = collections.Counter(aten.owner_of_memory(n) for n in tensors)
        for node in nodes:
            if node in tensors and (root := aten.owner_of_memory(node)) not in self.arguments:
                if root is node or roots[root] > 1 or _overlaps(node.meta["val"]) or _is_all_of_read(node, root):
                    self._output(root)
        return [self._copy_of(n) if self._is_overwritten(i, n) else self._result(n) for i, n in enumerate(nodes)]

    def _is_overwritten(self, number: int, node: Any) -> bool:
        if number < self.overwritten.first or not isinstance(node, fx.Node) or node not in self.values.of:
            return False
        return self.arguments.get(aten.owner_of_memory(node), -1) in self.overwritten.arguments

    def _copy_of(self, node: fx.Node) -> Result:
        return Result("output", index=self._output(node), dtype=node.meta["val"].dtype)

    def _result(self, node: Any) -> Result:
        if node is None:
            return Result("none")
        if isinstance(node, int):
            return Result("size", size=str(node))
        value = node.meta.get("val")
        if isinstance(value, (int, torch.SymInt)):
            return Result("size", size=self.values.symbols.text(value))
        if value is None:
            return Result("none")
        if not isinstance(value, torch.Tensor):
            raise Unsupported(f"result {node.name} is a {type(value).__name__}")
        if node in self.arguments:
            return Result("argument", index=self.arguments[node], dtype=value.dtype)
        root = aten.owner_of_memory(node)
        if value.device.type != self.values.device.type:
            raise Unsupported(
                f"result {node.name} is on {value.device.type}, the graph runs on {self.values.device.type}"
            )
        if root is not node and (root in self.arguments or self.values.of.get(root) in self.outputs):
            return self._view(node, root)
        return Result("output", index=self._output(node), dtype=value.dtype)

    def _output(self, node: fx.Node) -> int:
        value = self.values.of[node]
        if value not in self.outputs:
            self.outputs[value] = len(self.values.proto.outputs)
            self.values.proto.outputs.add(value=value)
            self.values.proto.debug_info.output_names.append(node.name)
        return self.outputs[value]

    def _view(self, node: fx.Node, root: fx.Node) -> Result:
        seen, base = node.meta["val"], root.meta["val"]
        under = (
            Result("argument", self.arguments[root]) if root in self.arguments else Result("output", self._output(root))
        )
        offset = seen.storage_offset() - base.storage_offset()
        text = self.values.symbols.text
        return Result("view", base=under, sizes=[text(s) for s in seen.shape], strides=[text(s) for s in seen.stride()],
                      offset=text(offset), dtype=seen.dtype)  # fmt: skip


def _overlaps(value: torch.Tensor) -> bool:
    """Several elements of it lie at one address: no memory to write a result into."""
    return any(isinstance(stride, int) and stride == 0 and not (isinstance(size, int) and size <= 1)
               for size, stride in zip(value.shape, value.stride(), strict=True))  # fmt: skip


def _is_all_of_read(view: fx.Node, root: fx.Node) -> bool:
    """Whether a view has every element of its root, known to be as many, and an operator reads that."""
    counts = [view.meta["val"].numel(), root.meta["val"].numel()]
    return all(isinstance(n, int) for n in counts) and counts[0] == counts[1] and _is_read(root)


def _is_read(node: fx.Node) -> bool:
    """Whether an operator computes with the node or with a view of it."""
    users = [user for user in node.users if user.op != "output"]
    return any(
        user.op != "call_function" or not aten.is_view(aten.op_name(user.target)) or _is_read(user) for user in users
    )
