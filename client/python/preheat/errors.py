"""What can go wrong, by type. `PreheatError` carries the service's own words."""

from __future__ import annotations


class PreheatError(RuntimeError):
    """A failure with a stable kind ("unreachable", "layout_mismatch") and, where one is known, what to do about it."""

    def __init__(self, code: str, kind: str, message: str, where: str = "", fix: str = "") -> None:
        super().__init__(message)
        self.code, self.kind, self.message, self.where, self.fix = code, kind, message, where, fix
        self.retry_after: float | None = None  # seconds, when the server says that asking again may help
        self.request_id = ""  # under which the server's log has the call, if one reached it

    def __str__(self) -> str:
        where = f" ({self.where})" if self.where else ""
        fix = f"; {self.fix}" if self.fix else ""
        request = f", request {self.request_id}" if self.request_id else ""
        return f"{self.message}{where}{fix} [{self.kind}{request}]"


class Unsupported(Exception):
    """This graph cannot be submitted; the text says why. The backend runs it eagerly."""


class PreheatWarning(UserWarning):
    """A graph runs eagerly, and why."""
