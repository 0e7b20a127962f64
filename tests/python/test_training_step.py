"""Forward and backward graphs joined in C++ (preheat/training.py): what torch.autograd promises, held against eager.

On a machine with a GPU once more with PREHEAT_TEST_DEVICE=cuda.
"""

from __future__ import annotations

import gc
import os
import sys
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from preheat import training
from torch import nn

DEVICE = os.environ.get("PREHEAT_TEST_DEVICE", "cpu")


@pytest.fixture
def joined(service: str, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Native steps as they are made: a test that makes none tests nothing."""
    made: list[Any] = []
    of = training._Native.of

    def note(*graphs: Any) -> Any:
        if (step := of(*graphs)) is not None:
            made.append(step)
        return step

    monkeypatch.setattr(training._Native, "of", staticmethod(note))
    return made


def compiled(fn: Callable[..., Any], *args: torch.Tensor) -> Callable[..., Any]:
    """Compiled, and called until its step is native."""
    fast = torch.compile(fn, backend="preheat")
    for _ in range(3):
        out = fast(*args)
        first = out[0] if isinstance(out, tuple) else out
        first.sum().backward()
    for t in args:
        t.grad = None
    return fast


def leaf(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(sizes, dtype=dtype, device=DEVICE, requires_grad=True)


def gradients(fn: Callable[..., Any], args: list[torch.Tensor], weigh: Callable[[Any], torch.Tensor]) -> list[Any]:
    return list(torch.autograd.grad(weigh(fn(*args)), args))


def check(fn: Callable[..., Any], *args: torch.Tensor, weigh: Callable[[Any], torch.Tensor] = torch.sum) -> None:
    fast = compiled(fn, *args)
    for got, want in zip(gradients(fast, list(args), weigh), gradients(fn, list(args), weigh), strict=True):
        torch.testing.assert_close(got, want)


def test_gradients(joined: list[Any]) -> None:
    def fn(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x @ w).t() * 2

    check(fn, leaf(8, 16), leaf(16, 4), weigh=lambda y: (y * torch.arange(8.0, device=DEVICE)).sum())
    assert joined


def test_gradients_that_are_expanded_or_strided(joined: list[Any]) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.exp(x) * x

    x = leaf(6, 4)
    fast = compiled(fn, x)
    for gradient in (leaf().detach().expand(6, 4), leaf(4, 6).detach().t(), leaf(12, 4).detach()[::2]):
        (got,) = torch.autograd.grad(fast(x), x, gradient)
        (want,) = torch.autograd.grad(fn(x), x, gradient)
        torch.testing.assert_close(got, want)
    assert joined


def test_a_result_nobody_uses(joined: list[Any]) -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        return x.sin(), x.cos() * 3, x.argmax(-1)

    check(fn, leaf(5, 7), weigh=lambda y: y[1].sum())
    assert joined
    fast = compiled(fn, x := leaf(5, 7))
    assert [r.requires_grad for r in fast(x)] == [True, True, False]


def test_backward_twice(joined: list[Any]) -> None:
    x = leaf(8)
    fast = compiled(lambda t: t.sin() * t, x)
    y = fast(x).sum()
    y.backward(retain_graph=True)
    once = x.grad.clone()
    y.backward()
    torch.testing.assert_close(x.grad, once * 2)
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()
    assert joined


def test_writes_to_what_is_saved_are_noticed(joined: list[Any]) -> None:
    x, w = leaf(8), leaf(8)
    fast = compiled(lambda a, b: a.sin() * b, x, w)
    y = fast(x, w)
    with torch.no_grad():
        w.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    fast = compiled(torch.exp, x)
    y = fast(x)
    y.detach().mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    assert len(joined) == 2


def test_no_second_derivative(joined: list[Any]) -> None:
    x = leaf(8)
    fast = compiled(lambda t: t.sin() * t, x)
    (first,) = torch.autograd.grad(fast(x).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="double backward"):
        first.sum().backward()
    assert joined


def test_hooks_of_saved_tensors(joined: list[Any]) -> None:
    x = leaf(8)
    fast = compiled(lambda t: t.sin() * t, x)
    packed: list[torch.Tensor] = []

    def pack(t: torch.Tensor) -> int:
        packed.append(t.detach().clone())
        return len(packed) - 1

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda i: packed[i]):
        y = fast(x)
    y.sum().backward()
    assert packed
    torch.testing.assert_close(x.grad, x.detach().cos() * x.detach() + x.detach().sin())
    assert joined


def test_checkpoint(joined: list[Any]) -> None:
    x = leaf(8, 8)
    fast = compiled(lambda t: torch.tanh(t @ t), x)
    torch.utils.checkpoint.checkpoint(fast, x, use_reentrant=False).sum().backward()
    got, x.grad = x.grad, None
    torch.tanh(x @ x).sum().backward()
    torch.testing.assert_close(got, x.grad)
    assert joined


def test_running_statistics(joined: list[Any]) -> None:
    norms = [nn.BatchNorm2d(3, device=DEVICE), nn.BatchNorm2d(3, device=DEVICE)]
    fast = torch.compile(norms[0], backend="preheat")
    for step in range(5):
        torch.manual_seed(step)
        x = torch.randn(4, 3, 5, 5, device=DEVICE)
        for norm, run in ((norms[0], fast), (norms[1], norms[1])):
            run(x).square().sum().backward()
            norm.weight.grad = norm.weight.grad / 2
    for got, want in zip(norms[0].state_dict().values(), norms[1].state_dict().values(), strict=True):
        torch.testing.assert_close(got, want)
    torch.testing.assert_close(norms[0].weight.grad, norms[1].weight.grad)
    assert joined


def test_nothing_is_kept(joined: list[Any]) -> None:
    x = leaf(64)
    fast = compiled(lambda t: t.sin() * t, x)
    before = sys.getrefcount(joined[0]._tables)
    y = fast(x)
    gone, during = weakref.ref(y), sys.getrefcount(joined[0]._tables)
    y.sum().backward()
    del y
    gc.collect()
    after = sys.getrefcount(joined[0]._tables)
    assert gone() is None
    assert (during, after) == (before + 1, before)  # one while the node is there


def test_threads_and_no_grad(joined: list[Any]) -> None:
    x = leaf(32, 32)
    fast = compiled(lambda t: (t @ t).relu(), x)
    with torch.no_grad():
        assert not fast(x).requires_grad
    want = gradients(lambda t: (t @ t).relu(), [x], torch.sum)[0]
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(4) as pool:
        for got in pool.map(lambda _: torch.autograd.grad(fast(x).sum(), x)[0], range(32)):
            torch.testing.assert_close(got, want)
    assert joined


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_dtypes(joined: list[Any], dtype: torch.dtype) -> None:
    x = leaf(8, 8, dtype=dtype)
    fast = compiled(lambda t: t * t + t, x)
    (got,) = torch.autograd.grad(fast(x).sum(), x)
    torch.testing.assert_close(got, (x * 2 + 1).detach(), atol=2e-2, rtol=2e-2)
    assert joined


def test_results_that_alias_arguments_go_the_other_way(joined: list[Any]) -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x * 2, x.view(-1)

    x = leaf(2, 3)
    fast = compiled(fn, x)
    a, b = fast(x)
    (a.sum() + (b * 3).sum()).backward()
    torch.testing.assert_close(x.grad, torch.full((2, 3), 5.0, device=DEVICE))
    assert not joined


def test_backward_computes_with_arguments_as_they_were(joined: list[Any]) -> None:
    def fn(x: torch.Tensor, buffer: torch.Tensor) -> torch.Tensor:
        y = x.sin() * (buffer * 2).exp()  # cheap enough for backward to compute again, from the buffer
        buffer.add_(1)
        return y

    x = leaf(3, 4)
    fast = torch.compile(fn, backend="preheat")
    for step in range(4):
        mine, eagers = (torch.full((3, 4), step / 10, device=DEVICE) for _ in range(2))
        (got,) = torch.autograd.grad(fast(x, mine).sum(), x)
        (want,) = torch.autograd.grad(fn(x, eagers).sum(), x)
        torch.testing.assert_close([got, mine], [want, eagers])
    assert joined


def test_extern_calls_under_autocast_compute_what_the_graph_says(joined: list[Any]) -> None:
    x, w = leaf(8, 8), leaf(8, 8)
    fast = torch.compile(lambda x, w: (x @ w).sin(), backend="preheat", options={"exclude": ["aten.mm"]})
    want = torch.autograd.grad((x @ w).sin().sum(), [x, w])
    for _ in range(4):
        y = fast(x, w).sum()
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            got = torch.autograd.grad(y, [x, w])
        torch.testing.assert_close(got, want)
    assert joined


@pytest.mark.skipif(DEVICE != "cuda", reason="a CPU has no streams")
def test_a_stream_of_its_own(joined: list[Any]) -> None:
    x = leaf(512, 512)
    fast = compiled(lambda t: (t @ t).relu(), x)
    want = gradients(lambda t: (t @ t).relu(), [x], torch.sum)[0]
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(4):  # step by step, recorded, started
            got = gradients(fast, [x], torch.sum)[0]
    stream.synchronize()
    torch.testing.assert_close(got, want)
    assert joined


@pytest.mark.skipif(DEVICE != "cuda", reason="torch counts a GPU's allocations")
def test_memory_is_torchs_and_none_is_asked_for_again(joined: list[Any]) -> None:
    x = leaf(512, 512)
    fast = compiled(lambda t: torch.tanh(t @ t), x)
    for _ in range(4):
        gradients(fast, [x], torch.sum)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated(), torch.cuda.memory_stats()["num_device_alloc"]
    y = fast(x)
    assert torch.cuda.memory_allocated() > before[0]
    y.sum().backward()
    del y
    x.grad = None
    for _ in range(20):
        gradients(fast, [x], torch.sum)
    assert (torch.cuda.memory_allocated(), torch.cuda.memory_stats()["num_device_alloc"]) == before
    assert joined
