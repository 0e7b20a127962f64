"""Writes a case (cases.py) for each operator, in its forms and dtypes, and for each kind of mutation.

python operators.py FOLDER [--only add,sum]
"""

from __future__ import annotations

import argparse
import copy
import pathlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from cases import write_case
from torch import Tensor, nn
from torch.utils import _pytree as pytree

aten = torch.ops.aten
BF16, F16, F32, F64, I64, I32 = torch.bfloat16, torch.float16, torch.float32, torch.float64, torch.int64, torch.int32

Function = Callable[..., Any]


class Call(nn.Module):
    """A function of tensors as a module; buffers can be given."""

    def __init__(self, fn: Function, **buffers: Tensor) -> None:
        super().__init__()
        self.fn = fn
        for name, value in buffers.items():
            self.register_buffer(name, value)

    def forward(self, *args: Any) -> Any:
        return tuple(pytree.tree_leaves(self.fn(*args)))


def f(*shape: int, dtype: torch.dtype = F32) -> Tensor:
    return torch.randn(*shape).to(dtype)


def pos(*shape: int, dtype: torch.dtype = F32) -> Tensor:
    return (torch.rand(*shape) + 0.1).to(dtype)


def i(*shape: int, low: int = -5, high: int = 6, dtype: torch.dtype = I64) -> Tensor:
    return torch.randint(low, high, shape, dtype=dtype)


def m(*shape: int) -> Tensor:
    return torch.rand(*shape) > 0.5


Case = tuple[str, Function | nn.Module, tuple[Any, ...]]


def unary() -> Iterator[Case]:
    names = """sqrt rsqrt reciprocal exp exp2 expm1 log log2 log10 log1p sin cos tan atan sinh cosh tanh asinh erf
        erfc ceil floor trunc round neg abs sign square frac sigmoid relu isnan isinf isfinite sgn positive
        deg2rad rad2deg logical_not nan_to_num""".split()
    for name in names:
        x = pos(3, 5) if name in ("sqrt", "rsqrt", "log", "log2", "log10", "reciprocal", "log1p") else f(3, 5) * 2
        yield name, getattr(torch, name), (x,)
    for name in ("asin", "acos", "atanh", "logit"):
        yield name, getattr(torch, name), (torch.rand(7) * 0.8 + 0.1,)
    yield "sinc", torch.sinc, (torch.tensor([0.0, -0.0, 0.5, -1.25, 3.0]),)
    yield "acosh", torch.acosh, (pos(7) + 1,)
    for name in ("exp", "tanh", "rsqrt", "sigmoid", "neg", "sqrt"):
        yield f"{name}_bf16", getattr(torch, name), (pos(4, 6, dtype=BF16),)
        yield f"{name}_f16", getattr(torch, name), (pos(4, 6, dtype=F16),)
    for name in ("exp", "sqrt", "abs", "neg", "sign", "ceil", "relu"):
        yield f"{name}_i64", getattr(torch, name), (i(6).abs() if name == "sqrt" else i(6),)
    yield "sin_bool", torch.sin, (m(5),)
    yield "bitwise_not", torch.bitwise_not, (i(6),)
    yield "bitwise_not_bool", torch.bitwise_not, (m(6),)
    yield "round_decimals", lambda x: torch.round(x, decimals=2), (f(9) * 10,)
    yield (
        "special",
        lambda x: (
            x.isnan(),
            x.isinf(),
            x.isfinite(),
            torch.nan_to_num(x),
            x.relu(),
            x.clamp(-1, 1),
            x.sign(),
            x.maximum(x.flip(0)),
        ),
        (torch.tensor([1.0, float("nan"), float("inf"), -float("inf"), -0.0, 3.0]),),
    )


def activations() -> Iterator[Case]:
    x = f(4, 6) * 3
    functions: dict[str, Function] = {
        "gelu": F.gelu,
        "gelu_tanh": lambda v: F.gelu(v, approximate="tanh"),
        "silu": F.silu,
        "mish": F.mish,
        "softplus": F.softplus,
        "softplus_beta": lambda v: F.softplus(v, 2.0, 5.0),
        "hardtanh": lambda v: F.hardtanh(v, -0.5, 0.7),
        "hardsigmoid": F.hardsigmoid,
        "hardswish": F.hardswish,
        "leaky_relu": lambda v: F.leaky_relu(v, 0.2),
        "elu": lambda v: F.elu(v, 0.7),
        "selu": F.selu,
        "celu": lambda v: F.celu(v, 0.8),
        "logsigmoid": F.logsigmoid,
        "softshrink": F.softshrink,
        "hardshrink": F.hardshrink,
        "softsign": F.softsign,
        "tanhshrink": F.tanhshrink,
        "relu6": F.relu6,
        "glu": lambda v: F.glu(v, -1),
        "threshold": lambda v: F.threshold(v, 0.3, 9.0),
    }
    for name, fn in functions.items():
        yield name, fn, (x,)
        yield f"{name}_bf16", fn, (x.to(BF16),)
    yield "prelu", F.prelu, (f(2, 3, 4), pos(3))
    yield "prelu_one", F.prelu, (f(2, 3, 4), pos(1))


def binary() -> Iterator[Case]:
    a, b = f(3, 1, 5), f(4, 5)
    for name in "add sub mul div maximum minimum atan2 fmod remainder fmax fmin hypot copysign logaddexp".split():
        yield name, getattr(torch, name), (a, b)
        if name not in ("atan2", "hypot", "copysign", "logaddexp"):
            yield f"{name}_i64", getattr(torch, name), (i(3, 4), i(4, low=1, high=5))
    for name in "eq ne lt le gt ge logical_and logical_or logical_xor".split():
        yield name, getattr(torch, name), (i(4, 5, low=0, high=3), i(5, low=0, high=3))
        yield f"{name}_mixed", getattr(torch, name), (i(4, 5), f(5))
    for name in "eq lt ge".split():
        yield f"{name}_scalar", lambda x, n=name: getattr(torch, n)(x, 2), (i(9),)
        yield f"{name}_fraction", lambda x, n=name: getattr(torch, n)(x, 1.5), (i(9),)
        yield f"{name}_bf16", lambda x, n=name: getattr(torch, n)(x, 0.1), (torch.tensor([0.1, 0.2, -0.1]).to(BF16),)
    for name in "bitwise_and bitwise_or bitwise_xor".split():
        yield name, getattr(torch, name), (i(6), i(6))
        yield f"{name}_bool", getattr(torch, name), (m(6), m(6))
    yield "shifts", lambda x, y: (x << y, x >> y, x << 2, x >> 1), (i(6), i(6, low=0, high=5))
    yield "add_alpha", lambda x, y: torch.add(x, y, alpha=0.5), (f(4), f(4))
    yield "sub_alpha", lambda x, y: torch.sub(x, y, alpha=3), (i(4), i(4))
    yield "rsub", lambda x: 2.5 - x, (f(4),)
    yield "rsub_alpha", lambda x, y: torch.rsub(x, y, alpha=2), (f(4), f(4))
    yield "add_bool", lambda x, y: x + y, (m(6), m(6))
    yield "mul_bool", lambda x, y: x * y, (m(6), m(6))
    yield "add_promoted", lambda x, y: x + y, (i(4, dtype=I32), f(4))
    yield "add_zero_dim", lambda x, y: x + y, (f(4, dtype=F32), torch.tensor(0.1, dtype=F64))
    yield "mul_bf16_scalar", lambda x: x * 0.1 + 1, (f(6, dtype=BF16),)
    yield "add_bf16_f32", lambda x, y: x + y, (f(6, dtype=BF16), f(6))
    yield "add_bf16_f16", lambda x, y: x + y, (f(6, dtype=BF16), f(6, dtype=F16))
    yield "add_u8_i8", lambda x, y: x + y, (i(6, low=0, high=9, dtype=torch.uint8), i(6, dtype=torch.int8))
    yield "add_i32_scalar", lambda x: (x + 2, x * 1.5, x / 2), (i(6, dtype=I32),)
    yield "div_ints", lambda x, y: x / y, (i(6), i(6, low=1))
    for mode in ("floor", "trunc"):
        yield f"div_{mode}", lambda x, y, r=mode: torch.div(x, y, rounding_mode=r), (f(8) * 9, f(8))
        yield f"div_{mode}_i64", lambda x, y, r=mode: torch.div(x, y, rounding_mode=r), (i(8), i(8, low=1, high=4))
        yield f"div_{mode}_scalar", lambda x, r=mode: torch.div(x, -3, rounding_mode=r), (i(8),)
    yield "floor_divide", lambda x: x // 3, (i(8),)
    yield "floor_divide_float", lambda x, y: x // y, (f(8) * 9, f(8))
    yield "remainder_signs", lambda x: (x % 3, x % -3, torch.fmod(x, 3), torch.fmod(x, -3)), (i(9),)
    for e in (2, 3, 0.5, -0.5, -1, 4, 2.5, 0, -2, 1):
        yield f"pow_{e}", lambda x, p=e: x**p, (pos(7),)
    yield "pow_i64", lambda x: (x**2, x**3, x**5), (i(7),)
    yield "pow_tensors", torch.pow, (pos(7), f(7))
    yield "pow_scalar_base", lambda x: 2.0**x, (f(7),)
    yield "pow_i64_base", lambda x: torch.pow(3, x), (i(7, low=0),)
    yield "pow_negative_base", torch.pow, (f(6), i(6).float())
    yield "xlogy", torch.xlogy, (torch.tensor([0.0, 1.0, 2.0]), torch.tensor([0.0, 0.5, 3.0]))
    yield "lerp", torch.lerp, (f(6), f(6), torch.rand(6))
    yield "lerp_scalar", lambda x, y: torch.lerp(x, y, 0.7), (f(6), f(6))
    yield "addcmul", lambda x, y, z: torch.addcmul(x, y, z, value=0.5), (f(3, 4), f(4), f(3, 1))
    yield "addcdiv", lambda x, y, z: torch.addcdiv(x, y, z, value=0.5), (f(3, 4), f(4), pos(3, 1))
    yield (
        "clamp",
        lambda x: (x.clamp(-0.5, 0.5), x.clamp(min=0.1), x.clamp(max=0.2), x.clamp_min(0), x.clamp_max(0)),
        (f(9),),
    )
    yield "clamp_tensor", torch.clamp, (f(3, 4), torch.full((4,), -0.3), torch.full((4,), 0.4))
    yield "clamp_i64", lambda x: x.clamp(-1, 2), (i(9),)
    yield "clamp_float_bounds", lambda x: x.clamp(-1.5, 2.5), (i(9),)
    yield "where", torch.where, (m(3, 1), f(3, 4), f(4))
    yield (
        "where_scalars",
        lambda c, x: (torch.where(c, x, 0.0), torch.where(c, 1.0, x), torch.where(c, 1, 2)),
        (m(5), f(5)),
    )
    yield "where_promoted", torch.where, (m(4), i(4), f(4))
    yield "masked_fill", lambda x, k: (x.masked_fill(k, -1e9), x.masked_fill(k, torch.tensor(2.0))), (f(3, 4), m(4))
    yield "heaviside", torch.heaviside, (torch.tensor([-1.0, 0.0, 2.0]), torch.tensor([0.5, 0.25, 1.0]))


def reductions() -> Iterator[Case]:
    x = f(3, 4, 5)
    for name in ("sum", "mean", "amax", "amin", "prod"):
        fn = getattr(torch, name)
        yield name, lambda v, g=fn: g(v), (x,)
        yield f"{name}_dim", lambda v, g=fn: g(v, 1), (x,)
        yield f"{name}_keepdim", lambda v, g=fn: g(v, -1, keepdim=True), (x,)
        yield f"{name}_bf16", lambda v, g=fn: g(v, 1), (x.to(BF16),)
    yield "sum_dims", lambda v: v.sum((0, 2)), (x,)
    yield "sum_dtype", lambda v: v.sum(1, dtype=F32), (x.to(BF16),)
    yield "sum_ints", lambda v, b: (v.sum(), v.sum(0), b.sum(), b.sum(1)), (i(3, 4, dtype=I32), m(3, 4))
    yield "sum_scalar", lambda v: v.sum(), (torch.tensor(2.5),)
    yield "mean_dims", lambda v: v.mean((1, 2), keepdim=True), (x,)
    yield "max_min", lambda v: (v.max(), v.min()), (x,)
    yield "max_dim", lambda v: (*v.max(1), *v.min(-1, keepdim=True)), (x,)
    yield "max_dim_i64", lambda v: (*v.max(1), *v.min(0)), (i(4, 5),)
    yield "arg", lambda v: (v.argmax(), v.argmin(), v.argmax(1), v.argmin(2, keepdim=True)), (x,)
    yield "any_all", lambda v: (v.any(), v.all(), v.any(1), v.all(0, keepdim=True)), (m(3, 4),)
    yield "any_float", lambda v: (v.any(), v.all(1)), (i(3, 4, low=0, high=2).float(),)
    for name in ("var", "std"):
        fn = getattr(torch, name)
        yield (
            name,
            lambda v, g=fn: (g(v), g(v, 1), g(v, (0, 2), correction=0), g(v, 1, keepdim=True, unbiased=False)),
            (x,),
        )
    yield "var_mean", lambda v: torch.var_mean(v, 1, keepdim=True), (x,)
    yield "std_mean", lambda v: torch.std_mean(v, (1, 2)), (x,)
    yield (
        "norms",
        lambda v: (
            torch.linalg.vector_norm(v),
            torch.linalg.vector_norm(v, 1, 1),
            torch.linalg.vector_norm(v, 3.0, dim=(1, 2)),
            torch.linalg.vector_norm(v, float("inf"), -1),
            v.norm(dim=-1, keepdim=True),
            v.norm(),
        ),
        (x,),
    )
    yield "normalize", lambda v: F.normalize(v, dim=-1), (x,)
    yield "logsumexp", lambda v: (torch.logsumexp(v, 1), torch.logsumexp(v, (0, 2), keepdim=True)), (x,)
    yield (
        "logsumexp_inf",
        lambda v: torch.logsumexp(v, 1),
        (torch.tensor([[-float("inf")] * 2, [0.0, 1.0], [float("inf"), 1.0]]),),
    )
    yield "count_nonzero", lambda v: (torch.count_nonzero(v), torch.count_nonzero(v, 1)), (i(3, 4, low=0, high=2),)
    yield "nansum", torch.nansum, (torch.tensor([1.0, float("nan"), 2.0]),)
    yield "softmax", lambda v: (v.softmax(-1), v.softmax(1), v.log_softmax(0), F.softmin(v, 1)), (x,)
    yield "softmax_bf16", lambda v: (v.softmax(-1), v.log_softmax(-1)), (x.to(BF16),)
    yield "softmax_dtype", lambda v: v.softmax(-1, dtype=F32), (x.to(BF16),)
    yield (
        "softmax_raw",
        lambda v: (aten._softmax(v, 1, False), aten._log_softmax(v, 1, False), aten._safe_softmax(v, 1)),
        (x,),
    )
    yield "safe_softmax", lambda v: aten._safe_softmax(v, 1), (torch.tensor([[-float("inf")] * 2, [0.0, 1.0]]),)
    yield "scans", lambda v: (v.cumsum(1), v.cumsum(-1), v.cumprod(0)), (x,)
    yield "scan_ints", lambda v, b: (v.cumsum(1), b.cumsum(0)), (i(3, 4, dtype=I32), m(3, 4))
    yield "sorts", lambda v: (*v.sort(-1), *torch.sort(v, 0, descending=True), v.argsort(1)), (x,)
    yield "sort_stable", lambda v: torch.sort(v, stable=True), (i(9, low=0, high=3),)
    yield "topk", lambda v: (*v.topk(2, -1), *v.topk(3, 1, largest=False)), (x,)
    yield "diff", lambda v, w: (v.diff(), v.diff(dim=0, n=2), torch.diff(v, prepend=w)), (f(3, 4), f(3, 1))
    yield "diff_bool", lambda v: v.diff(), (m(7),)


def views() -> Iterator[Case]:
    x = f(2, 3, 4)
    yield (
        "view",
        lambda v: (v.view(6, 4), v.view(-1, 2), v.reshape(4, -1), v.flatten(), v.flatten(1), v.unflatten(2, (2, 2))),
        (x,),
    )
    yield "reshape_copy", lambda v: v.transpose(0, 2).reshape(-1), (x,)
    yield (
        "permute",
        lambda v: (
            v.permute(2, 0, 1),
            v.permute(-1, 0, 1),
            v.transpose(0, -1),
            v.mT,
            v.movedim(0, -1),
            v.swapaxes(0, 1),
        ),
        (x,),
    )
    yield "t", lambda v: (v.t(), v.T), (f(3, 4),)
    yield "movedims", lambda v: torch.movedim(v, (0, 1), (2, 0)), (x,)
    yield (
        "squeeze",
        lambda v: (v.squeeze(), v.squeeze(1), v.squeeze(0), v.unsqueeze(-1), v.unsqueeze(0)),
        (f(3, 1, 2, 1),),
    )
    yield "squeeze_dims", lambda v: v.squeeze((1, 3)), (f(3, 1, 2, 1),)
    yield (
        "expand",
        lambda v: (v.expand(2, 3, 4), v.expand(-1, 4), v.expand_as(torch.zeros(3, 4)), v.broadcast_to(5, 3, 4)),
        (f(3, 1),),
    )
    yield (
        "slices",
        lambda v: (v[1:], v[:, -2:], v[..., ::2], v[:, 1:2, 1:-1], v[0], v[:, -1], v[1, 2], v[..., 5:]),
        (x,),
    )
    yield "narrow", lambda v: (v.narrow(1, 1, 2), v.select(2, -1)), (x,)
    yield (
        "splits",
        lambda v: (*v.split(2, 2), *v.split([1, 2], 1), *v.chunk(2, 2), *v.unbind(1), *torch.tensor_split(v, 3, 2)),
        (x,),
    )
    yield (
        "cat",
        lambda a, b: (torch.cat([a, b], 1), torch.cat([a, a], -1), torch.stack([a, a], 1), torch.stack([a, a], -1)),
        (f(2, 3), f(2, 4)),
    )
    yield "cat_promoted", lambda a, b: torch.cat([a, b]), (i(3), f(2))
    yield (
        "repeat",
        lambda v: (v.repeat(2, 3), v.repeat(2, 1, 2), v.tile((2,)), v.repeat_interleave(2, 1), v.repeat_interleave(3)),
        (f(2, 3),),
    )
    yield "flip_roll", lambda v: (v.flip(0), v.flip((1, 2)), v.roll(1, 1), v.roll((1, -2), (0, 2)), v.roll(5)), (x,)
    yield "unfold", lambda v: (v.unfold(2, 2, 1), v.unfold(1, 3, 2)), (f(2, 5, 4),)
    yield "diagonal", lambda v: (v.diagonal(), v.diagonal(1, 1, 2), v.diagonal(-1, 0, 1)), (f(3, 4, 5),)
    yield "triangles", lambda v: (v.tril(), v.triu(1), v.tril(-1), v.triu(-1)), (f(2, 4, 5),)
    yield (
        "pixel_shuffle",
        lambda v: (F.pixel_shuffle(v, 2), F.pixel_unshuffle(F.pixel_shuffle(v, 2), 2)),
        (f(1, 8, 3, 2),),
    )
    yield (
        "meshgrid",
        lambda a, b: (*torch.meshgrid(a, b, indexing="ij"), *torch.meshgrid(a, b, indexing="xy")),
        (f(3), f(4)),
    )
    yield (
        "zero_dim",
        lambda v: (v + 1, v.sum(), v.mean(), v.view(1), v.unsqueeze(0), v.softmax(0), v.expand(3)),
        (torch.tensor(1.5),),
    )
    yield "empty", lambda v: (v.sum(), v + 1, v.reshape(4, 0), torch.cat([v, v])), (f(0, 4),)
    yield (
        "copies",
        lambda v: (
            v.clone(),
            v.contiguous(),
            v.to(F64),
            v.half(),
            v.to(BF16),
            v.long(),
            v.bool(),
            v.int(),
            v.type_as(v.double()),
        ),
        (f(4) * 3,),
    )
    yield (
        "casts",
        lambda v: (v.float(), v.to(torch.uint8), v.to(torch.int8), v.to(torch.int16), v.bool()),
        (i(5, low=0, high=99),),
    )
    yield "pads", lambda v: (F.pad(v, (1, 2)), F.pad(v, (0, 1, 2, 0), value=3.0), F.pad(v, (-1, 1))), (f(3, 4),)
    yield (
        "pad_modes",
        lambda v: (
            F.pad(v, (1, 2), mode="reflect"),
            F.pad(v, (2, 1), mode="replicate"),
            F.pad(v, (1, 2), mode="circular"),
        ),
        (f(1, 2, 5),),
    )
    yield (
        "pad_modes_2d",
        lambda v: (F.pad(v, (1, 1, 2, 0), mode="reflect"), F.pad(v, (1, 1, 2, 0), mode="replicate")),
        (f(1, 2, 4, 5),),
    )
    yield (
        "scatters",
        lambda v, s: (
            torch.slice_scatter(v, s, 1, 1, 3),
            torch.select_scatter(v, s[:, 0], 1, -1),
            torch.slice_scatter(v, s, 1, 0, 4, 2),
            torch.diagonal_scatter(v, s[:, 0]),
        ),
        (f(3, 4), f(3, 2)),
    )


def creation() -> Iterator[Case]:
    yield (
        "arange",
        lambda v: (
            torch.arange(5),
            torch.arange(2, 9, 3),
            torch.arange(0.5, 3),
            torch.arange(5, dtype=F32),
            torch.arange(9, 1, -2),
            v,
        ),
        (f(1),),
    )
    yield (
        "fulls",
        lambda v: (
            torch.full((2, 3), 1.5),
            torch.zeros(2),
            torch.ones(3, dtype=I64),
            torch.full_like(v, 2),
            torch.ones_like(v),
            torch.zeros_like(v, dtype=torch.bool),
            v.new_ones(2),
            v.new_zeros((1, 2)),
            v.new_full((2,), 7),
            torch.scalar_tensor(3),
        ),
        (f(2, 2),),
    )
    yield (
        "linspace_eye",
        lambda v: (torch.linspace(-1, 1, 7), torch.linspace(0, 5, 1), torch.eye(3), torch.eye(2, 4), v),
        (f(1),),
    )
    yield "tensor", lambda v: v * torch.tensor([1.0, 2.0, 3.0]) + torch.tensor(2), (f(2, 3),)


def products() -> Iterator[Case]:
    yield "mm", torch.mm, (f(3, 4), f(4, 5))
    yield "mm_bf16", torch.mm, (f(3, 4, dtype=BF16), f(4, 5, dtype=BF16))
    yield "mm_i64", torch.mm, (i(3, 4), i(4, 5))
    yield "bmm", torch.bmm, (f(2, 3, 4), f(2, 4, 5))
    shapes: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
        ((4,), (4,)),
        ((4,), (4, 5)),
        ((3, 4), (4,)),
        ((2, 3, 4), (4, 5)),
        ((2, 3, 4), (4,)),
        ((2, 1, 3, 4), (5, 4, 2)),
        ((4,), (2, 4, 5)),
        ((3, 4), (2, 4, 5)),
    ]
    for n, (a, b) in enumerate(shapes):
        yield f"matmul_{n}", torch.matmul, (f(*a), f(*b))
    yield (
        "addmm",
        lambda x, a, b: (torch.addmm(x, a, b), torch.addmm(x, a, b, beta=0.5, alpha=2.0)),
        (f(5), f(3, 4), f(4, 5)),
    )
    yield (
        "addmm_beta0",
        lambda x, a, b: torch.addmm(x, a, b, beta=0),
        (torch.full((5,), float("nan")), f(3, 4), f(4, 5)),
    )
    yield "baddbmm", lambda x, a, b: torch.baddbmm(x, a, b, alpha=0.3), (f(2, 3, 5), f(2, 3, 4), f(2, 4, 5))
    yield (
        "vectors",
        lambda a, v, w: (torch.mv(a, v), torch.dot(v, w), torch.outer(v, w), torch.addmv(w[:3], a, v)),
        (f(3, 4), f(4), f(4)),
    )
    yield "addbmm", torch.addbmm, (f(3, 5), f(2, 3, 4), f(2, 4, 5))
    yield (
        "linear",
        lambda x, w, b: (F.linear(x, w, b), F.linear(x, w), F.linear(x[0, 0], w, b)),
        (f(2, 3, 4), f(5, 4), f(5)),
    )
    yield "linear_bf16", F.linear, (f(3, 4, dtype=BF16), f(5, 4, dtype=BF16), f(5, dtype=BF16))


def convolutions() -> Iterator[Case]:
    x, w, b = f(2, 4, 7, 6), f(6, 4, 3, 3), f(6)
    yield "conv2d", F.conv2d, (x, w, b)
    yield "conv2d_options", lambda x, w: F.conv2d(x, w, stride=(2, 1), padding=(1, 2), dilation=(1, 2)), (x, w)
    yield "conv2d_groups", lambda x, w, b: F.conv2d(x, w, b, padding=1, groups=2), (x, f(6, 2, 3, 3), b)
    yield "conv2d_depthwise", lambda x, w: F.conv2d(x, w, padding=1, groups=4), (x, f(4, 1, 3, 3))
    yield (
        "conv2d_same",
        lambda x, w, v: (
            F.conv2d(x, w, padding="same"),
            F.conv2d(x, v, padding="same"),
            F.conv2d(x, v, padding="valid"),
        ),
        (x, w, f(2, 4, 2, 4)),
    )
    yield "conv2d_unbatched", F.conv2d, (x[0], w, b)
    yield "conv1d", lambda x, w, b: F.conv1d(x, w, b, stride=2, padding=1), (f(2, 3, 9), f(4, 3, 3), f(4))
    yield "conv3d", lambda x, w: F.conv3d(x, w, padding=1), (f(1, 2, 3, 4, 5), f(3, 2, 2, 2, 2))
    yield (
        "conv_transpose2d",
        lambda x, w, b: F.conv_transpose2d(x, w, b, stride=2, padding=1, output_padding=1),
        (f(1, 4, 5, 4), f(4, 3, 3, 3), f(3)),
    )
    yield (
        "conv_transpose2d_groups",
        lambda x, w: F.conv_transpose2d(x, w, groups=2, dilation=2),
        (f(1, 4, 5, 4), f(4, 3, 2, 2)),
    )
    yield "conv_transpose1d", lambda x, w: F.conv_transpose1d(x, w, stride=3), (f(1, 4, 5), f(4, 3, 3))
    yield "convolution", lambda x, w: aten.convolution(x, w, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1), (x, w)


def pools() -> Iterator[Case]:
    x = f(2, 3, 8, 7)
    yield (
        "max_pool2d",
        lambda v: (F.max_pool2d(v, 2), F.max_pool2d(v, 3, 2, 1), F.max_pool2d(v, (3, 2), (1, 2), (1, 0), (2, 1))),
        (x,),
    )
    yield (
        "max_pool2d_ceil",
        lambda v: (F.max_pool2d(v, 3, 2, 1, ceil_mode=True), F.max_pool2d(v, 2, 3, ceil_mode=True)),
        (x,),
    )
    yield "max_pool2d_indices", lambda v: F.max_pool2d(v, 3, 2, 1, return_indices=True), (x,)
    yield "max_pool2d_dilated_indices", lambda v: F.max_pool2d(v, 2, 2, 1, 2, return_indices=True), (x,)
    yield "max_pool1d", lambda v: F.max_pool1d(v, 3, 2, 1), (f(2, 3, 9),)
    yield "max_pool3d", lambda v: F.max_pool3d(v, 2), (f(1, 2, 4, 5, 6),)
    yield (
        "avg_pool2d",
        lambda v: (
            F.avg_pool2d(v, 2),
            F.avg_pool2d(v, 3, 2, 1),
            F.avg_pool2d(v, 3, 2, 1, count_include_pad=False),
            F.avg_pool2d(v, 2, divisor_override=3),
        ),
        (x,),
    )
    yield (
        "avg_pool2d_ceil",
        lambda v: (
            F.avg_pool2d(v, 3, 2, 1, True),
            F.avg_pool2d(v, 3, 2, 1, True, False),
            F.avg_pool2d(v, 2, 3, 0, True),
        ),
        (x,),
    )
    yield "avg_pool1d", lambda v: F.avg_pool1d(v, 3, 2, 1), (f(2, 3, 9),)
    yield "avg_pool3d", lambda v: F.avg_pool3d(v, 2), (f(1, 2, 4, 5, 6),)
    yield (
        "adaptive_avg",
        lambda v: (
            F.adaptive_avg_pool2d(v, 1),
            F.adaptive_avg_pool2d(v, (4, 7)),
            F.adaptive_avg_pool2d(v, (3, 5)),
            F.adaptive_avg_pool2d(v, (None, 1)),
        ),
        (x,),
    )
    yield "adaptive_avg1d", lambda v: (F.adaptive_avg_pool1d(v, 1), F.adaptive_avg_pool1d(v, 4)), (f(2, 3, 9),)
    yield "adaptive_max", lambda v: (F.adaptive_max_pool2d(v, 1), F.adaptive_max_pool2d(v, (3, 5))), (x,)
    yield (
        "upsample_nearest",
        lambda v: (F.interpolate(v, scale_factor=2), F.interpolate(v, size=(5, 9)), F.interpolate(v, scale_factor=1.5)),
        (x,),
    )
    yield "upsample_exact", lambda v: F.interpolate(v, size=(5, 9), mode="nearest-exact"), (x,)
    yield (
        "upsample_bilinear",
        lambda v: (
            F.interpolate(v, scale_factor=2, mode="bilinear"),
            F.interpolate(v, size=(5, 9), mode="bilinear", align_corners=True),
        ),
        (x,),
    )
    yield "upsample_linear", lambda v: F.interpolate(v, size=11, mode="linear"), (f(2, 3, 4),)
    yield "im2col", lambda v: F.unfold(v, (3, 2), dilation=1, padding=1, stride=2), (x,)


def norms() -> Iterator[Case]:
    x = f(4, 3, 5, 5)
    yield (
        "layer_norm",
        lambda v, w, b: (F.layer_norm(v, (5,), w, b), F.layer_norm(v, (5, 5)), F.layer_norm(v, (5,), w)),
        (x, pos(5), f(5)),
    )
    yield "layer_norm_bf16", lambda v, w: F.layer_norm(v, (5,), w), (x.to(BF16), pos(5, dtype=BF16))
    yield "native_layer_norm", lambda v, w, b: aten.native_layer_norm(v, [5], w, b, 1e-5), (x, pos(5), f(5))
    yield "group_norm", lambda v, w, b: (F.group_norm(v, 2, w, b), F.group_norm(v, 4)), (f(2, 4, 5), pos(4), f(4))
    yield (
        "native_group_norm",
        lambda v, w, b: aten.native_group_norm(v, w, b, 2, 4, 5, 2, 1e-5),
        (f(2, 4, 5), pos(4), f(4)),
    )
    yield "instance_norm", F.instance_norm, (x,)
    yield "rms_norm", lambda v, w: (F.rms_norm(v, (5,), w), F.rms_norm(v, (5, 5), eps=1e-3)), (x, pos(5))
    for training in (False, True):
        for affine in (False, True):
            module = nn.BatchNorm2d(3, affine=affine).train(training)
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 1.5)
            yield f"batch_norm_{'training' if training else 'eval'}_{'affine' if affine else 'plain'}", module, (x,)
    yield "batch_norm_no_stats", nn.BatchNorm1d(3, track_running_stats=False).train(), (f(6, 3),)
    yield "batch_norm_1d", nn.BatchNorm1d(3).train(), (f(6, 3),)
    yield (
        "batch_norm_legit",
        lambda v, w, b, m, s: aten._native_batch_norm_legit_no_training(v, w, b, m, s, 0.1, 1e-5)[0],
        (x, pos(3), f(3), f(3), pos(3)),
    )
    yield (
        "batch_norm_functional",
        lambda v, w, b, m, s: aten._native_batch_norm_legit_functional(v, w, b, m, s, True, 0.1, 1e-5),
        (x, pos(3), f(3), f(3), pos(3)),
    )


def attention() -> Iterator[Case]:
    q, k, v = f(2, 4, 6, 8), f(2, 4, 5, 8), f(2, 4, 5, 8)
    sdpa = F.scaled_dot_product_attention
    yield "sdpa", sdpa, (q, k, v)
    yield "sdpa_mask", sdpa, (q, k, v, f(6, 5))
    yield "sdpa_bool_mask", sdpa, (q, k, v, torch.rand(2, 1, 6, 5) > 0.3)
    yield "sdpa_causal", lambda q, k, v: sdpa(q, k, v, is_causal=True, scale=0.3), (q, q + 1, q)
    yield "sdpa_gqa", lambda q, k, v: sdpa(q, k, v, enable_gqa=True), (q, f(2, 2, 5, 8), f(2, 2, 5, 8))
    yield "sdpa_bf16", sdpa, (q.to(BF16), k.to(BF16), v.to(BF16))
    yield "sdpa_3d", sdpa, (f(4, 6, 8), f(4, 5, 8), f(4, 5, 8))
    yield "sdpa_flash", lambda q, k, v: aten._scaled_dot_product_flash_attention_for_cpu(q, k, v), (q, k, v)
    encoder = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).train()
    for module in encoder.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    encoder.self_attn.dropout = 0.0
    yield "encoder_layer", encoder, (f(2, 5, 8),)


def indexing() -> Iterator[Case]:
    x, n = f(5, 6, 3), i(4, low=0, high=5)
    yield "embedding", lambda w, k: (F.embedding(k, w), F.embedding(k.view(2, 2), w, padding_idx=0)), (f(5, 3), n)
    yield "index_select", lambda v, k: (v.index_select(0, k), v.index_select(1, k)), (x, n)
    yield "gather", lambda v, k: (v.gather(1, k), torch.take_along_dim(v, k[:1], 1)), (x, i(2, 4, 3, low=0, high=6))
    yield (
        "index",
        lambda v, a, b: (v[a], v[:, b], v[a, b], v[a, :, b % 3], v[:, a, b % 3], v[a.view(2, 2), b.view(2, 2)]),
        (x, i(4, low=-5, high=5), n),
    )
    yield "index_broadcast", lambda v, a, b: v[a[:, None], b], (x, n, i(3, low=0, high=6))
    yield (
        "index_put",
        lambda v, a, b, w: (v.index_put((a,), torch.zeros(())), v.index_put((a, b), w)),
        (x, torch.tensor([0, 3, 1, 4]), n, f(4, 3)),
    )
    yield (
        "index_put_accumulate",
        lambda v, a, w: v.index_put((a,), w, accumulate=True),
        (x, torch.tensor([0, 3, 0, 4]), f(4, 6, 3)),
    )
    yield "index_put_mask", lambda v, k: v.index_put((k,), torch.tensor(7.0)), (x, m(5, 6))
    yield (
        "scatter",
        lambda v, k, s: (v.scatter(0, k, s), v.scatter(1, k, 2.5), v.scatter_add(0, k, s)),
        (f(5, 4), torch.tensor([[0, 1, 2, 3], [4, 3, 1, 0]]) % 4, f(2, 4)),
    )
    for reduce in ("sum", "prod", "amax", "amin"):
        yield (
            f"scatter_reduce_{reduce}",
            lambda v, k, s, r=reduce: v.scatter_reduce(0, k, s, r),
            (f(3, 4), i(2, 4, low=0, high=3), f(2, 4)),
        )
    yield (
        "index_add",
        lambda v, k, s: (v.index_add(0, k, s), v.index_add(0, k, s, alpha=2)),
        (f(5, 3), i(4, low=0, high=5), f(4, 3)),
    )
    yield (
        "index_copy",
        lambda v, k, s: (v.index_copy(0, k, s), v.index_fill(0, k, 3.0)),
        (f(5, 3), torch.tensor([1, 3]), f(2, 3)),
    )
    yield "one_hot_like", lambda k: (k.unsqueeze(-1) == torch.arange(5)).long(), (n,)


def losses() -> Iterator[Case]:
    x, y = f(4, 5), f(4, 5)
    for loss in (F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss):
        yield (
            loss.__name__,
            lambda a, b, g=loss: (g(a, b), g(a, b, reduction="none"), g(a, b, reduction="sum")),
            (x, y),
        )
    yield (
        "kl_div",
        lambda a, b: (
            F.kl_div(a.log_softmax(-1), b.softmax(-1), reduction="sum"),
            F.kl_div(a, b, log_target=True, reduction="none"),
        ),
        (x, y),
    )
    yield (
        "bce",
        lambda a, b: (
            F.binary_cross_entropy(a.sigmoid(), b),
            F.binary_cross_entropy_with_logits(a, b),
            F.binary_cross_entropy_with_logits(a, b, pos_weight=torch.tensor(2.0)),
        ),
        (x, torch.rand(4, 5)),
    )
    t = i(4, low=0, high=5)
    yield (
        "cross_entropy",
        lambda a, k: (
            F.cross_entropy(a, k),
            F.cross_entropy(a, k, reduction="none"),
            F.cross_entropy(a, k, reduction="sum"),
        ),
        (x, t),
    )
    yield (
        "cross_entropy_weight",
        lambda a, k, w: F.cross_entropy(a, k, w, ignore_index=2),
        (x, torch.tensor([0, 2, 4, 1]), pos(5)),
    )
    yield "cross_entropy_2d", F.cross_entropy, (f(2, 5, 3), i(2, 3, low=0, high=5))
    yield "nll", lambda a, k: (F.nll_loss(a, k), aten.nll_loss_forward(a, k, None, 1, -100)), (x.log_softmax(-1), t)
    yield "cosine_similarity", lambda a, b: (F.cosine_similarity(a, b), F.cosine_similarity(a, b, dim=0)), (x, y)


def mutations() -> Iterator[Case]:
    def rows(x: Tensor) -> Tensor:
        y = x + 1
        y[1:].mul_(2)
        y[:, 0] = 5
        y[0, 1:3] = torch.tensor([7.0, 8.0])
        return y

    def two_views(x: Tensor) -> Any:
        y = x * 1
        a, b = y[:2], y[1:]
        a.add_(1)
        b.mul_(3)
        return y, a, b

    def chain(x: Tensor) -> Tensor:
        y = x.clone()
        y.transpose(0, 1)[1:].unsqueeze(0)[0].select(1, 2).relu_()
        y.permute(1, 0).narrow(0, 1, 2).view(2, -1)[:, 0].fill_(4)
        return y

    def splits(x: Tensor) -> Tensor:
        y = x.clone()
        a, b = y.split(2, 1)
        b.zero_()
        y.unbind(0)[1].add_(10)
        y.chunk(2, 0)[1].sub_(1)
        return y + a.sum()

    def into_input(x: Tensor, s: Tensor) -> Tensor:
        x[:, 1:3].copy_(s)
        return x.sum()

    def returns_input(x: Tensor) -> Any:
        x.mul_(2)
        return x, x[0], x.view(-1)

    def out_argument(x: Tensor, y: Tensor) -> Tensor:
        result = torch.empty(3, 4)
        torch.add(x, y, out=result)
        return result * 2

    def promoted(x: Tensor, y: Tensor) -> Tensor:
        z = x.clone()
        z.add_(y)
        z.mul_(1.5)
        return z

    def masked(x: Tensor, k: Tensor) -> Tensor:
        y = x.clone()
        y[k] = 0
        y.masked_fill_(~k, 1)
        y.clamp_(0, 0.5)
        return y

    def put(x: Tensor, k: Tensor) -> Tensor:
        y = x.clone()
        y[k] = 9
        y.index_add_(0, k, torch.ones(2, 4))
        y.scatter_(1, k[:, None] % 4, 3.0)
        return y

    def diagonal(x: Tensor) -> Tensor:
        y = x.clone()
        y.diagonal().fill_(1)
        return y

    def flattened(x: Tensor) -> Tensor:
        y = x.clone()
        y.flatten()[3] = 6
        y.reshape(2, 6).add_(1)
        y.t().reshape(-1).add_(100)  # a copy: y stays
        return y

    def cached(x: Tensor) -> Any:
        before = x.sum()
        x.add_(1)
        return before, x.sum()

    yield "mut_relu", lambda x: (x + 1).relu_().add_(1), (f(3, 4),)
    yield "mut_rows", rows, (f(3, 4),)
    yield "mut_two_views", two_views, (f(3, 4),)
    yield "mut_chain", chain, (f(3, 4),)
    yield "mut_splits", splits, (f(3, 4),)
    yield "mut_into_input", into_input, (f(3, 4), f(3, 2))
    yield "mut_returns_input", returns_input, (f(3, 4),)
    yield "mut_out", out_argument, (f(3, 4), f(3, 4))
    yield "mut_promoted", promoted, (f(4, dtype=BF16), f(4))
    yield "mut_masked", masked, (f(3, 4), m(3, 4))
    yield "mut_put", put, (f(3, 4), torch.tensor([0, 2]))
    yield "mut_diagonal", diagonal, (f(3, 4),)
    yield "mut_flattened", flattened, (f(3, 4),)
    yield "mut_cached", cached, (f(3, 4),)
    yield "mut_dropout", nn.Sequential(nn.Dropout(0.5), nn.Linear(4, 4), nn.Dropout(0.5, inplace=True)), (f(3, 4),)

    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros((), dtype=I64))
            self.register_buffer("mean", torch.zeros(4))

        def forward(self, x: Tensor) -> Tensor:
            self.count += 1
            self.mean.lerp_(x.mean(0), 0.1)
            return x - self.mean * self.count

    yield "mut_buffers", Counter(), (f(3, 4),)


def backward() -> Iterator[Case]:
    x, g = f(3, 4) * 3, f(3, 4)
    yield "threshold_backward", lambda g, x: aten.threshold_backward(g, x, 0.0), (g, x)
    yield "sigmoid_backward", aten.sigmoid_backward, (g, torch.rand(3, 4))
    yield "tanh_backward", aten.tanh_backward, (g, torch.rand(3, 4))
    yield "silu_backward", aten.silu_backward, (g, x)
    yield "gelu_backward", lambda g, x: (aten.gelu_backward(g, x), aten.gelu_backward(g, x, approximate="tanh")), (g, x)
    yield "gelu_backward_bf16", aten.gelu_backward, (g.to(BF16), x.to(BF16))
    yield "softplus_backward", lambda g, x: aten.softplus_backward(g, x, 1.5, 2.0), (g, x)
    yield "hardswish_backward", aten.hardswish_backward, (g, x)
    yield "hardsigmoid_backward", aten.hardsigmoid_backward, (g, x)
    yield "hardtanh_backward", lambda g, x: aten.hardtanh_backward(g, x, -1.0, 1.0), (g, x)
    yield "leaky_relu_backward", lambda g, x: aten.leaky_relu_backward(g, x, 0.1, False), (g, x)
    yield (
        "elu_backward",
        lambda g, x: (aten.elu_backward(g, 0.7, 1.1, 1.2, False, x), aten.elu_backward(g, 0.7, 1.1, 1.2, True, x)),
        (g, x),
    )
    yield "mish_backward", aten.mish_backward, (g, x)
    yield (
        "softmax_backward",
        lambda g, y: (aten._softmax_backward_data(g, y, -1, F32), aten._log_softmax_backward_data(g, y.log(), 0, F32)),
        (g, x.softmax(-1)),
    )
    for reduction in (0, 1, 2):
        up = g if reduction == 0 else torch.tensor(0.7)
        yield (
            f"mse_loss_backward_{reduction}",
            lambda g, x, y, r=reduction: aten.mse_loss_backward(g, x, y, r),
            (up, x, f(3, 4)),
        )
        yield (
            f"smooth_l1_backward_{reduction}",
            lambda g, x, y, r=reduction: aten.smooth_l1_loss_backward(g, x, y, r, 0.7),
            (up, x, f(3, 4)),
        )
        up = f(3) if reduction == 0 else torch.tensor(0.7)
        yield (
            f"nll_loss_backward_{reduction}",
            lambda g, x, t, w, n, r=reduction: aten.nll_loss_backward(g, x, t, w, r, 2, n),
            (up, x, torch.tensor([0, 2, 3]), pos(4), torch.tensor(1.7)),
        )
    yield "dropout_backward", lambda g, k: aten.native_dropout_backward(g, k, 2.0), (g, m(3, 4))

    def layer_norm(g: Tensor, x: Tensor, w: Tensor, b: Tensor) -> Any:
        _, mean, rstd = aten.native_layer_norm(x, [4], w, b, 1e-5)
        return aten.native_layer_norm_backward(g, x, [4], mean, rstd, w, b, [True, True, True])

    def group_norm(g: Tensor, x: Tensor, w: Tensor, b: Tensor) -> Any:
        _, mean, rstd = aten.native_group_norm(x, w, b, 2, 4, 6, 2, 1e-5)
        return aten.native_group_norm_backward(g, x, mean, rstd, w, 2, 4, 6, 2, [True, True, True])

    def batch_norm(g: Tensor, x: Tensor, w: Tensor, b: Tensor, mean: Tensor, var: Tensor, train: bool) -> Any:
        _, saved, inverse, _, _ = aten._native_batch_norm_legit_functional(x, w, b, mean, var, True, 0.1, 1e-5)
        return aten.native_batch_norm_backward(g, x, w, mean, var, saved, inverse, train, 1e-5, [True, True, True])

    yield "layer_norm_backward", layer_norm, (f(2, 3, 4), f(2, 3, 4), pos(4), f(4))
    yield "group_norm_backward", group_norm, (f(2, 4, 2, 3), f(2, 4, 2, 3), pos(4), f(4))
    for train in (True, False):
        yield (
            f"batch_norm_backward_{train}",
            lambda *a, t=train: batch_norm(*a, t),
            (f(4, 3, 2, 2), f(4, 3, 2, 2), pos(3), f(3), f(3), pos(3)),
        )

    def convolution(g: Tensor, x: Tensor, w: Tensor, stride: int, groups: int, transposed: bool) -> Any:
        return aten.convolution_backward(
            g,
            x,
            w,
            [w.shape[1 if transposed else 0]],
            [stride] * 2,
            [1, 1],
            [1, 1],
            transposed,
            [0, 0],
            groups,
            [True, True, True],
        )

    yield (
        "convolution_backward",
        lambda g, x, w: convolution(g, x, w, 1, 1, False),
        (f(2, 4, 6, 5), f(2, 3, 6, 5), f(4, 3, 3, 3)),
    )
    yield (
        "convolution_backward_stride",
        lambda g, x, w: convolution(g, x, w, 2, 2, False),
        (f(2, 4, 3, 3), f(2, 6, 6, 5), f(4, 3, 3, 3)),
    )
    yield (
        "convolution_backward_transposed",
        lambda g, x, w: convolution(g, x, w, 2, 1, True),
        (f(2, 4, 11, 9), f(2, 3, 6, 5), f(3, 4, 3, 3)),
    )

    def max_pool(g: Tensor, x: Tensor) -> Tensor:
        _, where = aten.max_pool2d_with_indices(x, [3, 3], [2, 2], [1, 1])
        return aten.max_pool2d_with_indices_backward(g, x, [3, 3], [2, 2], [1, 1], [1, 1], False, where)

    yield "max_pool2d_backward", max_pool, (f(2, 3, 4, 3), f(2, 3, 7, 6))
    for count in (True, False):
        yield (
            f"avg_pool2d_backward_{count}",
            lambda g, x, k=count: aten.avg_pool2d_backward(g, x, [3, 3], [2, 2], [1, 1], False, k, None),
            (f(2, 3, 4, 3), f(2, 3, 7, 6)),
        )
    yield (
        "avg_pool2d_backward_ceil",
        lambda g, x: aten.avg_pool2d_backward(g, x, [2, 2], [3, 3], [0, 0], True, True, None),
        (f(2, 3, 3, 2), f(2, 3, 7, 5)),
    )
    yield "adaptive_avg_pool2d_backward", aten._adaptive_avg_pool2d_backward, (f(2, 3, 2, 1), f(2, 3, 4, 5))
    yield (
        "select_backward",
        lambda g: (aten.select_backward(g, [3, 5, 4], 1, 2), aten.select_backward(g, [3, 5, 4], 1, -1)),
        (g,),
    )
    yield (
        "slice_backward",
        lambda g: (aten.slice_backward(g, [3, 9], 1, 2, 6, 1), aten.slice_backward(g, [3, 9], 1, 1, 9, 2)),
        (g,),
    )
    yield (
        "embedding_backward",
        lambda g, k: (
            aten.embedding_dense_backward(g, k, 5, -1, False),
            aten.embedding_dense_backward(g, k, 5, 2, False),
        ),
        (f(2, 3, 4), i(2, 3, low=0, high=5)),
    )
    yield "unfold_backward", lambda g: aten.unfold_backward(g, [2, 5, 3], 1, 3, 2), (f(2, 2, 3, 3),)
    yield "col2im", lambda x: F.fold(x, (5, 4), (3, 2), dilation=1, padding=1, stride=2), (f(2, 18, 9),)

    def attention(q: Tensor, k: Tensor, v: Tensor, g: Tensor, causal: bool) -> Any:
        out, lse = aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, causal)
        return aten._scaled_dot_product_flash_attention_for_cpu_backward(g, q, k, v, out, lse, 0.0, causal)

    for causal in (True, False):
        yield (
            f"sdpa_backward_{causal}",
            lambda *a, c=causal: attention(*a, c),
            (f(1, 2, 5, 8), f(1, 2, 5, 8), f(1, 2, 5, 8), f(1, 2, 5, 8)),
        )


def regions() -> Iterator[Case]:
    """Parts of a model that an archive keeps as graphs of their own."""

    def either(chosen: Tensor, x: Tensor, w: Tensor) -> Any:
        one = lambda x, w: ((x @ w).relu() + 1, x[1:].sum(0))  # noqa: E731
        return torch.cond(chosen, one, lambda x, w: (x * w.sum(), x[0].clone()), (x, w))

    yield "cond_true", either, (torch.tensor(True), f(4, 4), f(4, 4))
    yield "cond_false", either, (torch.tensor(False), f(4, 4), f(4, 4))

    def nested(chosen: Tensor, x: Tensor) -> Tensor:
        inner = lambda x: torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))  # noqa: E731
        return torch.cond(chosen, inner, lambda x: x * 2, (x,)) + 1

    yield "cond_nested", nested, (torch.tensor(True), f(4, 4))

    def without(x: Tensor) -> Tensor:
        with torch.no_grad(), torch.autocast("cpu", enabled=False):
            y = x.sin()
        return y + x

    yield "no_grad_no_autocast", without, (f(3, 4),)


GROUPS = (
    unary,
    activations,
    binary,
    reductions,
    views,
    creation,
    products,
    convolutions,
    pools,
    norms,
    attention,
    indexing,
    losses,
    mutations,
    backward,
    regions,
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--only", default="", help="names or groups, separated by commas")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    only = set(filter(None, options.only.split(",")))
    names: set[str] = set()
    failed: list[str] = []
    import operators_rare  # here, because it needs the helpers of this file

    for group in (*GROUPS, *operators_rare.GROUPS):
        torch.manual_seed(1)
        for name, fn, args in group():
            assert name not in names, name
            names.add(name)
            if only and name not in only and group.__name__ not in only:
                continue
            model = fn if isinstance(fn, nn.Module) else Call(fn)
            if not any(
                isinstance(module, nn.modules.batchnorm._BatchNorm) or name == "encoder_layer"
                for module in model.modules()
            ):
                model.eval()
            try:
                program = torch.export.export(copy.deepcopy(model), args)
                write_case(options.folder / name, model, program, args)
            except Exception as error:
                failed.append(f"case {name} cannot be exported: {type(error).__name__}: {str(error).splitlines()[0]}")
    if failed:
        raise SystemExit("\n".join(failed))


if __name__ == "__main__":
    main()
