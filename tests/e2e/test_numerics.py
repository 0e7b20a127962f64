"""The three architectures of the spine: right, fused, without calls to eager."""

from __future__ import annotations

import math
import pathlib

import pytest
from service import Cli


@pytest.mark.parametrize("name", ["mlp", "bert", "resnet18"])
def test_verify(cli: Cli, models: pathlib.Path, name: str) -> None:
    verified = cli.ok("verify", models / f"{name}.pt2")
    assert verified["ok"] is True
    assert verified["rel_error"] <= 2 * verified["eager_rel_error"] + 1e-6
    assert verified["outputs"]
    for output in verified["outputs"]:
        assert set(output) >= {"rel_error", "eager_rel_error", "dtype", "shape"}
        assert output["rel_error"] <= 2 * output["eager_rel_error"] + 1e-6

    explained = cli.ok("explain", verified["key"])
    assert explained["extern_calls"] == []
    assert explained["graph_breaks"] == []
    assert 0 < explained["kernels_after"] < explained["kernels_before"]


@pytest.mark.parametrize("name", ["mlp_dynamic", "bert_dynamic"])
def test_verify_of_ranges(cli: Cli, models: pathlib.Path, name: str) -> None:
    verified = cli.ok("verify", models / f"{name}.pt2")
    assert verified["ok"] is True
    assert verified["rel_error"] <= 2 * verified["eager_rel_error"] + 1e-6


def test_run_model_and_key(cli: Cli, models: pathlib.Path) -> None:
    by_model = cli.ok("run", models / "mlp.pt2", "--repeat", "5")
    assert set(by_model) >= {"key", "result", "ms", "eager_ms", "gb_per_s", "tflop_per_s"}
    assert 0 < by_model["ms"]["p50"] <= by_model["ms"]["p99"]
    assert by_model["eager_ms"] is None or math.isfinite(by_model["eager_ms"])
    by_key = cli.ok("run", by_model["key"], "--repeat", "5")
    assert by_key["key"] == by_model["key"]
    assert by_key["result"] == "hit"


def test_run_with_frozen_weights(cli: Cli, models: pathlib.Path) -> None:
    frozen = cli.ok("run", models / "resnet18.pt2", "--freeze", "--repeat", "2")
    plain = cli.ok("compile", models / "resnet18.pt2")
    assert frozen["key"] != plain["key"]
    assert frozen["ms"]["p50"] > 0


def test_damaged_local_cache_is_fetched_anew(cli: Cli, models: pathlib.Path) -> None:
    first = cli.ok("run", models / "mlp.pt2", "--repeat", "1")
    blobs = [path for path in (cli.cache / "blobs").rglob("*") if path.is_file()]
    assert blobs
    for path in blobs:
        path.write_bytes(b"damaged")
    assert cli.ok("run", models / "mlp.pt2", "--repeat", "1")["key"] == first["key"]
