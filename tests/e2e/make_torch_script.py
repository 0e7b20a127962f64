"""Writes the TorchScript files of test_torch_script.py: make_torch_script.py FOLDER. Scripting needs a file to read."""

import sys

import timm
import torch
from torch import nn
from transformers import BertConfig, BertModel, GPT2Config, GPT2Model

torch.manual_seed(0)
folder = sys.argv[1]


class Mlp(nn.Module):  # scripted: a loop over layers, a flag, a default argument, an operator that writes
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(16, 16) for _ in range(3)])
        self.register_buffer("scale", torch.full((16,), 0.5))
        self.norm = nn.BatchNorm1d(16)

    def forward(self, x: torch.Tensor, gain: float = 2.0) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        if self.training:
            x = x + torch.rand_like(x)
        for layer in self.layers:
            x = torch.nn.functional.gelu(layer(x))
        x = self.norm(x) * self.scale * gain
        y = torch.zeros(x.size(0), 20)
        y[:, 2:18] = x
        return y.relu_(), {"rows": x.sum(-1)}


class Branch(nn.Module):  # what stands behind a return, numbers that tensors hold, `and`, a branch in a branch
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        total = x.sum().item()
        if total > 1000 and bool(x.min() > 0):
            return x, x
        y = x - 1
        if bool(x[0] > 0):
            y = x.t() if x.dim() == 2 else x * 2
            if total * 2 > 0.5:
                y = y + total
        return y, torch.exp(y)


class Loop(nn.Module):  # a loop over data, one with a break, one as long as a tensor says
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full((4,), 0.75))

    def forward(self, x: torch.Tensor, n: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, int]:
        steps = 0
        while bool(x.abs().max() > 0.25):
            x = x * self.weight
            steps += 1
        for i in range(10):
            if bool(x.abs().max() > 1):
                break
            x = x + self.weight * i
        y = torch.zeros_like(x)
        for _ in range(int(n)):
            y = y + x
        return x, y, steps


class Grows(nn.Module):  # a branch that decides a size
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if bool(x.sum() > 0):
            x = torch.cat([x, x])
        return x


class Writes(nn.Module):  # a branch that writes into what is outside of it
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        if bool(x.sum() > 0):
            y.mul_(2)
        return y


torch.jit.save(torch.jit.script(Mlp().eval()), f"{folder}/mlp.pt")
for module in (Branch(), Loop(), Grows(), Writes()):
    torch.jit.save(torch.jit.script(module), f"{folder}/{type(module).__name__.lower()}.pt")
torch.save({"a": torch.ones(3)}, f"{folder}/state.pt")

bert = BertModel(
    BertConfig(
        vocab_size=100,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=32,
    ),
    add_pooling_layer=False,
).eval()
bert.config.return_dict = False
ids = torch.randint(0, 100, (2, 8))
torch.jit.save(torch.jit.trace(bert, (ids,), strict=False), f"{folder}/bert.pt")
gpt2 = GPT2Model(GPT2Config(vocab_size=100, n_positions=32, n_embd=32, n_layer=2, n_head=2)).eval()
gpt2.config.return_dict = False
gpt2.config.use_cache = False
torch.jit.save(torch.jit.trace(gpt2, (ids,), strict=False), f"{folder}/gpt2.pt")

resnet = timm.create_model("resnet18", num_classes=10).eval()
torch.jit.save(torch.jit.trace(resnet, (torch.randn(1, 3, 32, 32),)), f"{folder}/resnet18.pt")
