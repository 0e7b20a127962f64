"""Training jobs that were warmed: preheat.export, compilectl warm, then fresh processes on one and on two ranks."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from typing import Any

import pytest
from service import PATIENCE, Server

HERE = pathlib.Path(__file__).parent


def run(server: Server, folder: pathlib.Path, *arguments: str, ranks: int = 0) -> list[dict[str, Any]]:
    """train_job.py's lines of JSON, one a rank."""
    env = {
        **os.environ,
        "PREHEAT_SERVER": server.address,
        "PREHEAT_REQUIRED": "1",
        "PREHEAT_CACHE_DIR": str(folder / "cache"),
        "OMP_NUM_THREADS": "1",
    }
    launch = [sys.executable]
    if ranks:
        launch += ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    command = [*launch, str(HERE / "train_job.py"), *arguments]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


# GPT-2 and ResNet take minutes on two cores: PREHEAT_LONG_TESTS=1 adds them.
MODELS = ["mlp", "gpt2", "resnet18"] if os.environ.get("PREHEAT_LONG_TESTS") else ["mlp"]


@pytest.mark.parametrize("model", MODELS)
def test_a_warmed_job_compiles_nothing(fresh: Server, tmp_path: pathlib.Path, model: str) -> None:
    bundle = tmp_path / f"{model}.preheat"
    run(fresh, tmp_path, model, "--export", str(bundle))
    shapes = tmp_path / "buckets.yaml"
    shapes.write_text(f"version: 1\ndefaults: {{target: cpu, mode: fast}}\nmodels: [{{name: m, source: {bundle}}}]\n")
    cli = fresh.cli(tmp_path / "warm_cache")
    warmed = cli.ok("warm", "--shapes", str(shapes))
    assert warmed["failed"] == 0 and warmed["compiled"] > 0
    for ranks in (0, 2):
        for row in run(fresh, tmp_path / f"ranks{ranks}", model, ranks=ranks):
            assert row["results"].get("hit") and set(row["results"]) <= {"hit", "empty"}, row
            assert row["fallbacks"] == {}, row
