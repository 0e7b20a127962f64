"""The benchmarks' rows: measured once, each failure said."""

from __future__ import annotations

import argparse
import os
import pathlib
import sys
import time

from conftest import ROOT

sys.path.insert(0, str(ROOT / "tests" / "bench"))

import bench
from harness import Row, Rows, in_process


def options(out: pathlib.Path | None, minutes: float | None = None) -> argparse.Namespace:
    return argparse.Namespace(out=out, minutes=minutes)


def test_a_row_in_the_file_is_not_measured_again(tmp_path: pathlib.Path) -> None:
    out = tmp_path / "rows.jsonl"
    calls = []

    def measure() -> Row:
        calls.append(1)
        return {"ms": len(calls)}

    assert Rows(options(out), machine="a").take(measure, name="bert")["ms"] == 1
    again = Rows(options(out), machine="a")
    assert again.take(measure, name="bert")["ms"] == 1
    assert again.take(measure, name="gpt2")["ms"] == 2
    assert Rows(options(out), machine="b").take(measure, name="bert")["ms"] == 3
    assert again.status() == 0


def test_what_failed_is_said_and_measured_again(tmp_path: pathlib.Path) -> None:
    out = tmp_path / "rows.jsonl"
    rows = Rows(options(out))
    rows.take(lambda: {"error": "no"}, name="bert", size="small")
    rows.take(lambda: {"ms": 1}, name="gpt2", size="small")
    assert rows.status() == 1 and len(rows.good()) == 1
    assert "failed: bert small;" in rows.ending()
    again = Rows(options(out))
    again.take(lambda: {"ms": 2}, name="bert", size="small")
    assert again.status() == 0 and again.good()[0]["ms"] == 2


def test_a_row_that_would_end_too_late_is_left(tmp_path: pathlib.Path) -> None:
    rows = Rows(options(tmp_path / "rows.jsonl", minutes=0.2 / 60))
    assert rows.take(lambda: (time.sleep(0.15), {"ms": 1})[1], name="bert") is not None
    assert rows.take(lambda: {"ms": 1}, name="gpt2") is None
    assert rows.status() == 2 and rows.ending().endswith("not measured yet: gpt2")


def test_a_process_shows_its_row_or_why_not() -> None:
    shows = "from harness import show; show({'ms': 2})"
    env = dict(os.environ, PYTHONPATH=str(ROOT / "tests" / "bench"))
    assert in_process(["-c", shows], env, 60) == {"ms": 2}
    assert in_process(["-c", f"{shows}; import sys; sys.exit('broken')"], env, 60) == {"error": "exit status 1: broken"}
    assert in_process(["-c", f"{shows}; import os; os.kill(os.getpid(), 9)"], env, 60)["error"].startswith(
        "exit status -9"
    )
    assert in_process(["-c", "import time; time.sleep(60)"], env, 0.2) == {"error": "not done in 0.2 s"}


def test_the_summary_names_what_is_slow_and_what_is_wrong() -> None:
    row = {"name": "bert", "size": "small", "mode": "plain", "matmul": 0.5}
    row |= {"first_call": {"inductor": 10.0, "preheat": 1.0}, "error_of": {"inductor": 1e-7, "preheat": 1e-7}}
    slow = row | {"ms": {"eager": 1.0, "inductor": 2.0, "preheat": 2.0}}
    fast = row | {"name": "gpt2", "ms": {"eager": 2.0, "inductor": 1.0, "preheat": 0.5}}
    nan = fast | {"name": "t5", "error_of": {"inductor": 1e-7, "preheat": float("nan")}}
    assert "over 5% slower than eager: bert small plain 0.50;" in bench._summary([slow, fast])
    assert "geometric mean over eager 1.414, over the better of eager and Inductor 1.000;" in bench._summary(
        [slow, fast]
    )
    assert "not eager's result: none" in bench._summary([slow, fast])
    assert "not eager's result: t5 small plain (preheat)" in bench._summary([nan])
