"""A worker for a GPU, which here is the emulator: it verifies and tunes, and gives the GPU back."""

from __future__ import annotations

import pathlib
import time
from collections.abc import Callable, Iterator

import pytest
import torch
from preheat import program
from preheat.client import Client
from preheat.config import Config
from service import BUILD, Cli, Server, start_server, stop_server
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

TARGET = "cuda:sm_90"


@pytest.fixture
def emulator(monkeypatch: pytest.MonkeyPatch) -> None:
    for library in ("NVRTC", "CUDA_DRIVER", "CUBLASLT", "CUDNN", "NVML"):
        monkeypatch.setenv(f"PREHEAT_{library}", str(BUILD / "lib" / "libpreheat_emulator.so"))
    monkeypatch.setenv("PREHEAT_EMULATED_DELAY_US", "2000")  # what the library proposes first is not the best


@pytest.fixture
def with_gpu(emulator: None, tmp_path: pathlib.Path) -> Iterator[Server]:
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
    calls = {name: schedule for name, schedule in turned.items() if name.startswith("matmul")}
    assert calls and all("algorithm=" in schedule for schedule in calls.values())
    kernels = [site for site in tuning["sites"] if not site["name"].startswith("matmul")]
    assert kernels and all(site["candidates"] > 1 and "algorithm=" not in site["schedule"] for site in kernels)
    assert tuning["interval"][1] < 1
    assert cli.ok("verify", tuned["key"])["ok"]

    # It has ended and begun anew, without what it held, and that counts as no crash.
    wait_for(lambda: "worker cuda-0 is gone" in (with_gpu.data / "preheatd.log").read_text())
    wait_for(lambda: workers(cli)["cuda:0"]["state"] == "idle")
    assert workers(cli)["cuda:0"]["crashes"] == 0


def attention_and_gradients(x: torch.Tensor, g: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """As cuDNN's, of a projection with four heads of queries and two of keys and values."""
    q, k, v = x.view(2, 20, 8, 16).transpose(1, 2).split([4, 2, 2], 1)
    aten = torch.ops.aten
    out, sums, cq, ck, mq, mk, seed, offset, _ = aten._scaled_dot_product_cudnn_attention(
        q, k, v, None, True, 0.0, True
    )
    backward = aten._scaled_dot_product_cudnn_attention_backward
    return out, *backward(g, q, k, v, out, sums, seed, offset, None, cq, ck, mq, mk, 0.0, True)


def test_tuning_leaves_the_gpu_to_a_job_that_comes(
    emulator: None, models: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use = tmp_path / "use"  # MiB, percent
    use.write_text("0 0")
    monkeypatch.setenv("PREHEAT_EMULATED_USE", str(use))
    config = tmp_path / "preheatd.yaml"
    config.write_text("gpu_workers: 1\nverify: false\ntune_after_seconds: 0\n")
    server = start_server(tmp_path / "data", "--config", config)
    try:
        cli = server.cli(tmp_path / "cache")
        wait_for(lambda: "cuda:0" in workers(cli))
        key = cli.ok("compile", models / "mlp.pt2", "--target", TARGET, "--mode", "background")["key"]
        wait_for(lambda: str(workers(cli)["cuda:0"]["task"]).startswith("tune"))
        time.sleep(1)
        use.write_text("3000 0")
        wait_for(lambda: not str(workers(cli)["cuda:0"]["task"]).startswith("tune"))
        assert cli.ok("show", key)["generation"] == 1
    finally:
        stop_server(server)


def test_attention_of_gpus_is_verified(with_gpu: Server, tmp_path: pathlib.Path) -> None:
    cli = with_gpu.cli(tmp_path / "cache")
    wait_for(lambda: "cuda:0" in workers(cli))
    with FakeTensorMode():
        shapes = ((2, 20, 128), (2, 4, 20, 16))
        made = make_fx(attention_and_gradients)(*(torch.empty(s, device="cuda", dtype=torch.bfloat16) for s in shapes))
    client = Client(Config.make({"server": with_gpu.address, "target": TARGET}))
    result = client.request(program.build(made).proto)
    verdict = cli.ok("verify", result.key)
    assert verdict["ok"], verdict


@pytest.mark.parametrize(
    ("shape", "kernel", "stride", "padding", "ceil"),
    [((2, 3, 13, 14), [3, 3], [2, 2], [1, 1], False), ((4, 10, 9), [2, 3], [3, 2], [1, 0], True)],
)
def test_gradients_of_max_pooling_are_verified(
    with_gpu: Server,
    tmp_path: pathlib.Path,
    shape: tuple[int, ...],
    kernel: list[int],
    stride: list[int],
    padding: list[int],
    ceil: bool,
) -> None:
    def pooled(x: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
        _, places = torch.ops.aten.max_pool2d_with_indices(x, kernel, stride, padding, [1, 1], ceil)
        backward = torch.ops.aten.max_pool2d_with_indices_backward
        return backward(g, x, kernel, stride, padding, [1, 1], ceil, places)

    cli = with_gpu.cli(tmp_path / "cache")
    wait_for(lambda: "cuda:0" in workers(cli))
    out = torch.nn.functional.max_pool2d(torch.empty(shape), kernel, stride, padding, ceil_mode=ceil).shape
    with FakeTensorMode():
        made = make_fx(pooled)(torch.empty(shape, device="cuda"), torch.empty(out, device="cuda"))
    result = Client(Config.make({"server": with_gpu.address, "target": TARGET})).request(program.build(made).proto)
    assert not any("scatter" in kernel["name"] for kernel in cli.ok("explain", result.key)["kernels"])
    verdict = cli.ok("verify", result.key)
    assert verdict["ok"], verdict
