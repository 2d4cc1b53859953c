"""Compiled loops that cut every cluster in two, each row in each cluster by its share there."""

from __future__ import annotations

import math

import numpy as np

from fedmerdel.compiled import kernel
from fedmerdel.fitting.kernels import BLOCK, CodeArray, count_block, log_rho_block, share_block
from fedmerdel.sums.arrays import FloatArray, IntArray

# A row with less than this in a cluster does not count in its halves.
_DUST = 1e-12


@kernel
def cut_pass(
    codes: CodeArray,
    weights: FloatArray,
    base: IntArray,
    table: FloatArray,
    cut_table: FloatArray,
    start: int,
    stop: int,
    counts: FloatArray,
    blur: FloatArray,
) -> None:
    """Count the first half of each cluster: ``w_n r_nk s_nk``, s the logistic of the cut.

    ``blur[k]`` is the overlap Q of the two halves: the entropy of s, times ``w_n r_nk``.
    """
    n_clusters = table.shape[1]
    r = np.empty((BLOCK, n_clusters))
    u = np.empty((BLOCK, n_clusters))
    power = np.empty(BLOCK * n_clusters)
    for first in range(start, stop, BLOCK):
        last = min(first + BLOCK, stop)
        share_block(codes, base, table, first, last, power, r)
        log_rho_block(codes, base, cut_table, first, last, u)
        for i in range(last - first):
            w = weights[first + i]
            for k in range(n_clusters):
                if r[i, k] < _DUST:
                    r[i, k] = 0.0
                    continue
                # The smaller share e^-|u| / (1 + e^-|u|) can't overflow.
                small = math.exp(-abs(u[i, k]))
                far = small / (1.0 + small)
                blur[k] += w * r[i, k] * (math.log1p(small) + abs(u[i, k]) * far)
                r[i, k] *= w * (1.0 - far if u[i, k] >= 0.0 else far)
        count_block(codes, base, first, last, r, counts)


@kernel
def turn_pass(
    codes: CodeArray,
    weights: FloatArray,
    base: IntArray,
    table: FloatArray,
    direction_table: FloatArray,
    start: int,
    stop: int,
    counts: FloatArray,
    spread: FloatArray,
) -> None:
    """Project each row on each cluster's direction and add it to the row's states.

    ``u_nk`` the projection; ``counts[state, k] += w_n r_nk u_nk``;
    ``spread[k] += w_n r_nk u_nk^2``.
    """
    n_clusters = table.shape[1]
    r = np.empty((BLOCK, n_clusters))
    u = np.empty((BLOCK, n_clusters))
    power = np.empty(BLOCK * n_clusters)
    for first in range(start, stop, BLOCK):
        last = min(first + BLOCK, stop)
        share_block(codes, base, table, first, last, power, r)
        log_rho_block(codes, base, direction_table, first, last, u)
        for i in range(last - first):
            w = weights[first + i]
            for k in range(n_clusters):
                wru = w * r[i, k] * u[i, k]
                spread[k] += wru * u[i, k]
                u[i, k] = wru
        count_block(codes, base, first, last, u, counts)
