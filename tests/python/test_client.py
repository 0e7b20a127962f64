"""The client against a server that fails in every way that a real one rarely does. tests/e2e has the real one."""

from __future__ import annotations

import concurrent.futures
import pathlib
import socket
import subprocess
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import preheat
import pytest
import torch
from preheat import breaker, client, errors, fallback
from preheat._proto import artifact_pb2, cache_pb2, program_pb2, rpc_status_pb2
from preheat._proto import compile_pb2 as pb
from preheat.config import Config
from preheat.local_cache import LocalCache, digest

Answer = Callable[[pb.CompileRequest, Any], Iterator[pb.CompileEvent]]


class FaultyServer:
    """Answers Compile as `answer` says and ReadBlob from `blobs`, whatever digest they have."""

    def __init__(self, credentials: grpc.ServerCredentials | None = None) -> None:
        self.answer: Answer = lambda request, context: iter(())
        self.blobs: dict[str, bytes] = {}
        self.requests: list[pb.CompileRequest] = []
        self.server = grpc.server(concurrent.futures.ThreadPoolExecutor(2))
        place = "localhost:0"
        port = self.server.add_secure_port(place, credentials) if credentials else self.server.add_insecure_port(place)
        self.address = f"localhost:{port}"
        compile_ = grpc.unary_stream_rpc_method_handler(
            self._compile, pb.CompileRequest.FromString, pb.CompileEvent.SerializeToString
        )
        read = grpc.unary_stream_rpc_method_handler(
            lambda r, c: iter([cache_pb2.BlobChunk(data=self.blobs.get(r.digest, b""))]),
            cache_pb2.ReadBlobRequest.FromString,
            cache_pb2.BlobChunk.SerializeToString,
        )
        self.server.add_generic_rpc_handlers(
            [
                grpc.method_handlers_generic_handler("preheat.v1.Compiler", {"Compile": compile_}),
                grpc.method_handlers_generic_handler("preheat.v1.Cache", {"ReadBlob": read}),
            ]
        )
        self.server.start()

    def _compile(self, request: pb.CompileRequest, context: Any) -> Iterator[pb.CompileEvent]:
        self.requests.append(request)
        return self.answer(request, context)


@pytest.fixture
def server() -> Iterator[FaultyServer]:
    faulty = FaultyServer()
    yield faulty
    faulty.server.stop(None)


@pytest.fixture(autouse=True)
def own_process_state(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    monkeypatch.setenv("PREHEAT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(client.native, "environment", pb.ClientEnvironment)
    monkeypatch.setattr(breaker, "shared", breaker.Breaker())
    monkeypatch.setattr(fallback, "_warned", set())
    preheat.reset_report()


def ask(server: str, **options: Any) -> pb.CompileResult:
    return preheat.Client(Config.make({"server": server, **options})).request(program_pb2.Program(format=1))


def done(key: str = "k", **fields: Any) -> Answer:
    return lambda request, context: iter([pb.CompileEvent(done=pb.CompileResult(key=key, result=pb.HIT, **fields))])


def test_nobody_answers() -> None:
    with pytest.raises(preheat.PreheatError, match="compilectl server start") as error:
        ask("localhost:1", deadline=2)
    assert error.value.kind == "unreachable"


def large_program() -> program_pb2.Program:
    nodes = [program_pb2.Node(op="aten.relu.default", debug_id=i) for i in range(2000)]
    return program_pb2.Program(format=1, nodes=nodes, debug_info=program_pb2.DebugInfo(input_names=["ids"]))


def test_large_programs_are_asked_for_by_digest(server: FaultyServer) -> None:
    known: list[str] = []

    def answer(request: pb.CompileRequest, context: Any) -> Iterator[pb.CompileEvent]:
        if request.source_digest and request.source_digest not in known:
            return iter([pb.CompileEvent(done=pb.CompileResult(result=pb.SOURCE_NEEDED))])
        return done(inputs=[pb.InputInfo()])(request, context)

    server.answer = answer
    one = preheat.Client(Config.make({"server": server.address}))
    assert one.request(large_program()).key == "k"
    first, second = server.requests
    assert first.source_digest and not first.HasField("source")
    assert second.source.program == large_program() and not second.source_digest

    known.append(first.source_digest)
    hit = one.request(large_program())
    assert len(server.requests) == 3
    assert [i.name for i in hit.inputs] == ["ids"]  # which the server has not seen
    other = large_program()
    other.nodes[7].op = "aten.neg.default"
    one.request(other)
    assert len(server.requests) == 5  # another digest


def test_servers_that_know_no_digests_are_sent_programs(server: FaultyServer) -> None:
    error = pb.Error(code="INVALID_ARGUMENT", kind="invalid_request", message="no program", where="source")
    details = rpc_status_pb2.RpcStatus()
    details.details.add(type_url="type.googleapis.com/preheat.v1.Error", value=error.SerializeToString())

    def answer(request: pb.CompileRequest, context: Any) -> Iterator[pb.CompileEvent]:
        if request.HasField("source"):
            return done()(request, context)
        context.set_trailing_metadata([("grpc-status-details-bin", details.SerializeToString())])
        context.abort(grpc.StatusCode.INVALID_ARGUMENT, "no program")

    server.answer = answer
    one = preheat.Client(Config.make({"server": server.address}))
    assert one.request(large_program()).key == "k"
    assert one.request(large_program()).key == "k"
    assert [r.HasField("source") for r in server.requests] == [False, True, True]


def test_the_servers_own_error(server: FaultyServer) -> None:
    wrong = pb.Error(code="INVALID_ARGUMENT", kind="unsupported_target", message="no such target", fix="say cpu")
    server.answer = lambda request, context: iter([pb.CompileEvent(error=wrong)])
    with pytest.raises(preheat.PreheatError, match="no such target; say cpu") as error:
        ask(server.address)
    assert error.value.kind == "unsupported_target"


def test_the_deadline_ends_a_call(server: FaultyServer) -> None:
    def slow(request: pb.CompileRequest, context: Any) -> Iterator[pb.CompileEvent]:
        while context.is_active():
            time.sleep(0.05)
            yield pb.CompileEvent(progress=pb.Progress(stage="compile"))

    server.answer = slow
    start = time.monotonic()
    with pytest.raises(preheat.PreheatError) as error:
        ask(server.address, deadline=0.5)
    assert error.value.kind == "deadline" and time.monotonic() - start < 5


def test_a_server_that_hangs_is_given_up(server: FaultyServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_SILENCE_SECONDS", 0.5)
    released = threading.Event()

    def hang(request: pb.CompileRequest, context: Any) -> Iterator[pb.CompileEvent]:
        yield pb.CompileEvent(progress=pb.Progress(stage="compile"))
        released.wait(20)

    server.answer = hang
    start = time.monotonic()
    with pytest.raises(preheat.PreheatError, match="fell silent") as error:
        ask(server.address)
    released.set()
    assert error.value.kind == "deadline" and time.monotonic() - start < 5


def test_a_listener_that_speaks_no_grpc_is_given_up() -> None:
    with socket.socket() as mute:
        mute.bind(("localhost", 0))
        mute.listen()
        with pytest.raises(preheat.PreheatError) as error:
            ask(f"localhost:{mute.getsockname()[1]}", deadline=1)
    assert error.value.kind == "unreachable"


def test_tls_and_token(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1",
         "-keyout", "key.pem", "-out", "cert.pem", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"],
        cwd=tmp_path, check=True, capture_output=True,
    )  # fmt: skip
    pair = (tmp_path / "key.pem").read_bytes(), (tmp_path / "cert.pem").read_bytes()
    secure = FaultyServer(grpc.ssl_server_credentials([pair]))
    seen: list[Any] = []

    def answer(request: pb.CompileRequest, context: Any) -> Iterator[pb.CompileEvent]:
        seen.extend(context.invocation_metadata())
        return done()(request, context)

    secure.answer = answer
    (tmp_path / "token").write_text("open sesame\n")
    monkeypatch.setenv("PREHEAT_TOKEN_FILE", str(tmp_path / "token"))
    monkeypatch.setenv("PREHEAT_TLS_CA", str(tmp_path / "cert.pem"))
    assert ask(secure.address).key == "k"
    assert ("authorization", "Bearer open sesame") in [tuple(m) for m in seen]
    monkeypatch.setenv("PREHEAT_TLS_CA", str(tmp_path / "none.pem"))
    with pytest.raises(preheat.PreheatError) as error:
        ask(secure.address)
    assert error.value.kind == "unreadable_file"
    monkeypatch.delenv("PREHEAT_TLS_CA")
    with pytest.raises(preheat.PreheatError) as error:
        ask(secure.address, deadline=2)
    assert error.value.kind == "unreachable"
    secure.server.stop(None)


def test_an_answer_that_never_comes(server: FaultyServer) -> None:
    with pytest.raises(preheat.PreheatError, match="without an answer"):
        ask(server.address)


def test_blobs_are_held_to_their_digests(server: FaultyServer) -> None:
    good = b"bytes of a plan"
    ref = artifact_pb2.BlobRef(digest=digest(good), size_bytes=len(good))
    one = preheat.Client(Config.make({"server": server.address}))
    server.blobs = {ref.digest: b"other bytes"}
    with pytest.raises(preheat.PreheatError) as error:
        one.read_blob(ref)
    assert error.value.kind == "corrupt_blob"
    server.blobs = {ref.digest: good}
    assert one.read_blob(ref) == good
    server.blobs = {}
    assert one.read_blob(ref) == good  # from the local cache


def test_a_damaged_local_file_is_absent(tmp_path: pathlib.Path) -> None:
    cache = LocalCache(str(tmp_path))
    cache.write_blob(digest(b"x"), b"x")
    (path,) = [p for p in tmp_path.rglob("*") if p.is_file()]
    path.write_bytes(b"y")
    assert cache.read_blob(digest(b"x")) is None and not path.exists()


def test_what_was_answered_before_is_answered_without_a_server(server: FaultyServer) -> None:
    plan = b"plan"
    manifest = artifact_pb2.Manifest(key="k", plan=artifact_pb2.BlobRef(digest=digest(plan)))
    server.answer = done(manifest=manifest, blobs={digest(plan): plan})
    one = preheat.Client(Config.make({"server": server.address}))
    assert one.request(program_pb2.Program(format=1)).key == "k"
    server.answer = done(manifest=manifest)
    one.request(program_pb2.Program(format=1))
    assert list(server.requests[-1].have_blobs) == [digest(plan)]
    server.server.stop(None).wait()
    offline = one.request(program_pb2.Program(format=1))
    assert offline.key == "k" and one.read_blob(offline.manifest.plan) == plan
    with pytest.raises(preheat.PreheatError):
        one.request(program_pb2.Program(format=1, guards=["d0"]))  # another program


def test_without_a_server_the_job_goes_on_with_one_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREHEAT_SERVER", "localhost:1")
    torch._dynamo.reset()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for fn in (lambda x: x * 2, lambda x: x - 2):
            assert torch.equal(torch.compile(fn, backend="preheat")(torch.ones(3)), fn(torch.ones(3)))
    assert len([w for w in caught if issubclass(w.category, errors.PreheatWarning)]) == 1
    report = preheat.report().to_dict()
    assert [g["result"] for g in report["graphs"]] == ["eager", "eager"]
    assert report["graphs"][0]["extern_ops"] == {"aten.mul.Tensor": 1}
    assert "ran eagerly, 2 times: unreachable" in str(preheat.report())


def test_a_server_killed_while_it_compiles(server: FaultyServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREHEAT_SERVER", server.address)

    def die(request: pb.CompileRequest, context: Any) -> Iterator[pb.CompileEvent]:
        yield pb.CompileEvent(progress=pb.Progress(stage="compile"))
        server.server.stop(None)
        time.sleep(1)

    server.answer = die
    torch._dynamo.reset()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for fn in (lambda x: x * 5, lambda x: x - 5):
            assert torch.equal(torch.compile(fn, backend="preheat")(torch.ones(3)), fn(torch.ones(3)))
    assert len([w for w in caught if issubclass(w.category, errors.PreheatWarning)]) == 1
    assert preheat.report().to_dict()["results"] == {"eager": 2}


def test_required_makes_it_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREHEAT_SERVER", "localhost:1")
    monkeypatch.setenv("PREHEAT_REQUIRED", "1")
    torch._dynamo.reset()
    with pytest.raises(Exception, match="no preheatd answers"):
        torch.compile(lambda x: x * 2, backend="preheat")(torch.ones(3))


def test_disabled_is_eager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREHEAT_DISABLE", "1")
    torch._dynamo.reset()
    assert torch.equal(torch.compile(lambda x: x * 2, backend="preheat")(torch.ones(3)), torch.full((3,), 2.0))
    assert preheat.report().graphs == []


def test_a_server_that_fails_a_graph_costs_only_speed(server: FaultyServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREHEAT_SERVER", server.address)
    wrong = pb.Error(code="INTERNAL", kind="codegen_failed", message="no kernel")
    server.answer = lambda request, context: iter([pb.CompileEvent(error=wrong)])
    torch._dynamo.reset()
    with pytest.warns(errors.PreheatWarning, match="no kernel"):
        assert torch.equal(torch.compile(lambda x: x * 2, backend="preheat")(torch.ones(3)), torch.full((3,), 2.0))
    assert preheat.report().graphs[0].result == "eager"


def test_what_aotautograd_refuses_runs_eagerly(monkeypatch: pytest.MonkeyPatch) -> None:
    torch._dynamo.reset()
    fast = torch.compile(lambda x: x.clone().polygamma_(1), backend="preheat")
    with torch.no_grad(), pytest.warns(errors.PreheatWarning, match="AOTAutograd"):
        assert torch.equal(fast(torch.ones(3)), torch.ones(3).polygamma_(1))


def test_record_writes_bundles(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    monkeypatch.setenv("PREHEAT_SERVER", "localhost:1")
    monkeypatch.setenv("PREHEAT_RECORD", str(tmp_path / "recorded"))
    torch._dynamo.reset()
    torch.compile(lambda x: x * 2, backend="preheat")(torch.ones(3))
    (file,) = (tmp_path / "recorded").glob("*.preheat")
    (entry,) = program_pb2.Bundle.FromString(file.read_bytes()).programs
    assert entry.kind == "inference" and entry.program.nodes[0].op == "aten.mul.Tensor"
