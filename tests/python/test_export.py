"""preheat.export: archives with names of dimensions, bundles of what training submits."""

from __future__ import annotations

import json
import pathlib
import zipfile

import preheat
import pytest
import torch
from preheat._proto import program_pb2
from torch import nn


class Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.linear(x) + y


ARGS = (torch.randn(5, 4), torch.randn(5, 3))


def test_archive_keeps_the_names_of_dimensions(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "two.pt2"
    preheat.export(Two(), ARGS, path, dynamic={"x": {0: "batch"}, "y": {0: "batch"}})
    with zipfile.ZipFile(path) as archive:
        (name,) = [n for n in archive.namelist() if n.endswith("extra/preheat/dims.json")]
        assert json.loads(archive.read(name)) == {"x.0": "batch", "y.0": "batch"}
    loaded = torch.export.load(str(path)).module()
    assert loaded(torch.randn(9, 4), torch.randn(9, 3)).shape == (9, 3)


def test_static_archive_names_nothing(tmp_path: pathlib.Path) -> None:
    preheat.export(Two(), ARGS, tmp_path / "two.pt2")
    with zipfile.ZipFile(tmp_path / "two.pt2") as archive:
        (name,) = [n for n in archive.namelist() if n.endswith("dims.json")]
        assert archive.read(name) == b"{}"


def test_archive_holds_the_casts_of_autocast(tmp_path: pathlib.Path) -> None:
    class Cast(Two):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                z = super().forward(x, y)
            return z.float()

    model = Cast()
    preheat.export(model, ARGS, tmp_path / "cast.pt2", dynamic={"x": {0: "batch"}, "y": {0: "batch"}})
    loaded = torch.export.load(str(tmp_path / "cast.pt2"))
    assert not any("wrap_with_autocast" in str(node.target) for node in loaded.graph.nodes)
    torch.testing.assert_close(loaded.module()(*ARGS), model(*ARGS))
    with zipfile.ZipFile(tmp_path / "cast.pt2") as archive:
        (name,) = [n for n in archive.namelist() if n.endswith("dims.json")]
        assert json.loads(archive.read(name)) == {"x.0": "batch", "y.0": "batch"}


def test_bundle_holds_what_the_backend_submits(tmp_path: pathlib.Path) -> None:
    model = Two()
    preheat.export(model, ARGS, tmp_path / "two.preheat", train=True, dynamic={"x": {0: "b"}, "y": {0: "b"}})
    bundle = program_pb2.Bundle.FromString((tmp_path / "two.preheat").read_bytes())
    assert [p.kind for p in bundle.programs] == ["forward", "backward"] * 3
    # As given, which a job sees first; as a range; and as 1, which torch has in no range.
    assert [len(p.program.symbols) for p in bundle.programs[::2]] == [0, 1, 0]
    assert dict(bundle.programs[2].program.debug_info.dim_names) == {"d0": "b"}
    assert not hasattr(ARGS[0], "_dynamo_dynamic_indices")  # the caller's tensors are not marked
    assert model.linear.weight.grad is None  # the step leaves no trace
    preheat.export(model, ARGS, tmp_path / "infer.preheat")
    bundle = program_pb2.Bundle.FromString((tmp_path / "infer.preheat").read_bytes())
    assert [p.kind for p in bundle.programs] == ["inference"]


def test_mistakes_are_named(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ValueError, match="no argument z; it is called with x, y"):
        preheat.export(Two(), ARGS, tmp_path / "two.pt2", dynamic={"z": {0: "batch"}})
    with pytest.raises(ValueError, match="must end in"):
        preheat.export(Two(), ARGS, tmp_path / "two.onnx")
