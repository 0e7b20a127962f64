"""buckets.yaml: what it compiles, and that nothing is compiled when anything in it is wrong."""

from __future__ import annotations

import pathlib

import pytest
from service import Cli, Server

BUCKETS = """version: 1
defaults: {{target: cpu, mode: fast}}
models:
  - name: dynamic
    source: {models}/mlp_dynamic.pt2
    buckets:
      - {{x.0: [2, 3]}}
  - source: {models}/mlp.pt2
"""


def write(folder: pathlib.Path, text: str) -> pathlib.Path:
    path = folder / "buckets.yaml"
    path.write_text(text)
    return path


def test_missing_then_compiled_then_hit(fresh: Server, models: pathlib.Path, tmp_path: pathlib.Path) -> None:
    cli = fresh.cli(tmp_path / "cache")
    shapes = write(tmp_path, BUCKETS.format(models=models))
    missing = cli.run("warm", "--shapes", shapes, "--check")
    assert missing.status == 1
    assert missing.document["missing"] == 3
    assert cli.ok("stats")["requests"]["compiled"] == 0

    warmed = cli.ok("warm", "--shapes", shapes)
    assert (warmed["compiled"], warmed["failed"]) == (3, 0)
    assert set(warmed) >= {"buckets", "hit", "compiled", "coalesced", "missing", "failed", "seconds"}
    assert [bucket["dims"] for bucket in warmed["buckets"]] == [{"x.0": 2}, {"x.0": 3}, {}]
    assert [bucket["model"] for bucket in warmed["buckets"]] == ["dynamic", "dynamic", "mlp"]
    for bucket in warmed["buckets"]:
        assert set(bucket) >= {"model", "dims", "target", "key", "result", "seconds", "error"}
        assert bucket["error"] is None
        assert bucket["target"].startswith("cpu:")

    again = cli.ok("warm", "--shapes", shapes, "--check")
    assert again["hit"] == 3
    assert [b["key"] for b in again["buckets"]] == [b["key"] for b in warmed["buckets"]]
    compiled = cli.ok("compile", models / "mlp_dynamic.pt2", "--dim", "x.0=3")
    assert (compiled["result"], compiled["key"]) == ("hit", warmed["buckets"][1]["key"])


HEAD = "version: 1\nmodels:\n  - source: {models}/mlp_dynamic.pt2\n"
WRONG = {
    "unknown field": (HEAD + "    bukets: [{{x.0: 1}}]\n", "unknown_field", ":4:5", "buckets"),
    "unknown dimension": (HEAD + "    buckets: [{{x.1: 1}}]\n", "unknown_dimension", ":4:16", "x.0"),
    "value out of range": (HEAD + "    buckets: [{{x.0: [1, 65]}}]\n", "dimension_out_of_range", ":4:25", "64"),
    "value of another type": (HEAD + "    buckets: [{{x.0: many}}]\n", "wrong_type", ":4:21", "x.0"),
    "no such model": ("version: 1\nmodels: [{{source: nowhere.pt2}}]\n", "no_such_file", ":2:19", "nowhere.pt2"),
    "not yaml": ("version: 1\nmodels: [", "malformed_yaml", ":2", ""),
}


@pytest.mark.parametrize("case", WRONG)
def test_mistakes_compile_nothing(cli: Cli, models: pathlib.Path, tmp_path: pathlib.Path, case: str) -> None:
    text, kind, place, named = WRONG[case]
    before = cli.ok("stats")["requests"]
    # A good model first: it must not be compiled either.
    shapes = write(tmp_path, text.format(models=models))
    error = cli.fails(2, "warm", "--shapes", shapes)
    assert error["kind"] == kind
    assert error["where"].startswith(f"{shapes}{place}")
    assert named in error["message"] + error["fix"]
    assert cli.ok("stats")["requests"] == before


def test_tables_for_people(cli: Cli, models: pathlib.Path, tmp_path: pathlib.Path) -> None:
    shapes = write(tmp_path, BUCKETS.format(models=models))
    ran = cli.run("warm", "--shapes", shapes, json=False)
    assert ran.status == 0
    lines = ran.out.splitlines()
    assert lines[0].split() == ["model", "dimensions", "result", "seconds", "key"]
    assert len(lines) == 5
    assert "3/3" in ran.err  # progress: plain lines, since this is no terminal
    assert "\r" not in ran.err
