"""options={"buckets": {"batch": [8, 32]}}: calls padded to one of a few sizes, each with kernels of its own.

A graph is padded along a dimension only where that is proved safe: everything that belongs to the padding lies behind
everything that does not, in each value, and nothing of it is ever mixed in. Otherwise the reason is told.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from preheat import extern
from preheat._proto import program_pb2 as pb
from preheat.built_program import BuiltProgram, Result
from preheat.expressions import evaluator

Run = Callable[[list[Any]], list[Any]]

_RESHAPES = {"view", "_unsafe_view", "reshape", "_reshape_alias", "unsqueeze", "squeeze", "expand"}
_MOVES = {"permute", "transpose", "t", "clone", "_to_copy", "alias", "detach", "lift_fresh_copy"}
_CREATION = {"full", "zeros", "ones", "arange", "full_like", "zeros_like", "ones_like"}
# Operators that go along the dimensions of their argument `dim` and along no other.
_ALONG_DIM = {"sum", "mean", "amax", "amin", "any", "all", "var", "std", "prod", "argmax", "argmin", "_softmax",
              "_log_softmax", "logsumexp", "cumsum", "cat", "select", "slice", "split", "split_with_sizes", "unbind",
              "sort", "topk", "flip"}  # fmt: skip
# Those that treat each element of their operands' first dimension apart.
_ALONG_THE_REST = {"convolution", "_adaptive_avg_pool2d", "avg_pool2d", "max_pool2d_with_indices",
                   "upsample_bilinear2d", "upsample_nearest2d", "bmm",
                   "_scaled_dot_product_flash_attention_for_cpu"}  # fmt: skip


class Unsafe(Exception):
    """Why the graph must not be padded."""


@dataclass
class Plan:
    symbol: str  # "d0"
    sizes: list[int]  # ascending

    def size_for(self, n: int) -> int | None:
        return next((size for size in self.sizes if size >= n), None)


def plan(built: BuiltProgram, buckets: Sequence[tuple[str, Sequence[int]]]) -> Plan:
    """Which dimension is padded to what. Unsafe where none can be."""
    if len(buckets) != 1:
        raise Unsafe("one dimension is padded, not several")
    (name, sizes), names = buckets[0], built.proto.debug_info.dim_names
    symbols = [s.name for s in built.proto.symbols]
    found = [s for s in symbols if name in (s, names.get(s))] or (symbols if len(symbols) == 1 else [])
    if not found:
        known = ", ".join(names.get(s, s) for s in symbols) or "none"
        raise Unsafe(f'no dimension of this graph is "{name}": it has {known}')
    _Proof(built, found[0]).check()
    return Plan(found[0], sorted(int(s) for s in sizes))


def fixed(built: BuiltProgram, symbols: Collection[str]) -> BuiltProgram:
    """The program as it is called once these symbols are fixed: without the inputs that are one of them."""
    left = [
        (source, message)
        for source, message in zip(built.inputs, built.proto.inputs, strict=True)
        if built.proto.values[message.value].size not in symbols
    ]
    proto = pb.Program()
    proto.CopyFrom(built.proto)
    del proto.inputs[:]
    proto.inputs.extend(message for _, message in left)
    return dataclasses.replace(built, proto=proto, inputs=[source for source, _ in left])


class _Proof:
    """Holds each node of a program to what its operator does with a dimension that ends in padding."""

    def __init__(self, built: BuiltProgram, symbol: str) -> None:
        self.built, self.proto, self.symbol = built, built.proto, symbol
        self.mentions = re.compile(rf"\b{symbol}\b").search

    def check(self) -> None:
        for value in self.proto.values:
            if value.HasField("tensor"):
                self._padded(list(value.tensor.sizes))
        for node in self.proto.nodes:
            self._node(node)
        for result in self.built.results:
            texts = [result.offset, *result.sizes, *result.strides]
            if result.kind == "view" and any(map(self.mentions, texts)):
                raise Unsafe("a result is a view of something padded")

    def _padded(self, sizes: Sequence[str]) -> int | None:
        """Which dimension of that shape is padded, at its end. Unsafe if more are, or it is padded in between."""
        padded = [d for d, size in enumerate(sizes) if self.mentions(size)]
        if not padded:
            return None
        at = padded[0]
        multiple = re.fullmatch(rf"(\d+\*)?{self.symbol}", sizes[at]) is not None
        plain = sizes[at] == self.symbol
        if len(padded) > 1 or not multiple or not (plain or all(s == "1" for s in sizes[:at])):
            raise Unsafe(f"a value has the shape [{', '.join(sizes)}]")
        return at

    def _sizes(self, index: int) -> list[str]:
        return list(self.proto.values[index].tensor.sizes)

    def _node(self, node: pb.Node) -> None:
        operands = [a.tensor for a in node.arguments if a.HasField("tensor")]
        operands += [i for a in node.arguments for i in a.tensors.values if i >= 0]
        operands = [i for i in operands if self.proto.values[i].HasField("tensor")]
        padded = {i: at for i in operands if (at := self._padded(self._sizes(i))) is not None}
        name = node.op.split(".")[1]
        takes_size = any(self.mentions(text) for a in node.arguments for text in (a.integer, *a.integers.values))
        if not padded and not takes_size:
            return
        op = extern.operator(node.op)
        attends = name in _ALONG_THE_REST and all(a.number == 0 for a in node.arguments if a.name == "dropout_p")
        if torch.Tag.nondeterministic_seeded in op.tags and not attends:
            raise Unsafe(f"{node.op} gives other random numbers to a padded shape")
        if name in _CREATION:
            return
        if name in _RESHAPES:
            return self._reshape(node, padded)
        if takes_size and name != "slice":
            raise Unsafe(f"{node.op} reckons with the size")
        if torch.Tag.pointwise in op.tags or name in _MOVES:
            return
        self._other(node, name, padded)

    def _reshape(self, node: pb.Node, padded: dict[int, int]) -> None:
        """What is in front of the padded dimension stays there: all else may be cut otherwise."""
        for index, at in padded.items():
            before, after = self._sizes(index), self._sizes(node.results[0])
            to = self._padded(after)
            if to is None or _count(before[:at]) != _count(after[:to]):
                raise Unsafe(f"{node.op} from [{', '.join(before)}] to [{', '.join(after)}]")

    def _other(self, node: pb.Node, name: str, padded: dict[int, int]) -> None:
        given = {a.name: a for a in node.arguments}
        for index, at in padded.items():
            rank = len(self._sizes(index))
            if name in _ALONG_DIM:
                safe = "dim" in given and at not in _dims(given["dim"], rank)
                if name in ("cat", "select", "slice", "split", "split_with_sizes", "unbind") and "dim" not in given:
                    safe = at != 0
                if name == "slice" and not safe:
                    safe = self._sizes(index) == self._sizes(node.results[0])
            elif name in ("native_layer_norm", "_fused_rms_norm"):
                safe = at < rank - len(given["normalized_shape"].integers.values)
            elif name in ("mm", "addmm"):
                left, right = ("self", "mat2") if name == "mm" else ("mat1", "mat2")
                safe = not (index == given[left].tensor and at == 1) and not (index == given[right].tensor and at == 0)
            elif name == "_native_batch_norm_legit_no_training":
                safe = at != 1
            elif name == "embedding":
                safe = index == given["indices"].tensor
            else:
                safe = name in _ALONG_THE_REST and at == 0 and index in _batched(node)
            if not safe:
                raise Unsafe(f"{node.op} goes along the dimension")


def _batched(node: pb.Node) -> set[int]:
    """Operands whose first dimension is a batch's."""
    several = ("query", "key", "value", "self", "mat2", "attn_mask", "input")
    return {a.tensor for a in node.arguments if a.name in several and a.HasField("tensor")}


def _dims(argument: pb.Argument, rank: int) -> list[int]:
    """Of an argument `dim`: a number or a list of them. None, and an empty list, mean all."""
    kind = argument.WhichOneof("value")
    texts = [argument.integer] if kind == "integer" else list(argument.integers.values) if kind == "integers" else []
    return [int(t) % rank for t in texts] or list(range(rank))


def _count(sizes: Sequence[str]) -> Any:
    """The number of elements, as text where it is not a number."""
    return math.prod(map(int, sizes)) if all(s.isdigit() for s in sizes) else tuple(s for s in sizes if s != "1")


class Padded:
    """The graph as a boxed callable. `fetch` gives it with some symbols fixed: one of the sizes, or none for others."""

    def __init__(self, built: BuiltProgram, plan: Plan, fetch: Callable[[dict[str, int]], Run]) -> None:
        self._boxed_call = True
        self.built, self._plan, self._fetch = built, plan, fetch
        self._runs: dict[int | None, Run] = {}
        self._source = built.symbols[plan.symbol]
        self._shapes = {
            source.argument: [*built.proto.values[message.value].tensor.sizes]
            for source, message in zip(built.inputs, built.proto.inputs, strict=True)
            if source.constant is None and built.proto.values[message.value].HasField("tensor")
        }

    def __call__(self, args: list[Any]) -> list[Any]:
        argument, dim = self._source
        n = args[argument] if dim < 0 else args[argument].shape[dim]
        size = self._plan.size_for(n)
        run = self._runs.get(size) or self._run(size)
        if size is None or size == n:
            return run(args)
        given = list(args)
        args.clear()
        symbols = {name: given[i] if d < 0 else given[i].shape[d] for name, (i, d) in self.built.symbols.items()}
        longer = self._evaluated({**symbols, self._plan.symbol: size})
        padded = [self._pad(value, longer.get(i)) for i, value in enumerate(given)]
        for name, (i, d) in self.built.symbols.items():
            if d < 0 and name == self._plan.symbol:
                padded[i] = size
        results = run(list(padded))
        return [self._cut(r, value, given, symbols) for r, value in zip(self.built.results, results, strict=True)]

    def _run(self, size: int | None) -> Run:
        self._runs[size] = run = self._fetch({} if size is None else {self._plan.symbol: size})
        return run

    def _evaluated(self, symbols: dict[str, int]) -> dict[int, tuple[int, ...]]:
        names, values = list(symbols), list(symbols.values())
        return {i: evaluator(texts, names)(*values) for i, texts in self._shapes.items()}

    @staticmethod
    def _pad(value: Any, sizes: tuple[int, ...] | None) -> Any:
        if sizes is None or value.shape == sizes:
            return value
        padded = value.new_zeros(sizes)
        padded[tuple(slice(0, n) for n in value.shape)] = value
        return padded

    def _cut(self, result: Result, value: Any, given: list[Any], symbols: dict[str, int]) -> Any:
        """What eager would have given: without the padding, and in memory as the program says."""
        take = lambda texts: evaluator(texts, list(symbols))(*symbols.values())  # noqa: E731
        if result.kind == "size":
            return take([result.size])[0]
        if result.kind == "argument":
            return given[result.index]
        if result.kind != "output":
            return value
        declared = self.built.outputs[result.index]
        sizes, strides = take(declared.sizes), take(declared.strides)
        if value.shape == sizes:
            return value
        part = value[tuple(slice(0, n) for n in sizes)]
        return part if part.stride() == strides else torch.empty_strided(sizes, strides, dtype=part.dtype).copy_(part)
