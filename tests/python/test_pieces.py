"""Graphs that hold what programs cannot say, judged by eager. Programs are interpreted by torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import preheat
import pytest
import torch
from torch import nn
from torch.testing import assert_close
from torch.utils.checkpoint import checkpoint


def compiled(fn: Any, **options: Any) -> Any:
    return torch.compile(fn, backend="preheat", fullgraph=True, **options)


def ops_of(interpreted: list[Any]) -> list[list[str]]:
    return [[node.op for node in built.proto.nodes] for _, built in interpreted]


@pytest.fixture
def captured_scalars() -> Any:
    with torch._dynamo.config.patch(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True):
        yield


def test_a_size_that_an_operator_finds(interpreted: list[Any], captured_scalars: None) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        y = torch.tanh(x) * 2
        places = torch.nonzero(y > 0).squeeze(1)
        return y[places] + 1, places.shape[0]

    fast = compiled(fn)
    for x in (torch.randn(8), -torch.ones(8), torch.ones(8)):
        assert_close(fast(x), fn(x))
    before, after = ops_of(interpreted)
    assert "aten.tanh.default" in before and "aten.add.Tensor" in after
    assert "aten.nonzero.default" not in before + after


def test_a_number_that_a_tensor_holds(interpreted: list[Any], captured_scalars: None) -> None:
    def fn(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        k = n.item()
        torch._check(k >= 0)
        torch._check(k <= x.shape[0])
        return torch.arange(k) + x.sin().sum().long() * k

    fast = compiled(fn)
    x = torch.randn(5)
    for n in (3, 5, 0, 1):
        assert_close(fast(x, torch.tensor(n)), fn(x, torch.tensor(n)))
    assert any("aten.sin.default" in ops for ops in ops_of(interpreted))


def test_a_float_that_a_tensor_holds(interpreted: list[Any], captured_scalars: None) -> None:
    def fn(x: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
        return torch.relu(x.cos() * s.item() + 1) * 3

    fast = compiled(fn)
    for s in (0.5, 2.0):
        assert_close(fast(torch.ones(4), torch.tensor(s)), fn(torch.ones(4), torch.tensor(s)))
    assert [ops for ops in ops_of(interpreted) if "aten.cos.default" in ops]


def test_cond_runs_in_its_place(interpreted: list[Any]) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        y = x.exp() + 1
        z = torch.cond(y.sum() > 10, lambda t: t.sin(), lambda t: t.cos(), (y,))
        return z * 2 + y

    fast = compiled(fn)
    with torch.no_grad():
        for x in (torch.ones(4), -torch.ones(4)):
            assert_close(fast(x), fn(x))
    assert [len(ops) > 0 for ops in ops_of(interpreted)] == [True, True]


def test_flex_attention_with_what_stands_around_it(interpreted: list[Any]) -> None:
    from torch.nn.attention.flex_attention import flex_attention

    def fn(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return flex_attention(q * 2, k.tanh(), v, score_mod=lambda s, b, h, i, j: s + (i - j)).relu() + 1

    q, k, v = (torch.randn(1, 2, 16, 8) for _ in range(3))
    with torch.no_grad():
        assert_close(compiled(fn)(q, k, v), fn(q, k, v))
    assert len(interpreted) == 2


class Block(nn.Module):
    def __init__(self, drop: float) -> None:
        super().__init__()
        self.up, self.down, self.norm, self.drop = nn.Linear(8, 32), nn.Linear(32, 8), nn.LayerNorm(8), drop

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = nn.functional.gelu(self.up(self.norm(x)))
        return x + nn.functional.dropout(self.down(hidden), self.drop, self.training)


@pytest.mark.parametrize("drop", [0.0, 0.5])
def test_checkpointed_blocks_keep_their_kernels(interpreted: list[Any], drop: float) -> None:
    torch.manual_seed(0)
    blocks = nn.ModuleList(Block(drop) for _ in range(2))

    def fn(x: torch.Tensor) -> torch.Tensor:
        for block in blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return x

    def gradients(run: Callable[..., torch.Tensor]) -> list[torch.Tensor]:
        blocks.zero_grad()
        torch.manual_seed(1)
        x = torch.randn(4, 8)
        run(x).square().sum().backward()
        return [p.grad.clone() for p in blocks.parameters()]

    want = gradients(fn)
    assert_close(gradients(compiled(fn)), want)
    products = sum(op in ("aten.addmm.default", "aten.mm.default") for ops in ops_of(interpreted) for op in ops)
    assert products >= 4 + 8  # forward, its recomputation apart, and two a product in backward


def test_a_user_operator_that_gives_what_has_no_form(interpreted: list[Any]) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        y = (x * 3).relu()
        return torch.view_as_real(torch.complex(y, x.sin())).sum(0) + 1

    with torch.no_grad():
        x = torch.randn(3, 4)
        assert_close(compiled(fn)(x), fn(x))


def test_random_numbers_stay_in_order(interpreted: list[Any], captured_scalars: None) -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        a = torch.rand_like(x) + x
        k = torch.nonzero(a > 0.5).shape[0]
        b = torch.rand(k) * 2
        return a, b, torch.rand_like(x).sin()

    fast = compiled(fn)
    torch.manual_seed(5)
    want = fn(torch.zeros(16))
    torch.manual_seed(5)
    assert_close(fast(torch.zeros(16)), want)


def test_what_torch_runs_is_in_the_report(interpreted: list[Any]) -> None:
    from preheat import counts

    counts.record(counts.Graph("k", "inference", "hit", 0.0))
    counts.add_extern_ops({"cond": 1})
    assert preheat.report().to_dict()["graphs"][-1]["extern_ops"] == {"cond": 1}
    preheat.reset_report()


def test_export_writes_every_piece(tmp_path: Any, captured_scalars: None) -> None:
    from preheat._proto import program_pb2

    class Model(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = x.tanh() * 2
            return y[torch.nonzero(y > 0).squeeze(1)] + 1

    preheat.export(Model(), (torch.randn(8),), tmp_path / "m.preheat")
    bundle = program_pb2.Bundle.FromString((tmp_path / "m.preheat").read_bytes())
    assert len(bundle.programs) == 2
