"""Graphs in pieces: what programs cannot say is run by torch between programs, in its place in the graph.

Higher-order operators and user kernels, sizes that are known only once an operator has run, values without a form in
programs. A piece is everything that can be computed before, or between, such nodes.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx
from torch.fx.node import map_arg

from preheat import aten, refused_nodes

Run = Callable[[list[Any]], Any]

_RNG_OPS = ("run_and_save_rng_state", "run_with_rng_state")
_RNG_STATE_BYTES = 5056  # of the CPU's generator


@dataclass
class Piece:
    """A graph whose nodes all have a form in programs, and what it takes and gives: nodes of the whole graph."""

    graph: fx.GraphModule
    takes: list[fx.Node]
    gives: list[fx.Node]


@dataclass
class Cut:
    """Steps in the order in which they run: pieces, and nodes that torch runs itself."""

    whole: fx.GraphModule
    steps: list[Piece | fx.Node]

    def pieces(self) -> list[Piece]:
        return [s for s in self.steps if isinstance(s, Piece)]

    def by_torch(self) -> list[fx.Node]:
        """The operators that torch runs between the pieces."""
        return [s for s in self.steps if isinstance(s, fx.Node) and not _is_plumbing(s)]


def cut(gm: fx.GraphModule) -> Cut | None:
    """None where no piece would compute anything, or where all of it is one."""
    complete(gm)
    refused = refused_nodes.refused_nodes(gm)
    computing = [n for n in gm.graph.nodes if _computes(n) and n not in refused]
    if not refused or not computing:
        return None
    return _Cutter(gm, set(refused)).cut()


def complete(gm: fx.GraphModule) -> None:
    """Types of the nodes that torch's checkpointing adds to a graph, which do not say what they give."""
    for node in gm.graph.nodes:
        if "val" in node.meta or node.op != "call_function":
            continue
        name = getattr(node.target, "__name__", "")
        if node.target is operator.getitem and "val" in node.args[0].meta:
            node.meta["val"] = node.args[0].meta["val"][node.args[1]]
        elif name in _RNG_OPS:
            saves = name == _RNG_OPS[0]
            op, args = (node.args[0], node.args[1:]) if saves else (node.args[1], node.args[2:])
            given = map_arg((args, node.kwargs), lambda n: n.meta["val"])
            mode = torch._guards.detect_fake_mode(torch.utils._pytree.tree_leaves(given))
            if mode is None:
                continue
            with mode:
                value = op(*given[0], **given[1])
                state = torch.empty(_RNG_STATE_BYTES, dtype=torch.uint8)
            node.meta["val"] = (state, value) if saves else value


def _computes(node: fx.Node) -> bool:
    if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
        return False
    return not aten.is_view(str(node.target)) and isinstance(node.meta.get("val"), (torch.Tensor, tuple, list))


def _is_plumbing(node: fx.Node) -> bool:
    """Takes a part of a result, or reckons with sizes: no operator."""
    return node.op == "get_attr" or not isinstance(node.target, (torch._ops.OpOverload, torch._ops.HigherOrderOperator))


def _has_effects(node: fx.Node) -> bool:
    """Its place among its like matters: random numbers, collectives, whatever is not known."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return isinstance(target, torch._ops.HigherOrderOperator)
    return torch.Tag.nondeterministic_seeded in target.tags or target.namespace not in ("aten", "prims")


class _Cutter:
    """Each node has a level. The piece of a level runs before the nodes that torch runs at it, which come in the
    graph's order; at -1 are nodes of torch's that no piece comes before."""

    def __init__(self, gm: fx.GraphModule, refused: set[fx.Node]) -> None:
        self.gm, self.refused = gm, refused
        self.level: dict[fx.Node, int] = {}
        self.carriers: dict[Any, fx.Node] = {}  # symbol -> the node that gives it

    def cut(self) -> Cut:
        self._carry_symbols()
        self._level()
        steps: list[Piece | fx.Node] = []
        for level in range(-1, max(self.level.values()) + 1):
            here = [n for n in self.gm.graph.nodes if self.level.get(n) == level]
            piece = self._piece([n for n in here if not self._is_torchs(n)])
            steps += [piece] if piece.gives else []
            steps += [n for n in here if self._is_torchs(n)]
        return Cut(self.gm, _needed(steps, self.gm))

    def _carry_symbols(self) -> None:
        """Has each symbol given by a node of its own."""
        for node in list(self.gm.graph.nodes):
            value = node.meta.get("val")
            if isinstance(value, torch.SymInt) and value.node.expr.is_Symbol:
                self.carriers.setdefault(value.node.expr, node)
        for node in list(self.gm.graph.nodes):
            value = node.meta.get("val")
            if not isinstance(value, torch.Tensor) or not (node.op == "placeholder" or node in self.refused):
                continue
            for d, size in enumerate(value.shape):
                if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol and size.node.expr not in self.carriers:
                    with self.gm.graph.inserting_after(self._last_placeholder() if node.op == "placeholder" else node):
                        carrier = self.gm.graph.call_function(torch.ops.aten.sym_size.int, (node, d))
                    carrier.meta["val"] = size
                    self.carriers[size.node.expr] = carrier

    def _last_placeholder(self) -> fx.Node:
        return [n for n in self.gm.graph.nodes if n.op == "placeholder"][-1]

    def _level(self) -> None:
        last: fx.Node | None = None  # with effects
        for node in self.gm.graph.nodes:
            if node.op != "call_function" and node not in self.refused:
                continue
            if aten.is_assertion(node):
                continue
            before = [*node.all_input_nodes, *self._sizes_of(node)]
            if _has_effects(node):
                before += [last] if last is not None else []
                last = node
            own = self._is_torchs(node)
            self.level[node] = max([self._after(b, own) for b in before], default=-1 if own else 0)

    def _is_torchs(self, node: fx.Node) -> bool:
        return node in self.refused or _is_size(node)

    def _after(self, before: fx.Node, by_torch: bool) -> int:
        """The first level at which a node may run that needs the other."""
        level = self.level.get(before, -1)  # arguments and constants are there from the start
        return level + 1 if not by_torch and (before not in self.level or self._is_torchs(before)) else level

    def _sizes_of(self, node: fx.Node) -> list[fx.Node]:
        if self._is_torchs(node):
            return []
        return [self.carriers[s] for s in _symbols(node) if s in self.carriers]

    def _piece(self, nodes: Sequence[fx.Node]) -> Piece:
        inside = set(nodes)
        graph = fx.Graph()
        copies: dict[fx.Node, fx.Node] = {}
        takes: list[fx.Node] = []
        for node in _outside(nodes, inside, self.carriers):
            if node.op == "get_attr" and node not in self.refused:
                copies[node] = graph.get_attr(str(node.target))
            else:
                copies[node] = graph.placeholder(node.name)
                takes.append(node)
            copies[node].meta = dict(node.meta)
        for node in nodes:
            copies[node] = graph.node_copy(node, lambda n: copies[n])
        taken = lambda n: any(u not in inside and not aten.is_assertion(u) for u in n.users)  # noqa: E731
        gives = [n for n in nodes if taken(n) and isinstance(n.meta.get("val"), torch.Tensor)]
        graph.output(tuple(copies[n] for n in gives))
        return Piece(fx.GraphModule(self.gm, graph), takes, gives)


def _outside(nodes: Sequence[fx.Node], inside: set[fx.Node], carriers: dict[Any, fx.Node]) -> list[fx.Node]:
    """What the nodes take from elsewhere, sizes first: in the order of first use, placeholders before attributes."""
    found: dict[fx.Node, None] = {}
    for node in nodes:
        found.update(dict.fromkeys(carriers[s] for s in _symbols(node) if s in carriers))
    for node in nodes:
        found.update(dict.fromkeys(n for n in node.all_input_nodes if n not in inside))
    for node in list(found):  # what these are made of
        found.update(dict.fromkeys(carriers[s] for s in _symbols(node) if s in carriers))
    return sorted(found, key=lambda n: n.op == "get_attr")


def _symbols(node: fx.Node) -> Iterator[Any]:
    """The symbols in the sizes of what a node takes and gives."""
    for n in (node, *node.all_input_nodes):
        for value in torch.utils._pytree.tree_leaves(n.meta.get("val")):
            sizes = (*value.shape, *value.stride(), value.storage_offset()) if _is_strided(value) else (value,)
            for size in sizes:
                if isinstance(size, torch.SymInt):
                    yield from sorted(size.node.expr.free_symbols, key=str)


def _is_strided(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.layout == torch.strided


def _is_size(node: fx.Node) -> bool:
    return node.op == "call_function" and isinstance(
        node.meta.get("val"), (int, float, bool, torch.SymInt, torch.SymFloat, torch.SymBool)
    )


def _needed(steps: list[Piece | fx.Node], gm: fx.GraphModule) -> list[Piece | fx.Node]:
    """Without the nodes of torch's whose result nothing takes, unless they may do something else."""
    wanted = set(next(n for n in gm.graph.nodes if n.op == "output").all_input_nodes)
    kept: list[Piece | fx.Node] = []
    for step in reversed(steps):
        if isinstance(step, Piece):
            wanted.update(step.takes)
        elif step in wanted or step.is_impure():
            wanted.update(step.all_input_nodes)
        else:
            continue
        kept.append(step)
    return kept[::-1]


# --- Running ---


@dataclass
class _Step:
    run: Callable[..., Any]  # of the list of values taken
    takes: list[int]  # places in a call's memory
    gives: list[int]  # empty: one value, at `at`
    at: int = -1
    done: list[int] = field(default_factory=list)  # not needed afterwards


class Pieces:
    """The whole graph as a boxed callable. `runs`: one for each piece, in order."""

    def __init__(self, cut: Cut, runs: Sequence[Run]) -> None:
        self._boxed_call = True
        places: dict[fx.Node, int] = {}
        place = lambda n: places.setdefault(n, len(places))  # noqa: E731
        self._arguments = [place(n) for n in cut.whole.graph.nodes if n.op == "placeholder"]
        remaining, self._steps = iter(runs), []
        for step in cut.steps:
            if isinstance(step, Piece):
                self._steps.append(
                    _Step(next(remaining), [place(n) for n in step.takes], [place(n) for n in step.gives])
                )
            else:
                takes = [place(n) for n in step.all_input_nodes]
                self._steps.append(_Step(_by_torch(step, cut.whole), takes, [], place(step)))
        output = next(n for n in cut.whole.graph.nodes if n.op == "output")
        results = output.args[0] if isinstance(output.args[0], (tuple, list)) else [output.args[0]]
        self._results = [(place(r), None) if isinstance(r, fx.Node) else (-1, r) for r in results]
        self._size = len(places)
        self._forget({p for p, _ in self._results})

    def _forget(self, kept: set[int]) -> None:
        """Values are let go after their last use."""
        seen = set(kept)
        for step in reversed(self._steps):
            used = {*step.takes, *step.gives, *([step.at] if step.at >= 0 else [])}
            step.done = sorted(used - seen)
            seen |= used

    def __call__(self, args: list[Any]) -> list[Any]:
        values: list[Any] = [None] * self._size
        for place, value in zip(self._arguments, args, strict=True):
            values[place] = value
        args.clear()
        for step in self._steps:
            given = step.run([values[p] for p in step.takes])
            if step.at >= 0:
                values[step.at] = given
            else:
                for place, value in zip(step.gives, given, strict=True):
                    values[place] = value
            del given
            for place in step.done:
                values[place] = None
        return [values[place] if place >= 0 else constant for place, constant in self._results]


def _by_torch(node: fx.Node, gm: fx.GraphModule) -> Callable[[list[Any]], Any]:
    if node.op == "get_attr":
        held = operator.attrgetter(str(node.target))(gm)
        return lambda _: held
    order = {n: i for i, n in enumerate(node.all_input_nodes)}
    target, args, kwargs = node.target, node.args, node.kwargs
    return lambda values: target(*map_arg(args, lambda n: values[order[n]]),  # type: ignore[operator]
                                 **map_arg(kwargs, lambda n: values[order[n]]))  # fmt: skip
