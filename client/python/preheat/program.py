"""An FX graph of functional ATen, as AOTAutograd makes it, as a Program message.

What is left out of the program is done here, without a kernel: outputs that are inputs, views of inputs or of other
outputs, and sizes.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from preheat import aten, collectives, strided_memory
from preheat._proto import program_pb2 as pb
from preheat.built_program import BuiltProgram, Overwritten, Result, Source
from preheat.errors import Unsupported
from preheat.program_arguments import Arguments
from preheat.program_results import Results
from preheat.program_values import Values

MAX_CONSTANT_BYTES = 4096

# Random states of attention on a GPU are uint64, which Preheat carries as int64 and computes nothing with. The handlers
# of extern calls give them back their type: client/torch/extern_handler.cc, extern.py.
_CARRIES_STATE = ("aten._flash_attention_", "aten._scaled_dot_product_flash_attention")


def build(
    gm: fx.GraphModule,
    kinds: Sequence[pb.Input.Kind] = (),
    frozen: bool = False,
    input_names: Sequence[str] = (),
    overwritten: Overwritten | None = None,
) -> BuiltProgram:
    """The program of a graph whose nodes have `meta["val"]`. `kinds`: one an argument; the rest are user inputs.

    Raises Unsupported with the reason when the graph has something that programs cannot say.
    """
    writer = Writer(gm, kinds, frozen, input_names)
    placeholders = [n for n in gm.graph.nodes if n.op == "placeholder"]
    writer.values.declare_sizes_of(placeholders)
    for i, node in enumerate(placeholders):
        writer.placeholder(i, node)
    returned: list[Any] = []
    for node in gm.graph.nodes:
        if node.op == "get_attr":
            writer.attribute(node)
        elif node.op == "call_function":
            writer.call(node)
        elif node.op == "output":
            returned = list(node.args[0]) if isinstance(node.args[0], (tuple, list)) else [node.args[0]]
        elif node.op != "placeholder":
            raise Unsupported(f"node {node.name} is a {node.op}")
    arguments = {n: i for i, n in enumerate(placeholders)}
    results = Results(writer.values, arguments, overwritten or Overwritten()).of(returned)
    return writer.built(results)


class Writer:
    """Writes the nodes of a graph into a program one by one. `values` has the numbers of what they give."""

    def __init__(
        self,
        gm: fx.GraphModule,
        kinds: Sequence[pb.Input.Kind] = (),
        frozen: bool = False,
        input_names: Sequence[str] = (),
    ) -> None:
        self.gm, self.kinds, self.frozen, self.input_names = gm, kinds, frozen, input_names
        self.proto = pb.Program(format=1)
        self.device = _device_of(gm)
        self.values = Values(self.proto, self.device)
        self.inputs: list[Source] = []
        self.groups: list[str] = []
        self._arguments = Arguments(self.values)
        self._locations: dict[tuple[str, str], int] = {}

    def placeholder(self, index: int, node: fx.Node) -> None:
        value = node.meta.get("val")
        if isinstance(value, torch.SymInt):
            if value.node.expr in self.values.symbols.names:  # others are computed from these
                self._input(
                    self.values.add_size(node.name, self.values.symbols.text(value)), Source(argument=index), node.name
                )
            return
        if value is None or isinstance(value, (int, float, bool)):
            return
        if not isinstance(value, torch.Tensor):
            raise Unsupported(f"argument {node.name} is a {type(value).__name__}")
        self.values.of[node] = self.values.add(node.name, value)
        kind = self.kinds[index] if index < len(self.kinds) else pb.Input.USER
        name = self.input_names[index] if index < len(self.input_names) else node.name
        self._input(self.values.of[node], Source(argument=index), name, kind)

    def _input(self, value: int, source: Source, name: str, kind: pb.Input.Kind = pb.Input.USER) -> None:
        self.proto.inputs.add(value=value, kind=kind, frozen=self.frozen and kind != pb.Input.USER)
        self.proto.debug_info.input_names.append(name)
        self.inputs.append(source)

    def attribute(self, node: fx.Node) -> None:
        held: Any = self.gm
        for part in str(node.target).split("."):
            held = getattr(held, part)
        if isinstance(held, fx.GraphModule):
            return  # an operand of a higher-order operator, which is refused where it stands
        if not isinstance(held, torch.Tensor) or type(held).__name__ == "FakeTensor":
            raise Unsupported(f"the graph holds {node.target}, a {type(held).__name__}")
        held = held.detach().resolve_conj().resolve_neg()
        large = held.numel() * held.element_size() > MAX_CONSTANT_BYTES
        if not large:
            held = held.contiguous().cpu()
        else:
            held = held.to(self.device)
            held = held.clone() if held.data_ptr() % 16 else held  # runs do not look at it again
        self.values.of[node] = value = self.values.add(node.name, held)
        if large:
            self._input(value, Source(constant=held), str(node.target), pb.Input.CONSTANT)
            return
        data = held.view(-1).view(torch.uint8).numpy().tobytes() if held.numel() else b""
        self.proto.constants.add(value=value, data=data)

    def call(self, node: fx.Node) -> None:
        target, value = node.target, node.meta.get("val")
        if isinstance(value, (int, float, bool, torch.SymInt, torch.SymFloat, torch.SymBool)):
            return  # sizes are expressions wherever they are used
        if target is operator.getitem and node.args[0] in self.values.parts:
            self.values.of[node] = self.values.parts[node.args[0]][node.args[1]]  # type: ignore[index]
            return
        if not isinstance(target, torch._ops.OpOverload):
            raise Unsupported(f"{aten.describe(target)} is no plain operator")
        name = aten.op_name(target)
        if aten.is_assertion(node):
            return
        if name == "aten.lift_fresh_copy.default" and node.args[0] in self.values.of:
            self.values.of[node] = self.values.of[node.args[0]]  # type: ignore[index]
            return
        if target._schema.is_mutable:
            raise Unsupported(f"{name} writes into its operands")
        if self.values.states and not name.startswith(_CARRIES_STATE) and any(map(aten.is_state, node.all_input_nodes)):
            raise Unsupported(f"{name} computes with torch.uint64")
        message = pb.Node(op=name, debug_id=self._location(node, name))
        strided = strided_memory.addresses_memory(name)
        arguments_of = strided_memory.whole_memory if strided else aten.given_arguments
        for formal, given, keyword in arguments_of(target, node):
            argument = message.arguments.add(name=formal.name, keyword=keyword)
            if collectives.is_group(formal.name) and isinstance(given, str):
                given = self._group(given)
            self._arguments.write(argument, given, formal.type, name)
        self._results(node, message, value)
        if self.values.states and not name.startswith(_CARRIES_STATE) and aten.is_state(node):
            raise Unsupported(f"{name} gives a torch.uint64")
        self.proto.nodes.append(message)

    def _group(self, name: str) -> str:
        if name not in self.groups:
            self.groups.append(name)
        return f"group:{self.groups.index(name)}"

    def _results(self, node: fx.Node, message: pb.Node, value: Any) -> None:
        if isinstance(value, torch.Tensor):
            self.values.of[node] = self.values.add(node.name, value)
            message.results.append(self.values.of[node])
            return
        if not isinstance(value, (tuple, list)):
            raise Unsupported(f"{message.op} gives a {type(value).__name__}")
        returns = node.target._schema.returns  # type: ignore[union-attr]
        message.result_is_list = len(returns) == 1
        self.values.parts[node] = []
        for i, part in enumerate(value):
            if part is not None and not isinstance(part, (torch.Tensor, int, torch.SymInt)):
                raise Unsupported(f"{message.op} gives a {type(part).__name__}")
            # A size among the results is an expression wherever it is used.
            taken = isinstance(part, torch.Tensor)
            self.values.parts[node].append(self.values.add(f"{node.name}.{i}", part) if taken else -1)
        message.results.extend(self.values.parts[node])

    def _location(self, node: fx.Node, name: str) -> int:
        stack = str(node.meta.get("stack_trace") or "")[-1000:]
        key = (name, stack)
        if key not in self._locations:
            self._locations[key] = len(self._locations)
            self.proto.debug_info.locations.add(op=name, name=node.name, stack=stack)
        return self._locations[key]

    def built(self, results: list[Result]) -> BuiltProgram:
        types = [self.proto.values[o.value].tensor for o in self.proto.outputs]
        sources = self.values.symbol_sources
        return BuiltProgram(self.proto, self.inputs, sources, results, types, self.groups, self.device)


def _device_of(gm: fx.GraphModule) -> torch.device:
    """Where the graph computes. Scalars on the CPU beside tensors on a GPU are brought to it."""
    found: set[torch.device] = set()
    for node in gm.graph.nodes:
        value = node.meta.get("val")
        found.update(v.device for v in (value if isinstance(value, (tuple, list)) else (value,))
                     if isinstance(v, torch.Tensor))  # fmt: skip
    devices = [d for d in found if d.type != "cpu"]
    if not devices:
        return torch.device("cpu")
    if len(devices) > 1:
        raise Unsupported(f"the graph computes on {', '.join(sorted(map(str, devices)))}: one device a graph")
    if devices[0].type != "cuda":
        raise Unsupported(f"tensors on {devices[0].type} are not served")
    for node in gm.graph.nodes:
        value = node.meta.get("val")
        if node.op == "placeholder" and isinstance(value, torch.Tensor) and value.device.type == "cpu" and value.dim():
            raise Unsupported(f"argument {node.name} is on the CPU, the graph computes on {devices[0]}")
    return devices[0]
