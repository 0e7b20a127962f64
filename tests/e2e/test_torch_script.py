"""TorchScript files (.pt of torch.jit.save) through compilectl, a real server and a real worker."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest
from service import Cli

MAKE = pathlib.Path(__file__).with_name("make_torch_script.py")


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("scripts")
    subprocess.run([sys.executable, "-W", "ignore", MAKE, folder], check=True, timeout=900)
    return folder


def test_a_scripted_module(cli: Cli, scripts: pathlib.Path) -> None:
    model = scripts / "mlp.pt"
    compiled = cli.ok("compile", model, "--input", "x=f32[batch,16]", "--dim", "batch=6", "--mode", "fast")
    assert compiled["result"] == "compiled"
    report = cli.ok("explain", model, "--input", "x=f32[6,16]", "--mode", "fast")
    assert report["key"] == compiled["key"]  # the same program, however its size was said
    assert report["extern_calls"] == []
    verified = cli.ok("verify", model, "--input", "x=f32[6,16]")
    assert verified["ok"]
    assert [output["shape"] for output in verified["outputs"]] == [[6, 20], [6]]
    assert cli.ok("run", model, "--input", "x=f32[6,16]", "--mode", "fast", "--repeat", "2")["ms"]["p50"] > 0


@pytest.mark.parametrize(
    ("name", "inputs"),
    [("bert", "input_ids=i64[2,8]"), ("gpt2", "input_ids=i64[2,8]"), ("resnet18", "x=f32[2,3,32,32]")],
)
def test_traced_models(cli: Cli, scripts: pathlib.Path, name: str, inputs: str) -> None:
    model = scripts / f"{name}.pt"
    verified = cli.ok("verify", model, "--input", inputs)
    assert verified["ok"], verified
    report = cli.ok("explain", model, "--input", inputs, "--mode", "fast")
    assert report["kernels_after"] < report["kernels_before"]
    assert report["extern_calls"] == []


def test_buckets(cli: Cli, scripts: pathlib.Path, tmp_path: pathlib.Path) -> None:
    shapes = tmp_path / "buckets.yaml"
    shapes.write_text(
        "version: 1\ndefaults: {target: cpu, mode: fast}\nmodels:\n"
        f'  - source: {scripts}/mlp.pt\n    inputs: {{x: "f32[batch,16]"}}\n    buckets: [{{batch: [3, 5]}}]\n'
    )
    warmed = cli.ok("warm", "--shapes", shapes)
    assert (warmed["compiled"], warmed["failed"]) == (2, 0)
    assert cli.ok("warm", "--shapes", shapes, "--check")["hit"] == 2


def test_what_is_wrong_is_named(cli: Cli, scripts: pathlib.Path) -> None:
    assert cli.fails(2, "compile", scripts / "mlp.pt")["kind"] == "missing_input"
    unbound = cli.fails(2, "compile", scripts / "mlp.pt", "--input", "x=f32[batch,16]")
    assert (unbound["kind"], "batch" in unbound["fix"]) == ("unbound_dimension", True)
    assert cli.fails(2, "compile", scripts / "mlp.pt", "--input", "y=f32[2,16]")["kind"] == "missing_input"
    assert cli.fails(2, "compile", scripts / "mlp.pt", "--input", "x=f32[2,15]")["kind"] == "malformed_torch_script"
    assert cli.fails(2, "compile", scripts / "state.pt", "--input", "x=f32[2]")["kind"] == "malformed_archive"
    grows = cli.run("compile", scripts / "grows.pt", "--input", "x=f32[4]").document["error"]
    assert grows["kind"] == "data_dependent_control_flow"
    assert "make_torch_script.py:" in grows["where"]
    writes = cli.run("compile", scripts / "writes.pt", "--input", "x=f32[4]").document["error"]
    assert (writes["kind"], "make_torch_script.py:" in writes["where"]) == ("unsupported_mutation", True)


SOURCE = MAKE.with_name("make_torch_script.py").read_text().splitlines()


def line_of(text: str) -> int:
    return next(i for i, line in enumerate(SOURCE, 1) if text in line)


def test_branches_that_data_decides(cli: Cli, scripts: pathlib.Path) -> None:
    model = scripts / "branch.pt"
    for seed in range(4):
        verified = cli.ok("verify", model, "--input", "x=f32[4]", "--seed", str(seed))
        assert verified["ok"], verified
    report = cli.ok("explain", model, "--input", "x=f32[4]", "--mode", "fast")
    assert report["extern_calls"] == []
    breaks = report["graph_breaks"]
    assert all(found["file"].endswith("make_torch_script.py") for found in breaks)
    assert line_of("if bool(x[0] > 0)") in {found["line"] for found in breaks}
    assert all("depends on the contents of a tensor" in found["reason"] for found in breaks)


def test_loops_that_data_ends(cli: Cli, scripts: pathlib.Path) -> None:
    model, inputs = scripts / "loop.pt", ("--input", "x=f32[4]", "--input", "n=i64[]")
    verified = cli.ok("verify", model, *inputs)
    assert verified["ok"], verified
    report = cli.ok("explain", model, *inputs, "--mode", "fast")
    lines = {found["line"] for found in report["graph_breaks"]}
    assert {line_of("while bool(x.abs()"), line_of("for i in range(10)"), line_of("for _ in range(int(n))")} <= lines
    assert cli.ok("run", model, *inputs, "--mode", "fast", "--repeat", "2")["ms"]["p50"] > 0
