"""Arrays over the levels of all variables, one variable after the other, and Dirichlets on them.

``offsets`` (P + 1,) says where each variable's levels start, and where the last one's end.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from scipy.special import digamma

from fedmerdel.sums.arrays import BoolArray, FloatArray, IntArray


def sum_levels(by_level: FloatArray, offsets: IntArray) -> FloatArray:
    """Sum an array over the levels of each variable: (..., M) to (..., P)."""
    return np.add.reduceat(by_level, offsets[:-1], axis=-1)


def level_totals(by_level: FloatArray, offsets: IntArray) -> FloatArray:
    """Return at each level the sum over the levels of its variable: (..., M)."""
    return np.repeat(sum_levels(by_level, offsets), np.diff(offsets), axis=-1)


def level_means(by_level: FloatArray, offsets: IntArray) -> FloatArray:
    """Divide by the sum over each variable's levels; even where that is 0: (..., M)."""
    totals = level_totals(by_level, offsets)
    n_levels = np.diff(offsets)
    even = np.repeat(1.0 / n_levels, n_levels)
    return np.where(totals > 0, by_level / np.where(totals > 0, totals, 1.0), even)


def level_shares(S: FloatArray, offsets: IntArray) -> FloatArray:
    """Return the share of each level among all counts, ``1 / L_j`` where there are none: (M,)."""
    return level_means(S.reshape(-1, S.shape[-1]).sum(axis=0), offsets)


def most_frequent(shares: FloatArray, offsets: IntArray) -> BoolArray:
    """Return which level of each variable, one of each, is the most frequent: (M,)."""
    found = np.zeros(len(shares), dtype=np.bool_)
    for start, end in pairwise(offsets):
        found[start + shares[start:end].argmax()] = True
    return found


def expected_log_levels(eps: FloatArray, offsets: IntArray) -> FloatArray:
    """Return ``E[ln phi]`` under Dirichlets with these parameters (equation Ephi): (..., M)."""
    totals = digamma(sum_levels(eps, offsets))
    return np.asarray(digamma(eps) - np.repeat(totals, np.diff(offsets), axis=-1))


def level_positions(offsets: IntArray) -> FloatArray:
    """Return the number of each level within its variable, from 0: (M,)."""
    return np.arange(float(offsets[-1])) - np.repeat(offsets[:-1], np.diff(offsets))
