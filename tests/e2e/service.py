"""What the end-to-end tests are made of: a server, and the command line against it. PREHEAT_BUILD names the build."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
from dataclasses import dataclass, field
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("PREHEAT_BUILD", ROOT / "build" / "release"))
COMPILECTL = BUILD / "bin" / "compilectl"
# Seconds that any one command may take: a guard against hanging on a machine that is busy with other tests.
PATIENCE = 600


@dataclass
class Ran:
    status: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """The one JSON document on stdout."""
        return json.loads(self.out)


@dataclass
class Cli:
    """compilectl against one server, with a local cache of its own."""

    address: str
    cache: pathlib.Path
    variables: dict[str, str] = field(default_factory=dict)

    def environment(self) -> dict[str, str]:
        own = {"PREHEAT_SERVER": self.address, "PREHEAT_CACHE_DIR": str(self.cache)}
        return {**os.environ, **own, **self.variables}

    def start(self, *arguments: str | pathlib.Path) -> subprocess.Popen[str]:
        """In the background, with --json."""
        command = [COMPILECTL, "--json", *arguments]
        return subprocess.Popen(
            command,
            env=self.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
        )

    def run(self, *arguments: str | pathlib.Path, json: bool = True) -> Ran:
        command = [COMPILECTL, *(["--json"] if json else []), *arguments]
        done = subprocess.run(
            command,
            env=self.environment(),
            capture_output=True,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    def ok(self, *arguments: str | pathlib.Path) -> dict[str, Any]:
        """The document of a command that must succeed."""
        ran = self.run(*arguments)
        assert ran.status == 0, f"compilectl {' '.join(map(str, arguments))}: {ran.status}\n{ran.out}\n{ran.err}"
        return ran.document

    def fails(self, status: int, *arguments: str | pathlib.Path) -> dict[str, Any]:
        """The error of a command that must fail with that status."""
        ran = self.run(*arguments)
        assert ran.status == status, f"compilectl {' '.join(map(str, arguments))}: {ran.status}\n{ran.out}\n{ran.err}"
        error = ran.document["error"]
        assert set(error) - {"request_id"} == {"code", "kind", "message", "where", "fix"}
        assert error["code"] and error["kind"] and error["message"]
        return error


@dataclass
class Server:
    data: pathlib.Path
    started: dict[str, Any]

    @property
    def address(self) -> str:
        return self.started["server"]

    def cli(self, cache: pathlib.Path) -> Cli:
        return Cli(self.address, cache)


def start_server(data: pathlib.Path, *flags: str | pathlib.Path) -> Server:
    """On free ports, with one worker; back once it is ready."""
    command = [
        COMPILECTL,
        "--json",
        "server",
        "start",
        "--data-dir",
        data,
        "--port",
        "0",
        "--http-port",
        "0",
        "--workers",
        "1",
        *flags,
    ]
    done = subprocess.run(
        command, capture_output=True, stdin=subprocess.DEVNULL, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return Server(data, json.loads(done.stdout))


def stop_server(server: Server) -> None:
    command = [COMPILECTL, "server", "stop", "--data-dir", server.data, "--patience", "120"]
    done = subprocess.run(
        command, capture_output=True, stdin=subprocess.DEVNULL, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
