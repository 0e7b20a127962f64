"""What can go wrong, by type. `PreheatError` carries the service's own words."""

from __future__ import annotations


class PreheatError(RuntimeError):
    """A failure with a stable kind ("unreachable", "layout_mismatch") and, where one is known, what to do about it."""

    def __init__(self, code: str, kind: str, message: str, where: str = "", fix: str = "") -> None:
        super().__init__(f"{message}{f' ({where})' if where else ''}{f'; {fix}' if fix else ''} [{kind}]")
        self.code, self.kind, self.message, self.where, self.fix = code, kind, message, where, fix


class Unsupported(Exception):
    """This graph cannot be submitted; the text says why. The backend runs it eagerly."""
