"""Extern calls, made by libpreheat_torch and by the Python handler that stands in for it: both must do the same."""

from __future__ import annotations

import ctypes
import json
import os
import pathlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from preheat import errors, extern, native, runtime

BUILD = pathlib.Path(os.environ.get("PREHEAT_BUILD", pathlib.Path(__file__).resolve().parents[2] / "build" / "release"))

Handler = Callable[[Any], None]


@pytest.fixture(params=["python", "native"])
def handle(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Handler:
    """Makes one call; raises what it says went wrong."""
    monkeypatch.setenv("PREHEAT_RUNTIME", str(BUILD / "lib" / "libpreheat_runtime.so"))
    if request.param == "python":
        pointer = ctypes.cast(extern._handle, ctypes.c_void_p).value
    else:
        extern.native_library.cache_clear()
        compiled = extern.native_library()
        extern.native_library.cache_clear()
        assert compiled is not None, "libpreheat_torch.so is not beside the runtime, or not for this torch"
        pointer = ctypes.cast(compiled.preheat_torch_extern, ctypes.c_void_p).value
    function = native.ExternHandler(pointer)
    return lambda call: runtime.Session.check(function(None, ctypes.pointer(call)))


def call(op: str, args: list[Any], operands: list[torch.Tensor], results: list[torch.Tensor], **more: Any) -> Any:
    """An ExternCall whose memory lives as long as it does."""
    text = json.dumps({"op": op, "args": args, "list": False, "none": [], **more}).encode()
    given, alive = native.describe(operands)
    made, alive_too = native.describe(results)
    out = native.ExternCall(op.encode(), text, given, len(operands), made, len(results), None, 0, None)
    out.alive = (text, given, made, alive, alive_too)
    return out


def argument(name: str, value: Any, keyword: bool = False) -> dict[str, Any]:
    return {"n": name, "v": value, **({"k": 1} if keyword else {})}


def test_several_results_into_given_memory(handle: Handler) -> None:
    x = torch.randn(4, 3).t()
    values, indices = torch.empty(3, 4).t().contiguous().t(), torch.empty(3, 4, dtype=torch.long)
    args = [
        argument("self", {"t": 0}),
        argument("stable", True, True),
        argument("dim", 1),
        argument("descending", True),
    ]
    handle(call("aten.sort.stable", args, [x], [values, indices]))
    want = torch.sort(x, stable=True, dim=1, descending=True)
    assert torch.equal(values, want.values) and torch.equal(indices, want.indices)


def test_results_not_taken_and_lists(handle: Handler) -> None:
    x, second = torch.randn(5, 4), torch.empty(5, 2)
    args = [argument("self", {"t": 0}), argument("split_size", 2), argument("dim", 1)]
    handle(call("aten.split.Tensor", args, [x], [second], list=True, none=[0]))
    assert torch.equal(second, x[:, 2:])


@pytest.mark.parametrize(
    ("op", "args", "want"),
    [
        ("aten.add.Tensor", [argument("self", {"t": 0}), argument("other", 2)], lambda x: x + 2),
        ("aten.mul.Tensor", [argument("self", {"t": 0}), argument("other", {"f": "inf"})], lambda x: x * float("inf")),
        ("aten.clamp.default", [argument("self", {"t": 0}), argument("max", {"f": "0.5"})], lambda x: x.clamp(max=0.5)),
        ("aten.sum.dim_IntList", [argument("self", {"t": 0}), argument("dim", {"is": [1]})], lambda x: x.sum(1)),
        ("aten._to_copy.default", [argument("self", {"t": 0}), argument("dtype", {"dtype": "bf16"}, True)],
         lambda x: x.bfloat16()),
        ("aten.cat.default", [argument("tensors", {"ts": [0, 0]}), argument("dim", 1)], lambda x: torch.cat([x, x], 1)),
        ("aten.gelu.default", [argument("self", {"t": 0}), argument("approximate", "tanh", True)],
         lambda x: torch.nn.functional.gelu(x, approximate="tanh")),
        ("aten.view_as_complex.default", [argument("self", {"t": 0})], torch.view_as_complex),
    ],
)  # fmt: skip
def test_kinds_of_arguments(handle: Handler, op: str, args: list[Any], want: Callable[..., torch.Tensor]) -> None:
    x = torch.randn(3, 2)
    result = torch.empty_like(want(x))
    handle(call(op, args, [x], [result]))
    assert torch.equal(result, want(x))


@pytest.mark.parametrize("pairs", [torch.ones(1, 1).expand(3, 2), torch.randn(2, 3).t()])
def test_pairs_that_lie_otherwise(handle: Handler, pairs: torch.Tensor) -> None:
    result = torch.empty(3, dtype=torch.complex64)
    handle(call("aten.view_as_complex.default", [argument("self", {"t": 0})], [pairs], [result]))
    assert torch.equal(torch.view_as_real(result), pairs)


def test_random_operators_use_torchs_generator(handle: Handler) -> None:
    result = torch.empty(8)
    torch.manual_seed(3)
    handle(
        call(
            "aten.rand.default",
            [argument("size", {"is": [8]}), argument("dtype", {"dtype": "f32"}, True)],
            [],
            [result],
        )
    )
    torch.manual_seed(3)
    assert torch.equal(result, torch.rand(8))


def test_empty_tensors(handle: Handler) -> None:
    x, result = torch.randn(0, 4), torch.empty(4)
    handle(call("aten.sum.dim_IntList", [argument("self", {"t": 0}), argument("dim", {"is": [0]})], [x], [result]))
    assert torch.equal(result, torch.zeros(4))


def test_failures_are_told(handle: Handler) -> None:
    x = torch.randn(2, 3)
    with pytest.raises((RuntimeError, errors.PreheatError), match="cannot be multiplied"):
        handle(
            call("aten.mm.default", [argument("self", {"t": 0}), argument("mat2", {"t": 0})], [x], [torch.empty(2, 2)])
        )
    with pytest.raises(RuntimeError, match="program"):
        handle(call("aten.relu.default", [argument("self", {"t": 0})], [x], [torch.empty(2, 2)]))
