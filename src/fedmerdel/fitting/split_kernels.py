"""Compiled loops that halve every cluster at once: each row looks at its own cluster only.

With hard labels a row reads one or two columns of a table instead of all K, so that a
pass which works on the halves of all clusters costs a fraction of a pass over all.
"""

from __future__ import annotations

import math

from fedmerdel.compiled import kernel
from fedmerdel.fitting.kernels import CodeArray
from fedmerdel.sums.arrays import FloatArray, IntArray


@kernel
def project_pass(
    codes: CodeArray,
    weights: FloatArray,
    base: IntArray,
    labels: IntArray,
    table: FloatArray,
    start: int,
    stop: int,
    counts: FloatArray,
    spread: FloatArray,
) -> None:
    """Project each row on its cluster's direction and add it to the row's states.

    ``u_n = sum_g table[state, label]``; ``counts[state, label] += w_n u_n``;
    ``spread[label] += w_n u_n^2``.
    """
    n_codes = codes.shape[1]
    for n in range(start, stop):
        k = labels[n]
        u = 0.0
        for g in range(n_codes):
            u += table[base[g] + codes[n, g], k]
        wu = weights[n] * u
        spread[k] += wu * u
        for g in range(n_codes):
            counts[base[g] + codes[n, g], k] += wu


@kernel
def halves_pass(
    codes: CodeArray,
    weights: FloatArray,
    base: IntArray,
    labels: IntArray,
    table: FloatArray,
    start: int,
    stop: int,
    counts: FloatArray,
    h: FloatArray,
) -> None:
    """E and M step of a two-component mixture inside each cluster.

    Columns ``2 k`` and ``2 k + 1`` of the table are the halves of cluster k.
    """
    n_codes = codes.shape[1]
    for n in range(start, stop):
        left = 2 * labels[n]
        right = left + 1
        a = 0.0
        b = 0.0
        for g in range(n_codes):
            row = table[base[g] + codes[n, g]]
            a += row[left]
            b += row[right]
        # Shares e^d / (1 + e^d) and 1 / (1 + e^d) from the side that can't overflow.
        d = a - b
        small = math.exp(-abs(d))
        log_total = math.log1p(small)
        near, far = 1.0 / (1.0 + small), small / (1.0 + small)
        w = weights[n]
        if d >= 0.0:
            ra, rb = w * near, w * far
            h[left] -= ra * log_total
            h[right] += rb * (-d - log_total)
        else:
            ra, rb = w * far, w * near
            h[left] += ra * (d - log_total)
            h[right] -= rb * log_total
        for g in range(n_codes):
            row = counts[base[g] + codes[n, g]]
            row[left] += ra
            row[right] += rb
