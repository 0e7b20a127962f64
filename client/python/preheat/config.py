"""Where the server is and how to ask: from options, then PREHEAT_* variables, then defaults."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# Operators that torch has for GPUs alone, which an artifact calls cuDNN for.
ATTENTION_OF_GPUS = frozenset(
    f"aten._scaled_dot_product_{kernel}_attention{part}"
    for kernel in ("cudnn", "efficient", "flash")
    for part in ("", "_backward")
)
_OPTIONS = {"server", "mode", "freeze", "exclude", "buckets", "target", "deadline"}
_MODES = ("fast", "tuned", "background")


@dataclass(frozen=True)
class Config:
    server: str = "localhost:7433"
    token_file: str = ""
    tls_ca: str = ""  # PEM files: the authority that signed the server's certificate, then the client's own identity
    tls_cert: str = ""
    tls_key: str = ""
    name_space: str = ""
    job_id: str = ""
    cache_dir: str = ""  # "": no local cache
    mode: str = "background"
    target: str = ""  # "": where the program's tensors are
    freeze: bool = False
    buckets: tuple[tuple[str, tuple[int, ...]], ...] = ()  # sizes to pad to, by the name of the dimension
    exclude: tuple[str, ...] = ()
    deadline: float = 600.0  # seconds that one compile may take, waits included
    required: bool = False  # no server, no run
    disabled: bool = False
    record: str = ""  # a folder for bundles of what was submitted

    @staticmethod
    def make(options: Mapping[str, Any] | None = None, mode: str | None = None) -> Config:
        """`options` as torch.compile hands them over; torch's own mode "max-autotune" means "tuned"."""
        options = dict(options or {})
        unknown = sorted(set(options) - _OPTIONS)
        if unknown:
            raise ValueError(f"preheat has no option {', '.join(unknown)}; there are {', '.join(sorted(_OPTIONS))}")
        wanted = options.get("mode") or {"max-autotune": "tuned", "max-autotune-no-cudagraphs": "tuned"}.get(
            mode or "", "background"
        )
        if wanted not in _MODES:
            raise ValueError(f"mode {wanted!r} is not one of {', '.join(_MODES)}")
        return Config(
            server=str(options.get("server") or os.environ.get("PREHEAT_SERVER") or Config.server),
            token_file=os.environ.get("PREHEAT_TOKEN_FILE", ""),
            tls_ca=os.environ.get("PREHEAT_TLS_CA", ""),
            tls_cert=os.environ.get("PREHEAT_TLS_CERT", ""),
            tls_key=os.environ.get("PREHEAT_TLS_KEY", ""),
            name_space=os.environ.get("PREHEAT_NAMESPACE", ""),
            job_id=_first("PREHEAT_JOB_ID", "TORCHELASTIC_RUN_ID", "SLURM_JOB_ID"),
            cache_dir=_cache_dir(),
            mode=wanted,
            target=str(options.get("target") or Config.target),
            freeze=bool(options.get("freeze", False)),
            buckets=_buckets(options.get("buckets") or {}),
            exclude=tuple(sorted(str(op) for op in options.get("exclude", ()))),
            deadline=float(options.get("deadline") or os.environ.get("PREHEAT_DEADLINE") or Config.deadline),
            required=_flag("PREHEAT_REQUIRED"),
            disabled=_flag("PREHEAT_DISABLE"),
            record=os.environ.get("PREHEAT_RECORD", ""),
        )


def _buckets(given: Mapping[str, Any]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """{"seq": [64, 128]}, or one size instead of a list."""
    try:
        listed = {name: sizes if isinstance(sizes, (list, tuple)) else [sizes] for name, sizes in given.items()}
        return tuple(sorted((str(name), tuple(sorted(int(s) for s in sizes))) for name, sizes in listed.items()))
    except (AttributeError, TypeError, ValueError):
        raise ValueError(f'buckets are sizes by dimension, like {{"seq": [64, 128]}}, not {given!r}') from None


def _flag(name: str) -> bool:
    return os.environ.get(name, "").lower() not in ("", "0", "false", "no")


def _first(*names: str) -> str:
    return next((os.environ[n] for n in names if os.environ.get(n)), "")


def _cache_dir() -> str:
    """PREHEAT_CACHE_DIR, else XDG_CACHE_HOME/preheat, else ~/.cache/preheat; the C++ client shares it."""
    if chosen := os.environ.get("PREHEAT_CACHE_DIR"):
        return chosen
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return str(pathlib.Path(base) / "preheat" if base else pathlib.Path.home() / ".cache" / "preheat")
    except RuntimeError:
        return ""
