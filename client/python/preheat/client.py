"""The service as Python calls it: one request, its answer, the blobs it names.

    client = preheat.Client()
    executable = client.compile(program)
    session = executable.bind()
    outputs = session.run([x, y])

A channel lives for one call only, so that a forked child never meets its parent's.
"""

from __future__ import annotations

import contextlib
import itertools
import pathlib
import random
import secrets
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

import grpc

from preheat import native, runtime
from preheat._proto import artifact_pb2, cache_pb2, program_pb2, rpc_status_pb2
from preheat._proto import compile_pb2 as pb
from preheat.config import Config
from preheat.errors import PreheatError
from preheat.local_cache import LocalCache, digest

_MODES = {"fast": pb.FAST, "tuned": pb.TUNED, "background": pb.BACKGROUND}
_MAX_REPLY = 256 << 20
_LARGE = 16384  # bytes of a program: a round trip takes less than sending, parsing and hashing as many
_CONNECT_SECONDS = 3.0  # a server that has not answered a dial by then is not there
_SETTINGS = b"\x04"  # the type of the frame that an HTTP/2 server sends first
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + _SETTINGS + bytes(5)  # a client's, without settings
_SILENCE_SECONDS = 60.0  # a server at work tells of it every few seconds: one that is silent longer hangs
_CHANNEL_OPTIONS = [
    ("grpc.max_receive_message_length", _MAX_REPLY),
    ("grpc.max_send_message_length", -1),
    ("grpc.enable_http_proxy", 0),
    ("grpc.enable_retries", 0),
]


class Client:
    """Thread-safe. Errors are PreheatError; kinds "unreachable" and "deadline" are the network's."""

    def __init__(self, config: Config | None = None) -> None:
        self.config = config or Config.make()
        self.cache = LocalCache(self.config.cache_dir)
        self._lock = threading.Lock()
        self._local_hits: dict[str, int] = {}  # not reported yet
        self._sends_programs = False  # the server's version knows none by its digest

    def compile(self, program: program_pb2.Program, name: str = "", freeze: bool | None = None) -> runtime.Executable:
        """Fetches the program's artifact, compiled now if nobody did before, and loads it."""
        return self.load(self.request(program, name, freeze))

    def request(
        self,
        program: program_pb2.Program,
        name: str = "",
        freeze: bool | None = None,
        dims: Mapping[str, int] | None = None,
    ) -> pb.CompileResult:
        """The answer, with whatever blobs the server put beside it. `dims`: values for some of the symbols."""
        request = self._make_request(program, name, self.config.freeze if freeze is None else freeze)
        request.dims.update(dims or {})
        alias = _alias(request)
        if (known := self.cache.read_result(alias)) is not None:
            request.have_blobs.extend(b.digest for b in _needed(known.manifest) if self.cache.has_blob(b.digest))
        try:
            result = self._compile(request, program)
        except PreheatError as error:
            kept = self.cache.read_result(alias) if error.kind == "unreachable" else None
            if kept is None or not all(self.cache.has_blob(b.digest) for b in _needed(kept.manifest)):
                raise
            with self._lock:
                self._local_hits[kept.key] = self._local_hits.get(kept.key, 0) + 1
            kept.result = pb.HIT
            return kept
        for name_, data in result.blobs.items():
            if digest(data) == name_:
                self.cache.write_blob(name_, data)
        self.cache.write_result(alias, result)
        return result

    def load(self, result: pb.CompileResult) -> runtime.Executable:
        manifest = result.manifest
        code = {b.digest: self.read_blob(b, result) for b in manifest.code}
        return runtime.Executable.load(self.read_blob(manifest.plan, result), code, self.cache.code_dir())

    def report(self, result: pb.CompileResult) -> artifact_pb2.FusionReport:
        """What was fused; empty when it cannot be had, since it is only told, never used."""
        try:
            return artifact_pb2.FusionReport.FromString(self.read_blob(result.manifest.report, result))
        except Exception:
            return artifact_pb2.FusionReport()

    def read_blob(self, blob: artifact_pb2.BlobRef, result: pb.CompileResult | None = None) -> bytes:
        """From the reply, the local cache or the server; the digest is verified."""
        data = result.blobs.get(blob.digest) if result is not None else None
        if data is not None and digest(data) == blob.digest:
            return data
        data = self.cache.read_blob(blob.digest)
        if data is None:
            data = self._download(blob)
            self.cache.write_blob(blob.digest, data)
        return data

    # --- Calls ---

    def _make_request(self, program: program_pb2.Program, name: str, freeze: bool) -> pb.CompileRequest:
        """By the program's digest: most are stored already when a job asks, and it travels faster than they do."""
        config = self.config
        return pb.CompileRequest(
            source_digest=source_digest(program), target=_target(program, config.target), mode=_MODES[config.mode],
            exclude=config.exclude, freeze=freeze, environment=native.environment(), name_space=config.name_space,
            job_id=config.job_id, name=name, extern_allowed=True, inline_blobs=True,
        )  # fmt: skip

    def _compile(self, request: pb.CompileRequest, program: program_pb2.Program) -> pb.CompileResult:
        """Asks again as long as the server says so, at least a random while later each time."""
        deadline = time.monotonic() + self.config.deadline
        for ceiling in itertools.chain((0.05, 0.1, 0.2, 0.4, 0.8, 1.6), itertools.repeat(2.0)):
            try:
                return self._compile_once(request, program)
            except PreheatError as error:
                wait = (error.retry_after or 0) + random.uniform(ceiling / 2, ceiling)
                if error.retry_after is None or time.monotonic() + wait > deadline:
                    raise
                time.sleep(wait)
        raise AssertionError("unreachable")

    def _compile_once(self, request: pb.CompileRequest, program: program_pb2.Program) -> pb.CompileResult:
        with self._call("/preheat.v1.Compiler/Compile") as (channel, timeout, metadata):
            result = None
            if not self._sends_programs and program.ByteSize() >= _LARGE:
                result = self._ask_by_digest(channel, timeout, metadata, request)
            if result is not None:
                _name_boundary(program, result)
            else:
                result = self._ask(channel, timeout, metadata, _with_program(request, program))
            self._report_local_hits(channel, metadata)
            return result

    def _ask_by_digest(
        self, channel: grpc.Channel, timeout: float, metadata: list[tuple[str, str]], request: pb.CompileRequest
    ) -> pb.CompileResult | None:
        """Nothing when the server has to see the program."""
        try:
            result = self._ask(channel, timeout, metadata, request)
        except grpc.RpcError as error:
            failed = self._from_rpc(error, "Compile")
            if failed.kind != "invalid_request" or failed.where != "source":
                raise
            self._sends_programs = True
            return None
        return None if result.result == pb.SOURCE_NEEDED else result

    def _ask(
        self, channel: grpc.Channel, timeout: float, metadata: list[tuple[str, str]], request: pb.CompileRequest
    ) -> pb.CompileResult:
        stub = channel.unary_stream(
            "/preheat.v1.Compiler/Compile", pb.CompileRequest.SerializeToString, pb.CompileEvent.FromString
        )
        failed: pb.Error | None = None
        for event in _heard(stub(request, timeout=timeout, metadata=metadata), _SILENCE_SECONDS):
            if event.HasField("error"):
                failed = event.error  # the call's status, which follows, says more
            if event.HasField("done"):
                return event.done
        if failed is not None:  # of a server that says it in the event alone
            raise PreheatError(failed.code, failed.kind, failed.message, failed.where, failed.fix)
        raise PreheatError("INTERNAL", "no_answer", "the server ended the call without an answer", self.config.server)

    def _download(self, blob: artifact_pb2.BlobRef) -> bytes:
        with self._call("/preheat.v1.Cache/ReadBlob") as (channel, timeout, metadata):
            stub = channel.unary_stream(
                "/preheat.v1.Cache/ReadBlob",
                cache_pb2.ReadBlobRequest.SerializeToString,
                cache_pb2.BlobChunk.FromString,
            )
            chunks = stub(cache_pb2.ReadBlobRequest(digest=blob.digest), timeout=timeout, metadata=metadata)
            data = b"".join(c.data for c in _heard(chunks, _SILENCE_SECONDS))
        if digest(data) != blob.digest:
            raise PreheatError(
                "DATA_LOSS",
                "corrupt_blob",
                f"the server sent other bytes than blob {blob.digest[:12]} has",
                self.config.server,
                "ask again",
            )
        return data

    def _report_local_hits(self, channel: grpc.Channel, metadata: list[tuple[str, str]]) -> None:
        with self._lock:
            hits, self._local_hits = self._local_hits, {}
        if hits:
            stub = channel.unary_unary(
                "/preheat.v1.Compiler/ReportLocalHits", pb.LocalHits.SerializeToString, pb.LocalHitsReply.FromString
            )
            with contextlib.suppress(grpc.RpcError):
                stub(
                    pb.LocalHits(hits=hits, name_space=self.config.name_space, job_id=self.config.job_id),
                    timeout=5,
                    metadata=metadata,
                )

    @contextlib.contextmanager
    def _call(self, method: str) -> Iterator[tuple[grpc.Channel, float, list[tuple[str, str]]]]:
        deadline = time.monotonic() + self.config.deadline
        request_id = secrets.token_hex(8)
        metadata = [("x-preheat-request-id", request_id), *self._token()]
        self._dial(min(_CONNECT_SECONDS, self.config.deadline))
        with self._channel() as channel:
            try:
                yield channel, max(deadline - time.monotonic(), 0.1), metadata
            except grpc.RpcError as error:
                failed = self._from_rpc(error, method)
                failed.request_id = "" if failed.kind == "unreachable" else request_id
                raise failed from None
            except PreheatError as error:
                error.request_id = request_id
                raise

    def _channel(self) -> grpc.Channel:
        config = self.config
        if not (config.tls_ca or config.tls_cert):
            return grpc.insecure_channel(config.server, _CHANNEL_OPTIONS)
        files = (config.tls_ca, config.tls_key, config.tls_cert)
        credentials = grpc.ssl_channel_credentials(*(_read_secret(path) if path else None for path in files))
        return grpc.secure_channel(config.server, credentials, _CHANNEL_OPTIONS)

    def _dial(self, seconds: float) -> None:
        """Whether somebody answers who speaks HTTP/2: gRPC's own way to find out takes a fifth of a second."""
        host, _, port = self.config.server.rpartition(":")
        try:
            with socket.create_connection((host.strip("[]"), int(port)), seconds) as dialled:
                if self.config.tls_ca or self.config.tls_cert:
                    return
                dialled.sendall(_PREFACE)
                first = dialled.recv(9)
        except (OSError, ValueError) as error:
            raise self._unreachable(str(error) or "nothing answered") from None
        if first[3:4] != _SETTINGS:
            raise self._unreachable("who answers does not speak gRPC")

    def _token(self) -> list[tuple[str, str]]:
        if not self.config.token_file:
            return []
        token = _read_secret(self.config.token_file).decode("ascii", "replace")  # at each call: it may be rotated
        return [("authorization", f"Bearer {token.strip()}")]

    def _unreachable(self, why: str) -> PreheatError:
        message = f"no preheatd answers at {self.config.server}: {why}"
        fix = "start one with `compilectl server start`, or name one in PREHEAT_SERVER"
        return PreheatError("UNAVAILABLE", "unreachable", message, self.config.server, fix)

    def _from_rpc(self, error: Any, method: str) -> PreheatError:
        for key, value in error.trailing_metadata() or ():
            if key == "grpc-status-details-bin":
                with contextlib.suppress(Exception):
                    return _from_details(rpc_status_pb2.RpcStatus.FromString(value))
        if error.code() == grpc.StatusCode.CANCELLED:  # by `_heard`: nobody else cancels
            message = f"{self.config.server} fell silent for {_SILENCE_SECONDS:.0f} s"
            fix = "look whether it hangs: /healthz and the status page of its HTTP port say so"
            return PreheatError("DEADLINE_EXCEEDED", "deadline", message, self.config.server, fix)
        if error.code() == grpc.StatusCode.UNAVAILABLE:
            return self._unreachable(error.details())
        if error.code() == grpc.StatusCode.DEADLINE_EXCEEDED:
            message = f"{self.config.server} did not answer in time"
            fix = "ask again (a compile that was begun goes on), or raise PREHEAT_DEADLINE"
            return PreheatError("DEADLINE_EXCEEDED", "deadline", message, self.config.server, fix)
        return PreheatError(
            error.code().name, error.code().name.lower(), f"{method}: {error.details()}", self.config.server
        )


def _from_details(status: rpc_status_pb2.RpcStatus) -> PreheatError:
    details = {detail.type_url.rsplit("/", 1)[-1]: detail.value for detail in status.details}
    e = pb.Error.FromString(details["preheat.v1.Error"])
    error = PreheatError(e.code, e.kind, e.message, e.where, e.fix)
    if "google.rpc.RetryInfo" in details:
        delay = rpc_status_pb2.RetryInfo.FromString(details["google.rpc.RetryInfo"]).retry_delay
        error.retry_after = delay.seconds + delay.nanos / 1e9
    return error


def _heard(events: Any, silence: float) -> Iterator[Any]:
    """The events of a call, which is cancelled when the next one does not come in time."""
    while True:
        watchdog = threading.Timer(silence, events.cancel)
        watchdog.daemon = True
        watchdog.start()
        try:
            event = next(events, None)
        finally:
            watchdog.cancel()
        if event is None:
            return
        yield event


def _read_secret(path: str) -> bytes:
    try:
        return pathlib.Path(path).read_bytes()
    except OSError as error:
        raise PreheatError(
            "INVALID_ARGUMENT", "unreadable_file", f"cannot read {path}: {error.strerror}", path,
            "check its name and permissions",
        ) from None  # fmt: skip


def _needed(manifest: artifact_pb2.Manifest) -> list[artifact_pb2.BlobRef]:
    return [manifest.plan, *manifest.code]


def _target(program: program_pb2.Program, chosen: str) -> str:
    """In the server's words: a GPU's architecture is known here alone."""
    if chosen in ("", "cuda") and any(v.tensor.device_type == "cuda" for v in program.values):
        chosen = "cuda"
    return native.cuda_target() if chosen == "cuda" else chosen or "cpu"


def source_digest(program: program_pb2.Program) -> str:
    """As proto/source_digest.h has it: what the server knows a program by."""
    source = pb.Source(program=program)
    _clear_debug_info(source.program)
    return digest(source.SerializeToString(deterministic=True))


def _clear_debug_info(program: program_pb2.Program) -> None:
    program.ClearField("debug_info")
    for node in program.nodes:
        node.ClearField("debug_id")
        for block in node.blocks:
            _clear_debug_info(block)


def _with_program(request: pb.CompileRequest, program: program_pb2.Program) -> pb.CompileRequest:
    whole = pb.CompileRequest()
    whole.CopyFrom(request)
    whole.ClearField("source_digest")
    whole.source.program.CopyFrom(program)
    return whole


def _name_boundary(program: program_pb2.Program, result: pb.CompileResult) -> None:
    """What the server has not seen: the names that the program's own debug information has."""
    names = program.debug_info
    for infos, known in ((result.inputs, names.input_names), (result.outputs, names.output_names)):
        for info, name in zip(infos, itertools.chain(known, itertools.repeat("")), strict=False):
            info.name = name


def _alias(request: pb.CompileRequest) -> str:
    """What the answer depends on, of this side: the request without names, its program by digest."""
    plain = pb.CompileRequest()
    plain.CopyFrom(request)
    plain.name = plain.job_id = ""
    del plain.have_blobs[:]
    plain.inline_blobs = False
    return digest(plain.SerializeToString(deterministic=True))
