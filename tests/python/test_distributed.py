"""Collectives in graphs, and two ranks that train alike and share what one of them compiles."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist
from conftest import ROOT
from preheat import collectives
from torch.distributed import _functional_collectives as functional
from torch.testing import assert_close

EXAMPLES = ROOT / "client" / "python" / "examples"


@pytest.fixture
def alone(tmp_path: pathlib.Path) -> Iterator[dist.ProcessGroup]:
    """A process group of one rank, and a second of the same."""
    dist.init_process_group("gloo", store=dist.FileStore(str(tmp_path / "store"), 1), rank=0, world_size=1)
    yield dist.new_group([0])
    dist.destroy_process_group()


def summed(x: torch.Tensor, group: Any) -> torch.Tensor:
    total = functional.all_reduce(x * 2, "sum", group)
    independent = torch.tanh(x) + 1
    return total + independent


def test_waits_come_as_late_as_the_first_use(alone: dist.ProcessGroup) -> None:
    gm = torch.fx.experimental.proxy_tensor.make_fx(lambda x: summed(x, alone), tracing_mode="fake")(torch.ones(3))
    names = lambda: [str(n.target) for n in gm.graph.nodes if n.op == "call_function"]  # noqa: E731
    assert names().index("_c10d_functional.wait_tensor.default") < names().index("aten.tanh.default")
    collectives.settle(gm.graph)
    gm.graph.lint()
    order = [n for n in names() if n != "aten.add.Tensor"]
    assert order[-1] == "_c10d_functional.wait_tensor.default" and order[-2] == "aten.tanh.default"


def test_a_result_that_nobody_waited_for_is_waited_for(alone: dist.ProcessGroup) -> None:
    op = torch.ops._c10d_functional.all_gather_into_tensor.default
    gm = torch.fx.experimental.proxy_tensor.make_fx(lambda x: op(x, 1, alone.group_name), tracing_mode="fake")(
        torch.ones(3)
    )
    collectives.settle(gm.graph)
    (returned,) = gm.graph.output_node().all_input_nodes
    assert str(returned.target) == "_c10d_functional.wait_tensor.default"


def test_keys_hold_no_names_of_groups(interpreted: list[Any], alone: dist.ProcessGroup) -> None:
    from preheat import recorder

    for group in (alone, dist.group.WORLD):
        torch._dynamo.reset()
        assert_close(torch.compile(summed, backend="preheat")(torch.ones(3), group), summed(torch.ones(3), group))
    (_, first), (_, second) = interpreted
    assert first.groups != second.groups
    assert recorder.content(first.proto) == recorder.content(second.proto)


@pytest.mark.parametrize(
    "fn",
    [
        summed,
        lambda x, g: functional.all_gather_tensor(x + 1, 0, g) * 2,
        lambda x, g: functional.reduce_scatter_tensor(x + 1, "sum", 0, g) * 2,
        lambda x, g: sum(functional.all_reduce_coalesced([x + 1, x - 1], "sum", g)) * 2,
        lambda x, g: functional.all_to_all_single(x + 1, None, None, g) * 2,
        lambda x, g: functional.broadcast(x + 1, 0, g) * 2,
    ],
)
def test_collectives_through_the_runtime(service: str, alone: dist.ProcessGroup, fn: Any) -> None:
    import preheat

    fast = torch.compile(fn, backend="preheat", fullgraph=True)
    for _ in range(3):
        x = torch.randn(16)
        assert_close(fast(x, alone), fn(x, alone))
    report = preheat.report().to_dict()
    assert report["fallbacks"] == {} and report["graphs"][0]["extern_ops"]


def two_ranks(how: str, backend: str, server: str, folder: pathlib.Path) -> list[dict[str, Any]]:
    env = {
        **os.environ,
        "PREHEAT_SERVER": server,
        "PREHEAT_REQUIRED": "1",
        "PREHEAT_CACHE_DIR": str(folder / "cache"),
        "OMP_NUM_THREADS": "1",
    }
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    script = [str(EXAMPLES / "two_ranks.py"), "--parallel", how, "--backend", backend]
    done = subprocess.run([*launch, *script], env=env, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return sorted(rows, key=lambda row: row["rank"])


@pytest.mark.parametrize("how", ["ddp", "fsdp", "tp"])
def test_two_ranks_train_as_eager_and_share_every_graph(service: str, how: str, tmp_path: pathlib.Path) -> None:
    eager = two_ranks(how, "eager", service, tmp_path)
    fast = two_ranks(how, "preheat", service, tmp_path)
    for row, want in zip(fast, eager, strict=True):
        assert row["losses"] == pytest.approx(want["losses"], rel=1e-5)
        assert row["fallbacks"] == {}
    graphs = sum(fast[0]["results"].values())
    assert sum(r["results"].get("compiled", 0) for r in fast) <= graphs  # each graph by one of the ranks
    again = two_ranks(how, "preheat", service, tmp_path)
    assert all(row["results"].get("hit") and set(row["results"]) <= {"hit", "empty"} for row in again)
