"""A stand-in for the runtime: sessions that interpret the program by torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from preheat._proto import program_pb2 as pb
from preheat.interpret import run_program


class FakeExecutable:
    """Takes the place of runtime.Executable."""

    def __init__(self, program: pb.Program) -> None:
        self.program = program
        self.symbols = [s.name for s in program.symbols]
        self.inputs = [type("Info", (), {"frozen": i.frozen})() for i in program.inputs]

    def bind(self, frozen: Sequence[torch.Tensor] = (), groups: Sequence[str] = ()) -> FakeSession:
        return FakeSession(self, list(frozen), groups)


class FakeSession:
    def __init__(self, executable: FakeExecutable, frozen: list[torch.Tensor], groups: Sequence[str]) -> None:
        self.executable, self.frozen, self.groups = executable, [t.clone() for t in frozen], groups
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
        results = run_program(self.executable.program, self._every(inputs), symbols, self.groups)
        for target, result in zip(outputs, results, strict=True):
            assert target.dtype == result.dtype and target.shape == result.shape  # as the program declares
            target.copy_(result)
