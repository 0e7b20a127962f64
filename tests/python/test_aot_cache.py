"""What torch's cache of traced graphs asks of Inductor, and what it need not."""

from __future__ import annotations

import threading
from typing import Any

import torch
from preheat import aot_cache
from preheat.config import Config
from torch._inductor import codecache


def test_the_key_reads_no_triton_and_others_keep_theirs() -> None:
    """Inductor's own key, which another thread may ask for meanwhile, must go on to name Triton's version."""
    original = codecache.CacheBase.get_system
    seen: dict[str, Any] = {}

    def answer() -> None:
        seen["other thread"] = codecache.CacheBase.get_system()

    with aot_cache.used(Config(), lambda kind, built: lambda args: args):
        ours: dict[str, Any] = codecache.CacheBase.get_system()
        thread = threading.Thread(target=answer)
        thread.start()
        thread.join()
    assert "version" not in ours and ours["hash"]
    assert torch.cuda.is_available() or ours["hash"] == "no GPU"
    assert seen["other thread"] == original()
    assert codecache.CacheBase.get_system is original
