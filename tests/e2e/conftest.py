"""A real server, real workers and the real command line."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator

import pytest
from service import COMPILECTL, ROOT, Cli, Server, start_server, stop_server

MODELS = ("mlp", "mlp_dynamic", "bert", "bert_dynamic", "resnet18")


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder with an archive NAME.pt2 for each of MODELS. PREHEAT_TEST_MODELS names one that was made before."""
    if made := os.environ.get("PREHEAT_TEST_MODELS"):
        return pathlib.Path(made)
    folder = tmp_path_factory.mktemp("models")
    make = ROOT / "tests" / "models" / "make.py"
    subprocess.run(
        [sys.executable, make, folder, "--only", ",".join(MODELS)],
        check=True,
        timeout=1800,
        stdout=subprocess.DEVNULL,
    )
    return folder


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Shared by all tests that do not stop it or count its requests."""
    server = start_server(tmp_path_factory.mktemp("server"))
    yield server
    stop_server(server)


@pytest.fixture
def cli(server: Server, tmp_path: pathlib.Path) -> Cli:
    return server.cli(tmp_path / "cache")


@pytest.fixture
def fresh(tmp_path: pathlib.Path) -> Iterator[Server]:
    """A server of the test's own, empty."""
    server = start_server(tmp_path / "data")
    yield server
    status = subprocess.run(
        [COMPILECTL, "server", "status", "--data-dir", server.data], capture_output=True, check=False
    )
    if status.returncode == 0:
        stop_server(server)
