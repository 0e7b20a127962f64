"""What would be wrong without a word: each case is right, and no longer so when the guard that keeps it is out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import preheat
import pytest
import torch
from preheat import aot_cache, aten, built_program, compiled_graph, expressions, frozen, program
from torch import nn

Case = Callable[[], bool]
Remove = Callable[[pytest.MonkeyPatch], None]
CASES: dict[str, tuple[Case, Remove]] = {}


def guarded_by(remove: Remove) -> Callable[[Case], Case]:
    def register(case: Case) -> Case:
        CASES[case.__name__] = case, remove
        return case

    return register


def same(got: Any, want: Any) -> bool:
    return bool(torch.allclose(got, want, atol=1e-5, rtol=1e-5))


def compiled(fn: Any, **options: Any) -> Any:
    return torch.compile(fn, backend="preheat", **options)


# --- Frozen parameters written behind the back of torch's version counters ---


def no_hook(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(frozen, "_forget", lambda tensors: None)


def no_samples(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(frozen, "_samples", lambda t: None)


def neither(patch: pytest.MonkeyPatch) -> None:
    no_hook(patch)
    no_samples(patch)


def right_after(write: Callable[[nn.Module], None]) -> bool:
    model, x = nn.Linear(8, 8), torch.randn(4, 8)
    fast = compiled(model, options={"freeze": True})
    with torch.no_grad():
        fast(x)
    write(model)
    with torch.no_grad():
        return same(fast(x), model(x))


def fused_step(model: nn.Module) -> None:
    for p in model.parameters():
        p.grad = torch.ones_like(p)
    torch.optim.SGD(model.parameters(), lr=1.0, fused=True).step()


@guarded_by(neither)
def frozen_parameters_after_a_fused_step() -> bool:
    return right_after(fused_step)


@pytest.mark.parametrize("remove", [no_hook, no_samples])
def test_one_of_two_guards_notices_a_fused_step(service: str, monkeypatch: pytest.MonkeyPatch, remove: Remove) -> None:
    remove(monkeypatch)
    assert right_after(fused_step)


@guarded_by(no_samples)
def frozen_parameters_written_through_data() -> bool:
    return right_after(lambda model: model.weight.data.mul_(2))


@guarded_by(no_samples)
def frozen_parameters_written_through_numpy() -> bool:
    def write(model: nn.Module) -> None:
        model.weight.detach().numpy()[:] = 3

    return right_after(write)


@guarded_by(no_hook)
def one_element_of_a_frozen_parameter_written_then_refreshed() -> bool:
    def write(model: nn.Module) -> None:
        model.weight.data[0, 1] = 50
        preheat.refresh(model)

    return right_after(write)


# --- Parameters replaced without a recompile ---


@guarded_by(lambda patch: patch.setattr(compiled_graph, "_fit", lambda t, *_: t))
def parameters_replaced_by_others_of_other_strides() -> bool:
    model, x = nn.Linear(8, 8), torch.randn(4, 8)
    fast = compiled(model)
    with torch.no_grad():
        fast(x)
        model.weight.data = torch.randn(8, 8).t()
        return same(fast(x), model(x))


# --- Plans of another version or option set in torch's own cache ---


def one_tag(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(aot_cache, "tag", lambda config: "preheat")


@guarded_by(one_tag)
def torchs_cache_keeps_versions_apart() -> bool:
    """What an older version of this package kept, whose programs meant something else."""

    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(x) * 3

    def older(gm: torch.fx.GraphModule, *given: Any, **options: Any) -> built_program.BuiltProgram:
        built = newer(gm, *given, **options)
        for node in built.proto.nodes:
            node.op = node.op.replace("sigmoid", "tanh")
        return built

    x, newer = torch.randn(8), program.build
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(program, "build", older)
        patch.setattr(aot_cache, "_sources", lambda: "older")
        compiled(fn)(x)
    torch._dynamo.reset()
    return same(compiled(fn)(x), fn(x))


# --- Hints, lazy bits, alignment ---


@guarded_by(lambda patch: patch.setattr(expressions.Symbols, "text", lambda self, n: str(getattr(n, "node", n))))
def a_size_that_was_only_the_first_ones() -> bool:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return x.sum(0) * x.shape[0] + torch.arange(x.shape[0]).sum()

    fast = compiled(fn, dynamic=True)
    a, b = torch.randn(4, 3), torch.randn(7, 3)
    return same(fast(a), fn(a)) and same(fast(b), fn(b))


@guarded_by(lambda patch: patch.setattr(compiled_graph, "_plain", lambda t: t))
def an_argument_with_a_neg_bit() -> bool:
    x = torch._neg_view(torch.randn(8))
    return same(compiled(lambda t: t * 2)(x), x * 2)


@guarded_by(lambda patch: patch.setattr(compiled_graph, "_plain", lambda t: t))
def an_argument_with_a_conj_bit() -> bool:
    x = torch.randn(8, dtype=torch.complex64).conj()
    return same(compiled(lambda t: t + 1)(x), x + 1)


@guarded_by(lambda patch: patch.setattr(compiled_graph, "_ALIGNMENT", 1))
def an_unaligned_argument() -> bool:
    x = torch.randn(65)[1:]
    return same(compiled(lambda t: t * 2 + 1)(x), x * 2 + 1)


# --- Memory, aliasing and strides of results ---


def no_fast_call(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(compiled_graph.CompiledGraph, "_fast_call", lambda *_: None)


def reuse_outputs(patch: pytest.MonkeyPatch) -> None:
    no_fast_call(patch)
    made: dict[int, list[torch.Tensor]] = {}
    fresh = compiled_graph._new_outputs
    patch.setattr(
        compiled_graph, "_new_outputs", lambda layout, device: made.setdefault(id(layout), fresh(layout, device))
    )


@guarded_by(reuse_outputs)
def a_result_outlives_the_next_call() -> bool:
    fast = compiled(lambda x: x + 1)
    first = fast(torch.zeros(8))
    fast(torch.ones(8))
    return same(first, torch.ones(8))


@guarded_by(lambda patch: patch.setattr(aten, "_VIEWS", aten._VIEWS | {"aten.clone.default"}))
def a_returned_clone_is_no_view() -> bool:
    x = torch.zeros(8)
    copy, _ = compiled(lambda t: (t.clone(), t + 1))(x)
    copy.add_(1)
    return same(x, torch.zeros(8))


@guarded_by(lambda patch: patch.setattr(aten, "owner_of_memory", lambda node: node))
def results_of_inference_that_share_memory() -> bool:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = x + 1
        return y, y.view(-1)

    a, flat = compiled(fn)(torch.zeros(2, 4))
    flat[0] = 7
    return float(a[0, 0]) == 7


def dense_outputs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        compiled_graph,
        "_new_outputs",
        lambda layout, _: [torch.empty(s, dtype=dtype) for s, _, dtype in layout.outputs],
    )


@guarded_by(dense_outputs)
def results_have_eagers_strides() -> bool:
    x = torch.randn(2, 3, 4).transpose(1, 2)
    got = compiled(lambda t: t * 2)(x)
    return got.stride() == (x * 2).stride() and same(got, x * 2)


# --- All of them ---


@pytest.mark.parametrize("name", list(CASES))
def test_right_with_its_guard(service: str, name: str) -> None:
    assert CASES[name][0]()
    assert preheat.report().fallbacks == {}


@pytest.mark.parametrize("name", list(CASES))
def test_wrong_without_its_guard(service: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case, remove = CASES[name]
    remove(monkeypatch)
    try:
        right = case()
    except Exception:
        return  # an error is not silent
    fallbacks = preheat.report().fallbacks
    assert not right or fallbacks
    assert not any("TypeError" in reason for reason in fallbacks)  # a guard taken out, not a call that fails
