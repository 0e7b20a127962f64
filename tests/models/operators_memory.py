"""Cases (see operators.py) of views, creation, indexing and writes in place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from case_tensors import BF16, F32, F64, I64, Case, f, i, m
from torch import Tensor, nn


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


GROUPS = (views, creation, indexing, mutations)
