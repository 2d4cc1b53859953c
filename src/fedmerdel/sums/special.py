"""The log-gamma function, its derivatives, and beta functions of many Dirichlets, compiled.

The merge of many sites evaluates it millions of times; in one loop without arrays in between
it takes half of the time that it takes with scipy's log-gamma, the oracle in the tests.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import gammaln

from fedmerdel.compiled import kernel
from fedmerdel.sums.arrays import FloatArray, IntArray

_SHIFT = 8.0
_SAME = 1e-14
_HALF_LN_2PI = 0.5 * math.log(2.0 * math.pi)


@kernel
def ln_gamma(x: float) -> float:
    """Return ln Gamma(x) for x > 0.

    An argument below 8 is shifted up by 8 with the recurrence; from there on Stirling's
    series is exact to the last digits.
    """
    shifted = 0.0
    if x < _SHIFT:
        low = x * (x + 1.0) * (x + 2.0) * (x + 3.0)
        high = (x + 4.0) * (x + 5.0) * (x + 6.0) * (x + 7.0)
        shifted = math.log(low * high)
        x += _SHIFT
    z = 1.0 / x
    y = z * z
    series = y * (1.0 / 1680.0 - y * (1.0 / 1188.0 - y * (691.0 / 360360.0 - y / 156.0)))
    series = z * (1.0 / 12.0 - y * (1.0 / 360.0 - y * (1.0 / 1260.0 - series)))
    return (x - 0.5) * math.log(x) - x + _HALF_LN_2PI + series - shifted


@kernel
def digamma_trigamma(x: float) -> tuple[float, float]:
    """Return the first and the second derivative of ln Gamma at x > 0, as `ln_gamma` does it."""
    first, second = 0.0, 0.0
    while x < _SHIFT:
        z = 1.0 / x
        first -= z
        second += z * z
        x += 1.0
    z = 1.0 / x
    y = z * z
    series = y * (1.0 / 252.0 - y * (1.0 / 240.0 - y * (1.0 / 132.0 - y * 691.0 / 32760.0)))
    first += math.log(x) - 0.5 * z - y * (1.0 / 12.0 - (y / 120.0 - y * series))
    series = y * (1.0 / 42.0 - y * (1.0 / 30.0 - y * 5.0 / 66.0))
    second += z + 0.5 * y + z * y * (1.0 / 6.0 - (y / 30.0 - y * series))
    return first, second


@kernel
def ln_betas(
    eps: np.ndarray[tuple[int, int], np.dtype[np.float64]],
    offsets: np.ndarray[tuple[int], np.dtype[np.int64]],
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return ``sum_j ln B(eps_j)`` of each row of ``eps``: (Z, M) to (Z,).

    Without missing entries and with a fixed prior, the totals of all variables are the same
    but for rounding: then one log-gamma serves them all.
    """
    out = np.empty(len(eps))
    for z in range(len(eps)):
        ln_beta, last, ln_last = 0.0, 0.0, 0.0
        for j in range(len(offsets) - 1):
            total = 0.0
            for m in range(offsets[j], offsets[j + 1]):
                ln_beta += ln_gamma(eps[z, m])
                total += eps[z, m]
            if abs(total - last) > _SAME * total:
                last, ln_last = total, ln_gamma(total)
            ln_beta -= ln_last
        out[z] = ln_beta
    return out


def ln_beta(eps: FloatArray, offsets: IntArray) -> FloatArray:
    """``sum_j ln B(eps_j)``, B the multivariate beta function: (..., M) to (...)."""
    flat = np.ascontiguousarray(eps, dtype=np.float64).reshape(-1, eps.shape[-1])
    return np.asarray(ln_betas(flat, offsets).reshape(eps.shape[:-1]))


def ln_beta_by_variable(eps: FloatArray, offsets: IntArray) -> FloatArray:
    """``ln B(eps_j)`` of each variable: (..., M) to (..., P)."""
    return np.asarray(
        np.add.reduceat(gammaln(eps), offsets[:-1], axis=-1)
        - gammaln(np.add.reduceat(eps, offsets[:-1], axis=-1))
    )
