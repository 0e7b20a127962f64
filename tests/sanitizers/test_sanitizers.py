"""PREHEAT_LONG_TESTS=1: all that links no torch under AddressSanitizer, and what has threads under ThreadSanitizer."""

from __future__ import annotations

import os
import pathlib
import subprocess

import pytest

SANITIZE = pathlib.Path(__file__).resolve().parents[2] / "deploy" / "sanitize.sh"


@pytest.mark.parametrize("preset", ["asan", "tsan"] if os.environ.get("PREHEAT_LONG_TESTS") else [])
def test_nothing_found(preset: str) -> None:
    done = subprocess.run([SANITIZE, preset], capture_output=True, text=True, timeout=4 * 3600, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
