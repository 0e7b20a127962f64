"""What Dynamo and AOTAutograd know of a graph's arguments."""

from __future__ import annotations

import collections
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from preheat._proto import program_pb2
from preheat.built_program import Overwritten


class Boundary:
    """What Dynamo knows of the arguments: which are parameters or buffers, and what the source calls them."""

    def __init__(self, gm: fx.GraphModule, example_inputs: Sequence[Any]) -> None:
        self.kinds: list[program_pb2.Input.Kind] = []
        self.names: list[str] = []
        self.operators = collections.Counter(_spelling(n) for n in gm.graph.nodes if n.op.startswith("call_"))
        placeholders = [n for n in gm.graph.nodes if n.op == "placeholder"]
        for node, example in zip(placeholders, example_inputs, strict=False):
            source = getattr(node.meta.get("grapharg"), "source", None)
            name = getattr(source, "name", None)
            self.names.append(str((name() if callable(name) else name) or node.name))
            self.kinds.append(_kind(example, self.names[-1]))

    def of(self, gm: fx.GraphModule) -> tuple[list[program_pb2.Input.Kind], list[str]]:
        """Kinds and names of an AOTAutograd graph's placeholders."""
        kinds, names = [], []
        for node in gm.graph.nodes:
            if node.op == "placeholder":
                index = _dynamo_index(node)
                known = index is not None and index < len(self.kinds)
                kinds.append(self.kinds[index] if known else program_pb2.Input.USER)  # type: ignore[index]
                names.append(self.names[index] if known else node.name)  # type: ignore[index]
        return kinds, names


def _kind(example: Any, name: str) -> program_pb2.Input.Kind:
    if isinstance(example, torch.nn.Parameter):
        return program_pb2.Input.PARAMETER
    return program_pb2.Input.BUFFER if "._buffers[" in name else program_pb2.Input.USER


def _spelling(node: fx.Node) -> str:
    """A node of Dynamo's graph, before it is one of ATen: "getattr.T", "tanh"."""
    name = getattr(node.target, "__name__", None) or str(node.target)
    return f"getattr.{node.args[1]}" if node.target is getattr else name


def takes_arguments_as_they_are(gm: fx.GraphModule) -> bool:
    """Whether an AOTAutograd graph has the arguments of Dynamo's graph, in order: none joined, none made of others."""
    placeholders = [n for n in gm.graph.nodes if n.op == "placeholder"]
    return [_dynamo_index(n) for n in placeholders] == list(range(len(placeholders)))


def overwritten_arguments(gm: fx.GraphModule) -> Overwritten | None:
    """What torch writes to once a forward graph has run. The graph's last results are kept for backward, where an
    argument must be what it was: eager has computed with it, where the graph may leave that to backward."""
    tracing = torch._guards.TracingContext.try_get()
    meta = getattr(tracing, "fw_metadata", None)
    if meta is None or not meta.mutated_inp_runtime_indices:
        return None
    written, found = set(meta.mutated_inp_runtime_indices), set()
    for i, node in enumerate(n for n in gm.graph.nodes if n.op == "placeholder"):
        desc = node.meta.get("desc")
        while hasattr(desc, "base"):  # a part of a tensor subclass
            desc = desc.base
        if getattr(desc, "idx", None) in written:
            found.add(i)
    return Overwritten(meta.num_forward, frozenset(found))


def _dynamo_index(node: fx.Node) -> int | None:
    """The argument of Dynamo's graph that this placeholder is, when it is one as it stands."""
    desc = node.meta.get("desc")
    if type(desc).__name__ == "PlainAOTInput":
        return desc.idx
    return None
