"""The compiled loops over packed rows. Small free functions on plain arrays.

A row's ``ln rho`` is one look-up and vector addition per code: ``table[state]`` holds
the summed expectations of all variables in that code, for every cluster. The M step
adds the row's responsibilities into the same shape of table. Rows go in blocks small
enough for the first cache; sums run in the order of the rows, so that a chunk's result
depends on the chunk alone.

Names: n row, k cluster, g code; ``base[g]`` is the first table row of code g.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fedmerdel.compiled import kernel
from fedmerdel.sums.arrays import FloatArray, IntArray

CodeArray = NDArray[np.uint8]

BLOCK = 128

# exp(x) = 2^i p(f) with x = i ln 2 + f: Cody and Waite's reduction and a Taylor
# polynomial, exact to 2 ulp on |f| <= ln(2)/2. The library's exp is called one number
# at a time and takes half of a pass; this loop the compiler turns into vector code.
_LOG2_E = 1.4426950408889634
_LN2_HIGH = 6.93147180369123816490e-01
_LN2_LOW = 1.90821492927058770002e-10
# Adding 1.5 * 2^52 rounds to a whole number i and leaves it in the low bits of the
# double; with 1023 added these bits, shifted up by 52, are the double 2^i.
_ROUND = 6755399441055744.0 + 1023.0
_FLOOR = -700.0
_FAINT = 1e-14  # a share that adds nothing to an overlap, to its last digits
_C3, _C4, _C5, _C6, _C7, _C8 = (1.0 / math.factorial(i) for i in range(3, 9))
_C9, _C10, _C11, _C12, _C13 = (1.0 / math.factorial(i) for i in range(9, 14))


@kernel
def exp_in_place(x: FloatArray, power: FloatArray, size: int) -> None:
    """Replace the first ``size`` of ``x``, each at most 0, by their exponentials.

    Below -700 the result is exp(-700), about 1e-304: nothing to any sum here.
    ``power`` is work space of the same length.
    """
    bits = power.view(np.int64)
    for i in range(size):
        v = x[i] if x[i] > _FLOOR else _FLOOR
        rounded = v * _LOG2_E + _ROUND
        power[i] = rounded
        whole = rounded - _ROUND
        f = (v - whole * _LN2_HIGH) - whole * _LN2_LOW
        p = _C12 + f * _C13
        p = _C10 + f * (_C11 + f * p)
        p = _C8 + f * (_C9 + f * p)
        p = _C6 + f * (_C7 + f * p)
        p = _C4 + f * (_C5 + f * p)
        p = 0.5 + f * (_C3 + f * p)
        x[i] = 1.0 + f * (1.0 + f * p)
    for i in range(size):
        bits[i] = bits[i] << 52
    for i in range(size):
        x[i] *= power[i]


@kernel
def log_rho_block(
    codes: CodeArray, base: IntArray, table: FloatArray, start: int, stop: int, out: FloatArray
) -> None:
    """Write ``ln rho`` of rows start..stop into the rows of ``out``."""
    n_codes = codes.shape[1]
    n_clusters = table.shape[1]
    for n in range(start, stop):
        acc = out[n - start]
        first = table[base[0] + codes[n, 0]]
        for k in range(n_clusters):
            acc[k] = first[k]
        g = 1
        while g + 3 < n_codes:  # four codes at a time: fewer loads and stores of acc
            t0 = table[base[g] + codes[n, g]]
            t1 = table[base[g + 1] + codes[n, g + 1]]
            t2 = table[base[g + 2] + codes[n, g + 2]]
            t3 = table[base[g + 3] + codes[n, g + 3]]
            for k in range(n_clusters):
                acc[k] += (t0[k] + t1[k]) + (t2[k] + t3[k])
            g += 4
        while g < n_codes:
            t0 = table[base[g] + codes[n, g]]
            for k in range(n_clusters):
                acc[k] += t0[k]
            g += 1


@kernel
def _subtract_max(acc: FloatArray) -> np.float64:
    """Subtract the largest of ``acc`` from all and return it."""
    top: np.float64 = acc[0]
    for k in range(1, len(acc)):
        top = max(top, acc[k])
    for k in range(len(acc)):
        acc[k] -= top
    return top


@kernel
def _sum(x: FloatArray) -> float:
    """Sum in four lanes, which the processor can run side by side."""
    a = b = c = d = 0.0
    k = 0
    while k + 3 < len(x):
        a += x[k]
        b += x[k + 1]
        c += x[k + 2]
        d += x[k + 3]
        k += 4
    while k < len(x):
        a += x[k]
        k += 1
    return (a + b) + (c + d)


@kernel
def count_block(
    codes: CodeArray, base: IntArray, start: int, stop: int, shares: FloatArray, counts: FloatArray
) -> None:
    """Add the shares of rows start..stop to the counts of each of their states."""
    n_clusters = counts.shape[1]
    for g in range(codes.shape[1]):
        for n in range(start, stop):
            row = counts[base[g] + codes[n, g]]
            for k in range(n_clusters):
                row[k] += shares[n - start, k]


@kernel
def fused_pass(
    codes: CodeArray,
    weights: FloatArray,
    base: IntArray,
    table: FloatArray,
    start: int,
    stop: int,
    counts: FloatArray,
    h: FloatArray,
) -> None:
    """E and M step over rows start..stop; the responsibilities exist a block at a time.

    Adds ``w_n r_nk`` to ``counts[state, k]`` for each state of the row, and
    ``w_n r_nk ln r_nk`` to ``h[k]``.
    """
    n_clusters = table.shape[1]
    log_r = np.empty((BLOCK, n_clusters))
    r = np.empty((BLOCK, n_clusters))
    power = np.empty(BLOCK * n_clusters)
    for first in range(start, stop, BLOCK):
        size = min(BLOCK, stop - first)
        log_rho_block(codes, base, table, first, first + size, log_r)
        for i in range(size):
            _subtract_max(log_r[i])
            for k in range(n_clusters):
                r[i, k] = log_r[i, k]
        exp_in_place(r.reshape(BLOCK * n_clusters), power, size * n_clusters)
        for i in range(size):
            total = _sum(r[i])
            scale = weights[first + i] / total
            log_total = math.log(total)
            for k in range(n_clusters):
                share = r[i, k] * scale
                r[i, k] = share
                h[k] += share * (log_r[i, k] - log_total)
        count_block(codes, base, first, first + size, r, counts)


@kernel
def label_pass(
    codes: CodeArray,
    base: IntArray,
    table: FloatArray,
    draws: FloatArray,
    start: int,
    stop: int,
    labels: IntArray,
) -> None:
    """Write each row's most probable cluster: of equals, the one that its draw falls on.

    A draw is a number from 0 to below 1; 0 takes the first.
    """
    n_clusters = table.shape[1]
    log_rho = np.empty((BLOCK, n_clusters))
    for first in range(start, stop, BLOCK):
        size = min(BLOCK, stop - first)
        log_rho_block(codes, base, table, first, first + size, log_rho)
        for i in range(size):
            _subtract_max(log_rho[i])
            left, best = 0, 0
            if draws[first + i] > 0.0:
                n_equal = 0
                for k in range(n_clusters):
                    n_equal += log_rho[i, k] == 0.0
                left = int(draws[first + i] * n_equal)
            while best + 1 < n_clusters and (log_rho[i, best] != 0.0 or left > 0):
                left -= log_rho[i, best] == 0.0
                best += 1
            labels[first + i] = best


@kernel
def evidence_pass(
    codes: CodeArray, base: IntArray, table: FloatArray, start: int, stop: int, out: FloatArray
) -> None:
    """Write ``ln sum_k rho_nk`` of each row."""
    n_clusters = table.shape[1]
    rho = np.empty((BLOCK, n_clusters))
    power = np.empty(BLOCK * n_clusters)
    top = np.empty(BLOCK)
    for first in range(start, stop, BLOCK):
        size = min(BLOCK, stop - first)
        log_rho_block(codes, base, table, first, first + size, rho)
        for i in range(size):
            top[i] = _subtract_max(rho[i])
        exp_in_place(rho.reshape(BLOCK * n_clusters), power, size * n_clusters)
        for i in range(size):
            out[first + i] = top[i] + math.log(_sum(rho[i]))


@kernel
def share_block(
    codes: CodeArray,
    base: IntArray,
    table: FloatArray,
    start: int,
    stop: int,
    power: FloatArray,
    r: FloatArray,
) -> None:
    """Write the responsibilities of rows start..stop, a block at most, into the rows of ``r``."""
    size, n_clusters = stop - start, table.shape[1]
    log_rho_block(codes, base, table, start, stop, r)
    for i in range(size):
        _subtract_max(r[i])
    exp_in_place(r[:size].reshape(size * n_clusters), power, size * n_clusters)
    for i in range(size):
        total = _sum(r[i])
        for k in range(n_clusters):
            r[i, k] /= total


@kernel
def probability_pass(
    codes: CodeArray, base: IntArray, table: FloatArray, start: int, stop: int, r: FloatArray
) -> None:
    """Write the responsibilities of rows start..stop into the same rows of ``r``."""
    power = np.empty(BLOCK * table.shape[1])
    for first in range(start, stop, BLOCK):
        last = min(first + BLOCK, stop)
        share_block(codes, base, table, first, last, power, r[first:last])


@kernel
def overlap_pass(
    codes: CodeArray,
    weights: FloatArray,
    base: IntArray,
    table: FloatArray,
    pairs: IntArray,
    start: int,
    stop: int,
    overlap: FloatArray,
) -> None:
    """Add ``w_n g(r_na, r_nb)`` to the overlap of each pair of clusters.

    ``g(x, y) = (x + y) ln(x + y) - x ln x - y ln y``, written with the smaller share
    first so that nothing cancels: ``x ln(1 + y/x) + y ln(1 + x/y)``.
    """
    n_clusters = table.shape[1]
    r = np.empty((BLOCK, n_clusters))
    power = np.empty(BLOCK * n_clusters)
    for first in range(start, stop, BLOCK):
        size = min(BLOCK, stop - first)
        log_rho_block(codes, base, table, first, first + size, r)
        for i in range(size):
            _subtract_max(r[i])
        exp_in_place(r.reshape(BLOCK * n_clusters), power, size * n_clusters)
        for i in range(size):
            scale = weights[first + i] / _sum(r[i])
            for z in range(len(pairs)):
                x = r[i, pairs[z, 0]]
                y = r[i, pairs[z, 1]]
                if x > _FAINT and y > _FAINT:
                    overlap[z] += scale * (x * math.log1p(y / x) + y * math.log1p(x / y))


@kernel
def delete_pass(
    codes: CodeArray,
    weights: FloatArray,
    base: IntArray,
    table: FloatArray,
    start: int,
    stop: int,
    cost: FloatArray,
) -> None:
    """Add ``w_n ln(1 - r_nk)`` to each cluster: what its rows lose if it goes.

    For the row's own cluster the share of the others is summed directly; ``1 - r``
    would cancel.
    """
    n_clusters = table.shape[1]
    r = np.empty((BLOCK, n_clusters))
    power = np.empty(BLOCK * n_clusters)
    for first in range(start, stop, BLOCK):
        size = min(BLOCK, stop - first)
        log_rho_block(codes, base, table, first, first + size, r)
        for i in range(size):
            _subtract_max(r[i])
        exp_in_place(r.reshape(BLOCK * n_clusters), power, size * n_clusters)
        for i in range(size):
            total = _sum(r[i])
            w = weights[first + i]
            for k in range(n_clusters):
                share = r[i, k] / total
                if share < 1e-4:  # ln(1 - r) = -r to 1e-8
                    cost[k] -= w * share
                elif share < 0.5:
                    cost[k] += w * math.log1p(-share)
                else:
                    others = 0.0
                    for m in range(n_clusters):
                        if m != k:
                            others += r[i, m]
                    cost[k] += w * (math.log(others / total) if others > 0.0 else _FLOOR)


@kernel
def count_pass(
    codes: CodeArray,
    weights: FloatArray,
    base: IntArray,
    labels: IntArray,
    start: int,
    stop: int,
    counts: FloatArray,
) -> None:
    """Add each row's weight to the counts of its label; -1 is no cluster."""
    for n in range(start, stop):
        if labels[n] >= 0:
            for g in range(codes.shape[1]):
                counts[base[g] + codes[n, g], labels[n]] += weights[n]
