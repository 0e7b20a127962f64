"""Cases (see operators.py) of functions of elements and reductions."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from case_tensors import BF16, F16, F32, F64, I32, Case, Function, aten, f, i, m, pos


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
    for name in ("exp", "abs", "neg", "sign", "ceil", "relu"):
        yield f"{name}_i64", getattr(torch, name), (i(6),)
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


GROUPS = (unary, activations, binary, reductions)
