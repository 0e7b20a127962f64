"""A crowd that wants the same at the same moment: one compile each, no error, and a server that stays small.

PREHEAT_CROWD says how many clients there are (default 500), each with a connection of its own.
"""

from __future__ import annotations

import asyncio
import collections
import hashlib
import os
import pathlib
import random
import time

import grpc
from daemon import Daemon, chain, forget_peak, peak_bytes
from preheat._proto import compile_pb2

CLIENTS = int(os.environ.get("PREHEAT_CROWD", "500"))
PROGRAMS = 20
MEMORY = 500 << 20
DEADLINE = 300.0  # seconds, on a machine that is busy with other tests


async def ask(
    address: str, requests: list[compile_pb2.CompileRequest], results: list[compile_pb2.CompileResult]
) -> None:
    """One client: all the programs, in an order of its own; every blob held against its digest."""
    async with grpc.aio.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)]) as channel:
        stub = channel.unary_stream(
            "/preheat.v1.Compiler/Compile",
            compile_pb2.CompileRequest.SerializeToString,
            compile_pb2.CompileEvent.FromString,
        )
        for request in random.sample(requests, len(requests)):
            last = compile_pb2.CompileEvent()
            async for event in stub(request, timeout=DEADLINE):
                last = event
            assert last.HasField("done"), last
            for blob in (last.done.manifest.plan, *last.done.manifest.code):
                assert hashlib.sha256(last.done.blobs[blob.digest]).hexdigest() == blob.digest
            results.append(last.done)


async def crowd(address: str, requests: list[compile_pb2.CompileRequest]) -> list[compile_pb2.CompileResult]:
    results: list[compile_pb2.CompileResult] = []
    await asyncio.gather(*(ask(address, requests, results) for _ in range(CLIENTS)))
    return results


def test_a_crowd_compiles_each_program_once(tmp_path: pathlib.Path) -> None:
    daemon = Daemon(tmp_path / "crowd", workers=2, verify="false")
    try:
        requests = [chain(f"crowd-{i}", scalar=1 + i / 64, length=4) for i in range(PROGRAMS)]
        for request in requests:
            request.inline_blobs = True
        forget_peak(daemon.process.pid)
        before = peak_bytes(daemon.process.pid)
        begun = time.monotonic()
        results = asyncio.run(crowd(daemon.address, requests))
        seconds = time.monotonic() - begun
        peak = peak_bytes(daemon.process.pid)

        counts = collections.Counter(compile_pb2.Result.Name(result.result) for result in results)
        print(f"{CLIENTS} clients, {PROGRAMS} programs: {dict(counts)} in {seconds:.1f} s;", end=" ")
        print(f"server {before >> 20} MiB before, {peak >> 20} MiB at most")
        assert len(results) == CLIENTS * PROGRAMS
        assert counts["COMPILED"] == PROGRAMS, "told to the one client that caused it"
        assert counts["HIT"] + counts["COALESCED"] == (CLIENTS - 1) * PROGRAMS
        assert len({result.key for result in results}) == PROGRAMS
        stats = daemon.stats()
        assert stats["requests"]["compiled"] == PROGRAMS and stats["entries"] == PROGRAMS
        assert not any(stats["requests"].get(kind) for kind in ("failed", "refused", "negative"))
        assert sum(worker["tasks"] for worker in daemon.workers()) == PROGRAMS, "nothing was compiled twice"
        assert peak < MEMORY
        assert daemon.alive()
    finally:
        daemon.stop()
