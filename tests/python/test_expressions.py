"""Sizes as text, and their evaluation."""

from __future__ import annotations

import pytest
import sympy
from preheat.errors import Unsupported
from preheat.expressions import Symbols, evaluator
from torch.utils._sympy.functions import FloorDiv, IntTrueDiv, Max, Mod

Z, A = sympy.Symbol("z", integer=True, positive=True), sympy.Symbol("a", integer=True, positive=True)


def symbols() -> Symbols:
    names = Symbols()
    assert [names.declare(Z), names.declare(A), names.declare(Z)] == ["d0", "d1", "d0"]
    return names


@pytest.mark.parametrize(
    ("expr", "text", "value"),
    [
        (sympy.Integer(0), "0", 0),
        (Z, "d0", 7),
        (A * Z * 2, "2*d0*d1", 42),
        ((A + 1) * (Z - 1), "d0 + d0*d1 - 1 - d1", 24),
        (-Z, "-d0", -7),
        (Z**2, "d0*d0", 49),
        (FloorDiv(Z, 2) + 1, "1 + floordiv(d0, 2)", 4),
        (Mod(A * Z, 4) * 3, "3*mod(d0*d1, 4)", 3),
        (Max(A, Z, 5), "max", 7),
    ],
)
def test_text_and_value(expr: sympy.Expr, text: str, value: int) -> None:
    written = symbols().text(expr)
    assert written == text or text == "max" and written.startswith("max(max(")
    assert evaluator([written], ["d0", "d1"])(7, 3) == (value,)


@pytest.mark.parametrize("expr", [IntTrueDiv(Z, A), Z / 2, sympy.sqrt(Z), sympy.Symbol("u0", integer=True)])
def test_what_has_no_text_is_refused(expr: sympy.Expr) -> None:
    with pytest.raises(Unsupported):
        symbols().text(expr)
