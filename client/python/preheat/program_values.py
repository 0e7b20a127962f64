"""The values of a program: their types, and the symbols that sizes are made of."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import torch
from torch import fx

from preheat import dtypes
from preheat._proto import program_pb2 as pb
from preheat.errors import Unsupported
from preheat.expressions import Symbols

_SIZE = re.compile(r"L\['(\w+)'\]\.size\(\)\[(\d+)\]")  # what Dynamo calls a size of an argument


class Values:
    """Adds values to a program. `of` and `parts`: the numbers of those that nodes give, one or several."""

    def __init__(self, proto: pb.Program, device: torch.device) -> None:
        self.proto, self.device = proto, device
        self.symbols = Symbols()
        self.symbol_sources: dict[str, tuple[int, int]] = {}
        self.of: dict[fx.Node, int] = {}
        self.parts: dict[fx.Node, list[int]] = {}
        self.states = False  # some value is a uint64

    def declare_sizes_of(self, placeholders: Iterable[fx.Node]) -> None:
        for i, node in enumerate(placeholders):
            value = node.meta.get("val")
            if isinstance(value, torch.SymInt):
                self.declare(value, i, -1)
            elif isinstance(value, torch.Tensor):
                for d, size in enumerate(value.shape):
                    self.declare(size, i, d)

    def declare(self, size: Any, argument: int, dim: int) -> None:
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

    def add(self, name: str, value: torch.Tensor) -> int:
        self.proto.values.add(tensor=self._tensor_type(value))
        self.proto.debug_info.value_names.append(name)
        return len(self.proto.values) - 1

    def add_size(self, name: str, text: str) -> int:
        self.proto.values.add(size=text)
        self.proto.debug_info.value_names.append(name)
        return len(self.proto.values) - 1


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
