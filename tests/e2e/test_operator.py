"""What an operator sees: the pages, the log, human output on a terminal of 80 columns, names that clients choose."""

from __future__ import annotations

import json
import os
import pathlib
import pty
import re
import select
import subprocess
import time
import urllib.error
import urllib.request

import pytest
from service import BUILD, COMPILECTL, PATIENCE, Cli, Server, start_server, stop_server


def page(server: Server, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.started['http_port']}{path}", timeout=30) as reply:
            assert "default-src 'none'" in reply.headers["Content-Security-Policy"]
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def on_terminal(cli: Cli, *arguments: str | pathlib.Path, columns: int = 80) -> tuple[int, list[str]]:
    """Exit status and lines of a command whose stdout is a terminal of that width."""
    master, slave = pty.openpty()
    environment = {name: value for name, value in cli.environment().items() if name != "COLUMNS"}
    subprocess.run(["stty", "cols", str(columns)], stdin=slave, check=True)
    process = subprocess.Popen(
        [COMPILECTL, *arguments], env=environment, stdout=slave, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL
    )
    os.close(slave)
    text = b""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if select.select([master], [], [], 0.2)[0]:
            try:
                got = os.read(master, 65536)
            except OSError:  # the other end is closed
                break
            if not got:
                break
            text += got
    os.close(master)
    return process.wait(PATIENCE), text.decode().replace("\r\n", "\n").splitlines()


LONG = "a-model-with-a-name-that-no-table-was-made-for-" * 3


def test_human_output_fits_a_terminal(cli: Cli, models: pathlib.Path, tmp_path: pathlib.Path) -> None:
    shapes = tmp_path / "buckets.yaml"
    shapes.write_text(
        f"version: 1\ndefaults: {{mode: fast}}\nmodels:\n  - name: {LONG}\n    source: {models}/mlp_dynamic.pt2\n"
        "    buckets: [{x.0: [6, 7]}]\n"
    )
    assert on_terminal(cli, "warm", "--shapes", shapes)[0] == 0
    key = cli.ok("compile", models / "bert.pt2")["key"]
    commands = [
        ("ls",),
        ("warm", "--shapes", shapes),
        ("warm", "--shapes", shapes, "--check"),
        ("compile", models / "bert.pt2"),
        ("explain", key),
        ("show", key),
        ("why-miss", models / "bert.pt2"),
        ("why-miss", models / "bert.pt2", "--freeze"),
        ("run", models / "mlp.pt2", "--repeat", "2", "--no-eager"),
        ("verify", models / "mlp.pt2"),
        ("pin", key, "--job", "job-1"),
        ("unpin", key, "--job", "job-1"),
        ("gc", "--dry-run"),
        ("workers",),
        ("stats",),
    ]
    for command in commands:
        status, lines = on_terminal(cli, *command)
        assert status == 0 and lines, command
        assert max(map(len, lines)) <= 80, f"{command}:\n" + "\n".join(lines)


def test_names_of_others_cannot_move_the_cursor(cli: Cli, models: pathlib.Path, tmp_path: pathlib.Path) -> None:
    shapes = tmp_path / "buckets.yaml"
    shapes.write_text(
        f'version: 1\nmodels:\n  - name: "\\e[2J\\e]0;owned\\a<b>"\n    source: {models}/mlp_dynamic.pt2\n'
        "    mode: fast\n    buckets: [{x.0: 9}]\n"
    )
    ran = cli.run("warm", "--shapes", shapes, json=False)
    assert ran.status == 0
    listed = cli.run("ls", json=False)
    for text in (ran.out, ran.err, listed.out):
        assert "\x1b" not in text and "\a" not in text
    assert "?[2J" in listed.out


def test_bar_on_a_terminal_only(cli: Cli, models: pathlib.Path) -> None:
    plain = cli.run("compile", models / "mlp_dynamic.pt2", "--dim", "x.0=11", json=False)
    assert "\r" not in plain.err and "mlp_dynamic: " in plain.err
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [COMPILECTL, "compile", models / "mlp_dynamic.pt2", "--dim", "x.0=12"],
        env=cli.environment(),
        stdout=subprocess.DEVNULL,
        stderr=slave,
        stdin=subprocess.DEVNULL,
    )
    assert process.wait(PATIENCE) == 0
    bar = os.read(master, 65536).decode()
    os.close(slave)
    os.close(master)
    assert "\r\x1b[K[" in bar and bar.endswith("\r\x1b[K")  # gone at the end


def test_pages(cli: Cli, server: Server, models: pathlib.Path, tmp_path: pathlib.Path) -> None:
    shapes = tmp_path / "buckets.yaml"
    shapes.write_text(
        f'version: 1\nmodels:\n  - name: "<script>alert(1)</script>"\n    source: {models}/mlp_dynamic.pt2\n'
        "    mode: fast\n    buckets: [{x.0: 13}]\n"
    )
    key = cli.ok("warm", "--shapes", shapes)["buckets"][0]["key"]
    status, front = page(server, "/")
    assert status == 200 and f"/artifact/{key}" in front and "&lt;script&gt;" in front and "<svg" in front
    status, listed = page(server, "/artifacts")
    assert status == 200 and f"/artifact/{key}" in listed
    status, artifact = page(server, f"/artifact/{key}")
    assert status == 200 and "<h2>Kernels</h2>" in artifact and key in artifact
    for text in (front, listed, artifact):
        assert "<script" not in text and "http://" not in text and "https://" not in text
    for path in (f"/artifact/{'0' * 64}", "/artifact/nonsense", "/artifact/%3Cscript%3E", "/nothing", "/artifact/"):
        status, text = page(server, path)
        assert status == 404 and "<script" not in text


def test_log_has_the_request_that_the_client_names(models: pathlib.Path, tmp_path: pathlib.Path) -> None:
    server = start_server(tmp_path / "data")
    try:
        cli = server.cli(tmp_path / "cache")
        key = cli.ok("compile", models / "mlp.pt2")["key"]
        error = cli.fails(2, "compile", models / "mlp.pt2", "--target", "tpu")
        shown = cli.run("compile", models / "mlp.pt2", "--target", "tpu", json=False)
        printed = re.search(r"request: ([0-9a-f]{16})", shown.err)
        assert printed
    finally:
        stop_server(server)
    lines = [json.loads(line) for line in (tmp_path / "data" / "preheatd.log").read_text().splitlines()]
    assert all({"time", "level", "message"} <= set(line) for line in lines)
    requests = {line["request_id"]: line for line in lines if line["message"] == "request"}
    assert requests[error["request_id"]]["kind"] == "unsupported_target"
    assert printed[1] in requests
    assert any(line.get("key") == key and line["result"] == "compiled" for line in requests.values())
    assert any(line["message"] == "compiled" and line["key"] == key for line in lines)


def test_verification_has_its_seconds(cli: Cli, models: pathlib.Path) -> None:
    key = cli.ok("compile", models / "mlp.pt2")["key"]
    cli.ok("verify", key)
    seconds = cli.ok("explain", key)["stage_seconds"]
    assert seconds["verify"] > 0
    assert cli.ok("show", key)["stage_seconds"]["verify"] == seconds["verify"]


def test_top_says_what_waits(cli: Cli) -> None:
    stats = cli.ok("top")["stats"]
    assert stats["queue_depth"] == 0 and stats["inflight"] == 0 and stats["uptime_seconds"] > 0
    (worker,) = cli.ok("workers")["workers"]
    assert worker["resident_bytes"] > 0 or worker["state"] == "idle"


def test_configuration_is_checked() -> None:
    preheatd = BUILD / "bin" / "preheatd"
    config = pathlib.Path(__file__).parents[2] / "deploy" / "preheatd.yaml"
    done = subprocess.run([preheatd, "--config", config, "--check-config"], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "data_dir: /var/lib/preheat" in done.stdout
    wrong = subprocess.run([preheatd, "--log-level", "loud"], capture_output=True, text=True, check=False)
    assert wrong.returncode == 2 and "log_level" in wrong.stderr


@pytest.mark.parametrize(
    ("arguments", "status", "kind"),
    [
        (("show", "0123"), 2, "malformed_key"),
        (("show", "xyzxyz"), 2, "malformed_key"),
        (("show", "0" * 64, "--source", "--ir"), 2, "usage"),
        (("explain", "abcdef0123"), 1, "unknown_key"),
        (("rm", "--older-than", "soon"), 2, "malformed_duration"),
        (("rm", "--older-than", "-3d"), 2, "malformed_duration"),
        (("rm", "0" * 64, "--target", "cpu"), 2, "usage"),
        (("pin", "0" * 64), 2, "no_job"),
        (("--timeout", "0", "ls"), 2, "usage"),
        (("gc", "--dry"), 2, "usage"),
        (("top", "--interval", "x"), 2, "usage"),
        (("server", "status", "--data-dir", "/nonexistent"), 1, "no_server"),
        (("server", "stop", "--data-dir", "/nonexistent"), 1, "no_server"),
        (("server", "start", "--data-dir", "/proc/no"), 2, "unwritable_file"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, tuple) else str(value),
)
def test_mistakes(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], status: int, kind: str
) -> None:
    for variable in ("PREHEAT_JOB_ID", "TORCHELASTIC_RUN_ID", "SLURM_JOB_ID"):
        monkeypatch.delenv(variable, raising=False)
    ran = cli.run(*arguments)
    assert ran.status == status, ran.out + ran.err
    error = ran.document["error"]
    assert error["kind"] == kind and error["message"]
    human = cli.run(*arguments, json=False)
    assert human.status == status
    assert kind in human.err or "no server runs" in human.out
