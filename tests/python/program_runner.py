"""A program run by torch in Python, operator by operator: what a test compares with, and a stand-in for the runtime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from preheat import dtypes, extern
from preheat._proto import program_pb2 as pb
from preheat.expressions import evaluator


def run_program(program: pb.Program, inputs: Sequence[Any], symbols: dict[str, int]) -> list[torch.Tensor]:
    """Dense copies of the outputs, after checking every value against the type that the program declares."""

    def size(text: str) -> int:
        return evaluator([text], list(symbols))(*symbols.values())[0]

    values: dict[int, Any] = {}
    for message, given in zip(program.inputs, inputs, strict=True):
        values[message.value] = given
    for constant in program.constants:
        t = program.values[constant.value].tensor
        sizes = [size(s) for s in t.sizes]
        dtype = dtypes.from_number(t.dtype - 1)
        flat = torch.frombuffer(bytearray(constant.data), dtype=dtype) if constant.data else torch.empty(0, dtype=dtype)
        values[constant.value] = flat.reshape(sizes)
    for i, value in enumerate(program.values):
        if value.HasField("size"):
            values[i] = size(value.size)
    for node in program.nodes:
        op = extern.operator(node.op)
        order = [a.name for a in op._schema.arguments]
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for a in node.arguments:
            v = _argument(a, values, size)
            if not a.keyword and order[len(args)] == a.name:
                args.append(v)
            else:
                kwargs[a.name] = v
        returned = op(*args, **kwargs)
        flat_results = extern._flatten(returned)
        assert node.result_is_list == isinstance(returned, list), node.op
        for index, result in zip(node.results, flat_results, strict=True):
            assert (index < 0) == (result is None), node.op
            if result is not None:
                _check(program.values[index].tensor, result, size, node.op)
                values[index] = result
    return [values[o.value] for o in program.outputs]


def _check(declared: pb.TensorType, got: torch.Tensor, size: Any, op: str) -> None:
    assert dtypes.from_number(declared.dtype - 1) == got.dtype, op
    assert [size(s) for s in declared.sizes] == list(got.shape), op


def _argument(a: pb.Argument, values: dict[int, Any], size: Any) -> Any:
    kind = a.WhichOneof("value")
    content = getattr(a, kind)
    match kind:
        case "none":
            return None
        case "tensor":
            return values[content]
        case "tensors":
            return [None if i < 0 else values[i] for i in content.values]
        case "integer":
            return size(content)
        case "integers":
            return [size(v) for v in content.values]
        case "numbers" | "booleans":
            return list(content.values)
        case "complex_number":
            return complex(content.re, content.im)
        case "dtype":
            return dtypes.from_number(content - 1)
        case "layout" | "memory_format":
            return getattr(torch, content)
        case "device":
            return torch.device(content)
    return content


class FakeExecutable:
    """Takes the place of runtime.Executable: sessions of it interpret the program."""

    def __init__(self, program: pb.Program) -> None:
        self.program = program
        self.symbols = [s.name for s in program.symbols]
        self.inputs = [type("Info", (), {"frozen": i.frozen})() for i in program.inputs]

    def bind(self, frozen: Sequence[torch.Tensor] = ()) -> FakeSession:
        return FakeSession(self, list(frozen))


class FakeSession:
    def __init__(self, executable: FakeExecutable, frozen: list[torch.Tensor]) -> None:
        self.executable, self.frozen = executable, [t.clone() for t in frozen]
        self.runs = 0

    def refresh(self, frozen: Sequence[torch.Tensor]) -> None:
        self.frozen = [t.clone() for t in frozen]

    def run_into(self, inputs: Sequence[Any], outputs: Sequence[torch.Tensor]) -> None:
        self._run(self._symbols(inputs), inputs, outputs)

    def run_unchecked(self, symbols: Any, inputs: Sequence[Any], outputs: Sequence[torch.Tensor]) -> None:
        self._run(dict(zip(self.executable.symbols, symbols, strict=False)), inputs, outputs)

    def _symbols(self, inputs: Sequence[Any]) -> dict[str, int]:
        found: dict[str, int] = {}
        program = self.executable.program
        for message, given in zip(program.inputs, self._every(inputs), strict=True):
            value = program.values[message.value]
            if isinstance(given, int):
                found.setdefault(value.size, given)
                continue
            assert given.data_ptr() % 16 == 0
            for text, n in zip(value.tensor.sizes, given.shape, strict=True):
                if text.startswith("d") and text[1:].isdigit():
                    found.setdefault(text, n)
        return {name: found[name] for name in self.executable.symbols}

    def _every(self, inputs: Sequence[Any]) -> list[Any]:
        frozen, given = iter(self.frozen), iter(inputs)
        return [next(frozen) if i.frozen else next(given) for i in self.executable.inputs]

    def _run(self, symbols: dict[str, int], inputs: Sequence[Any], outputs: Sequence[torch.Tensor]) -> None:
        self.runs += 1
        results = run_program(self.executable.program, self._every(inputs), symbols)
        for target, result in zip(outputs, results, strict=True):
            target.copy_(result)
