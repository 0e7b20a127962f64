"""Cases (see operators.py) of operators that few models have: special functions, order statistics, memory by strides,
padding and upsampling with their gradients, masks, searching."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from case_tensors import BF16, F16, F32, I64, Case, aten, f, i, m, pos
from torch import Tensor

INF, NAN = float("inf"), float("nan")
EDGES = torch.tensor([0.0, -0.0, 1.0, -1.0, 2.0, -2.5, 0.5, INF, -INF, NAN])


def special() -> Iterator[Case]:
    x = torch.cat([f(40) * 4, EDGES, torch.linspace(-12, 25, 60)])
    positive = torch.cat([pos(40) * 20, torch.tensor([0.0, 1.0, 2.0, 3.0, -1.0, NAN, 1e-3, 7.99, 8.01])])
    names = """signbit isposinf isneginf angle lgamma digamma i0 special.i0e special.i1 special.i1e special.entr
        special.ndtr special.log_ndtr special.erfcx special.airy_ai special.bessel_j0 special.bessel_j1
        special.modified_bessel_i0 special.modified_bessel_i1 special.spherical_bessel_j0""".split()
    for name in names:
        fn = getattr(torch.special if "." in name else torch, name.rpartition(".")[2])
        # Between -inf and inf only: torch's own series give NaN or anything at infinities.
        finite = x[x.isfinite()] if "bessel" in name or "airy" in name or name.startswith(("i0", "special.i")) else x
        if name in ("lgamma", "digamma"):
            finite = finite[(finite > 0) | (finite != finite.round())]
        yield name, fn, (finite,)
    for name in ("bessel_y0", "bessel_y1", "modified_bessel_k0", "modified_bessel_k1"):
        yield f"special.{name}", getattr(torch.special, name), (positive,)
    for name in ("scaled_modified_bessel_k0", "scaled_modified_bessel_k1"):
        yield f"special.{name}", getattr(torch.special, name), (positive,)
    inside = torch.cat([torch.rand(40) * 2 - 1, torch.tensor([0.0, 0.999, -0.99999, 1.0, -1.0, 1.5, NAN])])
    yield "erfinv", torch.erfinv, (inside,)
    yield (
        "special.ndtri",
        torch.special.ndtri,
        (torch.cat([torch.rand(40), torch.tensor([0.0, 1.0, 1e-30, 1e-5, 0.999])]),),
    )
    for n in (0, 1, 2, 3, 4):
        yield f"polygamma_{n}", lambda v, k=n: torch.polygamma(k, v), (pos(30) * 9,)
        yield (
            f"polygamma_{n}_negative",
            lambda v, k=n: torch.polygamma(k, v),
            (torch.tensor([-0.5, -1.3, -2.75, -7.4]),),
        )
    yield "mvlgamma", lambda v: torch.mvlgamma(v, 3), (pos(20) * 5 + 2,)
    yield "signs", lambda v: (v.signbit(), v.isposinf(), v.isneginf()), (i(6),)
    yield "signs_bool", lambda v: (v.signbit(), v.isposinf()), (m(6),)
    yield "functions_of_integers", lambda v: (v.rsqrt(), v.expm1(), v.sigmoid(), v.sinc(), v.erf()), (i(20),)
    yield "logaddexp2", torch.logaddexp2, (torch.tensor([1.0, -INF, INF, 3.0]), torch.tensor([2.0, -INF, INF, -40.0]))
    yield "xlog1py", torch.special.xlog1py, (torch.tensor([0.0, 0.0, 2.0]), torch.tensor([-1.0, NAN, 0.5]))
    yield (
        "hypot_edges",
        torch.hypot,
        (torch.tensor([3e20, 0.0, INF, NAN, -3.0]), torch.tensor([-4e20, 0.0, NAN, 1.0, 4.0])),
    )
    yield "nextafter", torch.nextafter, (f(6), f(6))
    yield "ldexp", torch.ldexp, (f(6), i(6))
    yield "logspace", lambda v: (torch.logspace(-1, 2, 6), torch.logspace(0, 3, 4, base=2.0), v), (f(1),)
    yield "linspace_tensors", lambda a, b: torch.linspace(a, b, 7), (torch.tensor(-1.5), torch.tensor(3.0))


def truths() -> Iterator[Case]:
    """Functions of bools, whose results are compared bit for bit; each in a program of its own."""
    s = torch.special
    a, b = torch.tensor([False, False, True, True]), torch.tensor([False, True, False, True])
    ones = [torch.sinh, torch.tan, torch.log, torch.lgamma, torch.erfinv, s.i1, s.i1e, s.modified_bessel_i1, s.ndtri]
    for fn in (*ones, torch.sqrt, s.log_ndtr, s.erfcx, s.bessel_y1, s.spherical_bessel_j0, s.entr):
        yield f"truth_{fn.__name__}", fn, (b,)
    for n in (1, 2, 3):
        yield f"truth_polygamma_{n}", lambda v, k=n: torch.polygamma(k, v), (b,)
    kinds = [f"{shifted}chebyshev_polynomial_{k}" for shifted in ("", "shifted_") for k in "tuvw"]
    kinds += ["hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p"]
    for fn in (torch.xlogy, s.xlog1py, s.zeta, *(getattr(s, kind) for kind in kinds)):
        yield f"truth_{fn.__name__}", fn, (a, b)
    yield "truth_pow", lambda v, w: torch.pow(v.double(), w.double()), (a, b)
    yield "integer_lgamma", lambda v: (torch.lgamma(v), torch.mvlgamma(v.abs() + 1, 1)), (torch.arange(-3, 60),)
    degrees, points = torch.arange(-2.0, 14).repeat(9), torch.linspace(-3, 3, 9).repeat_interleave(16)
    for fn in [getattr(s, kind) for kind in kinds[:8]]:
        yield fn.__name__, fn, (points, degrees)
    yield (
        "chebyshev_high",
        lambda v, n: s.chebyshev_polynomial_t(v, n),
        (torch.linspace(-1, 1, 7), i(7, low=50, high=90)),
    )
    yield "frexp", torch.frexp, (torch.tensor([0.0, -0.0, 1.0, -1.0, 0.75, 1e-40, -3e38, INF, NAN, 2.0, 1.9999999]),)
    yield "logcumsumexp", lambda v: (v.logcumsumexp(1), (v * 200).logcumsumexp(0)), (f(4, 6),)
    yield "logcumsumexp_infinite", lambda v: v.logcumsumexp(0), (torch.tensor([-INF, -INF, 2.0, -INF, INF, 1.0]),)
    yield "integer_erfinv_ndtri", lambda v: (torch.erfinv(v), s.ndtri(v)), (torch.arange(-3, 4),)


def order() -> Iterator[Case]:
    x = f(3, 7)
    with_nan = torch.tensor([[1.0, NAN, 3.0, -2.0], [4.0, 5.0, -1.0, 0.0]])
    yield "cummax", lambda v: (*torch.cummax(v, 1), *torch.cummin(v, 0)), (x,)
    yield "cummax_nan", lambda v: (*torch.cummax(v, 1), *torch.cummin(v, 1)), (with_nan,)
    yield "cummax_i64", lambda v: (*torch.cummax(v, 1), *torch.cummin(v, -1)), (i(3, 7),)
    yield "median", lambda v: (v.median(), *v.median(1), *v.median(0, keepdim=True)), (x,)
    yield "median_nan", lambda v: (v.median(), v.median(1)[0], *v.nanmedian(1), v.nanmedian()), (with_nan,)
    yield "kthvalue", lambda v: (*v.kthvalue(3, 1), *v.kthvalue(1, 0, keepdim=True)), (x,)
    yield "aminmax", lambda v: (*v.aminmax(), *v.aminmax(dim=1), *v.aminmax(dim=0, keepdim=True)), (x,)
    few = i(4, 9, low=0, high=4)
    yield "mode", lambda v: (*v.mode(), *v.mode(0, keepdim=True), *v.double().mode(1)), (few,)
    yield "mode_unique_nan", lambda v: v.mode(1), (with_nan,)
    yield "mode_bool", lambda v: (*v.mode(1), *v[0, 0].mode()), (m(3, 5),)
    yield "mode_long", lambda v: v.mode()[0], (i(3, 100, low=0, high=9),)
    yield "histc_of_the_data", lambda v: (torch.histc(v, 6), torch.histc(v, 4, -1, 2), torch.histc(v * 0 + 3, 5)), (x,)
    yield "nonzero_static_0d", lambda v: torch.nonzero_static(v, size=3), (torch.tensor(True),)
    yield "renorm", lambda v: (v.renorm(2, 0, 1.0), v.renorm(1, 1, 0.5)), (x,)
    yield "dist", lambda a, b: (torch.dist(a, b), torch.dist(a, b, 1), torch.dist(a, b, INF)), (x, f(3, 7))
    for p in (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, INF):
        yield f"cdist_{p}", lambda a, b, q=p: aten._cdist_forward(a, b, q, None), (f(2, 3, 4), f(2, 5, 4))
        yield (
            f"cdist_backward_{p}",
            lambda g, a, b, d, q=p: aten._cdist_backward(g, a, b, q, d),
            (f(3, 5), *(t := (f(3, 4), f(5, 4))), torch.cdist(*t, p)),
        )


def _strided_after_a_write(v: Tensor) -> tuple[Tensor, ...]:
    w = v.clone()
    row = w[1]
    w.mul_(2)
    near = row.as_strided((3,), (4,), 2)
    near.add_(10)
    row.neg_()
    return w, near, row.as_strided((3,), (6,))


def memory() -> Iterator[Case]:
    x = f(4, 6)
    yield "as_strided", lambda v: (v.as_strided((3, 2), (2, 7), 1), v.as_strided((2, 3), (3, 1)) + 1), (x,)
    yield "as_strided_transposed", lambda v: (v.t() + 0).as_strided((5,), (2,), 3), (x,)
    yield "as_strided_scatter", lambda v, s: aten.as_strided_scatter(v, s, (3, 2), (2, 7), 1), (x, f(3, 2))
    yield (
        "as_strided_of_views",
        lambda v: (
            v[1:].as_strided((2, 3), (6, 1), 1),
            v[2].as_strided((3,), (2,)),
            v.t()[2:].as_strided((4,), (3,)),
            v.t().as_strided((2, 2), (1, 5), 3) + v[:, 1:3].as_strided((2, 2), (5, 1)),
            aten.as_strided_copy(v[1:, 2:], (3,), (4,)),
        ),
        (x,),
    )
    yield "as_strided_scatter_of_view", lambda v, s: aten.as_strided_scatter(v.t(), s, (3, 2), (2, 7), 1), (x, f(3, 2))
    yield (
        "as_strided_input_with_offset",
        lambda v: (v.as_strided((2, 3), (3, 1), 8), v.as_strided((2,), (4,))),
        (x[1:],),
    )
    yield "as_strided_after_a_write", _strided_after_a_write, (x,)
    yield "diag_embed", lambda v: (v.diag_embed(), v.diag_embed(1), torch.diag_embed(v, -2, 0, 2)), (f(2, 3),)
    yield (
        "diagonal_backward",
        lambda g, h: (aten.diagonal_backward(g, [3, 4], 1, 0, 1), aten.diagonal_backward(h, [3, 2, 4], -1, 2, 0)),
        (f(3), f(2, 3)),
    )
    yield "diagonal_scatter", lambda v, s: torch.diagonal_scatter(v, s, 1, 0, 2), (f(3, 2, 4), f(2, 3))
    yield "block_diag", torch.block_diag, (f(2, 3), f(4), torch.tensor(2.0), f(1, 2))
    yield (
        "copies_of_views",
        lambda v: (
            torch.narrow_copy(v, 1, 2, 3),
            torch.select_copy(v, 0, 1),
            torch.diagonal_copy(v, 1),
            *torch.unbind_copy(v, 0),
            *torch.split_with_sizes_copy(v, [2, 4], 1),
            torch.t_copy(v),
            torch.squeeze_copy(v[:1], 0),
            torch.unsqueeze_copy(v, 1),
            torch.unfold_copy(v, 1, 3, 2),
        ),
        (x,),
    )
    yield "trace_rot90", lambda v: (v.trace(), *(torch.rot90(v, k, (0, 1)) for k in (1, 2, 3, -1))), (x,)
    yield "trace_i64", torch.trace, (i(3, 4),)
    yield "channel_shuffle", lambda v: F.channel_shuffle(v, 3), (f(2, 6, 2, 2),)
    yield "chunk_cat", lambda a, b: aten._chunk_cat([a, b], 0, 2), (f(3, 2), f(4, 2))
    yield "cross", lambda a, b: (torch.linalg.cross(a, b), torch.linalg.cross(a.t(), b.t(), dim=0)), (f(4, 3), f(4, 3))
    yield (
        "trilinear",
        lambda a, b, w: aten._trilinear(a, w, b, [1, 3], [0], [1, 2], [2, 3]),
        (f(2, 3), f(2, 4), f(5, 3, 4)),
    )
    yield "triangle_indices", lambda v: (torch.tril_indices(3, 4, 1), torch.triu_indices(4, 3, -1), v), (f(1),)


def resizing() -> Iterator[Case]:
    yield (
        "reflection_pad_backward",
        lambda g, v: aten.reflection_pad2d_backward(g, v, [1, 2, 2, 0]),
        (f(2, 6, 8), f(2, 4, 5)),
    )
    yield "reflection_pad1d_backward", lambda g, v: aten.reflection_pad1d_backward(g, v, [3, 1]), (f(2, 9), f(2, 5))
    yield (
        "replication_pad_backward",
        lambda g, v: aten.replication_pad2d_backward(g, v, [1, 2, 2, 0]),
        (f(2, 6, 8), f(2, 4, 5)),
    )
    yield "replication_pad_negative", lambda v: F.pad(v, (-1, 2, 1, -2), mode="replicate"), (f(2, 5, 6),)
    x = f(1, 2, 4, 3)
    yield (
        "upsample_bicubic",
        lambda v: (
            F.interpolate(v, size=(7, 5), mode="bicubic"),
            F.interpolate(v, size=(2, 6), mode="bicubic", align_corners=True),
        ),
        (x,),
    )
    g, sizes, inputs = f(1, 2, 7, 5), [7, 5], [1, 2, 4, 3]
    yield "upsample_nearest_backward", lambda g: aten.upsample_nearest2d_backward(g, sizes, inputs), (g,)
    yield "upsample_exact_backward", lambda g: aten._upsample_nearest_exact2d_backward(g, sizes, inputs), (g,)
    for corners in (False, True):
        yield (
            f"upsample_bilinear_backward_{corners}",
            lambda g, c=corners: aten.upsample_bilinear2d_backward(g, sizes, inputs, c),
            (g,),
        )
        yield (
            f"upsample_bicubic_backward_{corners}",
            lambda g, c=corners: aten.upsample_bicubic2d_backward(g, sizes, inputs, c),
            (g,),
        )
    yield (
        "adaptive_max_indices",
        lambda v: (
            *F.adaptive_max_pool2d(v, (3, 2), return_indices=True),
            *F.adaptive_max_pool2d(v, 1, return_indices=True),
        ),
        (f(2, 3, 7, 5),),
    )
    yield "adaptive_avg_backward_uneven", aten._adaptive_avg_pool2d_backward, (f(2, 3, 3, 2), f(2, 3, 7, 5))
    yield "max_unpool2d", lambda v: F.max_unpool2d(*F.max_pool2d(v, 2, return_indices=True), 2), (f(2, 3, 4, 6),)
    yield "im2col_unbatched", lambda v: F.unfold(v, (2, 2)), (f(3, 4, 5),)
    yield "col2im_unbatched", lambda v: F.fold(v, (4, 5), (2, 2)), (f(12, 12),)


def masks() -> Iterator[Case]:
    x, k = f(3, 4), m(3, 4)
    yield "masked_scatter", lambda v, k, s: (v.masked_scatter(k, s), v.masked_scatter(k[0], s)), (x, k, f(20))
    yield "masked_scatter_backward", lambda g, k: aten.masked_scatter_backward(g, k, [20]), (x, k)
    yield (
        "take_put",
        lambda v, a, s: (v.take(a), v.put(a, s), v.put(a, s, accumulate=True)),
        (x, torch.tensor([3, -1, 7]), f(3)),
    )
    index = torch.tensor([0, 2, 0])
    for reduce in ("prod", "mean", "amax", "amin"):
        for own in (True, False):
            yield (
                f"index_reduce_{reduce}_{own}",
                lambda v, a, s, r=reduce, o=own: v.index_reduce(0, a, s, r, include_self=o),
                (f(4, 3), index, f(3, 3)),
            )
    for reduce in ("sum", "prod", "mean", "amax", "amin"):
        yield (
            f"scatter_reduce_{reduce}_alone",
            lambda v, a, s, r=reduce: v.scatter_reduce(0, a, s, r, include_self=False),
            (f(3, 4), i(2, 4, low=0, high=3), f(2, 4)),
        )
    yield "scatter_mean", lambda v, a, s: v.scatter_reduce(1, a, s, "mean"), (i(3, 4), i(3, 2, low=0, high=4), i(3, 2))
    yield (
        "masked_index",
        lambda v, k, a, w: (
            aten._unsafe_masked_index(v, k, [None, a], 7.0),
            aten._unsafe_masked_index_put_accumulate(v, k, [None, a], w),
        ),
        (f(3, 5), torch.tensor([True, False, True, True]), torch.tensor([0, 9, 4, 0]), f(3, 4)),
    )
    zero_dim: tuple[Tensor, ...] = (torch.tensor(2.5), torch.tensor(0), torch.tensor(1.5))
    yield (
        "zero_dim_rows",
        lambda v, a, s: (
            v.index_select(0, a),
            v.gather(0, a),
            v.scatter(0, a, s),
            v.index_add(0, a, s),
            v.index_fill(0, a, 3),
        ),
        zero_dim,
    )


def search() -> Iterator[Case]:
    row = torch.tensor([-1.0, 0.0, 0.5, 0.5, 2.0, 9.0])
    values = torch.tensor([[-2.0, 0.5, 9.0], [10.0, NAN, 1.0]])
    yield "searchsorted", lambda s, v: (torch.searchsorted(s, v), torch.searchsorted(s, v, right=True)), (row, values)
    yield "searchsorted_rows", lambda s, v: torch.searchsorted(s, v, side="right"), (f(2, 9).sort(-1)[0], f(2, 4))
    yield "searchsorted_i64", lambda s, v: torch.searchsorted(s, v, out_int32=True), (torch.arange(7) * 2, i(5))
    yield "bucketize", lambda v, s: (torch.bucketize(v, s), torch.bucketize(v, s, right=True)), (values, row)
    yield "isin", lambda v, t: (torch.isin(v, t), torch.isin(v, t, invert=True), torch.isin(v, 2)), (i(3, 4), i(5))
    yield "searchsorted_sorter", lambda s, o, v: torch.searchsorted(s, v, sorter=o), ((t := f(9)), t.argsort(), f(2, 4))
    yield "nonzero_static", lambda v: (v.nonzero_static(size=4), v.nonzero_static(size=9, fill_value=7)), (m(3, 4),)
    yield "sort_bool", lambda v: v.sort(dim=1, stable=True), (m(3, 9),)
    yield (
        "histc_own_range",
        lambda v: torch.histc(v, 5, -2, 2),
        (torch.cat([f(30), torch.tensor([2.0, -2.0, NAN, 7.0])]),),
    )


def gradients() -> Iterator[Case]:
    x, g = f(3, 4) * 2, f(3, 4)
    yield (
        "shrink_backward",
        lambda g, x: (aten.softshrink_backward(g, x, 0.5), aten.hardshrink_backward(g, x, 0.5)),
        (g, x),
    )
    yield (
        "glu_backward",
        lambda g, x: (aten.glu_backward(g, x, 1), aten.glu_backward(g.t()[:2], x.t(), 0)),
        (f(3, 2), f(3, 4)),
    )
    yield "prelu_backward", aten._prelu_kernel_backward, (g, x, pos(1, 4))
    yield (
        "logit_backward",
        lambda g, x: (aten.logit_backward(g, x), aten.logit_backward(g, x, 0.1)),
        (g, torch.rand(3, 4)),
    )
    yield "log_sigmoid_forward", aten.log_sigmoid_forward, (x,)
    for reduction in (0, 1, 2):
        up = g if reduction == 0 else torch.tensor(0.7)
        yield (
            f"soft_margin_backward_{reduction}",
            lambda g, x, y, r=reduction: aten.soft_margin_loss_backward(g, x, y, r),
            (up, x, f(3, 4).sign()),
        )
        yield (
            f"bce_backward_{reduction}",
            lambda g, x, y, w, r=reduction: aten.binary_cross_entropy_backward(g, x, y, w, r),
            (up, torch.rand(3, 4), torch.rand(3, 4), pos(4)),
        )

    def batch_norm(x: Tensor, g: Tensor, w: Tensor, b: Tensor, mean: Tensor, var: Tensor) -> tuple[Tensor, ...]:
        out = aten._batch_norm_with_update_functional(x, w, b, mean, var, 0.1, 1e-5)
        back = aten.batch_norm_backward(g, x, w, mean, var, out[1], out[2], True, 1e-5, [True, True, True], out[3])
        return (*out[:3], *out[4:], *back)

    yield "batch_norm_with_update", batch_norm, (f(4, 3, 5), f(4, 3, 5), pos(3), f(3), f(3), pos(3))
    yield (
        "half_types",
        lambda v, w: (torch.lgamma(v), torch.lgamma(w), torch.i0(v)),
        (pos(5, dtype=BF16), pos(5, dtype=F16)),
    )
    yield "angle_f32", lambda v: (v.angle(), v.to(I64).angle().to(F32)), (EDGES[:7],)


GROUPS = (special, truths, order, memory, resizing, masks, search, gradients)
