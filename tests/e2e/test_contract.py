"""Names that scripts outside hold on to: commands, flags, JSON fields, exit statuses, routes, metrics, variables.

What other tests of this folder go through in depth is only named here (documents of errors: test_errors, positions in
buckets.yaml: test_warm, metrics under Prometheus: test_monitoring, tokens and TLS: tests/hostile/test_identity).
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys
import urllib.error
import urllib.request
from typing import Any

import grpc
import pytest
from service import BUILD, COMPILECTL, PATIENCE, Cli, Server, start_server, stop_server

# --- Commands and flags ---

GLOBALS = {"--server", "--json", "--tls-ca", "--tls-cert", "--tls-key", "--token-file"}
COMMANDS = {
    "warm": {"--shapes", "--mode", "--check"},
    "compile": {"--dim", "--input", "--target", "--mode"},
    "run": {"--repeat"},
    "verify": set(),
    "explain": {"--html"},
    "why-miss": set(),
    "ls": set(),
    "show": {"--source", "--plan", "--ir"},
    "pin": set(),
    "unpin": set(),
    "rm": {"--older-than", "--target"},
    "gc": {"--dry-run"},
    "export": set(),
    "import": set(),
    "workers": set(),
    "top": set(),
    "stats": set(),
    "server start": {"--data-dir", "--port", "--http-port", "--workers"},
    "server stop": set(),
    "server status": set(),
}
LOAD = {"--server", "--clients", "--seconds", "--program", "--keys", "--fetch", "--miss-share", "--json"}


def flags_of(*command: str | pathlib.Path) -> set[str]:
    done = subprocess.run([*command, "--help"], capture_output=True, text=True, check=True, timeout=60)
    return set(re.findall(r"(?:^  |,|\s)(--[a-z][a-z-]*)", done.stdout))


def test_every_command_has_its_flags() -> None:
    assert flags_of(COMPILECTL) >= GLOBALS
    for command, flags in COMMANDS.items():
        assert flags_of(COMPILECTL, *command.split()) >= flags, command
    assert flags_of(BUILD / "bin" / "preheat-load") >= LOAD


def test_every_setting_of_the_server_has_a_flag() -> None:
    done = subprocess.run(
        [BUILD / "bin" / "preheatd", "--check-config"], capture_output=True, text=True, check=True, timeout=60
    )
    settings = dict(line.split(": ", 1) for line in done.stdout.splitlines() if ": " in line)
    assert (settings["port"], settings["http_port"]) == ("7433", "9433")
    assert {"data_dir", "drain_seconds", "tune_when_busy"} <= set(settings)
    assert flags_of(BUILD / "bin" / "preheatd") >= {"--config"} | {f"--{s.replace('_', '-')}" for s in settings}


# --- Documents: a field, and what it may hold ---

NUMBER = (int, float, type(None))
TIME = str
KEY = "key"  # 64 hexadecimal digits
OUTPUT = {"rel_error": NUMBER, "eager_rel_error": NUMBER, "dtype": str, "shape": [int]}
KERNEL = {
    "name": str,
    "kind": str,
    "ops": [str],
    "bytes": int,
    "flops": int,
    "ms": NUMBER,
    "roofline": NUMBER,
}
COMPILED = {
    "key": KEY,
    "result": {"hit", "compiled", "coalesced"},
    "seconds": NUMBER,
    "generation": int,
    "tuned": bool,
    "target": str,
    "bytes": int,
}
STATS = {
    "requests": {name: int for name in ("hit", "compiled", "coalesced", "negative", "refused", "failed")},
    "hit_rate": NUMBER,
    "seconds_saved": NUMBER,
    "entries": int,
    "bytes": int,
    "evicted_bytes": int,
    "corrupt": int,
}
WORKER = {"id": str, "device": str, "target": str, "state": {"idle", "busy", "lost"}, "tasks": int, "crashes": int}
BUCKET = {
    "model": str,
    "dims": dict,
    "target": str,
    "key": KEY,
    "result": {"hit", "compiled", "coalesced", "missing", "failed"},
    "seconds": NUMBER,
    "error": (type(None), dict),
}
WARM = {
    "buckets": [BUCKET],
    **{name: int for name in ("hit", "compiled", "coalesced", "missing", "failed")},
    "seconds": NUMBER,
}
ENTRY = {
    "key": KEY,
    "name": str,
    "target": str,
    "generation": int,
    "tuned": bool,
    "verified": {"pending", "ok", "failed", "not_possible"},
    "bytes": int,
    "created": TIME,
    "last_used": TIME,
    "hits": int,
    "compile_seconds": NUMBER,
}
EXPLAINED = {
    "key": KEY,
    "kernels_before": int,
    "kernels_after": int,
    "kernels": [KERNEL],
    "library_calls": [{"name": str, "count": int}],
    "extern_calls": [{"op": str, "count": int, "reason": str}],
    "graph_breaks": [{"file": str, "line": int, "reason": str}],
    "peak_bytes_before": int,
    "peak_bytes_after": int,
    "stage_seconds": {name: NUMBER for name in ("import", "passes", "codegen", "compile", "tune", "verify")},
}
RUN = {
    "key": KEY,
    "result": str,
    "ms": {"p50": NUMBER, "p99": NUMBER},
    "eager_ms": NUMBER,
    "gb_per_s": NUMBER,
    "tflop_per_s": NUMBER,
}
VERIFIED = {"key": KEY, "ok": bool, "rel_error": NUMBER, "eager_rel_error": NUMBER, "outputs": [OUTPUT]}
LOADED = {
    "hits_per_s": NUMBER,
    "bytes_per_s": NUMBER,
    "p50_ms": NUMBER,
    "p99_ms": NUMBER,
    "compiles": int,
    "errors": int,
}


def hold(value: Any, contract: Any, at: str) -> None:
    """A dict: at least these fields; a list: any number of its one item; a set: one of these words; types."""
    if isinstance(contract, dict):
        assert isinstance(value, dict), at
        for field, of_field in contract.items():
            assert field in value, f"{at}.{field} is not there"
            hold(value[field], of_field, f"{at}.{field}")
    elif isinstance(contract, list):
        assert isinstance(value, list), at
        for i, item in enumerate(value):
            hold(item, contract[0], f"{at}[{i}]")
    elif isinstance(contract, set):
        assert value in contract, f"{at} is {value!r}"
    elif contract == KEY:
        assert re.fullmatch("[0-9a-f]{64}", value), f"{at} is {value!r}"
    else:
        assert isinstance(value, contract), f"{at} is {value!r}"
        assert contract is not int or not isinstance(value, bool), at


def test_every_document_has_its_fields(fresh: Server, models: pathlib.Path, tmp_path: pathlib.Path) -> None:
    cli = fresh.cli(tmp_path / "cache")
    archive = models / "mlp.pt2"
    shapes = tmp_path / "buckets.yaml"
    shapes.write_text(f"version: 1\nmodels:\n  - source: {archive}\n")
    checked = cli.run("warm", "--shapes", shapes, "--check")
    assert checked.status == 1
    hold(checked.document, WARM, "warm --check")
    hold(cli.ok("compile", archive), COMPILED, "compile")
    hold(cli.ok("warm", "--shapes", shapes, "--mode", "fast"), WARM, "warm")
    hold(cli.ok("run", archive, "--repeat", "3"), RUN, "run")
    verified = cli.ok("verify", archive)
    hold(verified, VERIFIED, "verify")
    assert verified["outputs"]
    explained = cli.ok("explain", archive)
    hold(explained, EXPLAINED, "explain")
    assert explained["kernels"] and explained["library_calls"]
    listed = cli.ok("ls")
    hold(listed, {"entries": [ENTRY]}, "ls")
    assert len(listed["entries"]) == 1
    hold(cli.ok("stats"), STATS, "stats")
    workers = cli.ok("workers")
    hold(workers, {"workers": [WORKER]}, "workers")
    assert workers["workers"]
    left_out = cli.ok("explain", archive, "--exclude", "aten.gelu", "--exclude", "aten.relu")
    hold(left_out, EXPLAINED, "explain --exclude")


def test_load_says_what_it_saw(fresh: Server, models: pathlib.Path) -> None:
    program = BUILD / "bin" / "preheat-load"
    for extra in (("--keys", "2", "--fetch", "none"), ("--program", models / "bert.pt2", "--fetch", "all")):
        done = subprocess.run(
            [program, "--server", fresh.address, "--json", "--clients", "3", "--seconds", "1", *extra],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        document = json.loads(done.stdout)
        hold(document, LOADED, "preheat-load")
        assert document["hits_per_s"] > 0 and document["errors"] == document["compiles"] == 0
        assert (document["bytes_per_s"] > 0) == ("all" in extra)


# --- Exit statuses ---


def test_exit_statuses(tmp_path: pathlib.Path, models: pathlib.Path) -> None:
    quotas = tmp_path / "quotas"
    quotas.write_text("small 0 -\n")
    config = tmp_path / "preheatd.yaml"
    config.write_text(f"quota_file: {quotas}\n")
    server = start_server(tmp_path / "data", "--config", config)
    try:
        cli = server.cli(tmp_path / "cache")
        archive = models / "mlp.pt2"
        cli.ok("compile", archive)
        assert cli.fails(1, "show", "0" * 64)["kind"] == "unknown_key"
        assert cli.fails(2, "compile", archive, "--dim", "nowhere=1")["kind"] == "unknown_dimension"
        small = Cli(server.address, tmp_path / "other", {"PREHEAT_NAMESPACE": "small"})
        assert small.ok("compile", archive)["result"] == "hit"  # what is stored is served to everybody
        assert small.fails(4, "--timeout", "1", "compile", models / "mlp_dynamic.pt2")["kind"] == "quota_compiles"
        gone = Cli("127.0.0.1:1", tmp_path / "cache")
        assert gone.fails(3, "ls")["kind"] == "unreachable"
    finally:
        stop_server(server)


# --- What others read of the server ---


def get(server: Server, path: str) -> tuple[int, str, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.started['http_port']}{path}", timeout=60) as reply:
            return reply.status, reply.headers["Content-Type"], reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers["Content-Type"], error.read().decode()


def test_routes(server: Server) -> None:
    for path, kind in (("/", "text/html"), ("/metrics", "text/plain"), ("/healthz", "text/"), ("/readyz", "text/")):
        status, content_type, body = get(server, path)
        assert status == 200 and content_type.startswith(kind) and body, path
    assert get(server, "/nowhere")[0] == 404


def test_health_and_reflection(server: Server) -> None:
    with grpc.insecure_channel(server.address) as channel:
        check = channel.unary_unary("/grpc.health.v1.Health/Check")
        assert check(b"", timeout=30) == b"\x08\x01"  # SERVING
        reflect = channel.stream_stream("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo")
        (listed,) = reflect(iter([b"\x3a\x00"]), timeout=30)  # list_services: ""
        for service in (b"preheat.v1.Compiler", b"preheat.v1.Cache", b"preheat.v1.Pool", b"grpc.health.v1.Health"):
            assert service in listed


METRICS = {
    "preheat_requests_total": ("counter", {"namespace", "result", "source"}),
    "preheat_request_seconds": ("histogram", {"result"}),
    "preheat_compile_seconds": ("histogram", {"target", "stage"}),
    "preheat_compile_seconds_saved_total": ("counter", {"namespace"}),
    "preheat_cache_bytes": ("gauge", set()),
    "preheat_cache_entries": ("gauge", set()),
    "preheat_cache_evicted_bytes_total": ("counter", set()),
    "preheat_cache_corrupt_total": ("counter", set()),
    "preheat_blob_bytes_total": ("counter", {"direction"}),
    "preheat_inflight": ("gauge", set()),
    "preheat_queue_depth": ("gauge", set()),
    "preheat_queue_seconds": (None, set()),
    "preheat_workers": ("gauge", {"device", "state"}),
    "preheat_worker_crashes_total": ("counter", set()),
    "preheat_tune_seconds_total": ("counter", {"device"}),
    "preheat_tune_speedup": ("histogram", set()),
    "preheat_verified_total": ("counter", {"result"}),
    "preheat_kernels_before_total": ("counter", set()),
    "preheat_kernels_after_total": ("counter", set()),
    "preheat_extern_calls_total": ("counter", {"op"}),
}
VALUES = {
    "result": {"hit", "compiled", "coalesced", "negative", "refused", "failed", "ok", "not_possible"},
    "source": {"server", "local"},
    "stage": {"import", "passes", "codegen", "compile", "tune", "verify"},
    "state": {"idle", "busy", "lost"},
}


def test_metrics(fresh: Server, models: pathlib.Path, tmp_path: pathlib.Path) -> None:
    cli = fresh.cli(tmp_path / "cache")
    cli.ok("verify", cli.ok("compile", models / "bert.pt2", "--exclude", "aten.gelu")["key"])
    text = get(fresh, "/metrics")[2]
    types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
    for name, (kind, labels) in METRICS.items():
        assert name in types and (kind is None or types[name] == kind), name
        series = re.findall(rf"^{name}(?:_bucket|_sum|_count)?(?:\{{(.*)\}})? \S+$", text, re.MULTILINE)
        assert series, name
        for found in series:
            pairs = dict(re.findall(r'(\w+)="([^"]*)"', found))
            assert set(pairs) - {"le"} == labels, name
            for label, value in pairs.items():
                assert value in VALUES.get(label, {value}), f"{name}: {label}={value}"
    assert 'preheat_extern_calls_total{op="aten.gelu.default"}' in text


# --- buckets.yaml ---


def test_lists_multiply_out_and_derived_dimensions_are_checked(fresh: Server, tmp_path: pathlib.Path) -> None:
    archive = tmp_path / "pair.pt2"
    write = (
        "import sys, torch;"
        "from torch.export import Dim, export, save;"
        "a, b = Dim('a', min=2, max=64), Dim('b', min=2, max=64);"
        "F = type('F', (torch.nn.Module,), {'forward': lambda self, x, y: x.sum() + y * 2});"
        "p = export(F(), (torch.ones(4, 3), torch.ones(8)), dynamic_shapes={'x': {0: a, 1: b}, 'y': {0: 2 * a}});"
        "save(p, sys.argv[1])"
    )
    subprocess.run([sys.executable, "-c", write, archive], check=True, timeout=PATIENCE, capture_output=True)
    cli = fresh.cli(tmp_path / "cache")
    shapes = tmp_path / "buckets.yaml"
    text = "version: 1\ndefaults: {mode: fast}\nmodels:\n  - name: pair\n    source: pair.pt2\n    buckets:\n"
    shapes.write_text(text + "      - {x.0: [2, 4], x.1: [3, 5, 7]}\n      - {x.0: 8}\n")
    warmed = cli.ok("warm", "--shapes", shapes)
    dims = [bucket["dims"] for bucket in warmed["buckets"]]
    assert dims == [{"x.0": a, "x.1": b} for a in (2, 4) for b in (3, 5, 7)] + [{"x.0": 8}]
    assert warmed["compiled"] == 7 and len({bucket["key"] for bucket in warmed["buckets"]}) == 7

    shapes.write_text(text + "      - {x.0: 4, y.0: 9}\n")
    error = cli.fails(2, "warm", "--shapes", shapes)
    assert error["where"].startswith(f"{shapes}:7:") and "x.0" in error["message"] + error["fix"]
    assert cli.ok("stats")["requests"]["compiled"] == 7


# --- Variables of the environment ---


@pytest.mark.parametrize("variable", ["PREHEAT_JOB_ID", "TORCHELASTIC_RUN_ID", "SLURM_JOB_ID"])
def test_a_job_pins_what_it_was_given(
    server: Server, models: pathlib.Path, tmp_path: pathlib.Path, variable: str
) -> None:
    job = Cli(server.address, tmp_path / "cache", {variable: f"job of {variable}"})
    key = job.ok("compile", models / "mlp_dynamic.pt2", "--dim", "x.0=7")["key"]
    assert job.fails(1, "rm", key)["kind"] == "pinned"
    job.ok("unpin", key)
    job.ok("rm", key)


def test_variables_of_the_client(fresh: Server, models: pathlib.Path, tmp_path: pathlib.Path) -> None:
    own = Cli(fresh.address, tmp_path / "cache", {"PREHEAT_NAMESPACE": "of mine"})
    own.ok("compile", models / "mlp.pt2")
    assert 'namespace="of mine"' in get(fresh, "/metrics")[2]
    assert (tmp_path / "cache" / "results").is_dir()  # PREHEAT_CACHE_DIR


PYTHON = """
import os, torch, preheat
model = torch.compile(lambda x: torch.tanh(x) + 1, backend="preheat")
model(torch.ones(3))
print(*[graph["result"] for graph in preheat.report().to_dict()["graphs"]])
"""


def python(server: Server, folder: pathlib.Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "PREHEAT_SERVER": server.address,
        "PREHEAT_CACHE_DIR": str(folder / "cache"),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "torch"),  # which keeps compiled graphs, too
        "PREHEAT_RUNTIME": str(BUILD / "lib" / "libpreheat_runtime.so"),
        **variables,
    }
    return subprocess.run(
        [sys.executable, "-c", PYTHON], env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
    )


def test_variables_of_python(server: Server, tmp_path: pathlib.Path) -> None:
    recorded = tmp_path / "recorded"
    plain = python(server, tmp_path, PREHEAT_REQUIRED="1", PREHEAT_LOG="info", PREHEAT_RECORD=str(recorded))
    assert plain.returncode == 0 and plain.stdout.split() == ["compiled"], plain.stderr
    assert "preheat" in plain.stderr  # PREHEAT_LOG
    (bundle,) = recorded.glob("*.preheat")
    assert server.cli(tmp_path / "other").ok("compile", bundle)["result"] == "hit"
    assert python(server, tmp_path, PREHEAT_DISABLE="1").stdout.split() == []
    nobody = {
        "PREHEAT_SERVER": "127.0.0.1:1",
        "PREHEAT_CACHE_DIR": str(tmp_path / "empty"),
        "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "no graphs"),
    }
    assert python(server, tmp_path, **nobody).stdout.split() == ["eager"]
    refused = python(server, tmp_path, PREHEAT_REQUIRED="1", **nobody)
    assert refused.returncode != 0 and "unreachable" in refused.stderr


def test_what_python_offers() -> None:
    from importlib.metadata import entry_points

    import preheat

    for name in ("export", "refresh", "report", "reset_report", "Client", "PreheatError"):
        assert callable(getattr(preheat, name))
    assert "preheat" in {point.name for point in entry_points(group="torch_dynamo_backends")}
