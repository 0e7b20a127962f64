"""What torch's cache of traced graphs asks of Inductor, and what it need not."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch
from preheat import aot_cache
from preheat.config import Config
from torch._inductor import codecache


def test_the_key_reads_no_sources_and_others_keep_theirs() -> None:
    """Inductor's own key, which another thread may ask for meanwhile, must go on to name Triton's version."""
    original, digest = codecache.CacheBase.get_system, codecache.torch_key
    seen: dict[str, Any] = {}

    def answer() -> None:
        seen["other thread"] = (codecache.CacheBase.get_system(), codecache.torch_key())

    with aot_cache.used(Config(), lambda kind, built: lambda args: args):
        ours: dict[str, Any] = codecache.CacheBase.get_system()
        torchs = codecache.torch_key()
        thread = threading.Thread(target=answer)
        thread.start()
        thread.join()
    assert "version" not in ours and ours["hash"]
    assert torch.cuda.is_available() or ours["hash"] == "no GPU"
    assert str(torch.version.git_version).encode() in torchs
    assert seen["other thread"] == (original(), digest())
    assert codecache.CacheBase.get_system is original and codecache.torch_key is digest


def test_a_checkout_of_torch_is_known_by_its_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "__version__", "2.12.0a0+git70d99e9")
    digest = codecache.torch_key
    with aot_cache.used(Config(), lambda kind, built: lambda args: args):
        assert codecache.torch_key is digest


@pytest.mark.parametrize("logged", [False, True])
def test_components_are_hashed_only_for_a_log(logged: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second pickling of graph and inputs, half of what looking a graph up costs. Other threads keep it."""
    from torch._functorch._aot_autograd import autograd_cache

    monkeypatch.setattr(codecache.FxGraphCachePickler, "debug_lines", lambda *_: ["a component"])
    monkeypatch.setattr(autograd_cache.log, "isEnabledFor", lambda level: logged)
    pickler = codecache.FxGraphCachePickler(torch.fx.GraphModule({}, torch.fx.Graph()))
    elsewhere: list[str] = []
    with aot_cache.used(Config(), lambda kind, built: lambda args: args):
        assert pickler.debug_lines(None) == (["a component"] if logged else [])
        thread = threading.Thread(target=lambda: elsewhere.extend(pickler.debug_lines(None)))
        thread.start()
        thread.join()
    assert elsewhere == pickler.debug_lines(None) == ["a component"]


@pytest.mark.parametrize("logged", [False, True])
def test_graphs_are_printed_only_for_who_looks(logged: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._logging import _internal

    for name in ("TORCH_TRACE", "TORCH_LOGS", "TORCH_COMPILE_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(_internal.log_state, "artifact_names", {"aot_graphs"} if logged else set())
    module = torch.fx.GraphModule({}, torch.fx.Graph())
    whole = module.print_readable(print_output=False)
    elsewhere: list[str] = []
    with aot_cache.used(Config(), lambda kind, built: lambda args: args):
        assert module.print_readable(print_output=False) == (whole if logged else "")
        thread = threading.Thread(target=lambda: elsewhere.append(module.print_readable(print_output=False)))
        thread.start()
        thread.join()
    assert whole and elsewhere == [whole]
