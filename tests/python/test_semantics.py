"""What torch promises of a compiled model, through a real server: each case trains or runs as eager does."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import preheat
import pytest
import torch
from preheat import breaker, errors
from torch import nn
from torch.testing import assert_close
from torch.utils.checkpoint import checkpoint

pytestmark = pytest.mark.usefixtures("service")


def compiled(fn: Any, **options: Any) -> Any:
    return torch.compile(fn, backend="preheat", **options)


def gradients(fn: Callable[..., torch.Tensor], model: nn.Module, *inputs: torch.Tensor, steps: int = 1) -> list[Any]:
    """Of the parameters after `steps` backward passes that add up, from the same seed."""
    torch.manual_seed(3)
    model.zero_grad()
    for _ in range(steps):
        fn(*inputs).square().sum().backward()
    return [p.grad.clone() for p in model.parameters()]


def no_fallbacks() -> list[dict[str, Any]]:
    report = preheat.report().to_dict()
    assert report["fallbacks"] == {} and "eager" not in report["results"], report
    return report["graphs"]


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 16), nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(nn.functional.dropout(nn.functional.gelu(self.first(x)), 0.5, self.training))


def test_dropout_is_eagers_and_the_same_in_backward() -> None:
    model, x = Net(), torch.randn(32, 8)
    assert_close(gradients(compiled(model), model, x), gradients(model, model, x))
    no_fallbacks()


def test_gradients_accumulate() -> None:
    model, x = Net().eval(), torch.randn(4, 8)
    assert_close(gradients(compiled(model), model, x, steps=3), gradients(model, model, x, steps=3))


def test_checkpointed_layers_recompute_the_same_randomness() -> None:
    model, x = Net(), torch.randn(16, 8)

    def step(x: torch.Tensor) -> torch.Tensor:
        return checkpoint(model, x, use_reentrant=False)

    assert_close(gradients(compiled(step), model, x), gradients(step, model, x))
    graphs = no_fallbacks()
    assert {g["kind"] for g in graphs} == {"forward", "backward"} and all(g["native_ops"] for g in graphs)
    assert any("run_with_rng_state" in g["extern_ops"] for g in graphs)


def test_autocast() -> None:
    model, x = Net().eval(), torch.randn(16, 8)

    def step(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return model(x).float()

    assert_close(gradients(compiled(step), model, x), gradients(step, model, x), atol=0.05, rtol=0.05)
    with torch.autocast("cpu", dtype=torch.bfloat16):  # around the compiled call
        assert compiled(model)(x).dtype == torch.bfloat16
    no_fallbacks()


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_without_gradients(mode: Any) -> None:
    model, x = Net().eval(), torch.randn(4, 8)
    fast = compiled(model)
    with mode():
        got, want = fast(x), model(x)
    assert_close(got, want)
    assert not got.requires_grad and got.is_inference() == want.is_inference()
    (graph,) = no_fallbacks()
    assert graph["kind"] == "inference"


@pytest.mark.parametrize("foreach", [True, False])
def test_a_compiled_optimizer(foreach: bool) -> None:
    """Lists of tensors are taken apart, so that the whole step fuses."""
    nets = [Net().eval(), Net().eval()]
    nets[1].load_state_dict(nets[0].state_dict())
    makers = (
        lambda p: torch.optim.SGD(p, 0.01, momentum=0.9, weight_decay=0.1, foreach=foreach),
        lambda p: torch.optim.AdamW(p, 0.01, amsgrad=True, foreach=foreach),
    )
    for make in makers:
        mine, eagers = (make(net.parameters()) for net in nets)
        step = compiled(mine.step)
        for _ in range(3):
            for net, run in ((nets[0], step), (nets[1], eagers.step)):
                net.zero_grad()
                net(torch.ones(4, 8)).square().sum().backward()
                run()
        assert_close(list(nets[0].parameters()), list(nets[1].parameters()), atol=1e-5, rtol=1e-5)
    assert all(g["extern_ops"] == {} for g in no_fallbacks())


def test_complex_gradients() -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x * y).abs().sum() + torch.view_as_real(x).sum()

    x, y = (torch.randn(4, dtype=torch.complex64, requires_grad=True) for _ in range(2))
    want = torch.autograd.grad(fn(x, y), (x, y))
    assert_close(torch.autograd.grad(compiled(fn)(x, y), (x, y)), want)
    no_fallbacks()


def test_tangents_of_forward_mode() -> None:
    from torch.autograd import forward_ad

    fast = compiled(lambda x: (x * x).sin())
    x = torch.randn(4)
    for _ in range(3):
        fast(x)
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(x, torch.ones(4))
            assert_close(forward_ad.unpack_dual(fast(dual)).tangent, 2 * x * (x * x).cos())
    no_fallbacks()


def test_inputs_written_in_place() -> None:
    def fn(x: torch.Tensor, cache: torch.Tensor) -> torch.Tensor:
        cache[:, 1:3].copy_(x * 2)
        x.add_(1)
        return cache.sum() + x

    mine, eagers = [(torch.ones(4, 2), torch.zeros(4, 5)) for _ in range(2)]
    assert_close(compiled(fn)(*mine), fn(*eagers))
    assert_close(mine, eagers)
    no_fallbacks()


def test_outputs_that_alias_each_other_and_inputs() -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x * 2
        return y, y[1:], x.view(-1), x

    x = torch.randn(3, 4)
    y, part, flat, same = compiled(fn)(x)
    part[0, 0] = 100
    flat[0] = 200
    assert y[1, 0] == 100 and x[0, 0] == 200 and same is x
    no_fallbacks()


def test_one_artifact_for_a_marked_range_and_a_word_when_it_is_left(caplog: pytest.LogCaptureFixture) -> None:
    fast = compiled(lambda x: torch.softmax(x, 1) * 2)
    x = torch.randn(8, 16)
    torch._dynamo.mark_dynamic(x, 0, min=2, max=64)
    with caplog.at_level(logging.WARNING, logger="preheat"):
        fast(x)
        for n in (2, 33, 64):
            assert_close(fast(torch.randn(n, 16)).sum(), torch.tensor(2.0 * n))
        assert len(no_fallbacks()) == 1 and not caplog.records
        for n in (100, 1, 200):
            assert_close(fast(torch.randn(n, 16)).sum(), torch.tensor(2.0 * n))
    assert len([r for r in caplog.records if "compiled again" in r.message]) == 1
    assert len(no_fallbacks()) > 1


def test_the_second_size_makes_a_range() -> None:
    fast = compiled(lambda x: torch.tanh(x).sum(1))
    for n in (4, 7, 19, 5):
        x = torch.randn(n, 6)
        assert_close(fast(x), torch.tanh(x).sum(1))
    assert len(no_fallbacks()) == 2  # the first size, then all


def test_buckets_take_the_range_where_padding_is_not_safe_and_say_so() -> None:
    fast = compiled(lambda x: x.cumsum(0), dynamic=True, options={"buckets": {"seq": [4, 8]}})
    with pytest.warns(errors.PreheatWarning, match=r"not padded.*cumsum"):
        assert_close(fast(torch.ones(3)), torch.arange(1.0, 4.0))
    assert len(no_fallbacks()) == 1


def test_buckets_pad_and_have_one_artifact_a_size() -> None:
    model = Net().eval()
    fast = compiled(model, dynamic=True, options={"buckets": {"batch": [8, 32]}})
    with torch.no_grad():
        for n, artifacts in ((3, 1), (8, 1), (5, 1), (20, 2), (9, 2), (40, 3), (50, 3)):
            x = torch.randn(n, 8)
            got = fast(x)
            assert got.shape == (n, 4) and got.is_contiguous()
            assert_close(got, model(x))
            assert len(no_fallbacks()) == artifacts


def test_dynamos_conventions() -> None:
    assert "preheat" in torch._dynamo.list_backends()
    fast = compiled(lambda x: torch.nonzero(x * 2).sum() + x.sum(), fullgraph=True)
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        assert int(fast(torch.tensor([0, 2, 3]))) == 8  # a size known only while it runs
    before, after = no_fallbacks()
    assert before["native_ops"] and after["extern_ops"]["aten.nonzero.default"] == 1


def test_errors_name_their_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREHEAT_SERVER", "localhost:1")
    monkeypatch.setattr(breaker, "shared", breaker.Breaker())
    with pytest.raises(Exception, match=r"\[unreachable\]"):
        compiled(lambda x: x * 3 - 1)(torch.ones(2))


def test_a_log_line_for_each_graph(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="preheat"):
        compiled(lambda x: torch.relu(x) * 2 + 1)(torch.ones(4))
    (graph,) = no_fallbacks()
    (line,) = [r.message for r in caplog.records if graph["key"][:12] in r.message]
    assert graph["result"] in line and f"kernels {graph['kernels_before']} -> {graph['kernels_after']}" in line


def test_another_process_takes_the_graph_from_torchs_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process: Dynamo forgets everything, torch's cache on disk stays."""
    counts = torch._dynamo.utils.counters["aot_autograd"]
    model = Net()
    want = gradients(model, model, torch.ones(5, 8))
    results = []
    for options in ({}, {}, {"exclude": ["aten.gelu"]}):
        torch._dynamo.reset()
        preheat.reset_report()
        counts.clear()
        assert_close(gradients(compiled(model, options=options), model, torch.ones(5, 8)), want)
        results.append((counts["autograd_cache_hit"], [g["result"] for g in no_fallbacks()]))
    assert results[0] == (0, ["compiled", "compiled"])
    assert results[1] == (1, ["hit", "hit"])
    assert results[2][0] == 0  # other options are another entry
    assert any("aten.gelu.default" in g["extern_ops"] for g in preheat.report().to_dict()["graphs"])
