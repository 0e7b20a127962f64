"""Servers that could not be reached, and for how long they are left alone."""

from __future__ import annotations

import time

from preheat.errors import PreheatError

_RETRY_SECONDS = 60.0  # how long a server that was not there is not asked again


class Breaker:
    """A server that could not be reached is left alone for a while, so that each graph does not wait for it again."""

    def __init__(self) -> None:
        self._down: dict[str, tuple[float, PreheatError]] = {}

    def trip(self, server: str, error: PreheatError) -> None:
        self._down.setdefault(server, (time.monotonic() + _RETRY_SECONDS, error))

    def check(self, server: str) -> None:
        until, error = self._down.get(server, (0.0, None))
        if error is not None and time.monotonic() < until:
            raise error
        self._down.pop(server, None)


shared = Breaker()
