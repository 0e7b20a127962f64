"""GPT-2 as the examples train it: 124 million parameters unless told otherwise, on text that is made up here."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Size:
    layers: int = 12
    heads: int = 12
    width: int = 768
    vocabulary: int = 50257
    context: int = 1024


class Block(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        self.heads = size.heads
        self.norm1, self.norm2 = nn.LayerNorm(size.width), nn.LayerNorm(size.width)
        self.qkv, self.out = nn.Linear(size.width, 3 * size.width), nn.Linear(size.width, size.width)
        self.up, self.down = nn.Linear(size.width, 4 * size.width), nn.Linear(4 * size.width, size.width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        self.tokens = nn.Embedding(size.vocabulary, size.width)
        self.positions = nn.Embedding(size.context, size.width)
        self.blocks = nn.ModuleList(Block(size) for _ in range(size.layers))
        self.norm = nn.LayerNorm(size.width)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.tokens(ids) + self.positions.weight[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        return F.linear(self.norm(x), self.tokens.weight)


def batches(size: Size, batch: int, length: int, seed: int = 0) -> torch.Tensor:
    """Endless text with something to learn: each token is mostly the last one times a constant, sometimes random."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        ids = torch.randint(0, size.vocabulary, (batch, length + 1), generator=generator)
        kept = torch.rand(batch, length + 1, generator=generator) < 0.8
        for i in range(1, length + 1):
            ids[:, i] = torch.where(kept[:, i], (ids[:, i - 1] * 31 + 7) % size.vocabulary, ids[:, i])
        yield ids
