"""Cases (see operators.py) of gradients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from case_tensors import BF16, F32, Case, aten, f, i, m, pos
from torch import Tensor


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


GROUPS = (backward,)
