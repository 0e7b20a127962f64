"""Preheat: compile tensor programs once per cluster, fetch them everywhere else.

    model = torch.compile(model, backend="preheat")

Importing this package imports torch only when something of it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from preheat.client import Client
    from preheat.counts import report, reset_report
    from preheat.errors import PreheatError
    from preheat.export_archive import export
    from preheat.frozen import refresh

__version__ = "0.1.0"
__all__ = ["Client", "PreheatError", "export", "refresh", "report", "reset_report"]

# No module may have the name of one of these: importing it would put the module in the function's place.
_WHERE = {
    "Client": "client",
    "PreheatError": "errors",
    "export": "export_archive",
    "refresh": "frozen",
    "report": "counts",
    "reset_report": "counts",
}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'preheat' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(f"preheat.{_WHERE[name]}"), name)
    globals()[name] = value
    return value
