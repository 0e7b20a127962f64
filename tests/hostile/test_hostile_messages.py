"""Bytes that no client of ours would send, straight at the server: a typed error soon, nothing grows, nothing ends."""

from __future__ import annotations

import contextlib
import os
import pathlib
import random
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator

import grpc
import pytest
from daemon import ROOT, Daemon, Failure, chain, forget_peak, peak_bytes
from google.protobuf import text_format
from preheat._proto import compile_pb2, program_pb2

SECONDS = 5.0 * float(os.environ.get("PREHEAT_PATIENCE", "4"))  # the machine may be busy with other tests
MEMORY = 500 << 20
COMPILE = "/preheat.v1.Compiler/Compile"
METHODS = [
    f"/preheat.v1.Compiler/{m}" for m in ("Compile", "Lookup", "Explain", "Verify", "WhyMiss", "ReportLocalHits")
]
METHODS += ["/preheat.v1.Pool/ListWorkers"]


def delimited(field: int, data: bytes) -> bytes:
    """A length-delimited field of the wire."""
    size, length = len(data), b""
    while True:
        length += bytes([size & 127 | (128 if size > 127 else 0)])
        size >>= 7
        if not size:
            return bytes([field << 3 | 2]) + length + data


@pytest.fixture(autouse=True)
def within_bounds(daemon: Daemon) -> Iterator[None]:
    """Whatever a test sends: both processes live on, and neither has grown beyond the bound."""
    workers = daemon.worker_pids()
    forget_peak(daemon.process.pid)
    before = {pid: peak_bytes(pid) for pid in workers}
    yield
    assert daemon.alive()
    assert daemon.worker_pids() == workers, "a worker was lost"
    assert peak_bytes(daemon.process.pid) < MEMORY
    for pid in workers:
        assert peak_bytes(pid) - before[pid] < MEMORY
    assert daemon.call("/preheat.v1.Compiler/Stats", b"") != b""


def refused(send: Callable[[], object], *kinds: str) -> Failure:
    begun = time.monotonic()
    failure = send()
    assert time.monotonic() - begun < SECONDS
    assert isinstance(failure, Failure), failure
    assert failure.error is not None and failure.error.message, failure
    assert failure.kind in kinds, failure
    return failure


@pytest.mark.parametrize("method", METHODS)
def test_no_messages(daemon: Daemon, method: str) -> None:
    for junk in (b"\xff" * 100, b"\x0a\x7f", b"\x0b", b"\x0a" * 31, b"\x80" * 11):
        refused(lambda: daemon.call(method, junk), "malformed_message")  # noqa: B023


def test_random_bytes(daemon: Daemon) -> None:
    randomness = random.Random(1)
    for _ in range(300):
        junk = randomness.randbytes(randomness.randrange(200))
        answer = daemon.call(randomness.choice(METHODS), junk)
        assert not isinstance(answer, Failure) or answer.error is not None, (junk, answer)


def test_mutated_requests(daemon: Daemon) -> None:
    """A good request with bytes changed, cut and repeated."""
    good = chain("mutated").SerializeToString()
    randomness = random.Random(2)
    for _ in range(300):
        bad = bytearray(good)
        for _ in range(randomness.randrange(1, 4)):
            bad[randomness.randrange(len(bad))] = randomness.randrange(256)
        if randomness.random() < 0.3:
            bad = bad[: randomness.randrange(len(bad))]
        answer = daemon.compile(bytes(bad))
        assert not isinstance(answer, Failure) or answer.error is not None, (bytes(bad), answer)


def test_unknown_methods(daemon: Daemon) -> None:
    for method in ("/preheat.v1.Compiler/Nothing", "/no.such.Service/Call", "/x"):
        refused(lambda: daemon.call(method, b""), "unknown_method")  # noqa: B023


@pytest.mark.parametrize("megabytes", [70, 150])
def test_large_messages(daemon: Daemon, megabytes: int) -> None:
    """Refused by gRPC itself, before a byte is looked at: without our details, but with the reason."""
    begun = time.monotonic()
    answer = daemon.compile(bytes(megabytes << 20))
    assert time.monotonic() - begun < SECONDS
    assert isinstance(answer, Failure) and answer.code == "RESOURCE_EXHAUSTED" and "larger than max" in answer.text


def test_a_message_of_a_gigabyte(daemon: Daemon) -> None:
    """More than the transport may hold: its stream is ended before it has all arrived."""
    begun = time.monotonic()
    answer = daemon.compile(bytes(1 << 30))
    assert time.monotonic() - begun < SECONDS
    assert isinstance(answer, Failure) and answer.code == "RESOURCE_EXHAUSTED"


def test_messages_that_claim_gigabytes(daemon: Daemon) -> None:
    """Frames of HTTP/2 by hand, as no gRPC library sends them: a length alone costs little, and others are served."""

    def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
        return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload

    def header(name: str, value: str) -> bytes:
        return bytes([0, len(name)]) + name.encode() + bytes([len(value)]) + value.encode()

    headers = b"".join(
        header(name, value)
        for name, value in [
            (":method", "POST"), (":scheme", "http"), (":path", COMPILE), (":authority", "x"),
            ("te", "trailers"), ("content-type", "application/grpc"),
        ]
    )  # fmt: skip
    host, port = daemon.address.split(":")
    with contextlib.ExitStack() as connections:
        for claimed in ((1 << 31) - 1, 1 << 31, (1 << 32) - 1):
            connection = connections.enter_context(socket.create_connection((host, int(port)), timeout=SECONDS))
            connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b""))
            connection.sendall(frame(1, 4, 1, headers))
            connection.sendall(frame(0, 0, 1, struct.pack(">BI", 0, claimed) + bytes(1000)))
            assert connection.recv(65536), "it hung up"
            begun = time.monotonic()
            assert not isinstance(daemon.call("/preheat.v1.Compiler/Stats", b""), Failure)
            assert time.monotonic() - begun < SECONDS


def test_amplification(daemon: Daemon) -> None:
    """Two bytes of the wire that become a hundred in memory."""
    source, program, nodes, exclude, dims = 1, 1, 8, 5, 2
    million = 1 << 20
    refused(lambda: daemon.compile(delimited(source, delimited(program, delimited(nodes, b"") * 20 * million))),
            "message_too_complex")  # fmt: skip
    refused(lambda: daemon.compile(delimited(exclude, b"") * 20 * million), "message_too_complex")
    refused(lambda: daemon.compile(b"\xf8\x06\x00" * 16 * million), "message_too_complex")
    entries = b"".join(delimited(dims, delimited(1, b"%x" % i)) for i in range(3 * million))
    refused(lambda: daemon.compile(entries), "message_too_complex")
    refused(lambda: daemon.call("/preheat.v1.Compiler/Lookup", delimited(1, b"") * 20 * million), "message_too_complex")


def test_compressed_messages(daemon: Daemon) -> None:
    """A few kilobytes that would be as many gigabytes as one likes are not unpacked."""
    request = compile_pb2.CompileRequest(target="cpu")
    request.source.hlo_module = bytes(100 << 20)
    answer = daemon.compile(request, compression=grpc.Compression.Gzip)
    assert isinstance(answer, Failure) and answer.code in ("UNIMPLEMENTED", "RESOURCE_EXHAUSTED"), answer


def model(text: str) -> compile_pb2.CompileRequest:
    request = compile_pb2.CompileRequest(target="cpu", extern_allowed=True)
    request.source.exported_model.model_json = text
    return request


@pytest.mark.parametrize("path", sorted((ROOT / "tests" / "rejects").glob("*.reject")), ids=lambda path: path.stem)
def test_bad_programs(daemon: Daemon, path: pathlib.Path) -> None:
    """Cyclic graphs, bad dtypes, negative and 2^62 sizes, ... : the kinds that the importer's own test expects."""
    source, kind, text = path.read_text().split("\n", 2)
    if source == "export":
        request = model(text)
    else:
        request = compile_pb2.CompileRequest(target="cpu", extern_allowed=True)
        request.source.program.CopyFrom(text_format.Parse(text, program_pb2.Program()))
    failure = refused(lambda: daemon.compile(request), kind)
    if path.stem == "schema_major":
        assert failure.error is not None and "9" in failure.error.message, "which version it was"


@pytest.mark.parametrize(
    "text",
    ["", "[" * 1_000_000, "[" * 1_000_000 + "]" * 1_000_000, '{"a":' * 1_000_000, "[" + "[]," * 15_000_000 + "0]",
     "\ud7ff" * 1000, "null", "1e400", '"' + "x" * 30_000_000 + '"'],
    ids=["empty", "deep", "deep_closed", "deep_objects", "wide", "text", "null", "number", "long"],
)  # fmt: skip
def test_bad_json(daemon: Daemon, text: str) -> None:
    refused(lambda: daemon.compile(model(text)), "malformed_archive", "unsupported_schema")


def test_bad_utf8(daemon: Daemon) -> None:
    refused(lambda: daemon.compile(delimited(1, delimited(2, delimited(1, b"\xff\xfe")))), "malformed_message")


def test_bad_fields(daemon: Daemon) -> None:
    request = chain("x" * 300)
    refused(lambda: daemon.compile(request), "invalid_request")
    request = chain("fields")
    request.target = "tpu:9000"
    refused(lambda: daemon.compile(request), "unsupported_target")
    request.target = "cpu:x86-64-v99"
    refused(lambda: daemon.compile(request), "unsupported_target", "unsupported_cpu")
    request.target = "cpu"
    request.dims["no_such"] = 1 << 62
    refused(lambda: daemon.compile(request), "unknown_dimension")
    refused(lambda: daemon.compile(compile_pb2.CompileRequest()), "invalid_request")


def test_many_large_requests_at_once(daemon: Daemon) -> None:
    """Thirty times 60 MB: what does not fit at the moment is refused or waits; the bound of one holds for all."""
    request = compile_pb2.CompileRequest(target="cpu")
    request.source.hlo_module = bytes(60 << 20)
    message = request.SerializeToString()
    answers: list[object] = []

    def send() -> None:
        answers.append(daemon.compile(message, timeout=60))

    threads = [threading.Thread(target=send) for _ in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 30
    assert all(isinstance(answer, Failure) for answer in answers), "nothing of it is a program"
    print("peak", peak_bytes(daemon.process.pid) >> 20, "MiB", {repr(a)[:60] for a in answers})
