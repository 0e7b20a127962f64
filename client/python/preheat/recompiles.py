"""Frames that are compiled again because a call does not fit."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import torch

logger = logging.getLogger("preheat")


class Recompiles:
    """Says once for each frame that sizes outside the range of an artifact had it compiled again."""

    def __init__(self) -> None:
        self._ranged: dict[Any, Any] = {}  # frame -> its compilation that first gave a range; None: that was said

    def note(self, example_inputs: Sequence[Any]) -> None:
        known = torch._guards.CompileContext.current_compile_id()
        if known is None:
            return
        frame, compilation = known.frame_id, known.frame_compile_id
        if not compilation:
            self._ranged.pop(frame, None)  # Dynamo counts anew after a reset
        if frame not in self._ranged:
            if any(isinstance(x, torch.SymInt) for x in example_inputs):
                self._ranged[frame] = compilation
        elif self._ranged[frame] not in (None, compilation):  # one compilation may hand over several graphs
            self._ranged[frame] = None
            logger.warning(
                "preheat: frame %s is compiled again: a call does not fit the artifact for a range of sizes "
                "(TORCH_LOGS=recompiles says why)",
                frame,
            )


seen = Recompiles()
