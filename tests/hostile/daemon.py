"""A preheatd of a test's own, with settings that `compilectl server start` lacks, and calls without our client."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from typing import Any

import grpc
from preheat._proto import compile_pb2, program_pb2, rpc_status_pb2

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("PREHEAT_BUILD", ROOT / "build" / "release")) / "bin"
PATIENCE = 300  # seconds, on a machine that is busy with other tests


def peak_bytes(pid: int) -> int:
    """The most that the process has had resident since the last `forget_peak`."""
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmHWM")


def forget_peak(pid: int) -> None:
    pathlib.Path(f"/proc/{pid}/clear_refs").write_text("5")


class Daemon:
    """Runs until `stop`; `alive` holds while it has never restarted."""

    def __init__(self, data: pathlib.Path, workers: int = 1, faults: str = "", **settings: Any) -> None:
        self.data = data
        data.mkdir(parents=True, exist_ok=True)
        flags = [f"--{name.replace('_', '-')}={value}" for name, value in settings.items()]
        command = [
            BIN / "preheatd",
            f"--data-dir={data}",
            "--listen=127.0.0.1",
            "--port=0",
            "--http-port=0",
            f"--workers={workers}",
            *flags,
        ]
        self.log = (data / "preheatd.log").open("wb")
        environment = {**os.environ, "PREHEAT_WORKER_FAULT": faults}
        self.process = subprocess.Popen(command, env=environment, stdout=self.log, stderr=self.log)
        self.ports = self._wait(lambda: json.loads((data / "server.json").read_text()))
        self._wait(lambda: urllib.request.urlopen(f"http://127.0.0.1:{self.ports['http_port']}/readyz").read())
        self.address = f"127.0.0.1:{self.ports['port']}"

    def _wait(self, attempt: Any) -> Any:
        until = time.monotonic() + PATIENCE
        while True:
            assert self.process.poll() is None, (self.data / "preheatd.log").read_text()[-3000:]
            with contextlib.suppress(OSError, ValueError):
                return attempt()
            assert time.monotonic() < until, "the server does not come up"
            time.sleep(0.05)

    def alive(self) -> bool:
        return self.process.poll() is None

    def worker_pids(self) -> list[int]:
        children = pathlib.Path(f"/proc/{self.process.pid}/task").glob("*/children")
        return [int(pid) for file in children for pid in file.read_text().split()]

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            assert self.process.wait(PATIENCE) == 0
        finally:
            self.process.kill()
            self.log.close()

    @contextlib.contextmanager
    def channel(self) -> Iterator[grpc.Channel]:
        options = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
        with grpc.insecure_channel(self.address, options) as channel:
            yield channel

    def call(self, method: str, message: bytes, timeout: float = 60, **arguments: Any) -> bytes | Failure:
        """One unary call with whatever bytes; what it failed with instead of an exception."""
        with self.channel() as channel:
            try:
                return channel.unary_unary(method, None, None)(message, timeout=timeout, **arguments)
            except grpc.RpcError as error:
                return Failure(error)

    def compile(
        self, request: compile_pb2.CompileRequest | bytes, timeout: float = 120, **arguments: Any
    ) -> compile_pb2.CompileResult | Failure:
        message = request if isinstance(request, bytes) else request.SerializeToString()
        with self.channel() as channel:
            stub = channel.unary_stream("/preheat.v1.Compiler/Compile", None, compile_pb2.CompileEvent.FromString)
            last = compile_pb2.CompileEvent()
            try:
                for event in stub(message, timeout=timeout, **arguments):
                    last = event
            except grpc.RpcError as error:
                return Failure(error, last)
            assert last.HasField("done"), "the stream ended well, but without a result"
            return last.done

    def workers(self) -> list[dict[str, Any]]:
        done = subprocess.run(
            [BIN / "compilectl", "--json", "--server", self.address, "workers"],
            capture_output=True,
            text=True,
            check=True,
        )
        return json.loads(done.stdout)["workers"]

    def stats(self) -> dict[str, Any]:
        done = subprocess.run(
            [BIN / "compilectl", "--json", "--server", self.address, "stats"],
            capture_output=True,
            text=True,
            check=True,
        )
        return json.loads(done.stdout)


class Failure:
    """How a call failed: gRPC's code, and the typed error that came along."""

    def __init__(self, error: Any, last: compile_pb2.CompileEvent | None = None) -> None:
        self.code: str = error.code().name
        self.text: str = error.details()
        self.error: compile_pb2.Error | None = None
        self.retry_after: float | None = None
        for key, value in error.trailing_metadata() or ():
            if key == "grpc-status-details-bin":
                self._read(rpc_status_pb2.RpcStatus.FromString(value))
        if last is not None and last.HasField("error"):
            assert last.error == self.error, "event and status say different things"

    def _read(self, status: rpc_status_pb2.RpcStatus) -> None:
        for detail in status.details:
            if detail.type_url.endswith("/preheat.v1.Error"):
                self.error = compile_pb2.Error.FromString(detail.value)
            if detail.type_url.endswith("/google.rpc.RetryInfo"):
                delay = rpc_status_pb2.RetryInfo.FromString(detail.value).retry_delay
                self.retry_after = delay.seconds + delay.nanos / 1e9

    @property
    def kind(self) -> str:
        return self.error.kind if self.error is not None else ""

    def __repr__(self) -> str:
        return f"{self.code} {self.kind or '(untyped)'}: {self.error.message if self.error else self.text}"


def chain(name: str, scalar: float = 1.5, length: int = 2, size: int = 64) -> compile_pb2.CompileRequest:
    """A program that compiles: `length` operators over a vector, told apart from others by its scalar."""
    program = program_pb2.Program(format=1)
    tensor = program_pb2.TensorType(
        dtype=program_pb2.DTYPE_F32, sizes=[str(size)], strides=["1"], device_type="cpu", alignment=16
    )
    program.values.add(tensor=tensor)
    program.inputs.add(value=0)
    for i in range(length):
        program.values.add(tensor=tensor)
        node = program.nodes.add(op="aten.mul.Scalar" if i == 0 else "aten.tanh.default", results=[i + 1])
        node.arguments.add(name="self", tensor=i)
        if i == 0:
            node.arguments.add(name="other", number=scalar)
    program.outputs.add(value=length)
    request = compile_pb2.CompileRequest(target="cpu", name=name, extern_allowed=True)
    request.source.program.CopyFrom(program)
    return request
