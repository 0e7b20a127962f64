"""A sample of torch's own operator database through torch.compile, forward and backward, held against eager.

PREHEAT_OP_DB_EVERY=1 takes all of it, which needs an hour of CPU time.
"""

from __future__ import annotations

import os
import pathlib
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from op_families import Shares, family
from service import Server
from torch.utils._pytree import tree_leaves, tree_map

EVERY = int(os.environ.get("PREHEAT_OP_DB_EVERY", "36"))
DTYPES = (torch.float32, torch.int64, torch.bool)
# What they give is not determined, or a process of its own is needed.
LEFT_OUT = ("empty", "new_empty", "jiterator")


def items() -> list[tuple[Any, torch.dtype]]:
    from torch.testing._internal.common_methods_invocations import op_db

    every = [(op, d) for op in op_db for d in DTYPES if d in op.supported_dtypes("cpu")]
    return [(op, d) for op, d in every[::EVERY] if not op.name.startswith(LEFT_OUT)]


def copied(tree: Any) -> Any:
    def copy(leaf: Any) -> Any:
        if not torch.is_tensor(leaf) or leaf.layout != torch.strided:
            return leaf
        return leaf.detach().clone().requires_grad_(leaf.requires_grad)

    return tree_map(copy, tree)


def tensors(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(tree) if torch.is_tensor(leaf)]


def run(fn: Callable[..., Any], sample: Any, seed: int) -> list[torch.Tensor]:
    """Results and the gradients of all that wants one."""
    x, args, kwargs = copied((sample.input, sample.args, sample.kwargs))
    torch.manual_seed(seed)
    out = fn(x, *args, **kwargs)
    wanted = [t for t in tensors(out) if t.requires_grad and t.is_floating_point()]
    leaves = [t for t in tensors((x, args, kwargs)) if t.requires_grad]
    gradients: tuple[torch.Tensor | None, ...] = ()
    if wanted and leaves:
        ups = [torch.linspace(0.1, 1, t.numel()).reshape(t.shape) for t in wanted]
        gradients = torch.autograd.grad(wanted, leaves, ups, allow_unused=True)
    return tensors(out) + [g for g in gradients if g is not None]


def same(got: list[torch.Tensor], want: list[torch.Tensor], dtype: torch.dtype) -> bool:
    tolerance = {"rtol": 1e-4, "atol": 1e-4} if dtype == torch.float32 else {"rtol": 0, "atol": 0}
    try:
        torch.testing.assert_close(got, want, equal_nan=True, **tolerance)
    except AssertionError:
        return False
    return True


def verdict(op: Any, dtype: torch.dtype, server: str) -> str:
    """ "right", "skipped" or what is wrong with the first sample that eager can run."""
    differentiable = dtype == torch.float32 and op.supports_autograd
    for sample in op.sample_inputs("cpu", dtype, requires_grad=differentiable):
        try:
            want, again = run(op, sample, 1), run(op, sample, 2)
        except Exception:
            continue
        if not same(again, want, dtype):
            return "skipped"  # random
        torch._dynamo.reset()
        fast = torch.compile(lambda *a, **k: op(*a, **k), backend="preheat", dynamic=False, options={"server": server})
        try:
            return "right" if same(run(fast, sample, 1), want, dtype) else "wrong"
        except Exception as error:
            return f"{type(error).__name__}: {error}"
    return "skipped"


@pytest.mark.filterwarnings("ignore")
def test_sample_of_op_db(server: Server, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import preheat

    monkeypatch.setenv("PREHEAT_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("PREHEAT_REQUIRED", "1")
    warnings.simplefilter("ignore")
    verdicts, shares = {}, Shares()
    for op, dtype in items():
        preheat.reset_report()
        verdicts[f"{op.name}.{op.variant_test_name} {dtype}"] = found = verdict(op, dtype, server.address)
        graphs = preheat.report().graphs
        if found == "right":
            native = {name for graph in graphs for name in graph.native_ops}
            shares.add(op, native, {name for graph in graphs for name in graph.extern_ops})
    failed = {name: v for name, v in verdicts.items() if v not in ("right", "skipped")}
    assert not failed
    assert sum(v == "right" for v in verdicts.values()) > 0.8 * len(verdicts)
    print(f"\nnative throughout:\n{shares}")
    assert shares.share() >= 0.85


@pytest.mark.parametrize(
    ("name", "expected"),
    [("add", "pointwise"), ("where", "pointwise"), ("amax", "reduction"), ("softmax", "reduction"), ("permute", "view"),
     ("cat", "view"), ("index_put", "index"), ("nn.functional.layer_norm", "norm"), ("nn.functional.conv2d", "other"),
     ("sort", "other"), ("linalg.det", "other"), ("norm", "reduction")],
)  # fmt: skip
def test_family(name: str, expected: str) -> None:
    from torch.testing._internal.common_methods_invocations import op_db

    assert {family(op) for op in op_db if op.name == name} == {expected}


def test_shares_count_what_is_native_throughout() -> None:
    from torch.testing._internal.common_methods_invocations import op_db

    add, conv = (next(op for op in op_db if op.name == name) for name in ("add", "nn.functional.conv2d"))
    shares = Shares()
    assert shares.add(add, ["aten.add.Tensor"], [])
    assert not shares.add(add, ["aten.add.Tensor"], ["aten.sort.default"])
    assert not shares.add(add, [], [])  # no graph at all
    shares.add(conv, ["aten.convolution.default"], [])
    assert shares.share() == pytest.approx(1 / 3)
