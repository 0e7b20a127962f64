"""Cases (see operators.py) of what layers are made of: products, convolutions, pooling, norms, attention, losses."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from case_tensors import BF16, Case, aten, f, i, pos
from torch import nn


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
    equations: list[tuple[str, tuple[tuple[int, ...], ...]]] = [
        ("bhwc,hkc->bhwk", ((2, 3, 4, 5), (3, 6, 5))),  # a batch that is not first
        ("ik,kj", ((3, 4), (4, 5))),  # without an arrow
        ("ij -> ji", ((3, 4),)),
        ("ij->", ((3, 4),)),
        ("i,j->ji", ((3,), (4,))),  # nothing is summed
        ("ijx,jky->ki", ((3, 4, 2), (4, 5, 3))),  # labels of one operand alone
        ("ab,bc,cd->da", ((2, 3), (3, 4), (4, 5))),
        ("abc,abc->a", ((2, 3, 4), (2, 1, 4))),  # a size of 1 grows
    ]
    for n, (equation, sizes) in enumerate(equations):
        yield f"einsum_{n}", lambda *x, e=equation: torch.einsum(e, *x), tuple(f(*size) for size in sizes)
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


GROUPS = (products, convolutions, pools, norms, attention, losses)
