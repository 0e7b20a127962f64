"""What of a graph has no form in a program."""

from __future__ import annotations

import operator

import torch
from torch import fx

from preheat.errors import Unsupported
from preheat.program import Writer
from preheat.program_values import Values


def refused_nodes(gm: fx.GraphModule) -> dict[fx.Node, str]:
    """The nodes that programs cannot say, and why. The others can be said where what these give is an argument."""
    writer = Writer(gm)
    refused: dict[fx.Node, str] = {}
    opaque: set[fx.Node] = set()  # of the refused ones: those whose results have no form either
    placeholders = [n for n in gm.graph.nodes if n.op == "placeholder"]
    writer.values.declare_sizes_of(placeholders)
    for node in gm.graph.nodes:
        if node.op == "output":
            continue
        try:
            if unsaid := [n.name for n in node.all_input_nodes if n in opaque]:
                raise Unsupported(f"it takes {unsaid[0]}")
            _write(writer, node, refused)
        except (Unsupported, KeyError, AttributeError) as reason:
            refused[node] = str(reason)
            if not _comes_from_outside(writer.values, node):
                opaque.add(node)
    return refused


def _write(writer: Writer, node: fx.Node, refused: dict[fx.Node, str]) -> None:
    if node.op == "placeholder":
        writer.placeholder(0, node)
    elif node.op == "get_attr":
        if isinstance(operator.attrgetter(str(node.target))(writer.gm), fx.GraphModule):
            raise Unsupported(f"{node.target} is a graph")
        writer.attribute(node)
    elif node.target is operator.getitem and node.args[0] in refused:
        raise Unsupported("a part of what has no form")
    else:
        value = node.meta.get("val")
        if isinstance(value, (torch.SymFloat, torch.SymBool)):
            raise Unsupported("a number known only while the program runs")
        if isinstance(value, torch.SymInt):
            writer.values.symbols.text(value)
        writer.call(node)


def _comes_from_outside(values: Values, node: fx.Node) -> bool:
    """Takes what a refused node gives for an argument; whether that is possible."""
    value = node.meta.get("val")
    try:
        if isinstance(value, torch.Tensor):
            for size in value.shape:
                values.declare(size, -1, -1)
            values.of[node] = values.add(node.name, value)
        elif isinstance(value, torch.SymInt):
            values.declare(value, -1, -1)
            values.symbols.text(value)
        else:
            # Parts are looked at one by one; sizes as floats and truths are nobody's argument.
            return isinstance(value, (tuple, list))
    except (Unsupported, AttributeError):
        return False
    return True
