"""Real workers that crash, hang and grow: each costs one task and a typed error, and the next task finds a worker."""

from __future__ import annotations

import pathlib
import threading
import time
import urllib.request
from collections.abc import Callable

import grpc
from daemon import PATIENCE, Daemon, Failure, chain, peak_bytes
from preheat._proto import compile_pb2
from preheat.client import source_digest


def until(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.1)


def crashes(daemon: Daemon) -> int:
    return sum(worker["crashes"] for worker in daemon.workers())


def compiles(daemon: Daemon, name: str, scalar: float) -> None:
    done = daemon.compile(chain(name, scalar), timeout=PATIENCE)
    assert not isinstance(done, Failure), done
    assert done.key


def test_a_crash_costs_nothing_but_time(data: pathlib.Path, tmp_path: pathlib.Path) -> None:
    daemon = Daemon(data, verify=False, faults=f"crash-once={tmp_path / 'mark'}:unlucky")
    compiles(daemon, "unlucky", 1.25)
    assert crashes(daemon) == 1
    daemon.stop()


def test_two_lost_workers_end_a_task(data: pathlib.Path) -> None:
    daemon = Daemon(data, verify=False, faults="crash=deadly")
    failure = daemon.compile(chain("deadly", 1.5), timeout=PATIENCE)
    assert isinstance(failure, Failure) and failure.kind == "task_killed_workers", failure
    assert crashes(daemon) == 2
    again = daemon.compile(chain("deadly", 1.5), timeout=5)
    assert isinstance(again, Failure) and again.kind == "task_killed_workers", "kept for half a minute"
    assert crashes(daemon) == 2, "and nobody tried"
    compiles(daemon, "harmless", 1.75)
    assert daemon.stats()["requests"]["negative"] == 1
    daemon.stop()


def test_a_hang_ends_at_its_deadline(data: pathlib.Path) -> None:
    daemon = Daemon(data, verify=False, faults="hang=endless,stop=still", task_deadline_seconds=3, heartbeat_seconds=60)
    for name in ("endless", "still"):
        begun = time.monotonic()
        failure = daemon.compile(chain(name, 2.5), timeout=PATIENCE)
        assert isinstance(failure, Failure) and (failure.code, failure.kind) == ("DEADLINE_EXCEEDED", "task_deadline")
        assert time.monotonic() - begun < 60
        compiles(daemon, f"after {name}", 2.75)
        daemon.compile(chain(name, 2.5), timeout=10)  # negative by now: no worker is spent on it
    daemon.stop()


def test_silence_ends_a_worker(data: pathlib.Path) -> None:
    daemon = Daemon(data, verify=False, faults="stop=still", heartbeat_seconds=3)
    failure = daemon.compile(chain("still", 3.5), timeout=PATIENCE)
    assert isinstance(failure, Failure) and failure.kind == "task_killed_workers", failure
    assert failure.error is not None and "silent" in failure.error.message
    compiles(daemon, "after", 3.75)
    daemon.stop()


def test_memory_is_watched(data: pathlib.Path) -> None:
    limit = 1 << 30
    daemon = Daemon(data, verify=False, faults="grow=greedy", worker_memory_bytes=limit)
    failure = daemon.compile(chain("greedy", 4.5), timeout=PATIENCE)
    assert isinstance(failure, Failure) and failure.kind == "task_killed_workers", failure
    assert failure.error is not None and "memory" in failure.error.message, failure
    assert crashes(daemon) == 2
    compiles(daemon, "modest", 4.75)
    daemon.stop()


def test_work_that_nobody_waits_for_is_cancelled(data: pathlib.Path) -> None:
    """The caller's own deadline passes; the worker hangs, and is needed again for the next one."""
    daemon = Daemon(data, verify=False, faults="hang=abandoned")
    failure = daemon.compile(chain("abandoned", 5.5), timeout=2)
    assert isinstance(failure, Failure) and failure.code == "DEADLINE_EXCEEDED"
    begun = time.monotonic()
    compiles(daemon, "next", 5.75)
    assert time.monotonic() - begun < 60, "long before the task's own deadline of half an hour"
    daemon.stop()


def test_a_full_queue_says_when_to_come_back(data: pathlib.Path) -> None:
    daemon = Daemon(data, verify=False, faults="hang=first", max_queue=1)
    with daemon.channel() as channel:
        stub = channel.unary_stream("/preheat.v1.Compiler/Compile", None, compile_pb2.CompileEvent.FromString)
        held = [stub(chain("first", 6.5).SerializeToString())]
        until(lambda: daemon.workers()[0]["state"] == "busy", "the first task is taken")
        held.append(stub(chain("second", 6.75).SerializeToString()))
        until(lambda: b"preheat_queue_depth 1" in metrics(daemon), "the second task waits")
        failure = daemon.compile(chain("third", 7.5), timeout=PATIENCE)
        assert isinstance(failure, Failure) and (failure.code, failure.kind) == ("RESOURCE_EXHAUSTED", "queue_full")
        assert failure.retry_after is not None and 0 < failure.retry_after <= 30
        for call in held:
            call.cancel()
    daemon.process.kill()
    daemon.process.wait()


def metrics(daemon: Daemon) -> bytes:
    return urllib.request.urlopen(f"http://127.0.0.1:{daemon.ports['http_port']}/metrics").read()


def without_source(request: compile_pb2.CompileRequest) -> compile_pb2.CompileRequest:
    brief = compile_pb2.CompileRequest()
    brief.CopyFrom(request)
    brief.ClearField("source")
    brief.source_digest = source_digest(request.source.program)
    return brief


def test_five_hundred_clients_and_twenty_programs(data: pathlib.Path) -> None:
    """
    Each program is compiled once and sent hardly more often, nobody is refused for good, and a waiting client costs the
    server little. Each asks by digest first, as clients do for large programs.
    """
    clients, programs = 500, 20
    daemon = Daemon(data, workers=2, verify=False)
    requests = [chain(f"flood {i}", 8 + i / 32, length=4, size=64 + i) for i in range(programs)]
    wholes = [request.SerializeToString() for request in requests]
    by_digest = [without_source(request).SerializeToString() for request in requests]
    results: list[compile_pb2.CompileResult | Failure] = []
    sent: list[int] = []
    lock = threading.Lock()

    def ask(i: int) -> None:
        options = [("grpc.use_local_subchannel_pool", 1)]  # a connection of its own
        with grpc.insecure_channel(daemon.address, options) as channel:
            stub = channel.unary_stream("/preheat.v1.Compiler/Compile", None, compile_pb2.CompileEvent.FromString)
            try:
                done = list(stub(by_digest[i % programs], timeout=PATIENCE))[-1].done
                if done.result == compile_pb2.SOURCE_NEEDED:
                    sent.append(i)
                    done = list(stub(wholes[i % programs], timeout=PATIENCE))[-1].done
                with lock:
                    results.append(done)
            except grpc.RpcError as error:
                with lock:
                    results.append(Failure(error))

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    failures = [result for result in results if isinstance(result, Failure)]
    assert len(results) == clients and not failures, failures[:3]
    counts = daemon.stats()["requests"]
    assert counts["compiled"] == programs, counts
    assert counts["hit"] + counts["coalesced"] == clients - programs, counts
    print("programs sent", len(sent))
    assert programs <= len(sent) <= clients // 4, "a second client of a program sends it where the first takes long"
    peak = peak_bytes(daemon.process.pid)
    print("server's peak", peak >> 20, "MiB")
    assert peak < 500 << 20
    daemon.stop()
