"""Fixtures of the Python tests."""

from __future__ import annotations

import os
import pathlib
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch

sys.path.insert(0, str(pathlib.Path(__file__).parent))

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("PREHEAT_BUILD", ROOT / "build" / "release"))


def compilectl(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(BUILD / "bin" / "compilectl"), *arguments], capture_output=True, text=True, timeout=600)


def free_port() -> str:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return str(s.getsockname()[1])


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a real server with a real worker."""
    data, port = str(tmp_path_factory.mktemp("server")), free_port()
    started = compilectl("server", "start", "--data-dir", data, "--port", port, "--http-port", free_port())
    assert started.returncode == 0, started.stderr
    yield f"localhost:{port}"
    stopped = compilectl("server", "stop", "--data-dir", data)
    assert stopped.returncode == 0, stopped.stderr


@pytest.fixture
def service(server: str, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> Iterator[str]:
    """torch.compile(backend="preheat") by the real server, which must answer, with a local cache of the test's own."""
    import preheat
    from preheat import fallback

    monkeypatch.setenv("PREHEAT_SERVER", server)
    monkeypatch.setenv("PREHEAT_REQUIRED", "1")
    monkeypatch.setenv("PREHEAT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PREHEAT_RUNTIME", str(BUILD / "lib" / "libpreheat_runtime.so"))
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "torch"))
    monkeypatch.setattr(fallback, "_warned", set())
    torch._dynamo.reset()
    torch.manual_seed(0)
    preheat.reset_report()
    yield server
    torch._dynamo.reset()


@pytest.fixture
def interpreted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """torch.compile(backend="preheat") with programs interpreted by torch instead of sent to a server.

    Gives the list of (kind, BuiltProgram) that were submitted; a graph that is refused fails the test.
    """
    import program_runner
    from preheat import backend, compile_graph, compiled_graph
    from preheat._proto import program_pb2
    from preheat.compiled_graph import CompiledGraph

    submitted: list[Any] = []

    def fetch(kind: str, config: Any, built: Any, eager: Any, start: float, dims: Any = None) -> Any:
        # Through bytes and back, as it would travel.
        built.proto = program_pb2.Program.FromString(built.proto.SerializeToString())
        submitted.append((kind, built))
        return CompiledGraph(built, program_runner.FakeExecutable(built.proto), eager, _refuse)

    def fall_back(gm: Any, kind: str, reason: str, *_: Any, **__: Any) -> Any:
        raise AssertionError(f"a {kind} graph was refused: {reason}")

    def _refuse(reason: str) -> None:
        raise AssertionError(f"a call fell back: {reason}")

    monkeypatch.setattr(compile_graph, "_fetch_one", fetch)
    # Addresses say nothing to an interpreter.
    monkeypatch.setattr(compiled_graph, "_address_function", lambda *_: lambda given: None)
    monkeypatch.setattr(CompiledGraph, "_fast_call", lambda *_: None)
    for module in (backend, compile_graph):
        monkeypatch.setattr(module, "fall_back", fall_back)
    torch._dynamo.reset()
    with torch._functorch.config.patch(enable_autograd_cache=False):  # what it had would not be submitted
        yield submitted
    torch._dynamo.reset()
