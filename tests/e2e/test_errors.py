"""Exit statuses and error documents."""

from __future__ import annotations

import pathlib
import socket
import subprocess
import zipfile

import pytest
from service import COMPILECTL, Cli, Server

NO_KEY = "0123456789abcdef" * 4


def test_usage(cli: Cli, tmp_path: pathlib.Path) -> None:
    for arguments in (
        (),
        ("frobnicate",),
        ("compile",),
        ("ls", "--nonsense"),
        ("run", "x.pt2", "--repeat", "0"),
        ("rm",),
    ):
        assert cli.fails(2, *arguments)["code"] == "INVALID_ARGUMENT"


@pytest.mark.parametrize("command", ["show", "run", "verify", "explain", "rm", "pin"])
def test_unknown_key(cli: Cli, command: str) -> None:
    flags = ("--job", "j") if command == "pin" else ()
    error = cli.fails(1, command, NO_KEY, *flags)
    assert (error["code"], error["kind"]) == ("NOT_FOUND", "unknown_key")


def test_unreachable(tmp_path: pathlib.Path, models: pathlib.Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, not listening: nobody answers there
        cli = Cli(f"127.0.0.1:{taken.getsockname()[1]}", tmp_path / "cache")
        for arguments in (("ls",), ("stats",), ("compile", models / "mlp.pt2"), ("run", models / "mlp.pt2")):
            error = cli.fails(3, *arguments)
            assert (error["code"], error["kind"]) == ("UNAVAILABLE", "unreachable")
            assert cli.address in error["message"]


def test_deadline(tmp_path: pathlib.Path) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()  # takes connections and never answers
        cli = Cli(f"127.0.0.1:{silent.getsockname()[1]}", tmp_path / "cache")
        assert cli.fails(3, "--timeout", "0.5", "ls")["code"] in ("DEADLINE_EXCEEDED", "UNAVAILABLE")


def test_sources(cli: Cli, models: pathlib.Path, tmp_path: pathlib.Path) -> None:
    assert cli.fails(2, "compile", tmp_path / "no.pt2")["kind"] == "no_such_file"
    script = tmp_path / "x.pt"
    script.write_bytes(b"")
    assert cli.fails(2, "compile", script)["kind"] == "not_an_archive"
    module = tmp_path / "x.hlo.pb"
    module.write_bytes(b"")
    assert cli.fails(2, "compile", module)["kind"] == "unsupported_source"
    text = tmp_path / "text.pt2"
    text.write_text("no archive")
    assert cli.fails(2, "compile", text)["kind"] == "not_an_archive"
    empty = tmp_path / "empty.pt2"
    with zipfile.ZipFile(empty, "w") as archive:
        archive.writestr("empty/nothing", "")
    assert cli.fails(2, "compile", empty)["kind"] == "malformed_archive"
    cut = tmp_path / "cut.preheat"
    cut.write_bytes(b"\xff\xff")
    assert cli.fails(2, "compile", cut)["kind"] == "malformed_bundle"


def test_damaged_archive(cli: Cli, models: pathlib.Path, tmp_path: pathlib.Path) -> None:
    with zipfile.ZipFile(models / "mlp.pt2") as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    model = next(name for name in entries if name.endswith("models/model.json"))
    for content in (
        b"{}",
        b"[" * 100_000,
        entries[model][: len(entries[model]) // 2],
        b'{"schema_version": {"major": 99}}',
    ):
        path = tmp_path / "damaged.pt2"
        with zipfile.ZipFile(path, "w") as archive:
            for name, data in entries.items():
                archive.writestr(name, content if name == model else data)
        assert cli.fails(2, "compile", path)["code"] == "INVALID_ARGUMENT"


def test_dimensions(cli: Cli, models: pathlib.Path) -> None:
    archive = models / "mlp_dynamic.pt2"
    assert cli.fails(2, "compile", archive, "--dim", "x.0")["kind"] == "malformed_dimension"
    assert cli.fails(2, "compile", archive, "--dim", "seq=4")["kind"] == "unknown_dimension"
    assert cli.fails(2, "compile", archive, "--dim", "x.0=1000")["kind"] == "dimension_out_of_range"
    assert cli.fails(2, "compile", archive, "--input", "y=f32[4,16]")["kind"] == "unknown_input"
    assert cli.fails(2, "compile", archive, "--input", "x=f32[4,17]")["kind"] == "shape_mismatch"
    assert cli.fails(2, "compile", archive, "--input", "x=i64[4,16]")["kind"] == "dtype_mismatch"
    assert cli.fails(2, "compile", archive, "--input", "x=f32[4")["kind"] == "malformed_input"
    assert cli.fails(2, "compile", archive, "--mode", "slow")["kind"] == "unknown_mode"
    assert cli.fails(2, "compile", archive, "--target", "tpu")["kind"] == "unsupported_target"


def test_errors_for_people(cli: Cli, tmp_path: pathlib.Path) -> None:
    ran = cli.run("compile", tmp_path / "no.pt2", json=False)
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.startswith("error: there is no file")
    assert "no_such_file" in ran.err


def test_documents(cli: Cli, models: pathlib.Path) -> None:
    compiled = cli.ok("compile", models / "mlp.pt2")
    assert set(compiled) >= {"key", "result", "seconds", "generation", "tuned", "target", "bytes"}
    assert len(compiled["key"]) == 64 and compiled["generation"] >= 1 and compiled["bytes"] > 0
    explained = cli.ok("explain", models / "mlp.pt2")
    assert set(explained) >= {
        "key",
        "kernels_before",
        "kernels_after",
        "kernels",
        "library_calls",
        "extern_calls",
        "graph_breaks",
        "peak_bytes_before",
        "peak_bytes_after",
        "stage_seconds",
    }
    assert set(explained["stage_seconds"]) == {"import", "passes", "codegen", "compile", "tune", "verify"}
    for kernel in explained["kernels"]:
        assert set(kernel) >= {"name", "kind", "ops", "bytes", "flops", "ms", "roofline"}
    stats = cli.ok("stats")
    assert set(stats) >= {"requests", "hit_rate", "seconds_saved", "entries", "bytes", "evicted_bytes", "corrupt"}
    assert set(stats["requests"]) == {"hit", "compiled", "coalesced", "negative", "refused", "failed"}
    (worker,) = cli.ok("workers")["workers"]
    assert set(worker) >= {"id", "device", "target", "state", "tasks", "crashes"}
    assert worker["state"] in ("idle", "busy")
    top = cli.ok("top")
    assert [w["id"] for w in top["workers"]] == [worker["id"]]
    assert set(top["stats"]) == set(stats)


def test_explain_page(cli: Cli, models: pathlib.Path, tmp_path: pathlib.Path) -> None:
    page = tmp_path / "report.html"
    cli.ok("explain", models / "mlp.pt2", "--html", page)
    text = page.read_text()
    assert text.startswith("<!doctype html>") and "<script" not in text
    assert (
        cli.fails(2, "explain", models / "mlp.pt2", "--html", tmp_path / "no" / "such" / "folder.html")["kind"]
        == "unwritable_file"
    )


def test_server_commands(fresh: Server, tmp_path: pathlib.Path) -> None:
    cli = fresh.cli(tmp_path / "cache")
    status = cli.ok("server", "status", "--data-dir", fresh.data)
    assert (status["state"], status["pid"]) == ("running", fresh.started["pid"])
    again = cli.ok("server", "start", "--data-dir", fresh.data)
    assert again["pid"] == fresh.started["pid"]
    assert cli.ok("server", "stop", "--data-dir", fresh.data, "--patience", "120")["state"] == "stopped"
    assert cli.fails(1, "server", "stop", "--data-dir", fresh.data)["kind"] == "no_server"
    assert cli.run("server", "status", "--data-dir", fresh.data).status == 1


def test_server_that_cannot_start_says_why(tmp_path: pathlib.Path) -> None:
    with socket.socket() as taken:
        taken.bind(("0.0.0.0", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        command = [
            COMPILECTL,
            "server",
            "start",
            "--data-dir",
            tmp_path / "data",
            "--port",
            port,
            "--http-port",
            "0",
            "--workers",
            "0",
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 1
        assert "before it was ready" in done.stderr and port in done.stderr
