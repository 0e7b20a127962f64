"""A program, and how to call what comes back for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from preheat._proto import program_pb2 as pb


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


@dataclass(frozen=True)
class Overwritten:
    """Arguments that the caller writes to after the call. Results from number `first` on must not be their memory."""

    first: int = 0
    arguments: frozenset[int] = frozenset()
