"""Arguments of operators as messages."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from preheat import dtypes
from preheat._proto import program_pb2 as pb
from preheat.errors import Unsupported
from preheat.program_values import Values


class Arguments:
    """Writes what nodes are given: values by number, all else as it is."""

    def __init__(self, values: Values) -> None:
        self.values = values

    def write(self, out: pb.Argument, given: Any, formal: Any, op: str) -> None:
        kind = (
            str(formal).removeprefix("Optional[").removesuffix("]")
            if str(formal).startswith("Optional[")
            else str(formal)
        )
        if isinstance(given, fx.Node):
            value = given.meta.get("val")
            if isinstance(value, torch.Tensor):
                out.tensor = self.values.of[given]
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
                out.integer = self.values.symbols.text(given)
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
            out.device = self.values.device.type
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
                out.tensors.values.append(-1 if item is None else self.values.of[item])
        elif "bool" in kind:
            out.booleans.values.extend(bool(i) for i in items)
            out.booleans.SetInParent()
        elif "float" in kind or any(isinstance(i, float) for i in items):
            if any(not isinstance(i, (int, float)) for i in items):
                raise Unsupported(f"{op} has a list of numbers known only while the program runs")
            out.numbers.values.extend(float(i) for i in items)
            out.numbers.SetInParent()
        elif all(isinstance(i, (int, torch.SymInt)) for i in items):
            out.integers.values.extend(self.values.symbols.text(i) for i in items)
            out.integers.SetInParent()
        else:
            raise Unsupported(f"{op} has a list of {', '.join(sorted({type(i).__name__ for i in items}))}")
