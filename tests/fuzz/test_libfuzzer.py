"""
PREHEAT_LONG_TESTS=1: each target a minute under clang's libFuzzer with ASan and UBSan. The build takes a quarter of an
hour.
"""

from __future__ import annotations

import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGETS = ["program", "message", "archive", "torch_script_file", "plan", "buckets"]


@pytest.fixture(scope="module")
def build() -> None:
    subprocess.run([ROOT / "deploy" / "build.sh", "--preset", "fuzz", "fuzz"], check=True, timeout=3600)


@pytest.mark.parametrize("target", TARGETS if os.environ.get("PREHEAT_LONG_TESTS") else [])
def test_nothing_found_in_a_minute(build: None, target: str) -> None:
    command = [ROOT / "tests" / "fuzz" / "run.sh", "60", target]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "stat::number_of_executed_units" in done.stdout, "it has not run to its end"
