"""Programs run by torch in Python, operator by operator: eager where the graph itself is not at hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from preheat import collectives, dtypes, extern
from preheat._proto import program_pb2 as pb
from preheat.built_program import BuiltProgram, Result
from preheat.expressions import evaluator

Size = Callable[[str], int]


def run_program(
    program: pb.Program, inputs: Sequence[Any], symbols: Mapping[str, int], groups: Sequence[str] = ()
) -> list[torch.Tensor]:
    """The outputs, as torch's operators give them. `inputs`: one for each of the program's, sizes as ints."""

    def size(text: str) -> int:
        return evaluator([text], list(symbols))(*symbols.values())[0]

    context = collectives.Context(groups) if groups else None
    values: dict[int, Any] = {i: size(v.size) for i, v in enumerate(program.values) if v.HasField("size")}
    values.update({message.value: given for message, given in zip(program.inputs, inputs, strict=True)})
    for constant in program.constants:
        values[constant.value] = _constant(constant.data, program.values[constant.value].tensor, size)
    for node in program.nodes:
        returned = extern.flatten(_call(node, values, size, context))
        for index, result in zip(node.results, returned, strict=True):
            if index >= 0:
                values[index] = result
    return [values[o.value] for o in program.outputs]


def interpreter(built: BuiltProgram) -> Callable[[list[Any]], list[Any]]:
    """What `program.build` was made of, as a boxed callable."""

    def run(args: list[Any]) -> list[Any]:
        given = list(args)
        args.clear()
        symbols = {
            name: given[i] if d < 0 else given[i].shape[d]
            for name, (i, d) in built.symbols.items()
        }  # fmt: skip
        inputs = [given[s.argument] if s.constant is None else s.constant for s in built.inputs]
        with torch.no_grad():
            outputs = run_program(built.proto, inputs, symbols, built.groups)
        return [_result(r, given, outputs, symbols) for r in built.results]

    return run


def _result(result: Result, given: list[Any], outputs: list[torch.Tensor], symbols: Mapping[str, int]) -> Any:
    take = lambda *texts: evaluator(texts, list(symbols))(*symbols.values())  # noqa: E731
    match result.kind:
        case "size":
            return take(result.size)[0]
        case "argument":
            return given[result.index]
        case "output":
            return outputs[result.index]
        case "view":
            assert result.base is not None
            base = _result(result.base, given, outputs, symbols)
            offset = base.storage_offset() + take(result.offset)[0]
            return base.as_strided(take(*result.sizes), take(*result.strides), offset)
    return None


def _constant(data: bytes, declared: pb.TensorType, size: Size) -> torch.Tensor:
    dtype = dtypes.from_number(declared.dtype - 1)
    flat = torch.frombuffer(bytearray(data), dtype=dtype) if data else torch.empty(0, dtype=dtype)
    return flat.reshape([size(s) for s in declared.sizes])


def _call(node: pb.Node, values: Mapping[int, Any], size: Size, context: collectives.Context | None) -> Any:
    op = extern.operator(node.op)
    order = [formal.name for formal in op._schema.arguments]
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for a in node.arguments:
        value = _argument(a, values, size)
        if context is not None and collectives.is_group(a.name):
            value = context.group(value)
        # Positional only while nothing before it was left out.
        if not a.keyword and len(args) < len(order) and order[len(args)] == a.name:
            args.append(value)
        else:
            kwargs[a.name] = value
    return op(*args, **kwargs)


def _argument(a: pb.Argument, values: Mapping[int, Any], size: Size) -> Any:
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
