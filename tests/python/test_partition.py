"""Common subexpressions of a joint graph: what becomes one node, and what must not."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import torch
from preheat import partition
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils.checkpoint import checkpoint


def removed(function: Callable[..., object], *inputs: torch.Tensor, symbolic: bool = False) -> int:
    """Nodes that the elimination took from the function's graph, which still computes the same."""
    made = make_fx(function, tracing_mode="symbolic" if symbolic else "fake")(*inputs)
    count = partition.eliminate_common_subexpressions(made.graph)
    made.graph.lint()
    made.recompile()
    torch.manual_seed(3)
    expected = function(*(i.clone() for i in inputs))
    torch.manual_seed(3)
    torch.testing.assert_close(made(*(i.clone() for i in inputs)), expected, rtol=0, atol=0)
    return count


X = torch.randn(4, 6)


def test_what_is_computed_twice_is_computed_once() -> None:
    assert removed(lambda x: (x.exp() + 1).sum() * (x.exp() + 1).sum(), X) == 3
    assert removed(lambda x: x.max(1)[0] + x.max(1)[0], X) == 3  # the operator and its two results
    assert removed(lambda x: torch.cat([x.sin(), x]) + torch.cat([x.sin(), x]), X) == 2


def test_other_arguments_are_other_values() -> None:
    assert removed(lambda x: (x * 2).sum() + (x * 3).sum(), X) == 0
    assert removed(lambda x: torch.copysign(x, 0.0).sum() + torch.copysign(x, -0.0).sum(), X) == 0
    assert removed(lambda x: (x.long() * 1).sum() + (x.long() * 1.0).sum(), X) == 1  # the cast
    assert removed(lambda x: x.exp().sum() + (x + 0).exp().sum(), X) == 0


def test_randomness_and_undefined_contents_stay_apart() -> None:
    assert removed(lambda x: torch.bernoulli(x.sigmoid()).sum() - torch.bernoulli(x.sigmoid()).sum(), X) == 1
    assert removed(lambda x: torch.rand_like(x) - torch.rand_like(x), X) == 0
    assert removed(lambda x: torch.empty_like(x).fill_(1) + torch.empty_like(x).fill_(2), X) == 0


def test_results_are_tensors_of_their_own() -> None:
    assert removed(lambda x: [x.exp(), x.exp()], X) == 0
    assert removed(lambda x: [x.exp().view(24), x.exp()], X) == 0
    assert removed(lambda x: [x.max(1)[0], x.max(1)[0]], X) == 0
    assert removed(lambda x: [x.cos().exp(), x.cos().exp()], X) == 1


def test_nothing_is_merged_over_a_write() -> None:
    def writes(x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        before = y.exp().sum()
        y.add_(1)
        return before + y.exp().sum()

    assert removed(writes, X) == 0


def test_sizes_merge_too() -> None:
    assert removed(lambda x: x.view(x.shape[0] * x.shape[1]) + x.view(x.shape[0] * x.shape[1]), X, symbolic=True) >= 1


def test_a_checkpoint_computes_again(service: str) -> None:
    """What is to be recomputed is not taken from what is kept."""

    def inner(x: torch.Tensor) -> torch.Tensor:
        return x.sin().exp().sin()

    def function(x: torch.Tensor) -> torch.Tensor:
        return (inner(x) + checkpoint(inner, x, use_reentrant=False)).sum()

    x = X.clone().requires_grad_()
    (expected,) = torch.autograd.grad(function(x), x)
    (got,) = torch.autograd.grad(torch.compile(function, backend="preheat")(x), x)
    torch.testing.assert_close(got, expected)


def test_a_training_call_loads_no_lowerings(service: str) -> None:
    """torch's own elimination would load Inductor's, in three quarters of a second."""
    code = (
        "import sys, torch; x = torch.randn(4, requires_grad=True); "
        "torch.compile(lambda x: (x.exp() + x.exp()).sum(), backend='preheat')(x).backward(); "
        "print('torch._inductor.lowering' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
