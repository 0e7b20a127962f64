"""Who may call: tokens, roles and certificates, through the real command line."""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import subprocess
import time

import pytest
from daemon import BIN, Daemon, Failure, chain


def compilectl(daemon: Daemon, *arguments: str | pathlib.Path, token: pathlib.Path | None = None) -> tuple[int, dict]:
    environment = {**os.environ, "PREHEAT_CACHE_DIR": str(daemon.data / "cache")}
    environment.pop("PREHEAT_TOKEN_FILE", None)
    if token is not None:
        environment["PREHEAT_TOKEN_FILE"] = str(token)
    command = [BIN / "compilectl", "--json", "--timeout", "20", "--server", daemon.address, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, json.loads(done.stdout)


def line(name: str, space: str, role: str, token: str) -> str:
    return f"{name} {space} {role} {hashlib.sha256(token.encode()).hexdigest()}\n"


def test_tokens(data: pathlib.Path, tmp_path: pathlib.Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(line("trainer", "research", "user", "one") + line("ops", "ops", "admin", "two"))
    user, admin, wrong = (tmp_path / name for name in ("user", "admin", "wrong"))
    for file, token in ((user, "one\n"), (admin, "two"), (wrong, "three")):
        file.write_text(token)
    daemon = Daemon(data, verify=False, token_file=tokens)

    assert compilectl(daemon, "ls")[1]["error"]["kind"] == "no_token"
    assert compilectl(daemon, "ls")[0] == 4
    status, document = compilectl(daemon, "ls", token=wrong)
    assert (status, document["error"]["kind"]) == (4, "unknown_token")
    assert compilectl(daemon, "ls", token=user)[0] == 0
    status, document = compilectl(daemon, "gc", token=user)
    assert (status, document["error"]["kind"]) == (4, "admin_only")
    assert compilectl(daemon, "gc", token=admin)[0] == 0

    for method in ("Stats", "Lookup", "Nothing"):
        refused = daemon.call(f"/preheat.v1.Compiler/{method}", b"")
        assert isinstance(refused, Failure) and refused.kind == "no_token", "not even whether there is such a method"
    assert isinstance(daemon.compile(chain("mine")), Failure)
    request = chain("mine")
    request.name_space = "someone else's"
    done = daemon.compile(request, metadata=[("authorization", "Bearer one")])
    assert not isinstance(done, Failure), done
    assert done.manifest.name_space == "research", "the token's, whatever the request says"

    tokens.write_text(line("ops", "ops", "admin", "two"))
    until = time.monotonic() + 60
    while compilectl(daemon, "ls", token=user)[0] == 0:
        assert time.monotonic() < until, "the file is read again"
        time.sleep(0.5)
    assert compilectl(daemon, "ls", token=admin)[0] == 0
    daemon.stop()


def test_certificates(data: pathlib.Path, tmp_path: pathlib.Path) -> None:
    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=tmp_path, check=True, capture_output=True)

    new = ("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")
    openssl(*new, "-subj", "/CN=authority", "-keyout", "ca.key", "-out", "ca.pem")
    openssl(*new, "-subj", "/CN=stranger", "-keyout", "other.key", "-out", "other.pem")
    for name in ("server", "client"):
        extension = ("-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost")
        signed = (
            "-CA",
            "ca.pem",
            "-CAkey",
            "ca.key",
            "-subj",
            f"/CN={name}",
            "-keyout",
            f"{name}.key",
            "-out",
            f"{name}.pem",
        )
        openssl(*new, *extension, *signed)
    file = {name: tmp_path / name for name in os.listdir(tmp_path)}
    daemon = Daemon(
        data, verify=False, tls_cert=file["server.pem"], tls_key=file["server.key"], tls_client_ca=file["ca.pem"]
    )
    own = ("--tls-cert", file["client.pem"], "--tls-key", file["client.key"])
    assert compilectl(daemon, "--tls-ca", file["ca.pem"], *own, "ls")[0] == 0
    assert compilectl(daemon, "ls")[0] == 3, "without TLS nobody answers"
    assert compilectl(daemon, "--tls-ca", file["ca.pem"], "ls")[0] == 3, "without a certificate neither"
    assert compilectl(daemon, "--tls-ca", file["other.pem"], *own, "ls")[0] == 3, "and this server is not believed"
    strange = ("--tls-cert", file["other.pem"], "--tls-key", file["other.key"])
    assert compilectl(daemon, "--tls-ca", file["ca.pem"], *strange, "ls")[0] == 3
    daemon.stop()


@pytest.mark.parametrize(
    ("flags", "word"),
    [
        (["--token-file=/nowhere"], "/nowhere"),
        (["--tls-cert=/nowhere"], "belong together"),
        (["--tls-cert=/nowhere", "--tls-key=/nowhere"], "/nowhere"),
        (["--tls-client-ca=/nowhere"], "only under TLS"),
    ],
)
def test_settings_that_cannot_be(tmp_path: pathlib.Path, flags: list[str], word: str) -> None:
    command = [BIN / "preheatd", f"--data-dir={tmp_path}", "--port=0", "--http-port=0", "--workers=0", *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0
    assert word in done.stdout + done.stderr


def test_without_identity_only_this_machine_is_answered(data: pathlib.Path) -> None:
    command = [BIN / "preheatd", f"--data-dir={data}", "--port=0", "--http-port=0", "--workers=0"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        until = time.monotonic() + 60
        while not (data / "server.json").exists():
            assert time.monotonic() < until and process.poll() is None
            time.sleep(0.05)
        ports = json.loads((data / "server.json").read_text())
        listening = pathlib.Path("/proc/net/tcp").read_text() + pathlib.Path("/proc/net/tcp6").read_text()
        for port in (ports["port"], ports["http_port"]):
            assert f":{port:04X} " in listening
            assert f" 00000000:{port:04X} 00000000:0000 0A" not in listening, "on every address"
            assert f" {'0' * 32}:{port:04X} {'0' * 32}:0000 0A" not in listening, "on every address"
        process.terminate()
