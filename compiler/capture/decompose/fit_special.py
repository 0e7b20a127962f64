"""Prints the polynomials of special.cc and bessel.cc: Chebyshev interpolation of each function over an interval, as
coefficients of powers of t in [-1, 1], highest first, with the error of Horner's scheme in f32.

python fit_special.py [NAME...]        needs mpmath and numpy; all of them take some minutes
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np

mp.mp.dps = 25
TINY = mp.mpf(10) ** -8
Function = Callable[[Any], Any]


def fit(f: Function, low: Any, high: Any, degree: int) -> list[float]:
    n = degree + 1
    middle, half = (low + high) / 2, (high - low) / 2
    ys = [f(middle + half * mp.cos(mp.pi * (2 * k + 1) / (2 * n))) for k in range(n)]
    series = [
        2 * mp.fsum(y * mp.cos(j * mp.pi * (2 * k + 1) / (2 * n)) for k, y in enumerate(ys)) / n for j in range(n)
    ]
    series[0] /= 2
    powers = [mp.mpf(0)] * n
    before, chebyshev = [mp.mpf(0)], [mp.mpf(1)]
    for j in range(n):
        for i, v in enumerate(chebyshev):
            powers[i] += series[j] * v
        scale = 1 if j == 0 else 2
        following = [mp.mpf(0)] + [scale * v for v in chebyshev]
        for i, v in enumerate(before if j else []):
            following[i] -= v
        before, chebyshev = chebyshev, following
    return [float(v) for v in reversed(powers)]


def worst(f: Function, low: Any, high: Any, coefficients: list[float], relative: bool) -> float:
    error = mp.mpf(0)
    for k in range(301):
        t = -1 + 2 * k / 300
        p = np.float32(0)
        for c in coefficients:
            p = np.float32(np.float32(p * np.float32(t)) + np.float32(c))
        y = f((low + high) / 2 + (high - low) / 2 * mp.mpf(t))
        error = max(error, abs(mp.mpf(float(p)) - y) / (abs(y) if relative and y else 1))
    return float(error)


def at_least(x: Any, least: Any = TINY) -> Any:
    return x if x > least else least


def lgamma_ratio(x: Any) -> Any:  # log gamma(x) / ((x - 1)(x - 2))
    x = x + mp.mpf(10) ** -10 if abs((x - 1) * (x - 2)) < mp.mpf(10) ** -12 else x
    return mp.loggamma(x) / ((x - 1) * (x - 2))


def erfinv_ratio(w: Any) -> Any:  # erfinv(x) / x by w = -log(1 - x^2)
    if w < mp.mpf(10) ** -15:
        return mp.sqrt(mp.pi) / 2
    with mp.workdps(60):
        x = mp.sqrt(1 - mp.exp(-w))
        return mp.erfinv(x) / x


def erfcx_ratio(y: Any) -> Any:  # exp(x^2) erfc(x) / y by y = 4 / (4 + x)
    y = at_least(y)
    x = 4 / y - 4
    series = mp.fsum([1, -1 / (2 * x * x), 3 / (4 * x**4), -15 / (8 * x**6)]) / (x * mp.sqrt(mp.pi)) if x > 25 else None
    return (series if series is not None else mp.exp(x * x) * mp.erfc(x)) / y


def hankel(n: int, sine: bool) -> Function:  # the factors of J's and Y's waves by (8 / x)^2
    def f(v: Any) -> Any:
        u = mp.sqrt(at_least(v, mp.mpf(10) ** -6))
        x = 8 / u
        angle, k = x - mp.pi / 4 * (1 + 2 * n), mp.sqrt(mp.pi * x / 2)
        j, y = mp.besselj(n, x), mp.bessely(n, x)
        return k * (y * mp.cos(angle) - j * mp.sin(angle)) / u if sine else k * (j * mp.cos(angle) + y * mp.sin(angle))

    return f


def root(f: Function) -> Function:  # by x^2
    return lambda z: f(mp.sqrt(at_least(z)))


def scaled_i(n: int) -> Function:
    return lambda u: (lambda x: mp.sqrt(x) * mp.exp(-x) * mp.besseli(n, x))(8 / at_least(u, mp.mpf(10) ** -6))


def scaled_k(n: int) -> Function:
    return lambda u: (lambda x: mp.sqrt(x) * mp.exp(x) * mp.besselk(n, x))(2 / at_least(u, mp.mpf(10) ** -5))


def zeta_to_x(u: Any) -> tuple[Any, Any]:
    zeta = mp.mpf("2.6") / at_least(u, mp.mpf(10) ** -5)
    return zeta, (zeta * 3 / 2) ** (mp.mpf(2) / 3)


def airy_decay(u: Any) -> Any:
    zeta, x = zeta_to_x(u)
    return mp.airyai(x) * mp.exp(zeta) * 2 * mp.sqrt(mp.pi) * x ** (mp.mpf(1) / 4)


def airy_wave(sine: bool) -> Function:
    def f(v: Any) -> Any:
        u = mp.sqrt(at_least(v))
        zeta, x = zeta_to_x(u)
        angle, k = zeta - mp.pi / 4, mp.sqrt(mp.pi) * x ** (mp.mpf(1) / 4)
        a, b = mp.airyai(-x), mp.airybi(-x)
        return k * (a * mp.sin(angle) + b * mp.cos(angle)) / u if sine else k * (a * mp.cos(angle) - b * mp.sin(angle))

    return f


S5 = mp.sqrt(5)
# name: (function, low, high, degree, whether the error is relative)
FITS: dict[str, tuple[Function, Any, Any, int, bool]] = {
    "lgamma ratio": (lgamma_ratio, 1, 3, 11, True),
    "erfinv small": (erfinv_ratio, 0, 5, 9, True),
    "erfinv large": (lambda s: erfinv_ratio(s * s), S5, 4, 9, True),
    "erfinv tail": (lambda s: erfinv_ratio(s * s), 4, mp.mpf("9.5"), 7, True),
    "erfcx ratio": (erfcx_ratio, 0, 1, 15, True),
    "i0 near": (lambda x: mp.exp(-x) * mp.besseli(0, x), 0, 8, 17, True),
    "i1 near": (lambda x: mp.exp(-x) * mp.besseli(1, at_least(x)) / at_least(x), 0, 8, 17, True),
    "i0 far": (scaled_i(0), 0, 1, 6, True),
    "i1 far": (scaled_i(1), 0, 1, 6, True),
    "k0 rest": (root(lambda x: mp.besselk(0, x) + mp.log(x / 2) * mp.besseli(0, x)), 0, 4, 6, False),
    "k0 first": (root(lambda x: mp.besseli(0, x)), 0, 4, 5, True),
    "k0 far": (scaled_k(0), 0, 1, 8, True),
    "k1 rest": (root(lambda x: (mp.besselk(1, x) - mp.log(x / 2) * mp.besseli(1, x) - 1 / x) / x), 0, 4, 6, False),
    "k1 first": (root(lambda x: mp.besseli(1, x) / x), 0, 4, 5, True),
    "k1 far": (scaled_k(1), 0, 1, 8, True),
    "j0 near": (root(lambda x: mp.besselj(0, x)), 0, 64, 13, False),
    "j1 near": (root(lambda x: mp.besselj(1, x) / x), 0, 64, 12, False),
    "y0 rest": (root(lambda x: mp.bessely(0, x) - 2 / mp.pi * mp.log(x) * mp.besselj(0, x)), 0, 64, 14, False),
    "y1 rest": (
        root(lambda x: (mp.bessely(1, x) - 2 / mp.pi * (mp.log(x) * mp.besselj(1, x) - 1 / x)) / x), 0, 64, 13, False,
    ),
    "p0": (hankel(0, False), 0, 1, 4, True),
    "q0": (hankel(0, True), 0, 1, 4, True),
    "p1": (hankel(1, False), 0, 1, 4, True),
    "q1": (hankel(1, True), 0, 1, 4, True),
    "airy near": (mp.airyai, mp.mpf("-2.5"), mp.mpf("2.5"), 12, False),
    "airy decay": (airy_decay, 0, 1, 6, True),
    "airy p": (airy_wave(False), 0, 1, 7, True),
    "airy q": (airy_wave(True), 0, 1, 7, True),
}  # fmt: skip


def main() -> None:
    for name, (f, low, high, degree, relative) in FITS.items():
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        low, high = mp.mpf(low), mp.mpf(high)
        coefficients = fit(f, low, high, degree)
        error = worst(f, low, high, coefficients, relative)
        print(f"{name} on [{float(low):g}, {float(high):g}], error {error:.1e}:", flush=True)
        print("{" + ", ".join(f"{c:.9g}" for c in coefficients) + "}", flush=True)


if __name__ == "__main__":
    main()
