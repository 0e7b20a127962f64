"""torch.compile through programs, judged by eager. Programs are interpreted by torch: no server is needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from preheat import backend, program
from preheat.config import Config
from torch import nn
from torch.testing import assert_close

COMPILE: dict[str, Any] = {"backend": "preheat"}


def compare(fn: Callable[..., Any], *args: Any, **options: Any) -> Any:
    want = fn(*args)
    got = torch.compile(fn, **COMPILE, **options)(*args)
    assert_close(got, want)
    return got


def test_inference_of_a_module(interpreted: list[Any]) -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 2)).eval()
    with torch.no_grad():
        compare(model, torch.randn(3, 4))
    ((kind, built),) = interpreted
    assert kind == "inference"
    kinds = [i.kind for i in built.proto.inputs]
    assert kinds.count(1) == 6 and kinds.count(0) == 1  # parameters are known as such


def test_training_gives_gradients_of_inputs_and_parameters(interpreted: list[Any]) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    x = torch.randn(3, 4, requires_grad=True)
    model(x).pow(2).sum().backward()
    want = [p.grad.clone() for p in model.parameters()] + [x.grad.clone()]
    for t in [*model.parameters(), x]:
        t.grad = None
    torch.compile(model, **COMPILE)(x).pow(2).sum().backward()
    assert_close([p.grad for p in model.parameters()] + [x.grad], want)
    assert [kind for kind, _ in interpreted] == ["forward", "backward"]


def test_what_needs_no_kernel_is_no_output(interpreted: list[Any]) -> None:
    linear = nn.Linear(4, 8)
    x = torch.randn(3, 4, requires_grad=True)
    torch.compile(linear, **COMPILE)(x).sum().backward()
    forward = dict(interpreted)["forward"]
    assert len(forward.proto.outputs) == 1  # saved tensors are arguments and views of them


def test_log_softmax_is_eagers_own_where_integers_are_given(interpreted: list[Any]) -> None:
    x = torch.tensor([[3, -7, 2, 5, 1], [0, 4, -2, 9, -1]])
    fn = lambda t: torch.log_softmax(t, 1, dtype=torch.float64)  # noqa: E731
    assert torch.equal(torch.compile(fn, **COMPILE)(x), fn(x))
    assert [n.op for n in interpreted[0][1].proto.nodes][-1] == "aten._log_softmax.default"
    compare(lambda t: torch.log_softmax(t, 1), x.float())
    assert "aten._log_softmax.default" not in [n.op for n in interpreted[1][1].proto.nodes]


def test_batch_norm_updates_its_statistics(interpreted: list[Any]) -> None:
    a, b = nn.BatchNorm2d(3), nn.BatchNorm2d(3)
    x = torch.randn(2, 3, 4, 4)
    a(x)
    torch.compile(b, **COMPILE)(x)
    assert_close(b.running_mean, a.running_mean)
    assert_close(b.running_var, a.running_var)
    assert int(b.num_batches_tracked) == 1


def test_dynamic_sizes_are_symbols(interpreted: list[Any]) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, x * 2], dim=1).reshape(-1) + torch.arange(x.shape[0] * x.shape[1] * 2)

    fast = torch.compile(fn, dynamic=True, **COMPILE)
    for n, m in ((3, 4), (5, 7), (8, 2)):
        x = torch.randn(n, m)
        assert_close(fast(x), fn(x))
    ((_, built),) = interpreted
    assert [s.name for s in built.proto.symbols] == ["d0", "d1"]
    assert any("2*d0*d1" in v.tensor.sizes for v in built.proto.values)


def test_dynamic_training(interpreted: list[Any]) -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    fast = torch.compile(model, dynamic=True, **COMPILE)
    for n in (3, 6):
        x, y = torch.randn(n, 4), torch.randn(n, 2)
        model.zero_grad()
        (model(x) * y).sum().backward()
        want = [p.grad.clone() for p in model.parameters()]
        model.zero_grad()
        (fast(x) * y).sum().backward()
        assert_close([p.grad for p in model.parameters()], want)


def test_programs_do_not_depend_on_the_names_of_arguments(interpreted: list[Any]) -> None:
    torch.compile(lambda x: x.sum(0), dynamic=True, **COMPILE)(torch.randn(3, 4))
    torch.compile(lambda other: other.sum(0), dynamic=True, **COMPILE)(torch.randn(5, 6))
    first, second = (built.proto for _, built in interpreted)
    first.ClearField("debug_info"), second.ClearField("debug_info")
    assert first == second


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x[:, 1:3] + 1,
        lambda x: torch.split(x, 2, dim=1),
        lambda x: x.unbind(0),
        lambda x: torch.topk(x, 2),
        lambda x: x[torch.tensor([1, 0]), :],
        lambda x: (x.to(torch.bfloat16) * 3).float(),
        lambda x: torch.where(x > 0, x, -1.0),
        lambda x: x.var(dim=1, correction=0),
        lambda x: torch.full((2,), float("inf")) * x.sum(),
        lambda x: nn.functional.scaled_dot_product_attention(x[None], x[None], x[None], is_causal=True),
        lambda x: x.clamp(min=None, max=0.5).sort(descending=True).values,
        lambda x: (x > 0).any(dim=1, keepdim=True),
        lambda x: x.repeat(2, 1).expand(4, 4),
        lambda x: torch.einsum("ij,kj->ik", x, x),
        lambda x: torch.fft.rfft(x).abs(),
        lambda x: x.new_zeros(0, 3).sum(1),
    ],
)
def test_kinds_of_arguments_and_results(interpreted: list[Any], fn: Callable[..., Any]) -> None:
    compare(fn, torch.randn(2, 4))


def test_results_have_eagers_strides(interpreted: list[Any]) -> None:
    x = torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last)
    conv = nn.Conv2d(3, 8, 3).to(memory_format=torch.channels_last)
    with torch.no_grad():
        assert compare(conv, x).stride() == conv(x).stride()
        assert compare(lambda t: t.transpose(1, 2) * 2, torch.randn(2, 3, 4)).stride() == (12, 1, 4)


def test_inference_outputs_that_share_memory_share_it(interpreted: list[Any]) -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = x + 1
        return y, y.view(-1)

    a, b = compare(fn, torch.randn(2, 2))
    b[0] = 7
    assert a[0, 0] == 7


def test_views_of_what_is_not_returned_itself_share_memory(interpreted: list[Any]) -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x * 2
        return *y.split(1), y.view(-1)

    a, _, flat = compare(fn, torch.randn(2, 2))
    a[0, 1] = 7
    assert flat[1] == 7
    assert len(interpreted[0][1].proto.outputs) == 1


def test_expanded_result(interpreted: list[Any]) -> None:
    assert compare(lambda x: (x + 1).expand(3, 4), torch.randn(1, 4)).stride() == (0, 1)


def test_unaligned_and_lazy_arguments_are_copied(interpreted: list[Any]) -> None:
    base = torch.randn(9)
    compare(lambda x: x * 2, base[1:5])
    z = torch.randn(4, dtype=torch.complex64)
    compare(lambda x: x + 1, z.conj().imag)
    fast = torch.compile(lambda x: x.sum(0), **COMPILE)
    assert_close(fast(base[:4].expand(3, 4)), base[:4] * 3)
    assert_close(fast(base[1:5].expand(3, 4)), base[1:5] * 3)


def test_parameters_set_through_data_with_other_strides(interpreted: list[Any]) -> None:
    model = nn.Linear(4, 4, bias=False)
    fast = torch.compile(model, **COMPILE)
    x = torch.randn(2, 4)
    with torch.no_grad():
        fast(x)
        model.weight.data = torch.randn(4, 4).t()
        assert_close(fast(x), model(x))


def test_random_results_equal_eagers(interpreted: list[Any]) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return nn.functional.dropout(x + torch.rand_like(x), 0.5)

    x = torch.ones(64)
    torch.manual_seed(3)
    want = fn(x)
    torch.manual_seed(3)
    assert_close(torch.compile(fn, **COMPILE)(x), want)


def test_mutated_input(interpreted: list[Any]) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x * 2

    a, b = torch.zeros(3), torch.zeros(3)
    assert_close(torch.compile(fn, **COMPILE)(a), fn(b))
    assert_close(a, b)


def test_constants_travel_when_small_and_are_inputs_when_large(interpreted: list[Any]) -> None:
    table = torch.tensor([[1.0, 2.0], [3.0, 4.0]])

    def small(x: torch.Tensor) -> torch.Tensor:
        return x * torch.tensor([[1.0, 2.0], [3.0, 4.0]])

    compare(small, torch.randn(2, 2))
    assert [c.data for c in interpreted[0][1].proto.constants] == [table.numpy().tobytes()]

    held = torch.randn(3001)[1:]  # at no multiple of 16 bytes
    graph = torch.fx.Graph()
    attribute = graph.get_attr("held")
    doubled = graph.call_function(torch.ops.aten.mul.Tensor, (attribute, 2))
    attribute.meta["val"] = doubled.meta["val"] = held
    graph.output((doubled,))
    built = program.build(torch.fx.GraphModule({"held": held}, graph))
    assert [i.kind for i in built.proto.inputs] == [3] and not built.proto.constants
    assert torch.equal(built.inputs[0].constant, held) and built.inputs[0].constant.data_ptr() % 16 == 0


def test_frozen_parameters(interpreted: list[Any]) -> None:
    import preheat

    model = nn.Linear(4, 4).eval()
    fast = torch.compile(model, options={"freeze": True}, **COMPILE)
    x = torch.randn(2, 4)
    with torch.no_grad():
        assert_close(fast(x), model(x))
        assert [i.frozen for i in interpreted[0][1].proto.inputs].count(True) == 2
        model.weight.add_(1)  # the version counter tells
        assert_close(fast(x), model(x))
        model.weight.data.add_(1)  # nothing tells
        preheat.refresh(model)
        assert_close(fast(x), model(x))


def test_unknown_option_is_refused() -> None:
    with pytest.raises(Exception, match="no option bukkets"):
        torch.compile(lambda x: x + 1, options={"bukkets": {}}, **COMPILE)(torch.ones(2))


def test_gradients_that_torch_wants_reproducible_stay_torch_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    chosen = Config.make({"exclude": ["aten.gelu"]})
    assert backend._reproducible(chosen) == chosen
    monkeypatch.setattr(torch, "are_deterministic_algorithms_enabled", lambda: True)
    excluded = backend._reproducible(chosen).exclude
    assert "aten.gelu" in excluded and "aten._scaled_dot_product_cudnn_attention_backward" in excluded
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)  # keys of a CPU's programs stay as they are
    assert backend._reproducible(chosen) == chosen
