"""Intervals of shares and levels: as many rows as the information is worth, and their beta."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import betaincinv, ndtri

from fedmerdel.inference.information import PRIOR_ROWS, Mixture, Worth
from fedmerdel.sums.arrays import FloatArray, IntArray
from fedmerdel.sums.levels import level_means, level_totals
from fedmerdel.sums.sums import Sums

LEVEL = 0.95
"""Share of the intervals that hold the truth, if the model holds."""


class Intervals(NamedTuple):
    """95 % intervals of shares and levels, which allow for rows whose cluster is unsure.

    They hold if the model does, and for the number of clusters that was found.

    Attributes
    ----------
    share_low, share_high : float64 array (K,)
        Of each cluster's share of the population.
    level_low, level_high : float64 array (K, M)
        Of the probability of each level in each cluster, one variable after the other in the
        order of the codebook.
    """

    share_low: FloatArray
    share_high: FloatArray
    level_low: FloatArray
    level_high: FloatArray


class CountErrors(NamedTuple):
    """Variances that disclosure control has added: to T (K,), and to S (K, M)."""

    T: FloatArray
    S: FloatArray


def intervals(
    stats: Sums, mixture: Mixture, known: Worth, errors: CountErrors | None = None
) -> Intervals:
    """Return the intervals.

    An interval is that of the beta of as many sure rows as the information is worth, at the share
    that was counted, with the paper's prior: a learned one, learned from K numbers a variable,
    would make it too short. It is widened to hold the estimate where that is drawn elsewhere.

    Parameters
    ----------
    stats : Sums
        Counts of the clusters.
    mixture : Mixture
        The estimates.
    known : Worth
        How surely they are known.
    errors : CountErrors, optional
        What disclosure control adds.
    """
    entries = level_totals(stats.S, mixture.offsets) + PRIOR_ROWS
    half = np.full(stats.n_clusters, PRIOR_ROWS / 2)
    shares = _beta(mixture.weights, mixture.weights, known.shares, half)
    counted = level_means(stats.S, mixture.offsets)
    levels = _beta(mixture.levels, counted, known.levels, paper_prior(mixture.offsets))
    if errors is not None:
        shares = _widened(
            mixture.weights, *shares, np.sqrt(errors.T) / (stats.T.sum() + PRIOR_ROWS)
        )
        levels = _widened(mixture.levels, *levels, np.sqrt(errors.S) / entries)
    return Intervals(*shares, *levels)


def paper_prior(offsets: IntArray) -> FloatArray:
    """Return the rows that are counted at each level before there are any: (M,)."""
    n_levels = np.diff(offsets)
    return np.repeat(PRIOR_ROWS / n_levels, n_levels)


def _beta(
    p: FloatArray, share: FloatArray, n: FloatArray, before: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the ends of the interval from n rows and one before; p is in it, alone if sure."""
    sure = np.isinf(n)
    rows = np.where(sure, 1.0, n)
    a, b = rows * share + before, rows * (1.0 - share) + np.where(sure, 1.0, PRIOR_ROWS - before)
    tails = (1.0 - LEVEL) / 2, (1.0 + LEVEL) / 2
    low, high = (np.where(sure, p, betaincinv(a, b, tail)) for tail in tails)
    return np.minimum(low, p), np.maximum(high, p)


def _widened(
    p: FloatArray, low: FloatArray, high: FloatArray, error: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the ends with an independent error added, of this standard deviation."""
    reach = ndtri((1.0 + LEVEL) / 2) * error
    sure = p >= 1.0
    low = np.where(sure, low, np.maximum(p - np.hypot(p - low, reach), 0.0))
    return low, np.where(sure, high, np.minimum(p + np.hypot(high - p, reach), 1.0))
