"""Which graphs may be padded along a dimension, and what comes out when they are. Programs are interpreted by torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from preheat import errors, fallback
from torch import nn
from torch.testing import assert_close
from torch.utils import _pytree as pytree

F = nn.functional
WEIGHT = torch.randn(6, 6)


class Attention(nn.Module):
    """Over the second dimension, which is no batch."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out, self.norm = nn.Linear(8, 24), nn.Linear(8, 8), nn.LayerNorm(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, s, _ = x.shape
        q, k, v = (t.view(b, s, 2, 4).transpose(1, 2) for t in self.qkv(self.norm(x)).chunk(3, -1))
        return x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, s, 8))


SAFE: list[tuple[Callable[..., Any], torch.Tensor, int]] = [
    (lambda x: torch.tanh(x) * 2 + x.sum(1, keepdim=True), torch.randn(5, 6), 0),
    (lambda x: F.gelu(x @ WEIGHT).softmax(-1), torch.randn(5, 6), 0),
    (lambda x: (WEIGHT @ x).amax(0), torch.randn(6, 5), 1),
    (lambda x: (x.t() + 1).contiguous(), torch.randn(5, 6), 0),
    (lambda x: x.view(-1, 3).exp(), torch.randn(5, 6), 0),
    (lambda x: torch.cat([x, x * 2], 1)[:, 2:7], torch.randn(5, 6), 0),
    (lambda x: F.embedding(x, WEIGHT).mean(-1), torch.randint(0, 6, (5, 3)), 0),
    (lambda x: (x * 2, x.shape[0], x), torch.randn(5, 6), 0),
    (lambda x: F.max_pool2d(F.conv2d(x, torch.ones(2, 3, 2, 2)), 2), torch.randn(5, 3, 8, 8), 0),
    (Attention().eval(), torch.randn(5, 7, 8), 0),
]
UNSAFE: list[tuple[Callable[..., Any], torch.Tensor, int, str]] = [
    (lambda x: x.sum(0), torch.randn(5, 6), 0, "sum"),
    (lambda x: x.softmax(0), torch.randn(5, 6), 0, "softmax"),
    (lambda x: WEIGHT @ x.flip(0)[:6], torch.randn(9, 6), 0, "flip"),
    (lambda x: x.t() @ x, torch.randn(5, 6), 0, "mm"),
    (lambda x: x * x.shape[0], torch.randn(5, 6), 0, "mul"),
    (lambda x: x.view(-1).exp(), torch.randn(6, 5), 1, "view"),
    (lambda x: x + torch.rand_like(x), torch.randn(5, 6), 0, "random"),
    (lambda x: torch.cat([x, x]), torch.randn(5, 6), 0, "cat"),
    (lambda x: x[torch.tensor([-1, 0])], torch.randn(5, 6), 0, "index"),
    (Attention().eval(), torch.randn(5, 7, 8), 1, ""),
]


def sized(x: torch.Tensor, axis: int, n: int) -> torch.Tensor:
    y = x.repeat_interleave(8, axis).narrow(axis, 0, n).clone()
    torch._dynamo.mark_dynamic(y, axis)
    return y


@pytest.mark.filterwarnings("error::preheat.errors.PreheatWarning")
@pytest.mark.parametrize(("fn", "x", "axis"), SAFE)
def test_safe_graphs_are_padded_and_give_what_eager_gives(
    interpreted: list[Any], fn: Callable[..., Any], x: torch.Tensor, axis: int
) -> None:
    fast = torch.compile(fn, backend="preheat", options={"buckets": {"n": [4, 16]}})
    with torch.no_grad():
        for n, artifacts in ((3, 1), (4, 1), (11, 2), (20, 3), (2, 3)):
            y = sized(x, axis, n)
            got, want = fast(y), fn(y)
            assert_close(got, want)
            strides = [[t.stride() for t in pytree.tree_leaves(r) if torch.is_tensor(t)] for r in (got, want)]
            assert strides[0] == strides[1]
            assert len(interpreted) == artifacts


@pytest.mark.parametrize(("fn", "x", "axis", "why"), UNSAFE)
def test_other_graphs_take_every_size_as_it_is_and_say_why(
    interpreted: list[Any], monkeypatch: pytest.MonkeyPatch, fn: Any, x: torch.Tensor, axis: int, why: str
) -> None:
    monkeypatch.setattr(fallback, "_warned", set())
    fast = torch.compile(fn, backend="preheat", options={"buckets": {"n": [8, 16]}})
    with torch.no_grad(), pytest.warns(errors.PreheatWarning, match=f"not padded.*{why}"):
        y = sized(x, axis, 9)
        torch.manual_seed(1)
        got = fast(y)
    torch.manual_seed(1)
    with torch.no_grad():
        assert_close(got, fn(y))
    assert len(interpreted) == 1


def test_gradients_are_not_padded(interpreted: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fallback, "_warned", set())
    x = sized(torch.randn(5, 6), 0, 9).requires_grad_()
    with pytest.warns(errors.PreheatWarning, match="gradients"):
        torch.compile(lambda t: t.tanh(), backend="preheat", options={"buckets": {"n": [16]}})(x)


def test_a_dimension_that_is_not_there_is_named(interpreted: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fallback, "_warned", set())
    fast = torch.compile(lambda a, b: (a + 1, b + 1), backend="preheat", options={"buckets": {"seq": [16]}})
    with torch.no_grad(), pytest.warns(errors.PreheatWarning, match='"seq": it has a.0, b.0'):
        fast(sized(torch.randn(5), 0, 9), sized(torch.randn(5), 0, 7))


def test_buckets_that_are_no_sizes_are_refused() -> None:
    with pytest.raises(Exception, match="buckets are sizes by dimension"):
        torch.compile(lambda x: x + 1, backend="preheat", options={"buckets": {"n": ["many"]}})(torch.ones(2))
