"""One server for all tests that only send bad input: it has to survive them together."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest
from daemon import Daemon


@pytest.fixture(scope="session")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    daemon = Daemon(tmp_path_factory.mktemp("hostile"), verify=False)
    yield daemon
    daemon.stop()


@pytest.fixture
def data(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "data"
