"""Telling frozen graphs that their parameters have changed."""

from __future__ import annotations

import torch

from preheat import compiled_graph


def refresh(model: torch.nn.Module) -> None:
    """After writing frozen parameters in a way that torch's version counters miss: through `.data`, numpy, DLPack, or
    a fused optimizer. The next call of each graph that froze one of them packs them anew."""
    tensors = [*model.parameters(), *model.buffers()]
    compiled_graph.refresh({t.data_ptr() for t in tensors})
