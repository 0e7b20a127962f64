"""Model files that nobody should open: the command line refuses each soon, in little memory, and names its kind."""

from __future__ import annotations

import io
import json
import os
import pathlib
import random
import resource
import subprocess
import threading
import time
import zipfile
import zlib
from collections.abc import Callable

import pytest
from daemon import BIN, ROOT, Daemon, chain, peak_bytes
from preheat._proto import program_pb2
from test_hostile_messages import delimited

SECONDS = 5.0
MEMORY = 500 << 20


def watch_memory(pid: int, peak: list[int]) -> None:
    """Samples the high-water mark until the process ends; its ru_maxrss would count its parent's at the fork."""
    while True:
        try:
            peak[0] = max(peak[0], peak_bytes(pid))
        except (OSError, ValueError, StopIteration, IndexError, AssertionError):
            return
        time.sleep(0.002)


def refused(daemon: Daemon, path: pathlib.Path, command: str = "compile") -> dict[str, str]:
    """The error document. Time is the process's own: the machine may be busy with other tests."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begun = time.monotonic()
    arguments = ["--shapes", path] if command == "warm" else [path]
    process = subprocess.Popen(
        [BIN / "compilectl", "--json", "--server", daemon.address, command, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PREHEAT_CACHE_DIR": str(path.parent / "cache")},
    )
    peak = [0]
    watcher = threading.Thread(target=watch_memory, args=(process.pid, peak))
    watcher.start()
    out = process.stdout.read() if process.stdout else b""
    watcher.join()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode in (2, 4), out
    seconds = usage.ru_utime + usage.ru_stime
    assert seconds < SECONDS and time.monotonic() - begun < 12 * SECONDS
    assert peak[0] < MEMORY, f"{peak[0] >> 20} MiB"
    assert peak[0] > 0 or seconds < 0.2, "it was never looked at"  # it may be over before the first look
    assert before is not None
    error = json.loads(out)["error"]
    assert error["code"] and error["kind"] and error["message"], error
    assert daemon.alive()
    return error


def export_text() -> str:
    """A good model.json of one operator: a refused one with its version put right."""
    text = (ROOT / "tests" / "rejects" / "schema_major.reject").read_text().split("\n", 2)[2]
    return text.replace('"major": 9', '"major": 8')


def archive(entries: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as file:
        for name, data in entries.items():
            file.writestr(name, data)
    return buffer.getvalue()


def good_archive(padding: int = 40_000) -> bytes:
    return archive({
        "m/archive_format": b"pt2", "m/archive_version": b"0", "m/byteorder": b"little",
        "m/models/model.json": export_text().encode(), "m/data/weights/model_weights_config.json": b'{"config": {}}',
        "m/extra/padding": random.Random(0).randbytes(padding),
    })  # fmt: skip


def bomb(name: str, gigabytes: int) -> bytes:
    """A zip entry of that many zeros, made without ever holding them."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    crc, packed, block = 0, [], bytes(1 << 24)
    for _ in range(gigabytes << 6):
        crc = zlib.crc32(block, crc)
        packed.append(packer.compress(block))
    packed.append(packer.flush())
    data = b"".join(packed)
    buffer = io.BytesIO()
    info = zipfile.ZipInfo(name)
    info.compress_type = zipfile.ZIP_STORED
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr(info, data)
        info.compress_type, info.CRC, info.file_size = zipfile.ZIP_DEFLATED, crc, gigabytes << 30
    raw = bytearray(buffer.getvalue())  # the local header still says "stored": put it right as well
    raw[8:10] = (8).to_bytes(2, "little")
    raw[14:18] = crc.to_bytes(4, "little")
    raw[22:26] = (gigabytes << 30 & 0xFFFFFFFF).to_bytes(4, "little")
    return bytes(raw)


def test_truncated_at_every_kilobyte(daemon: Daemon, tmp_path: pathlib.Path) -> None:
    whole = good_archive()
    path = tmp_path / "cut.pt2"
    for size in range(0, len(whole), 1024):
        path.write_bytes(whole[:size])
        assert refused(daemon, path)["kind"] in ("not_an_archive", "malformed_archive")


def test_damaged_at_every_place(daemon: Daemon, tmp_path: pathlib.Path) -> None:
    """Bytes changed in directory, headers and content: refused, or read as something that is refused or compiles."""
    whole = good_archive(padding=100)
    randomness = random.Random(3)
    path = tmp_path / "damaged.pt2"
    for _ in range(60):
        bad = bytearray(whole)
        for _ in range(8):
            bad[randomness.randrange(len(bad))] = randomness.randrange(256)
        path.write_bytes(bad)
        done = subprocess.run(
            [BIN / "compilectl", "--json", "--server", daemon.address, "compile", path],
            capture_output=True,
            check=False,
        )
        assert done.returncode in (0, 1, 2), (done.returncode, bytes(bad))
        assert done.returncode == 0 or json.loads(done.stdout)["error"]["kind"]


DEEP = b'{"config": ' + b"[" * 1_000_000 + b"]" * 1_000_000 + b"}"
FILES: dict[str, tuple[str, Callable[[], bytes], tuple[str, ...]]] = {
    "random": ("x.pt2", lambda: random.Random(4).randbytes(1 << 20), ("not_an_archive",)),
    "empty": ("x.pt2", lambda: b"", ("not_an_archive",)),
    "no_entries": ("x.pt2", lambda: archive({}), ("malformed_archive",)),
    "two_models": (
        "x.pt2",
        lambda: archive({"m/models/a.json": b"{}", "m/models/b.json": b"{}"}),
        ("malformed_archive",),
    ),
    "many_entries": ("x.pt2", lambda: archive({f"m/{i}": b"" for i in range(70_000)}), ("archive_too_large",)),
    "bomb": ("x.pt2", lambda: bomb("m/models/model.json", 2), ("archive_too_large",)),
    "bomb_config": (
        "x.pt2",
        lambda: archive(
            {"m/models/model.json": export_text().encode(), "m/data/weights/model_weights_config.json": bytes(1 << 26)},
            zipfile.ZIP_DEFLATED,
        ),
        ("archive_too_large",),
    ),
    "json_bomb": (
        "x.pt2",
        lambda: archive({"m/models/model.json": b"[" + b"[]," * (20 << 20) + b"0]"}, zipfile.ZIP_DEFLATED),
        ("malformed_archive",),
    ),
    "config_bomb": (
        "x.pt2",
        lambda: archive(
            {
                "m/models/model.json": export_text().encode(),
                "m/data/weights/model_weights_config.json": b"[" + b"[]," * (5 << 20) + b"0]",
            },
            zipfile.ZIP_DEFLATED,
        ),
        ("malformed_archive",),
    ),
    "deep": ("x.pt2", lambda: archive({"m/models/model.json": DEEP}), ("malformed_archive",)),
    "deep_config": (
        "x.pt2",
        lambda: archive(
            {"m/models/model.json": export_text().encode(), "m/data/weights/model_weights_config.json": DEEP}
        ),
        ("malformed_archive",),
    ),
    "schema": (
        "x.pt2",
        lambda: archive({"m/models/model.json": export_text().replace('"major": 8', '"major": 4711').encode()}),
        ("unsupported_schema",),
    ),
    "bundle_random": ("x.preheat", lambda: random.Random(5).randbytes(1 << 20), ("malformed_bundle",)),
    "bundle_empty": ("x.preheat", lambda: b"", ("malformed_bundle",)),
    "bundle_amplified": (
        "x.preheat",
        lambda: b"\x08\x01" + delimited(2, delimited(3, delimited(8, b"") * (20 << 20))),
        ("program_too_large",),
    ),
    "bundle_of_nothing": (
        "x.preheat",
        lambda: b"\x08\x01" + delimited(2, b"") * 100,
        ("unsupported_program_format", "malformed_program"),
    ),
    "bundle_format": (
        "x.preheat",
        lambda: b"\x08\x63" + delimited(2, delimited(3, b"\x08\x01")),
        ("unsupported_program_format",),
    ),
    "other_ending": ("x.bin", lambda: b"x", ("unsupported_source",)),
}


@pytest.mark.parametrize("name", FILES)
def test_refused(daemon: Daemon, tmp_path: pathlib.Path, name: str) -> None:
    file, make, kinds = FILES[name]
    path = tmp_path / file
    path.write_bytes(make())
    error = refused(daemon, path)
    assert error["kind"] in kinds, error
    if name == "schema":
        assert "4711" in error["message"]


def test_files_of_gigabytes(daemon: Daemon, tmp_path: pathlib.Path) -> None:
    """Sparse: they cost no disk."""
    for name, kinds in (("x.preheat", ("program_too_large",)), ("x.pt2", ("not_an_archive",))):
        path = tmp_path / name
        with path.open("wb") as file:
            file.truncate(2 << 30)
        assert refused(daemon, path)["kind"] in kinds


def test_bundles_cut_at_every_kilobyte(daemon: Daemon, tmp_path: pathlib.Path) -> None:
    bundle = program_pb2.Bundle(format=1)
    bundle.programs.add(name="p", kind="inference", program=chain("p", length=400).source.program)
    whole = bundle.SerializeToString()
    path = tmp_path / "cut.preheat"
    for size in range(0, len(whole), 1024):
        path.write_bytes(whole[:size])
        assert refused(daemon, path)["kind"] in ("malformed_bundle", "malformed_program", "unsupported_program_format")


@pytest.mark.parametrize(
    "text",
    [b"\xff\xfe\x00" * 1000, b"[" * 100_000, b"- " * 50_000, b"a: &a [" + b"*a," * 10 + b"]",
     b"version: 1\nmodels: {" * 1000,
     b"x: &a [1,1]\ny: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nz: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n", b"\t\t\t", b""],
    ids=["bytes", "deep", "dashes", "self", "open", "laughs", "tabs", "empty"],
)  # fmt: skip
def test_buckets(daemon: Daemon, tmp_path: pathlib.Path, text: bytes) -> None:
    path = tmp_path / "buckets.yaml"
    path.write_bytes(text)
    assert refused(daemon, path, "warm")["code"] == "INVALID_ARGUMENT"
