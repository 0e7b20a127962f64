"""Sizes as text: torch's sympy expressions in the form that programs carry and that Python evaluates alike.

A polynomial over d0, d1, ... whose atoms may be floordiv, mod, max and min: "2*d0*d1 + floordiv(d0, 8) - 1".
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from preheat.errors import Unsupported

_FUNCTIONS = {
    "FloorDiv": "floordiv",
    "CleanDiv": "floordiv",
    "Mod": "mod",
    "PythonMod": "mod",
    "Max": "max",
    "Min": "min",
}
_NAMESPACE = {"floordiv": operator.floordiv, "mod": operator.mod, "max": max, "min": min, "__builtins__": {}}


class Symbols:
    """The canonical names of torch's symbols, given in order of first appearance."""

    def __init__(self) -> None:
        self.names: dict[Any, str] = {}

    def declare(self, symbol: Any) -> str:
        return self.names.setdefault(symbol, f"d{len(self.names)}")

    def text(self, size: Any) -> str:
        """An int, a SymInt or a sympy expression as text. Adds no guard; Unsupported where there is no such text."""
        if isinstance(size, int):
            return str(size)
        expr = size.node.expr if hasattr(size, "node") else size
        return self._sum(expr)

    def _sum(self, expr: Any) -> str:
        import sympy

        expr = sympy.expand(expr)
        terms: list[tuple[bool, str]] = []
        for term in sympy.Add.make_args(expr):
            coefficient, rest = term.as_coeff_Mul()
            if not coefficient.is_Integer:
                raise Unsupported(f"the size {expr} is not an integer polynomial")
            terms.append((bool(coefficient < 0), self._product(abs(int(coefficient)), rest)))
        # In an order of our own, since sympy's goes by torch's names; positive terms first, so that no text begins
        # with a sign if that can be helped.
        text = ""
        for negative, product in sorted(terms):
            text += (" - " if text else "-") + product if negative else (" + " if text else "") + product
        return text

    def _product(self, coefficient: int, rest: Any) -> str:
        import sympy

        factors: list[str] = []
        for factor in sympy.Mul.make_args(rest):
            base, power = factor.as_base_exp()
            if not (power.is_Integer and power > 0):
                raise Unsupported(f"the size {rest} is not an integer polynomial")
            if base != 1:
                factors += [self._atom(base)] * int(power)
        factors.sort()
        if coefficient != 1 or not factors:
            factors.insert(0, str(coefficient))
        return "*".join(factors)

    def _atom(self, atom: Any) -> str:
        if atom.is_Symbol:
            if atom not in self.names:
                raise Unsupported(f"the size {atom} is known only while the program runs")
            return self.names[atom]
        kind = type(atom).__name__
        if kind == "Identity":
            return f"max({self._sum(atom.args[0])}, {self._sum(atom.args[0])})"
        if kind not in _FUNCTIONS:
            raise Unsupported(f"the size {atom} uses {kind}")
        text = self._sum(atom.args[0])
        for argument in atom.args[1:]:
            text = f"{_FUNCTIONS[kind]}({text}, {self._sum(argument)})"
        return text


def evaluator(texts: Sequence[str], symbols: Sequence[str]) -> Callable[..., tuple[int, ...]]:
    """A function of the symbols' values that gives the value of each text."""
    return eval(f"lambda {', '.join(symbols)}: ({''.join(text + ', ' for text in texts)})", dict(_NAMESPACE))
