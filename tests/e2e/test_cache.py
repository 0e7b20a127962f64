"""Hits, restarts, single flight, and the commands that look after the cache."""

from __future__ import annotations

import pathlib
import signal
import subprocess
import sys
import time

from service import PATIENCE, Cli, Server, start_server, stop_server


def test_restart_keeps_keys_and_hits(fresh: Server, models: pathlib.Path, tmp_path: pathlib.Path) -> None:
    names = ("mlp", "mlp_dynamic")
    cli = fresh.cli(tmp_path / "one")
    first = {name: cli.ok("compile", models / f"{name}.pt2") for name in names}
    assert {document["result"] for document in first.values()} == {"compiled"}
    assert first["mlp"]["key"] != first["mlp_dynamic"]["key"]
    stop_server(fresh)

    again = start_server(fresh.data)
    cli = again.cli(tmp_path / "two")
    for name in names:
        second = cli.ok("compile", models / f"{name}.pt2")
        assert (second["key"], second["result"]) == (first[name]["key"], "hit")
    stats = cli.ok("stats")
    assert stats["requests"]["compiled"] == 0
    assert stats["requests"]["hit"] == len(names)
    assert stats["entries"] == len(names)


def test_two_clients_one_compile(fresh: Server, models: pathlib.Path, tmp_path: pathlib.Path) -> None:
    clients = [fresh.cli(tmp_path / str(i)) for i in range(2)]
    running = [client.start("compile", models / "bert.pt2") for client in clients]
    for process in running:
        process.wait(PATIENCE)
    outputs = [process.communicate() for process in running]
    assert [process.returncode for process in running] == [0, 0], outputs
    stats = clients[0].ok("stats")["requests"]
    assert stats["compiled"] == 1
    assert stats["coalesced"] + stats["hit"] == 1
    again = [client.ok("compile", models / "bert.pt2") for client in clients]
    assert again[0]["key"] == again[1]["key"]


def test_bound_dimensions_are_keys_of_their_own(cli: Cli, models: pathlib.Path) -> None:
    archive = models / "mlp_dynamic.pt2"
    keys = {cli.ok("compile", archive, *flags)["key"] for flags in ((), ("--dim", "x.0=4"), ("--dim", "x.0=8"))}
    assert len(keys) == 3
    by_input = cli.ok("compile", archive, "--input", "x=f32[8,16]")
    assert by_input["result"] == "hit"
    assert by_input["key"] in keys


def test_listing_showing_removing(fresh: Server, models: pathlib.Path, tmp_path: pathlib.Path) -> None:
    cli = fresh.cli(tmp_path / "cache")
    key = cli.ok("compile", models / "mlp.pt2")["key"]
    (entry,) = cli.ok("ls")["entries"]
    fields = {
        "key",
        "name",
        "target",
        "generation",
        "tuned",
        "verified",
        "bytes",
        "created",
        "last_used",
        "hits",
        "compile_seconds",
    }
    assert fields <= set(entry)
    assert (entry["key"], entry["name"]) == (key, "mlp")
    assert entry["bytes"] > 0

    assert cli.ok("show", key)["key"] == key
    assert 'extern "C"' in cli.ok("show", key, "--source")["source"]
    assert cli.ok("show", key[:12], "--ir")["ir"].strip()
    assert '"steps"' in cli.ok("show", key, "--plan")["plan"]

    cli.ok("pin", key, "--job", "job-1")
    assert cli.ok("ls")["entries"][0]["pinned"] is True
    cli.ok("unpin", key, "--job", "job-1")
    assert cli.ok("rm", key)["entries"] == 1
    assert cli.ok("ls")["entries"] == []
    assert cli.ok("gc", "--dry-run")["dry_run"] is True
    assert cli.fails(1, "show", key)["kind"] == "unknown_key"
    assert cli.ok("compile", models / "mlp.pt2")["key"] == key


def test_bundle(cli: Cli, tmp_path: pathlib.Path) -> None:
    """The very programs that a training job would submit."""
    bundle = tmp_path / "net.preheat"
    write = (
        "import sys, torch, preheat; torch.manual_seed(0);"
        "net = torch.nn.Sequential(torch.nn.Linear(8, 9), torch.nn.GELU());"
        "preheat.export(net, (torch.randn(3, 8),), sys.argv[1], train=True)"
    )
    subprocess.run([sys.executable, "-c", write, bundle], check=True, timeout=PATIENCE)
    compiled = cli.ok("compile", bundle)
    assert compiled["result"] == "compiled"
    assert [program["kind"] for program in compiled["programs"]] == ["forward", "backward"]
    again = cli.ok("compile", bundle)
    assert again["result"] == "hit"
    assert [p["key"] for p in again["programs"]] == [p["key"] for p in compiled["programs"]]
    error = cli.fails(2, "verify", bundle)
    assert error["kind"] == "ambiguous_program"
    name = error["fix"].rpartition(", ")[2]
    assert cli.ok("verify", bundle, "--program", name)["ok"] is True


def test_why_miss(cli: Cli, models: pathlib.Path) -> None:
    archive = models / "mlp_dynamic.pt2"
    stored = cli.ok("compile", archive)
    assert cli.ok("why-miss", archive)["hit"] is True
    missed = cli.ok("why-miss", archive, "--freeze")
    assert missed["hit"] is False
    assert missed["key"] != stored["key"]
    assert missed["nearest_key"]
    assert {item["field"] for item in missed["differences"]}


def test_drain_finishes_what_runs(fresh: Server, models: pathlib.Path, tmp_path: pathlib.Path) -> None:
    cli = fresh.cli(tmp_path / "cache")
    compiling = cli.start("compile", models / "resnet18.pt2")
    end = time.monotonic() + PATIENCE
    while all(worker["state"] != "busy" for worker in cli.ok("workers")["workers"]):
        assert time.monotonic() < end and compiling.poll() is None, "the compile ended before it was seen"
        time.sleep(0.05)
    stop = subprocess.Popen(["kill", f"-{signal.SIGTERM.value}", str(fresh.started["pid"])])
    stop.wait(PATIENCE)
    out, err = compiling.communicate(timeout=PATIENCE)
    assert compiling.returncode == 0, f"{out}\n{err}"
    end = time.monotonic() + PATIENCE
    while pathlib.Path(f"/proc/{fresh.started['pid']}").exists() and _state(fresh.started["pid"]) != "Z":
        assert time.monotonic() < end, "the server did not end"
        time.sleep(0.05)
    again = start_server(fresh.data)
    assert again.cli(tmp_path / "other").ok("compile", models / "resnet18.pt2")["result"] == "hit"


def _state(pid: int) -> str:
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


def test_export_and_import(fresh: Server, models: pathlib.Path, tmp_path: pathlib.Path) -> None:
    cli = fresh.cli(tmp_path / "cache")
    key = cli.ok("compile", models / "mlp.pt2")["key"]
    archive = tmp_path / "archive"
    exported = cli.ok("export", archive)
    assert exported["bytes"] == archive.stat().st_size > 1000
    assert cli.ok("import", archive)["entries"] == 0
    assert cli.fails(1, "export", tmp_path / "none", "0123456789abcdef" * 4)["kind"] == "unknown_key"
    assert not (tmp_path / "none").exists()

    other = start_server(tmp_path / "other")
    try:
        there = other.cli(tmp_path / "there")
        cut = tmp_path / "cut"
        cut.write_bytes(archive.read_bytes()[:-1])
        assert there.fails(2, "import", cut)["kind"] == "bad_archive"
        assert there.ok("ls")["entries"] == []
        assert there.ok("import", archive)["entries"] == 1
        assert [entry["key"] for entry in there.ok("ls")["entries"]] == [key]
        assert there.ok("compile", models / "mlp.pt2")["result"] == "hit"
        assert there.ok("run", models / "mlp.pt2")["result"] == "hit"
    finally:
        stop_server(other)
