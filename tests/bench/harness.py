"""What the benchmarks of this folder share: a server, rows measured in processes and kept in a file, the machine."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = ROOT / "build" / "release" / "bin"


@contextlib.contextmanager
def server(bin: pathlib.Path, folder: str) -> Iterator[str]:
    """The address of an empty server, from the programs in `bin`, that keeps its data in `folder`."""
    ports = []
    for _ in range(2):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            ports.append(s.getsockname()[1])
    control = [str(bin / "compilectl"), "server"]
    start = ["start", "--data-dir", f"{folder}/server", "--port", str(ports[0]), "--http-port", str(ports[1])]
    subprocess.run(control + start, check=True, capture_output=True)
    try:
        yield f"127.0.0.1:{ports[0]}"
    finally:
        subprocess.run(control + ["stop", "--data-dir", f"{folder}/server"], capture_output=True)


def ours(bin: pathlib.Path) -> dict[str, str]:
    """Variables for a job that runs this checkout's client on the runtime beside `bin`, whatever is installed."""
    path = os.pathsep.join(filter(None, [str(ROOT / "client" / "python"), os.environ.get("PYTHONPATH")]))
    return {"PYTHONPATH": path, "PREHEAT_RUNTIME": str(bin.resolve().parent / "lib" / "libpreheat_runtime.so")}


def machine() -> str:
    """The CPU, the threads, the torch and its BLAS that numbers are of."""
    import torch

    with open("/proc/cpuinfo") as info:
        model = next((line.partition(":")[2].strip() for line in info if line.startswith("model name")), "unknown")
    mkl = re.search(r"Math Kernel Library Version (\S+)", torch.__config__.show())
    blas = f"MKL {mkl[1]}" if mkl else "no MKL"
    capability = torch.backends.cpu.get_cpu_capability()
    return f"{model}, {torch.get_num_threads()} threads; torch {torch.__version__} (BLAS: {blas}; {capability})"


# --- Rows ---

Row = dict[str, Any]
_SIGN = "RESULT "


def commit() -> str:
    """The commit of the sources here, which is what numbers are of if the programs were built from them."""
    git = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--exclude", "*"]
    return subprocess.run(git, capture_output=True, text=True).stdout.strip() or "unknown"


def add_piece_options(parser: argparse.ArgumentParser) -> None:
    """A long table in pieces: --out keeps the rows, and a run with the same file goes on where the last one ended."""
    parser.add_argument(
        "--out", type=pathlib.Path, help="a file of rows as lines of JSON; rows in it stand as they are"
    )
    parser.add_argument("--minutes", type=float, help="begin no row that would, by the longest so far, end later")
    parser.add_argument("--row-seconds", type=float, default=600, help="a row that takes longer has failed")


class Rows:
    """The rows of a table, each measured once: those of this machine in the file are taken from there.

    `same` are fields that tell what was measured how; a row of the file that differs in one is another row. One that
    failed is measured again.
    """

    def __init__(self, options: argparse.Namespace, **same: Any) -> None:
        self.all: list[Row] = []
        self.left: list[str] = []  # what there was no time for
        self._out, self._same = options.out, same
        self._end = time.monotonic() + options.minutes * 60 if options.minutes else None
        self._longest = 0.0
        self._known = [json.loads(line) for line in self._out.open()] if self._out and self._out.exists() else []

    def take(self, measure: Any, **what: Any) -> Row | None:
        """The row of `what`, from the file or by measure(); None when there is no time for it any more."""
        wanted = self._same | what
        for row in reversed(self._known):
            if "error" not in row and all(row.get(key) == value for key, value in wanted.items()):
                self._longest = max(self._longest, row.get("took", 0.0))
                self.all.append(row)
                return row
        begin = time.monotonic()
        if self._end and begin + self._longest > self._end:
            self.left.append(" ".join(map(str, what.values())))
            return None
        row = wanted | {"commit": commit()} | measure()
        row["took"] = time.monotonic() - begin
        self._longest = max(self._longest, row["took"])
        self.all.append(row)
        if self._out:
            with self._out.open("a") as out:
                out.write(json.dumps(row) + "\n")
        return row

    def good(self) -> list[Row]:
        return [row for row in self.all if "error" not in row]

    def ending(self) -> str:
        """What a table must say below itself: what it is of, and what is not in it."""
        failed = [" ".join(str(row[k]) for k in ("name", "size", "mode") if k in row) for row in self.all]
        failed = [name for name, row in zip(failed, self.all, strict=True) if "error" in row]
        commits = sorted({row["commit"] for row in self.all})
        return (
            f"commit {', '.join(commits) or '-'}; failed: {', '.join(failed) or 'none'}; "
            f"not measured yet: {', '.join(self.left) or 'none'}"
        )

    def status(self) -> int:
        """What a run ends with: 1 when a row failed, 2 when one is left, else 0."""
        return 1 if len(self.good()) < len(self.all) else 2 if self.left else 0


def show(row: Row) -> None:
    """What a row's process hands to the one that asked for it."""
    print(_SIGN + json.dumps(row), flush=True)


def in_process(command: list[str], env: Mapping[str, str], seconds: float) -> Row:
    """The row that the Python process shows, or why there is none. Nothing that it started is left when it is late."""
    process = subprocess.Popen([sys.executable, *command], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True, start_new_session=True)  # fmt: skip
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return {"error": f"not done in {seconds:g} s"}
    shown = [line for line in out.splitlines() if line.startswith(_SIGN)]
    if process.returncode == 0 and shown:
        return json.loads(shown[-1].removeprefix(_SIGN))
    last = (err.strip().splitlines() or ["no output"])[-1]
    return {"error": f"exit status {process.returncode}: {last[:200]}"}
