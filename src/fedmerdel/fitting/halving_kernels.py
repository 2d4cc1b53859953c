"""Compiled loops along a direction through each cluster: two that differ in whose rows they are.

With labels, a row looks at its own cluster only: it reads one column of a table instead of
all K, so that a pass costs a fraction of one over all clusters. With shares, it looks at all.
"""

from __future__ import annotations

import math

import numpy as np

from fedmerdel.compiled import kernel
from fedmerdel.fitting.kernels import BLOCK, CodeArray, count_block, log_rho_block, share_block
from fedmerdel.sums.arrays import FloatArray, IntArray

# A row with less than this in a cluster does not count in its halves.
_DUST = 1e-12


@kernel
def _parts(u: float, halve: bool) -> tuple[float, float]:
    """Return what a row of weight 1 at ``u`` adds to its states, and to its cluster's spread.

    To halve: its share ``s = logistic(u)`` in the first half, and the entropy of s and 1 - s,
    which is the row's part of the blur. Else, to find the direction: u and its square.
    """
    if not halve:
        return u, u * u
    # The smaller share e^-|u| / (1 + e^-|u|) can't overflow.
    small = math.exp(-abs(u))
    far = small / (1.0 + small)
    return 1.0 - far if u >= 0.0 else far, math.log1p(small) + abs(u) * far


@kernel
def labelled_pass(
    codes: CodeArray,
    weights: FloatArray,
    base: IntArray,
    labels: IntArray,
    table: FloatArray,
    halve: bool,
    start: int,
    stop: int,
    counts: FloatArray,
    spread: FloatArray,
) -> None:
    """Add up the parts of each row in the cluster that it is labelled with.

    ``u_n`` is the row's sum in that column of the table.
    """
    n_codes = codes.shape[1]
    for n in range(start, stop):
        k = labels[n]
        u = 0.0
        for g in range(n_codes):
            u += table[base[g] + codes[n, g], k]
        part, width = _parts(u, halve)
        part *= weights[n]
        spread[k] += weights[n] * width
        for g in range(n_codes):
            counts[base[g] + codes[n, g], k] += part


@kernel
def shared_pass(
    codes: CodeArray,
    weights: FloatArray,
    base: IntArray,
    shares: FloatArray,
    table: FloatArray,
    halve: bool,
    start: int,
    stop: int,
    counts: FloatArray,
    spread: FloatArray,
) -> None:
    """Add up the parts of each row in each cluster, times its share there.

    ``shares`` is the table of an E step.
    """
    n_clusters = table.shape[1]
    r = np.empty((BLOCK, n_clusters))
    u = np.empty((BLOCK, n_clusters))
    power = np.empty(BLOCK * n_clusters)
    for first in range(start, stop, BLOCK):
        last = min(first + BLOCK, stop)
        share_block(codes, base, shares, first, last, power, r)
        log_rho_block(codes, base, table, first, last, u)
        for i in range(last - first):
            for k in range(n_clusters):
                if r[i, k] < _DUST:
                    r[i, k] = 0.0
                    continue
                part, width = _parts(u[i, k], halve)
                r[i, k] *= weights[first + i]
                spread[k] += r[i, k] * width
                r[i, k] *= part
        count_block(codes, base, first, last, r, counts)
