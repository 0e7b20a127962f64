"""The architectures that are promised: as right as eager, wholly native, fewer kernels.

PREHEAT_MORE_ARCHITECTURES=1 takes those of make.py --more along. With -s a table is printed.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest
from service import ROOT, Cli

MAKE = ROOT / "tests" / "models" / "make.py"
PROMISED = (
    "bert",
    "gpt2",
    "t5_encoder",
    "distilbert",
    "vit",
    "swin",
    "resnet18",
    "mobilenetv3",
    "efficientnet_b0",
    "convnext",
    "llama",
    "mixer",
)
# How many times fewer kernels than eager's, at least.
FEWER = {"bert": 1.4, "gpt2": 2.0}


def more() -> tuple[str, ...]:
    if not os.environ.get("PREHEAT_MORE_ARCHITECTURES"):
        return ()
    sys.path.insert(0, str(MAKE.parent))
    from make import MORE

    return tuple(MORE)


@pytest.fixture(scope="session")
def archives(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Archives are written when they are asked for; PREHEAT_TEST_MODELS names a folder that may have them already."""
    made = os.environ.get("PREHEAT_TEST_MODELS")
    return pathlib.Path(made) if made else tmp_path_factory.mktemp("archives")


def archive(folder: pathlib.Path, name: str) -> pathlib.Path:
    path = folder / f"{name}.pt2"
    if not path.exists():
        command = [sys.executable, MAKE, folder, "--only", name]
        made = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
        assert made.returncode == 0, made.stderr[-2000:]
    return path


@pytest.mark.parametrize("name", PROMISED + more())
def test_architecture(cli: Cli, archives: pathlib.Path, name: str) -> None:
    verified = cli.ok("verify", archive(archives, name))
    explained = cli.ok("explain", verified["key"])
    before, after = explained["kernels_before"], explained["kernels_after"]
    memory = explained["peak_bytes_before"], explained["peak_bytes_after"]
    error = verified["rel_error"], verified["eager_rel_error"]
    print(f"| {name} | {error[0]:.2e} | {error[1]:.2e} | {before} | {after} | {memory[0]} | {memory[1]} |")
    assert verified["ok"] is True
    assert error[0] <= 2 * error[1] + 1e-6
    assert explained["extern_calls"] == []
    assert explained["graph_breaks"] == []
    assert memory[1] <= memory[0] or name not in PROMISED
    assert after * FEWER.get(name, 1.0) <= before
