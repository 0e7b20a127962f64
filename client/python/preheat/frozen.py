"""Noticing that frozen parameters have changed, which their packed copies must follow.

Torch's version counters tell of most writes. They miss those through `.data`, numpy or DLPack, and those of fused
optimizers. A step of any optimizer is noticed by a hook; of the rest, what changes one of a few sampled elements of a
tensor, as writing all of it does. A write to single elements behind torch's back needs `preheat.refresh`.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Sequence
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

_SAMPLES = 32  # elements of a tensor that are looked at in each call
_watches: weakref.WeakSet[Watch] = weakref.WeakSet()


def refresh(model: torch.nn.Module) -> None:
    """After writing single elements of frozen parameters through `.data`, numpy or DLPack: the next call of each graph
    that froze one of them packs them anew."""
    _forget([*model.parameters(), *model.buffers()])


class Watch:
    """What a graph remembers of its frozen inputs. Not thread-safe."""

    def __init__(self) -> None:
        self._stamps: list[tuple[int, int]] | None = None
        self._sampler: _Sampler | None = None
        self._samples: list[torch.Tensor] = []

    def changed(self, tensors: Sequence[torch.Tensor]) -> bool:
        """Whether they, or what they hold, may be others than at the last `look`."""
        if self._sampler is None or [_stamp(t) for t in tensors] != self._stamps:
            return True
        return any(not torch.equal(a, b) for a, b in zip(self._sampler.read(), self._samples, strict=True))

    def look(self, tensors: Sequence[torch.Tensor]) -> None:
        _watch_optimizers()
        _watches.add(self)
        self._stamps = [_stamp(t) for t in tensors]
        self._sampler = _Sampler(tensors)
        self._samples = self._sampler.read()

    def forget(self, addresses: set[int]) -> None:
        if any(address in addresses for address, _ in self._stamps or ()):
            self._stamps = None


def _stamp(t: torch.Tensor) -> tuple[int, int]:
    return t.data_ptr(), -1 if t.is_inference() else t._version


class _Sampler:
    """A few elements of each tensor, evenly spread, as bytes: one tensor for each dtype."""

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        views: dict[torch.dtype, list[torch.Tensor]] = {}
        for t in tensors:
            if t.device.type == "cpu" and t.numel():  # a GPU's would stall its stream
                views.setdefault(t.dtype, []).append(_spread(t.detach()))
        self._views = list(views.values())

    def read(self) -> list[torch.Tensor]:
        with torch.no_grad():
            return [torch.cat(views).view(torch.uint8) for views in self._views]


def _spread(t: torch.Tensor) -> torch.Tensor:
    extent = 1 + sum((n - 1) * abs(s) for n, s in zip(t.shape, t.stride(), strict=True))
    step = max(1, extent // _SAMPLES)
    return t.as_strided(((extent - 1) // step + 1,), (step,), t.storage_offset())


def _forget(tensors: Sequence[torch.Tensor]) -> None:
    addresses = {t.data_ptr() for t in tensors}
    for watch in list(_watches):
        watch.forget(addresses)


@functools.cache
def _watch_optimizers() -> None:
    """From the first frozen graph on, a step of an optimizer has the graphs of its parameters pack them anew."""

    def after_step(optimizer: torch.optim.Optimizer, *_: Any) -> None:
        if _watches:
            _forget([p for group in optimizer.param_groups for p in group["params"]])

    register_optimizer_step_post_hook(after_step)
