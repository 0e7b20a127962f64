"""Fixtures of the Python tests."""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch

sys.path.insert(0, str(pathlib.Path(__file__).parent))


@pytest.fixture
def interpreted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """torch.compile(backend="preheat") with programs interpreted by torch instead of sent to a server.

    Gives the list of (kind, BuiltProgram) that were submitted; a graph that is refused fails the test.
    """
    import program_runner
    from preheat import backend
    from preheat._proto import program_pb2
    from preheat.compiled_graph import CompiledGraph

    submitted: list[Any] = []

    def fetch(gm: Any, kind: str, config: Any, built: Any, eager: Any, start: float) -> Any:
        # Through bytes and back, as it would travel.
        built.proto = program_pb2.Program.FromString(built.proto.SerializeToString())
        submitted.append((kind, built))
        return CompiledGraph(built, program_runner.FakeExecutable(built.proto), eager, _refuse)

    def fall_back(gm: Any, kind: str, reason: str, *_: Any, **__: Any) -> Any:
        raise AssertionError(f"a {kind} graph was refused: {reason}")

    def _refuse(reason: str) -> None:
        raise AssertionError(f"a call fell back: {reason}")

    monkeypatch.setattr(backend, "_fetch", fetch)
    monkeypatch.setattr(backend, "_fall_back", fall_back)
    torch._dynamo.reset()
    yield submitted
    torch._dynamo.reset()
