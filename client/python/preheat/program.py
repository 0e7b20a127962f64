"""An FX graph of functional ATen, as AOTAutograd makes it, as a Program message, and how to call what comes back.

What is left out of the program is done here, without a kernel: outputs that are inputs, views of inputs or of other
outputs, and sizes.
"""

from __future__ import annotations

import collections
import operator
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

from preheat import collectives, dtypes
from preheat._proto import program_pb2 as pb
from preheat.errors import Unsupported
from preheat.expressions import Symbols

MAX_CONSTANT_BYTES = 4096
_SIZE = re.compile(r"L\['(\w+)'\]\.size\(\)\[(\d+)\]")  # what Dynamo calls a size of an argument

# Run-time checks of what guards already promise; they compute nothing.
_ASSERTIONS = {
    "aten._assert_scalar.default",
    "aten.sym_constrain_range.default",
    "aten.sym_constrain_range_for_size.default",
}

_STRIDED = {"aten.as_strided.default", "aten.as_strided_copy.default", "aten.as_strided_scatter.default"}

_VIEWS = {
    "aten.view.default", "aten._unsafe_view.default", "aten.permute.default", "aten.transpose.int", "aten.t.default",
    "aten.expand.default", "aten.slice.Tensor", "aten.select.int", "aten.unsqueeze.default", "aten.squeeze.default",
    "aten.squeeze.dim", "aten.squeeze.dims", "aten.alias.default", "aten.detach.default", "aten.diagonal.default",
    "aten.unfold.default", "aten.split.Tensor", "aten.split_with_sizes.default", "aten.unbind.int",
    "aten._reshape_alias.default", "aten.as_strided.default",
}  # fmt: skip


# Random states of attention on a GPU are uint64, which Preheat carries as int64 and computes nothing with. The handlers
# of extern calls give them back their type: client/torch/extern_handler.cc, extern.py.
_CARRIES_STATE = ("aten._flash_attention_", "aten._scaled_dot_product_flash_attention")


@dataclass
class Source:
    """Where an input of the program comes from: an argument of the call, or a tensor that the graph holds."""

    argument: int = -1
    constant: torch.Tensor | None = None


@dataclass
class Result:
    """One result of the call. `kind`: "none", "size", "argument", "output" (of the program), "view" of one of these."""

    kind: str
    index: int = -1  # of the argument or of the program's output
    size: str = "0"  # kind "size": an expression
    base: Result | None = None  # kind "view"
    sizes: list[str] = field(default_factory=list)
    strides: list[str] = field(default_factory=list)
    offset: str = "0"  # elements after the base's first
    dtype: torch.dtype | None = None


@dataclass
class BuiltProgram:
    proto: pb.Program
    inputs: list[Source]
    symbols: dict[str, tuple[int, int]]  # "d0" -> (argument, dimension); dimension -1: the argument itself
    results: list[Result]
    outputs: list[pb.TensorType]  # types of the program's outputs
    groups: list[str] = field(default_factory=list)  # process groups: what "group:0", "group:1", ... stand for
    device: torch.device = torch.device("cpu")  # where it runs

    def __getstate__(self) -> dict[str, Any]:  # messages themselves do not pickle
        plain = self.__dict__ | {"proto": self.proto.SerializeToString()}
        return plain | {"outputs": [t.SerializeToString() for t in self.outputs]}

    def __setstate__(self, state: dict[str, Any]) -> None:
        proto, outputs = pb.Program.FromString(state["proto"]), [pb.TensorType.FromString(t) for t in state["outputs"]]
        self.__dict__.update(state | {"proto": proto, "outputs": outputs})


def op_name(target: Any) -> str:
    return str(target)  # an OpOverload prints as "aten.add.Tensor"


@dataclass(frozen=True)
class Overwritten:
    """Arguments that the caller writes to after the call. Results from number `first` on must not be their memory."""

    first: int = 0
    arguments: frozenset[int] = frozenset()


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
    return _Builder(gm, kinds, frozen, input_names, overwritten).build()


def refused(gm: fx.GraphModule) -> dict[fx.Node, str]:
    """The nodes that programs cannot say, and why. The others can be said where what these give is an argument."""
    return _Builder(gm, (), False, ()).probe()


def is_view(node: fx.Node) -> bool:
    return op_name(node.target) in _VIEWS


def is_assertion(node: fx.Node) -> bool:
    """A check at run time of what guards promise, which no program has."""
    return op_name(node.target) in _ASSERTIONS


class _Builder:
    def __init__(
        self,
        gm: fx.GraphModule,
        kinds: Sequence[pb.Input.Kind],
        frozen: bool,
        input_names: Sequence[str],
        overwritten: Overwritten | None = None,
    ) -> None:
        self.gm, self.kinds, self.frozen, self.input_names = gm, kinds, frozen, input_names
        self.overwritten = overwritten or Overwritten()
        self.symbols = Symbols()
        self.proto = pb.Program(format=1)
        self.values: dict[fx.Node, int] = {}
        self.parts: dict[fx.Node, list[int]] = {}  # of nodes that give several values
        self.inputs: list[Source] = []
        self.symbol_sources: dict[str, tuple[int, int]] = {}
        self.arguments: dict[fx.Node, int] = {}
        self.locations: dict[tuple[str, str], int] = {}
        self.outputs: dict[int, int] = {}  # value -> output number
        self.groups: list[str] = []
        self.states = False  # some value is a uint64
        self.device = _device_of(gm)

    def build(self) -> BuiltProgram:
        placeholders = [n for n in self.gm.graph.nodes if n.op == "placeholder"]
        self.arguments = {n: i for i, n in enumerate(placeholders)}
        self._declare_symbols(placeholders)
        for i, node in enumerate(placeholders):
            self._placeholder(i, node)
        results: list[Result] = []
        for node in self.gm.graph.nodes:
            if node.op == "get_attr":
                self._attribute(node)
            elif node.op == "call_function":
                self._call(node)
            elif node.op == "output":
                results = self._results_of_call(self._output_list(node))
            elif node.op != "placeholder":
                raise Unsupported(f"node {node.name} is a {node.op}")
        types = [self.proto.values[o.value].tensor for o in self.proto.outputs]
        return BuiltProgram(self.proto, self.inputs, self.symbol_sources, results, types, self.groups, self.device)

    # --- What has no form ---

    def probe(self) -> dict[fx.Node, str]:
        refused: dict[fx.Node, str] = {}
        opaque: set[fx.Node] = set()  # of the refused ones: those whose results have no form either
        placeholders = [n for n in self.gm.graph.nodes if n.op == "placeholder"]
        self._declare_symbols(placeholders)
        for node in self.gm.graph.nodes:
            if node.op == "output":
                continue
            try:
                if unsaid := [n.name for n in node.all_input_nodes if n in opaque]:
                    raise Unsupported(f"it takes {unsaid[0]}")
                self._probe(node, refused)
            except (Unsupported, KeyError, AttributeError) as reason:
                refused[node] = str(reason)
                if not self._comes_from_outside(node):
                    opaque.add(node)
        return refused

    def _probe(self, node: fx.Node, refused: dict[fx.Node, str]) -> None:
        if node.op == "placeholder":
            self._placeholder(len(self.kinds), node)
        elif node.op == "get_attr":
            if isinstance(operator.attrgetter(str(node.target))(self.gm), fx.GraphModule):
                raise Unsupported(f"{node.target} is a graph")
            self._attribute(node)
        elif node.target is operator.getitem and node.args[0] in refused:
            raise Unsupported("a part of what has no form")
        else:
            value = node.meta.get("val")
            if isinstance(value, (torch.SymFloat, torch.SymBool)):
                raise Unsupported("a number known only while the program runs")
            if isinstance(value, torch.SymInt):
                self.symbols.text(value)
            self._call(node)

    def _comes_from_outside(self, node: fx.Node) -> bool:
        """Takes what a refused node gives for an argument; whether that is possible."""
        value = node.meta.get("val")
        try:
            if isinstance(value, torch.Tensor):
                for size in value.shape:
                    self._declare(size, -1, -1)
                self.values[node] = self._value(node.name, value)
            elif isinstance(value, torch.SymInt):
                self._declare(value, -1, -1)
                self.symbols.text(value)
            else:
                # Parts are looked at one by one; sizes as floats and truths are nobody's argument.
                return isinstance(value, (tuple, list))
        except (Unsupported, AttributeError):
            return False
        return True

    # --- Symbols and types ---

    def _declare_symbols(self, placeholders: list[fx.Node]) -> None:
        for i, node in enumerate(placeholders):
            value = node.meta.get("val")
            if isinstance(value, torch.SymInt):
                self._declare(value, i, -1)
            elif isinstance(value, torch.Tensor):
                for d, size in enumerate(value.shape):
                    self._declare(size, i, d)

    def _declare(self, size: Any, argument: int, dim: int) -> None:
        if not isinstance(size, torch.SymInt) or not size.node.expr.is_Symbol:
            return
        expr, env = size.node.expr, size.node.shape_env
        if expr in self.symbols.names:
            return
        name = self.symbols.declare(expr)
        self.symbol_sources[name] = (argument, dim)
        if called := _name_of_size(env, expr):
            self.proto.debug_info.dim_names[name] = called
        known = env.var_to_range.get(expr)
        message = self.proto.symbols.add(name=name, min=max(_bound(known.lower if known else 0, 0), 0))
        if known is not None and (top := _bound(known.upper, None)) is not None:
            message.max = top

    def _tensor_type(self, value: torch.Tensor) -> pb.TensorType:
        number = dtypes.number(value.dtype)
        self.states |= value.dtype == torch.uint64
        if number is None:
            raise Unsupported(f"tensors of {value.dtype} have no form in Preheat")
        if value.layout != torch.strided or type(value).__name__ not in ("FakeTensor", "Tensor", "Parameter"):
            raise Unsupported(
                f"tensors of layout {value.layout} or type {type(value).__name__} have no form in Preheat"
            )
        text = self.symbols.text
        return pb.TensorType(
            dtype=number + 1, sizes=[text(s) for s in value.shape], strides=[text(s) for s in value.stride()],
            device_type=self.device.type, alignment=16,
        )  # fmt: skip

    def _value(self, name: str, value: torch.Tensor) -> int:
        self.proto.values.add(tensor=self._tensor_type(value))
        self.proto.debug_info.value_names.append(name)
        return len(self.proto.values) - 1

    def _size_value(self, name: str, text: str) -> int:
        self.proto.values.add(size=text)
        self.proto.debug_info.value_names.append(name)
        return len(self.proto.values) - 1

    # --- Boundary ---

    def _placeholder(self, index: int, node: fx.Node) -> None:
        value = node.meta.get("val")
        if isinstance(value, torch.SymInt):
            if value.node.expr in self.symbols.names:  # others are computed from these
                self._input(self._size_value(node.name, self.symbols.text(value)), Source(argument=index), node.name)
            return
        if value is None or isinstance(value, (int, float, bool)):
            return
        if not isinstance(value, torch.Tensor):
            raise Unsupported(f"argument {node.name} is a {type(value).__name__}")
        self.values[node] = self._value(node.name, value)
        kind = self.kinds[index] if index < len(self.kinds) else pb.Input.USER
        name = self.input_names[index] if index < len(self.input_names) else node.name
        self._input(self.values[node], Source(argument=index), name, kind)

    def _input(self, value: int, source: Source, name: str, kind: pb.Input.Kind = pb.Input.USER) -> None:
        self.proto.inputs.add(value=value, kind=kind, frozen=self.frozen and kind != pb.Input.USER)
        self.proto.debug_info.input_names.append(name)
        self.inputs.append(source)

    def _attribute(self, node: fx.Node) -> None:
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
        self.values[node] = value = self._value(node.name, held)
        if large:
            self._input(value, Source(constant=held), str(node.target), pb.Input.CONSTANT)
            return
        data = held.view(-1).view(torch.uint8).numpy().tobytes() if held.numel() else b""
        self.proto.constants.add(value=value, data=data)

    @staticmethod
    def _output_list(node: fx.Node) -> list[Any]:
        outputs = node.args[0]
        return list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]

    def _results_of_call(self, nodes: list[Any]) -> list[Result]:
        # Memory that eager's results share is one output, of which they are views; so are results that repeat elements.
        tensors = {n for n in nodes if isinstance(n, fx.Node) and isinstance(n.meta.get("val"), torch.Tensor)}
        roots = collections.Counter(self._root(n) for n in tensors)
        for node in nodes:
            if node in tensors and (root := self._root(node)) not in self.arguments:
                if root is node or roots[root] > 1 or _overlaps(node.meta["val"]):
                    self._output(root)
        return [self._copy_of(n) if self._is_overwritten(i, n) else self._result(n) for i, n in enumerate(nodes)]

    def _is_overwritten(self, number: int, node: Any) -> bool:
        if number < self.overwritten.first or not isinstance(node, fx.Node) or node not in self.values:
            return False
        return self.arguments.get(self._root(node), -1) in self.overwritten.arguments

    def _copy_of(self, node: fx.Node) -> Result:
        return Result("output", index=self._output(node), dtype=node.meta["val"].dtype)

    def _result(self, node: Any) -> Result:
        if node is None:
            return Result("none")
        if isinstance(node, int):
            return Result("size", size=str(node))
        value = node.meta.get("val")
        if isinstance(value, (int, torch.SymInt)):
            return Result("size", size=self.symbols.text(value))
        if value is None:
            return Result("none")
        if not isinstance(value, torch.Tensor):
            raise Unsupported(f"result {node.name} is a {type(value).__name__}")
        if node in self.arguments:
            return Result("argument", index=self.arguments[node], dtype=value.dtype)
        root = self._root(node)
        if value.device.type != self.device.type:
            raise Unsupported(f"result {node.name} is on {value.device.type}, the graph runs on {self.device.type}")
        if root is not node and (root in self.arguments or self.values.get(root) in self.outputs):
            return self._view(node, root)
        return Result("output", index=self._output(node), dtype=value.dtype)

    def _output(self, node: fx.Node) -> int:
        value = self.values[node]
        if value not in self.outputs:
            self.outputs[value] = len(self.proto.outputs)
            self.proto.outputs.add(value=value)
            self.proto.debug_info.output_names.append(node.name)
        return self.outputs[value]

    def _view(self, node: fx.Node, root: fx.Node) -> Result:
        seen, base = node.meta["val"], root.meta["val"]
        under = (
            Result("argument", self.arguments[root]) if root in self.arguments else Result("output", self._output(root))
        )
        offset = seen.storage_offset() - base.storage_offset()
        text = self.symbols.text
        return Result("view", base=under, sizes=[text(s) for s in seen.shape], strides=[text(s) for s in seen.stride()],
                      offset=text(offset), dtype=seen.dtype)  # fmt: skip

    @staticmethod
    def _root(node: fx.Node) -> fx.Node:
        """The node whose memory this one is a view of, as far as that is certain."""
        while True:
            source = node.args[0] if node.op == "call_function" and node.target is operator.getitem else node
            if not (isinstance(source, fx.Node) and source.op == "call_function" and op_name(source.target) in _VIEWS):
                return node
            base = source.args[0]
            if not isinstance(base, fx.Node) or base.meta["val"].dtype != node.meta["val"].dtype:
                return node
            node = base

    # --- Nodes ---

    def _call(self, node: fx.Node) -> None:
        target, value = node.target, node.meta.get("val")
        if isinstance(value, (int, float, bool, torch.SymInt, torch.SymFloat, torch.SymBool)):
            return  # sizes are expressions wherever they are used
        if target is operator.getitem and node.args[0] in self.parts:
            self.values[node] = self.parts[node.args[0]][node.args[1]]  # type: ignore[index]
            return
        if not isinstance(target, torch._ops.OpOverload):
            raise Unsupported(f"{_describe(target)} is no plain operator")
        name = op_name(target)
        if name in _ASSERTIONS:
            return
        if name == "aten.lift_fresh_copy.default" and node.args[0] in self.values:
            self.values[node] = self.values[node.args[0]]  # type: ignore[index]
            return
        if target._schema.is_mutable:
            raise Unsupported(f"{name} writes into its operands")
        if self.states and not name.startswith(_CARRIES_STATE) and any(map(is_state, node.all_input_nodes)):
            raise Unsupported(f"{name} computes with torch.uint64")
        message = pb.Node(op=name, debug_id=self._location(node, name))
        for formal, given, keyword in self._strided(target, node) if name in _STRIDED else _given(target, node):
            argument = message.arguments.add(name=formal.name, keyword=keyword)
            if collectives.is_group(formal.name) and isinstance(given, str):
                given = self._group(given)
            self._argument(argument, given, formal.type, name)
        self._results(node, message, value)
        if self.states and not name.startswith(_CARRIES_STATE) and is_state(node):
            raise Unsupported(f"{name} gives a torch.uint64")
        self.proto.nodes.append(message)

    def _group(self, name: str) -> str:
        if name not in self.groups:
            self.groups.append(name)
        return f"group:{self.groups.index(name)}"

    def _results(self, node: fx.Node, message: pb.Node, value: Any) -> None:
        if isinstance(value, torch.Tensor):
            self.values[node] = self._value(node.name, value)
            message.results.append(self.values[node])
            return
        if not isinstance(value, (tuple, list)):
            raise Unsupported(f"{message.op} gives a {type(value).__name__}")
        returns = node.target._schema.returns  # type: ignore[union-attr]
        message.result_is_list = len(returns) == 1
        self.parts[node] = []
        for i, part in enumerate(value):
            if part is not None and not isinstance(part, (torch.Tensor, int, torch.SymInt)):
                raise Unsupported(f"{message.op} gives a {type(part).__name__}")
            # A size among the results is an expression wherever it is used.
            taken = isinstance(part, torch.Tensor)
            self.parts[node].append(self._value(f"{node.name}.{i}", part) if taken else -1)
        message.results.extend(self.parts[node])

    def _strided(self, target: torch._ops.OpOverload, node: fx.Node) -> list[tuple[Any, Any, bool]]:
        """Arguments of an operator that addresses memory: of the tensor that owns it, from that tensor's first element.

        An argument may be a view of memory that the program never sees: only its own elements can be addressed.
        """
        given = {formal.name: value for formal, value, _ in _given(target, node)}
        view = given["self"]
        root = self._root(view)
        seen, base = view.meta["val"], root.meta["val"]
        value = lambda a: a.meta["val"] if isinstance(a, fx.Node) else a  # noqa: E731
        start = value(given.get("storage_offset"))
        offset = (seen.storage_offset() if start is None else start) - base.storage_offset()
        sizes = seen.shape if "size" not in given else [value(n) for n in given["size"]]
        end = offset + sum((n - 1) * stride for n, stride in zip(sizes, map(value, given["stride"]), strict=True))
        extent = sum((n - 1) * stride for n, stride in zip(base.shape, base.stride(), strict=True))
        known = all(isinstance(n, int) for n in (offset, end, extent))
        if known and 0 not in sizes and not 0 <= offset <= end <= extent:
            raise Unsupported(f"{op_name(target)} addresses memory outside of its operand")
        given |= {"self": root, "storage_offset": offset}
        if root is not view and "src" in given:
            raise Unsupported(f"{op_name(target)} of a view")  # its result would have the other tensor's shape
        return [(f, given[f.name], bool(f.kwarg_only)) for f in target._schema.arguments if f.name in given]

    def _location(self, node: fx.Node, name: str) -> int:
        stack = str(node.meta.get("stack_trace") or "")[-1000:]
        key = (name, stack)
        if key not in self.locations:
            self.locations[key] = len(self.locations)
            self.proto.debug_info.locations.add(op=name, name=node.name, stack=stack)
        return self.locations[key]

    # --- Arguments ---

    def _argument(self, out: pb.Argument, given: Any, formal: Any, op: str) -> None:
        kind = (
            str(formal).removeprefix("Optional[").removesuffix("]")
            if str(formal).startswith("Optional[")
            else str(formal)
        )
        if isinstance(given, fx.Node):
            value = given.meta.get("val")
            if isinstance(value, torch.Tensor):
                out.tensor = self.values[given]
                return
            given = value  # None too: what an operator gives only at times
        if given is None:
            out.none.SetInParent()
        elif isinstance(given, bool):
            out.boolean = given
        elif isinstance(given, (int, torch.SymInt)):
            if kind == "float" and isinstance(given, int):
                out.number = float(given)
            else:
                out.integer = self.symbols.text(given)
        elif isinstance(given, float):
            out.number = given
        elif isinstance(given, complex):
            out.complex_number.re, out.complex_number.im = given.real, given.imag
        elif isinstance(given, str):
            out.text = given
        elif isinstance(given, torch.dtype):
            number = dtypes.number(given)
            if number is None:
                raise Unsupported(f"{op} names {given}, which Preheat does not have")
            out.dtype = number + 1
        elif isinstance(given, torch.layout):
            out.layout = str(given).removeprefix("torch.")
        elif isinstance(given, torch.memory_format):
            out.memory_format = str(given).removeprefix("torch.")
        elif isinstance(given, torch.device):
            out.device = self.device.type
        elif isinstance(given, (tuple, list)):
            self._list(out, list(given), kind, op)
        else:
            raise Unsupported(f"{op} has an argument of type {type(given).__name__}")

    def _list(self, out: pb.Argument, given: list[Any], kind: str, op: str) -> None:
        items = [
            g.meta.get("val") if isinstance(g, fx.Node) and not isinstance(g.meta.get("val"), torch.Tensor) else g
            for g in given
        ]
        if "Tensor" in kind:
            out.tensors.SetInParent()
            for item in items:
                if item is not None and not isinstance(item, fx.Node):
                    raise Unsupported(f"{op} has a list of tensors with a {type(item).__name__} in it")
                out.tensors.values.append(-1 if item is None else self.values[item])
        elif "bool" in kind:
            out.booleans.values.extend(bool(i) for i in items)
            out.booleans.SetInParent()
        elif "float" in kind or any(isinstance(i, float) for i in items):
            if any(not isinstance(i, (int, float)) for i in items):
                raise Unsupported(f"{op} has a list of numbers known only while the program runs")
            out.numbers.values.extend(float(i) for i in items)
            out.numbers.SetInParent()
        elif all(isinstance(i, (int, torch.SymInt)) for i in items):
            out.integers.values.extend(self.symbols.text(i) for i in items)
            out.integers.SetInParent()
        else:
            raise Unsupported(f"{op} has a list of {', '.join(sorted({type(i).__name__ for i in items}))}")


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


def _given(target: torch._ops.OpOverload, node: fx.Node) -> list[tuple[Any, Any, bool]]:
    """Formal parameters that the node gives, in the schema's order: (formal, value, keyword only)."""
    out = []
    for i, formal in enumerate(target._schema.arguments):
        if i < len(node.args):
            out.append((formal, node.args[i], False))
        elif formal.name in node.kwargs:
            out.append((formal, node.kwargs[formal.name], bool(formal.kwarg_only)))
    return out


def _name_of_size(env: Any, symbol: Any) -> str:
    """ "x.0" when the symbol is the size of that dimension of that argument of the model; "" when it is not known."""
    for source in getattr(env, "var_to_sources", {}).get(symbol, ()):
        name = getattr(source, "name", "")
        if found := _SIZE.fullmatch(str(name() if callable(name) else name)):
            return f"{found[1]}.{found[2]}"
    return ""


def _bound(value: Any, otherwise: int | None) -> int | None:
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError, AttributeError):
        return otherwise  # an infinity
    return number if abs(number) < 2**48 else otherwise


def _overlaps(value: torch.Tensor) -> bool:
    """Several elements of it lie at one address: no memory to write a result into."""
    return any(isinstance(stride, int) and stride == 0 and not (isinstance(size, int) and size <= 1)
               for size, stride in zip(value.shape, value.stride(), strict=True))  # fmt: skip


def is_state(node: fx.Node) -> bool:
    """Does the node give a uint64?"""
    value = node.meta.get("val")
    return any(
        isinstance(v, torch.Tensor) and v.dtype == torch.uint64
        for v in (value if isinstance(value, (tuple, list)) else (value,))
    )


def _describe(target: Any) -> str:
    return getattr(target, "__name__", None) or str(target)
