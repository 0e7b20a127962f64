"""The architectures that the benchmark times, small and of at least ten milliseconds a call on two slow cores.

Random weights from a seed. Each builder gives the module in eval mode and its inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Built = tuple[torch.nn.Module, tuple[Any, ...]]


class FirstOutput(torch.nn.Module):
    """A transformers model, called by position; its first output."""

    def __init__(self, model: torch.nn.Module, **fixed: Any) -> None:
        super().__init__()
        self.model, self.fixed = model, fixed

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return self.model(input_ids=ids, attention_mask=mask, return_dict=False, **self.fixed)[0]


def _text(kind: str, batch: int, seq: int, encoder: bool = False, uses_cache: bool = False, **fields: Any) -> Built:
    import transformers

    config = transformers.CONFIG_MAPPING[kind](vocab_size=1000, **fields)
    if encoder:
        model: torch.nn.Module = getattr(transformers, f"{kind.upper()}EncoderModel")(config)
    else:
        model = transformers.AutoModel.from_config(config)
    fixed = {"use_cache": False} if uses_cache else {}
    ids = torch.randint(3, 1000, (batch, seq))
    return FirstOutput(model, **fixed).eval(), (ids, torch.ones(batch, seq, dtype=torch.long))


def _image(name: str, batch: int, size: int, **fields: Any) -> Built:
    import timm

    model = timm.create_model(name, pretrained=False, **fields)
    with torch.no_grad():  # running statistics as after some training
        for module in model.modules():
            if isinstance(module, torch.nn.BatchNorm2d):
                module.running_mean.normal_(0, 0.1)
                module.running_var.uniform_(0.5, 1.5)
        for parameter in model.parameters():  # a head of zeros would hide every error
            if not parameter.any():
                parameter.normal_(0, 0.02)
    return model.eval(), (torch.randn(batch, 3, size, size),)


def _bert(large: bool) -> Built:
    width, layers = (256, 6) if large else (128, 2)
    return _text("bert", 2 if large else 1, 128, hidden_size=width, num_hidden_layers=layers, num_attention_heads=4,
                 intermediate_size=4 * width)  # fmt: skip


def _distilbert(large: bool) -> Built:
    width, layers = (256, 6) if large else (128, 2)
    return _text("distilbert", 2 if large else 1, 128, dim=width, n_layers=layers, n_heads=4, hidden_dim=4 * width)


def _gpt2(large: bool) -> Built:
    width, layers = (256, 6) if large else (128, 2)
    return _text("gpt2", 2 if large else 1, 128, uses_cache=True, n_embd=width, n_layer=layers, n_head=4,
                 bos_token_id=1, eos_token_id=2)  # fmt: skip


def _t5(large: bool) -> Built:
    width, layers = (256, 6) if large else (128, 2)
    return _text("t5", 2 if large else 1, 128, encoder=True, d_model=width, d_kv=width // 4, d_ff=4 * width,
                 num_layers=layers, num_heads=4)  # fmt: skip


def _llama(large: bool) -> Built:
    width, layers = (256, 6) if large else (128, 2)
    return _text("llama", 2 if large else 1, 128, uses_cache=True, hidden_size=width, num_hidden_layers=layers,
                 num_attention_heads=4, num_key_value_heads=2, intermediate_size=width * 11 // 4)  # fmt: skip


ARCHITECTURES: dict[str, Callable[[bool], Built]] = {
    "bert": _bert,
    "gpt2": _gpt2,
    "t5": _t5,
    "distilbert": _distilbert,
    "vit": lambda large: _image("vit_tiny_patch16_224", 1, 224 if large else 64, img_size=224 if large else 64),
    "swin": lambda large: _image(
        "swin_tiny_patch4_window7_224",
        1,
        224,
        embed_dim=48 if large else 24,
        depths=(2, 2, 6, 2) if large else (1, 1, 2, 1),
    ),
    "resnet18": lambda large: _image("resnet18", 2 if large else 1, 160 if large else 64),
    "mobilenetv3": lambda large: _image("mobilenetv3_large_100", 4 if large else 1, 160 if large else 64),
    "efficientnet_b0": lambda large: _image("efficientnet_b0", 2 if large else 1, 160 if large else 64),
    "convnext": lambda large: _image("convnext_atto", 2 if large else 1, 160 if large else 64),
    "llama": _llama,
    "mixer": lambda large: _image("mixer_s32_224", 2 if large else 1, 224),
}


def build(name: str, large: bool) -> Built:
    torch.manual_seed(0)
    return ARCHITECTURES[name](large)
