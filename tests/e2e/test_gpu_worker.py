"""A worker for a GPU, which here is the emulator: it verifies and tunes, and gives the GPU back."""

from __future__ import annotations

import pathlib
import time
from collections.abc import Callable, Iterator

import pytest
from service import BUILD, Cli, Server, start_server, stop_server

TARGET = "cuda:sm_90"


@pytest.fixture
def with_gpu(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for library in ("NVRTC", "CUDA_DRIVER", "CUBLASLT", "CUDNN", "NVML"):
        monkeypatch.setenv(f"PREHEAT_{library}", str(BUILD / "lib" / "libpreheat_emulator.so"))
    monkeypatch.setenv("PREHEAT_EMULATED_DELAY_US", "2000")  # what the library proposes first is not the best
    config = tmp_path / "preheatd.yaml"
    config.write_text("gpu_workers: 1\nverify: false\ntune_when_busy: true\n")  # other tests keep the machine busy
    server = start_server(tmp_path / "data", "--config", config)
    yield server
    stop_server(server)


def workers(cli: Cli) -> dict[str, dict[str, object]]:
    return {worker["device"]: worker for worker in cli.ok("workers")["workers"]}


def wait_for(condition: Callable[[], bool]) -> None:
    patience = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < patience
        time.sleep(0.3)


def test_artifacts_are_verified_and_tuned_on_their_device(
    with_gpu: Server, models: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    cli = with_gpu.cli(tmp_path / "cache")
    wait_for(lambda: "cuda:0" in workers(cli))
    assert workers(cli)["cuda:0"]["target"] == TARGET
    fast = cli.ok("compile", models / "mlp.pt2", "--target", TARGET, "--mode", "fast")
    verdict = cli.ok("verify", fast["key"])
    assert verdict["ok"]

    tuned = cli.ok("compile", models / "mlp.pt2", "--target", TARGET, "--mode", "tuned")
    assert (tuned["generation"], tuned["tuned"]) == (2, True)
    tuning = cli.ok("explain", tuned["key"])["tuning"]
    turned = {site["name"]: site["schedule"] for site in tuning["sites"] if site["schedule"] != "default"}
    assert turned and all(name.startswith("matmul") and "algorithm=" in turned[name] for name in turned)
    assert tuning["interval"][1] < 1
    assert cli.ok("verify", tuned["key"])["ok"]

    # It has ended and begun anew, without what it held, and that counts as no crash.
    wait_for(lambda: "worker cuda-0 is gone" in (with_gpu.data / "preheatd.log").read_text())
    wait_for(lambda: workers(cli)["cuda:0"]["state"] == "idle")
    assert workers(cli)["cuda:0"]["crashes"] == 0
