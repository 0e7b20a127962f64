"""Noticing that frozen parameters have changed, which their packed copies must follow.

Torch's version counters tell of most writes. They miss those through `.data`, numpy or DLPack, and those of fused
optimizers. A step of any optimizer is noticed by a hook; of the rest, what changes one of a few sampled elements of a
tensor, as writing all of it does. A write to single elements behind torch's back needs `preheat.refresh`.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

_SAMPLES = 8  # elements of a tensor that are looked at in each call
_watches: weakref.WeakSet[Watch] = weakref.WeakSet()


def refresh(model: torch.nn.Module) -> None:
    """After writing single elements of frozen parameters through `.data`, numpy or DLPack: the next call of each graph
    that froze one of them packs them anew."""
    _forget([*model.parameters(), *model.buffers()])


@dataclass
class Seen:
    """A tensor as it was when a graph took it over."""

    address: int
    version: int  # torch's counter of writes; -1: inference tensors have none
    step: int = 0  # bytes from one sample to the next
    samples: torch.Tensor | None = None  # None: not looked at

    def holds(self, t: torch.Tensor) -> bool:
        """Whether it is that tensor still, and nothing that tells of a write has changed."""
        if (t.data_ptr(), _version(t)) != (self.address, self.version):
            return False
        return self.samples is None or torch.equal(_bytes(_samples(t)), _bytes(self.samples))


class Watch:
    """What a graph remembers of its frozen inputs. Not thread-safe."""

    def __init__(self) -> None:
        self.seen: list[Seen] | None = None  # None: they must be taken over anew

    def changed(self, tensors: Sequence[torch.Tensor]) -> bool:
        """Whether they, or what they hold, may be others than at the last `look`."""
        return self.seen is None or not all(s.holds(t) for s, t in zip(self.seen, tensors, strict=True))

    def look(self, tensors: Sequence[torch.Tensor]) -> None:
        _watch_optimizers()
        _watches.add(self)
        self.seen = [_see(t) for t in tensors]

    def forget(self, addresses: set[int]) -> None:
        if any(seen.address in addresses for seen in self.seen or ()):
            self.seen = None


def _see(t: torch.Tensor) -> Seen:
    samples = _samples(t)
    if samples is None:
        return Seen(t.data_ptr(), _version(t))
    return Seen(t.data_ptr(), _version(t), samples.stride(0) * samples.element_size(), samples.clone())


def _version(t: torch.Tensor) -> int:
    return -1 if t.is_inference() else t._version


def _samples(t: torch.Tensor) -> torch.Tensor | None:
    """A few elements, evenly spread: a view. None of a GPU's: they would stall its stream."""
    if t.device.type != "cpu" or not t.numel():
        return None
    t = t.detach()
    extent = 1 + sum((n - 1) * abs(s) for n, s in zip(t.shape, t.stride(), strict=True))
    step = max(1, extent // _SAMPLES)
    return t.as_strided(((extent - 1) // step + 1,), (step,), t.storage_offset())


def _bytes(samples: torch.Tensor | None) -> torch.Tensor:
    """Their bits: NaN is equal to itself here."""
    assert samples is not None
    return samples.contiguous().view(torch.uint8)


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
