"""The log-gamma function, its derivatives, and beta functions of many Dirichlets, compiled.

The merge of many sites evaluates it millions of times. For one number after the other that
takes half of the time of scipy's log-gamma, the oracle in the tests; for a whole row at once,
in loops that the compiler turns into vector code, a seventh.
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
_LAST = 1.0 / 156.0

# ln(x) = e ln 2 + ln(m) with x = 2^e m and m from sqrt(1/2) to sqrt(2), fdlibm's way and
# numbers: ln(m) is a series in s = (m - 1) / (m + 1). With _TO_HALF added to the bits of x,
# those from bit 52 on are 1024 + e: the bits of 2^1024, less those of sqrt(1/2).
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_L1, _L2, _L3 = 6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01
_L4, _L5, _L6 = 2.222219843214978396e-01, 1.818357216161805012e-01, 1.531383769920937332e-01
_L7 = 1.479819860511658591e-01
_EXPONENT, _MORE = np.uint64(52), np.uint64(1024)
_TO_HALF = np.uint64((1024 << 52) - 0x3FE6A09E667F3BCD)
# The bits of 2^52 with a whole number below 2^52 in the last ones are the double 2^52 + it.
_WHOLE = np.uint64(0x4330000000000000)
_WHOLE_AND_MORE = 2.0**52 + 1024.0


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
def ln_gamma_slopes(x: float) -> tuple[float, float, float]:
    """Return ln Gamma(x) and its first two derivatives at x > 0, as `ln_gamma` does it.

    The product of the eight shifts is one of four quadratics in x that differ by a constant,
    so that one logarithm and one division serve all three.
    """
    shifted, slope, bend = 0.0, 0.0, 0.0
    if x < _SHIFT:
        u, du = x * (x + 7.0), 2.0 * x + 7.0
        low, high = u * (u + 6.0), (u + 10.0) * (u + 12.0)
        d_low, d_high = 2.0 * u + 6.0, 2.0 * u + 22.0
        inverse = 1.0 / (low * high)
        first = (d_low * high + low * d_high) * inverse
        second = 2.0 * (low + high + d_low * d_high) * inverse
        shifted = math.log(low * high)
        slope = du * first
        bend = 2.0 * first + du * du * (second - first * first)
        x += _SHIFT
    ln_x, z = math.log(x), 1.0 / x
    y = z * z
    series = y * (1.0 / 1680.0 - y * (1.0 / 1188.0 - y * (691.0 / 360360.0 - y / 156.0)))
    value = z * (1.0 / 12.0 - y * (1.0 / 360.0 - y * (1.0 / 1260.0 - series)))
    series = y * (1.0 / 252.0 - y * (1.0 / 240.0 - y * (1.0 / 132.0 - y * 691.0 / 32760.0)))
    first = ln_x - 0.5 * z - y * (1.0 / 12.0 - (y / 120.0 - y * series))
    series = y * (1.0 / 42.0 - y * (1.0 / 30.0 - y * 5.0 / 66.0))
    second = z + 0.5 * y + z * y * (1.0 / 6.0 - (y / 30.0 - y * series))
    return (x - 0.5) * ln_x - x + _HALF_LN_2PI + value - shifted, first - slope, second - bend


@kernel
def ln_in_place(
    x: np.ndarray[tuple[int], np.dtype[np.float64]],
    power: np.ndarray[tuple[int], np.dtype[np.float64]],
    size: int,
) -> None:
    """Replace the first ``size`` of ``x``, each from 1e-300 to 1e300, by their logarithms.

    ``power`` is work space of the same length. `numpy.divide` and not ``/``: that looks
    out for a zero, one number after the other.
    """
    bits, power_bits = x.view(np.uint64), power.view(np.uint64)
    for i in range(size):
        exponent = (bits[i] + _TO_HALF) >> _EXPONENT
        power_bits[i] = exponent | _WHOLE
        bits[i] = bits[i] - ((exponent - _MORE) << _EXPONENT)
    for i in range(size):
        e, f = power[i] - _WHOLE_AND_MORE, x[i] - 1.0
        s = np.divide(f, 2.0 + f)
        z = s * s
        w = z * z
        odd = z * (_L1 + w * (_L3 + w * (_L5 + w * _L7)))
        series = odd + w * (_L2 + w * (_L4 + w * _L6))
        half = 0.5 * f * f
        x[i] = e * _LN2_HIGH - ((half - (s * (half + series) + e * _LN2_LOW)) - f)


@kernel
def ln_gamma_in_place(
    x: np.ndarray[tuple[int], np.dtype[np.float64]],
    work: np.ndarray[tuple[int, int], np.dtype[np.float64]],
    size: int,
) -> None:
    """Replace the first ``size`` of ``x``, each > 0, by ln Gamma of them, as `ln_gamma` does it.

    ``work`` is space for three rows of the same length.
    """
    ln_x, shifted, power = work[0], work[1], work[2]
    for i in range(size):
        v = x[i]
        low = v * (v + 1.0) * (v + 2.0) * (v + 3.0)
        high = (v + 4.0) * (v + 5.0) * (v + 6.0) * (v + 7.0)
        shifted[i] = low * high if v < _SHIFT else 1.0
        x[i] = v + _SHIFT if v < _SHIFT else v
        ln_x[i] = x[i]
    ln_in_place(ln_x, power, size)
    ln_in_place(shifted, power, size)
    for i in range(size):
        z = np.reciprocal(x[i])
        y = z * z
        series = y * (1.0 / 1680.0 - y * (1.0 / 1188.0 - y * (691.0 / 360360.0 - y * _LAST)))
        series = z * (1.0 / 12.0 - y * (1.0 / 360.0 - y * (1.0 / 1260.0 - series)))
        x[i] = (x[i] - 0.5) * ln_x[i] - x[i] + _HALF_LN_2PI + series - shifted[i]


@kernel
def _ln_beta(
    eps: np.ndarray[tuple[int], np.dtype[np.float64]],
    work: np.ndarray[tuple[int, int], np.dtype[np.float64]],
    offsets: np.ndarray[tuple[int], np.dtype[np.int64]],
) -> float:
    """Return ``sum_j ln B(eps_j)`` of one row, which has room for totals and is used up.

    Without missing entries and with a fixed prior, the totals of all variables are the same
    but for rounding: then one log-gamma serves them all.
    """
    times, n, last, same = work[3], offsets[-1], 0.0, 0.0
    times[:n] = 1.0
    for j in range(len(offsets) - 1):
        total = 0.0
        for m in range(offsets[j], offsets[j + 1]):
            total += eps[m]
        if abs(total - last) > _SAME * total:
            times[n - 1] -= same
            eps[n], times[n] = total, 0.0
            n += 1
            last, same = total, 0.0
        same += 1.0
    times[n - 1] -= same
    ln_gamma_in_place(eps, work, n)
    for i in range(n):
        eps[i] *= times[i]
    while n > 1:  # one half onto the other: sums side by side
        half = n // 2
        for i in range(half):
            eps[i] += eps[n - half + i]
        n -= half
    return float(eps[0])


@kernel
def ln_betas(
    eps: np.ndarray[tuple[int, int], np.dtype[np.float64]],
    offsets: np.ndarray[tuple[int], np.dtype[np.int64]],
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return ``sum_j ln B(eps_j)`` of each row of ``eps``: (Z, M) to (Z,)."""
    M, out = eps.shape[1], np.empty(len(eps))
    row, work = np.empty(M + len(offsets)), np.empty((4, M + len(offsets)))
    for z in range(len(eps)):
        row[:M] = eps[z]
        out[z] = _ln_beta(row, work, offsets)
    return out


@kernel
def joined_ln_betas(
    S: np.ndarray[tuple[int], np.dtype[np.float64]],
    others: np.ndarray[tuple[int, int], np.dtype[np.float64]],
    rows: np.ndarray[tuple[int], np.dtype[np.int64]],
    sign: np.ndarray[tuple[int], np.dtype[np.float64]],
    eps: np.ndarray[tuple[int], np.dtype[np.float64]],
    explained: np.ndarray[tuple[int], np.dtype[np.float64]],
    offsets: np.ndarray[tuple[int], np.dtype[np.int64]],
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return ``sum_j ln B(eps_j + S_j)`` with each of some rows of others added to S: (Z,).

    A ``sign`` of -1 takes a row out; nothing falls below 0 by that. ``explained`` is the share
    of the counts that is added to eps.
    """
    M, out = len(eps), np.empty(len(rows))
    row, work = np.empty(M + len(offsets)), np.empty((4, M + len(offsets)))
    for z in range(len(rows)):
        other = others[rows[z]]
        for m in range(M):
            count = S[m] + sign[z] * other[m]
            row[m] = eps[m] + explained[m] * (count if count > 0.0 else 0.0)
        out[z] = _ln_beta(row, work, offsets)
    return out


@kernel
def paired_ln_betas(
    S: np.ndarray[tuple[int, int], np.dtype[np.float64]],
    pairs: np.ndarray[tuple[int, int], np.dtype[np.int64]],
    eps: np.ndarray[tuple[int], np.dtype[np.float64]],
    explained: np.ndarray[tuple[int], np.dtype[np.float64]],
    offsets: np.ndarray[tuple[int], np.dtype[np.int64]],
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return ``sum_j ln B(eps_j + S_j)`` of the sum of each pair of rows of S: (Z,)."""
    M, out = len(eps), np.empty(len(pairs))
    row, work = np.empty(M + len(offsets)), np.empty((4, M + len(offsets)))
    for z in range(len(pairs)):
        one, other = S[pairs[z, 0]], S[pairs[z, 1]]
        for m in range(M):
            row[m] = eps[m] + explained[m] * (one[m] + other[m])
        out[z] = _ln_beta(row, work, offsets)
    return out


def ln_beta(eps: FloatArray, offsets: IntArray) -> FloatArray:
    """``sum_j ln B(eps_j)``, B the multivariate beta function: (..., M) to (...)."""
    flat = np.ascontiguousarray(eps, dtype=np.float64).reshape(-1, eps.shape[-1])
    return np.asarray(ln_betas(flat, offsets).reshape(eps.shape[:-1]))


def ln_beta_joined(
    S: FloatArray,
    others: FloatArray,
    rows: IntArray,
    sign: FloatArray,
    eps: FloatArray,
    explained: FloatArray,
    offsets: IntArray,
) -> FloatArray:
    """Return `joined_ln_betas`, whatever the order of the counts in memory."""
    S, others = (np.ascontiguousarray(array, dtype=np.float64) for array in (S, others))
    return np.asarray(joined_ln_betas(S, others, rows, sign, eps, explained, offsets))


def ln_beta_by_variable(eps: FloatArray, offsets: IntArray) -> FloatArray:
    """``ln B(eps_j)`` of each variable: (..., M) to (..., P)."""
    return np.asarray(
        np.add.reduceat(gammaln(eps), offsets[:-1], axis=-1)
        - gammaln(np.add.reduceat(eps, offsets[:-1], axis=-1))
    )
