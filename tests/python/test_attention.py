"""Attention of many scores in the spellings that models use: eager's answer, and no matrix of scores on the way."""

from __future__ import annotations

import math
from collections.abc import Callable

import preheat
import pytest
import torch
from torch import nn
from torch.testing import assert_close

pytestmark = pytest.mark.usefixtures("service")

Tensors = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
Formula = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
sdpa = nn.functional.scaled_dot_product_attention


def heads(rows: int = 300, columns: int = 300, kv_heads: int = 4) -> Tensors:
    """q, k and v of 2 images and 4 heads, as a projection leaves them: heads are the third dimension in memory."""
    q = torch.randn(2, rows, 4, 16)
    k, v = torch.randn(2, columns, kv_heads, 16), torch.randn(2, columns, kv_heads, 16)
    return q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)


def check(fn: Formula, tensors: Tensors, kernels: int) -> None:
    """`kernels`: how many there may be, the call of attention among them."""
    with torch.no_grad():
        got = torch.compile(fn, backend="preheat")(*tensors)
        want = fn(*(t.double() for t in tensors))
    assert_close(got.double(), want, rtol=2e-5, atol=3e-6, equal_nan=True)
    (graph,) = preheat.report().to_dict()["graphs"]
    assert graph["extern_ops"] == {}
    assert graph["kernels_after"] <= kernels, graph


def by_hand(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(q.shape[-1])
    return torch.matmul(torch.softmax(scores, dim=-1), v)


def by_hand_behind_a_mask(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    hidden = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).triu(5)
    scores = (q * 0.25 @ k.transpose(-2, -1)).masked_fill(hidden, -math.inf)
    return scores.softmax(-1) @ v


def test_plain() -> None:
    check(sdpa, heads(), 1)


def test_other_lengths_of_queries_and_keys() -> None:
    check(sdpa, heads(257, 700), 1)


def test_causal() -> None:
    check(lambda q, k, v: sdpa(q, k, v, is_causal=True), heads(), 1)


def test_causal_beyond_the_last_key() -> None:
    check(lambda q, k, v: sdpa(q, k, v, is_causal=True, scale=0.3), heads(500, 260), 1)


def test_a_mask_that_is_added() -> None:
    bias = torch.randn(4, 300, 300)
    check(lambda q, k, v: sdpa(q, k, v, attn_mask=bias.to(q.dtype)), heads(), 3)


def test_padding_and_a_row_that_sees_nothing() -> None:
    seen = torch.rand(2, 1, 300, 300) < 0.5
    seen[1, 0, 7] = False
    check(lambda q, k, v: sdpa(q, k, v, attn_mask=seen), heads(), 2)


def test_keys_shared_by_heads() -> None:
    check(lambda q, k, v: sdpa(q, k, v, enable_gqa=True), heads(kv_heads=2), 3)


def test_by_hand() -> None:
    check(by_hand, heads(), 3)


def test_by_hand_behind_a_mask() -> None:
    check(by_hand_behind_a_mask, heads(), 4)


def test_weights_that_are_wanted_too() -> None:
    def fn(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        weights = (q @ k.transpose(-2, -1)).softmax(-1)
        return weights @ v + weights.amax(-1, keepdim=True)

    check(fn, heads(), 8)


def test_scores_that_are_not_finite() -> None:
    q, k, v = heads()
    q, k = q.clone(), k.clone()
    q[0, 0, 3], k[1, 2, 5, 0] = math.inf, math.nan
    check(sdpa, (q, k, v), 1)


def test_any_length() -> None:
    layer = torch.compile(lambda q, k, v: sdpa(q, k, v, is_causal=True), backend="preheat", dynamic=True)
    with torch.no_grad():
        for length in (2, 300, 33, 513):
            tensors = heads(length, length)
            assert_close(layer(*tensors), sdpa(*tensors, is_causal=True), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kv_heads", [4, 2])
def test_training_has_eagers_gradients(kv_heads: int) -> None:
    tensors = tuple(t.requires_grad_() for t in heads(kv_heads=kv_heads))

    def gradients(fn: Formula) -> tuple[torch.Tensor, ...]:
        return torch.autograd.grad(fn(*tensors).square().sum(), tensors)

    causal: Formula = lambda q, k, v: sdpa(q, k, v, is_causal=True, enable_gqa=True)  # noqa: E731
    assert_close(gradients(torch.compile(causal, backend="preheat")), gradients(causal), rtol=1e-4, atol=1e-4)
    assert all(graph["extern_ops"] == {} for graph in preheat.report().to_dict()["graphs"])
