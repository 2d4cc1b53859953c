"""Rows that the model makes up as the sites have them, and given to clusters anew."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from fedmerdel.sums.arrays import BoolArray, FloatArray, IntArray
from fedmerdel.sums.expectations import expectations, expected_log_weights
from fedmerdel.sums.levels import sum_levels
from fedmerdel.sums.predictive import draw
from fedmerdel.sums.prior import Prior
from fedmerdel.sums.sums import Sums


class MadeUp(NamedTuple):
    """Rows that are nobody's.

    Attributes
    ----------
    X : int64 array (N, P)
        Their levels.
    missing : bool array (N, P)
        Entries that are not there.
    drawn : int64 array (N,)
        The cluster that each was drawn from.
    r : float64 array (N, K)
        The probability of each cluster, given the entries that are there.
    """

    X: IntArray
    missing: BoolArray
    drawn: IntArray
    r: FloatArray


def observed_shares(stats: Sums, prior: Prior) -> FloatArray:
    """Return how often each variable has an entry in each cluster: (K, P)."""
    # A cluster's counts of a variable sum to its rows with an entry.
    return sum_levels(stats.S, prior.offsets) / np.maximum(stats.T, 1e-300)[:, None]


def make_up(
    stats: Sums,
    prior: Prior,
    row_prior: Prior,
    rows: FloatArray,
    n_rows: int,
    rng: np.random.Generator,
) -> MadeUp:
    """Draw rows from the clusters, and give them to clusters.

    Parameters
    ----------
    stats : Sums
        The clusters.
    prior, row_prior : Prior
        Under which they are described, and under which rows are given to them.
    rows : float64 array (K,)
        How frequent they are where the rows are drawn.
    n_rows : int
        Rows to draw.
    rng : numpy Generator
        Draws them.
    """
    X, drawn = draw(stats._replace(T=rows), prior, n_rows, rng)
    log_levels = expectations(stats, row_prior).log_levels.T
    log_rho = np.tile(expected_log_weights(rows, row_prior), (n_rows, 1))
    missing = rng.random(X.shape) >= observed_shares(stats, row_prior)[drawn]
    for j, start in enumerate(row_prior.offsets[:-1]):
        log_rho += np.where(missing[:, j, None], 0.0, log_levels[start + X[:, j]])
    r = np.exp(log_rho - logsumexp(log_rho, axis=1, keepdims=True))
    return MadeUp(X, missing, drawn, r)
