"""Rows that a model makes up: they stand for the sites' rows, of which the centre has none."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from fedmerdel.sums.arrays import FloatArray, IntArray
from fedmerdel.sums.expectations import expectations, expected_log_weights
from fedmerdel.sums.levels import sum_levels
from fedmerdel.sums.predictive import draw
from fedmerdel.sums.prior import Prior
from fedmerdel.sums.sums import Sums


class MadeUp(NamedTuple):
    """Rows drawn from clusters.

    Attributes
    ----------
    X : int64 array (n, P)
        Level numbers; -1 where an entry is missing, as often as in the cluster's rows.
    drawn : int64 array (n,)
        The cluster that each was drawn from.
    r : float64 array (n, K)
        The probability of each cluster, as a site would find it.
    """

    X: IntArray
    drawn: IntArray
    r: FloatArray


def made_up(
    stats: Sums,
    prior: Prior,
    row_prior: Prior,
    T: FloatArray,
    n_rows: int,
    rng: np.random.Generator,
) -> MadeUp:
    """Draw rows from the clusters and give them to clusters.

    Parameters
    ----------
    stats : Sums
        The clusters.
    prior, row_prior : Prior
        Under which they are described, and under which rows are given to them.
    T : float64 array (K,)
        Rows of each cluster where these are drawn: a site's, or all.
    n_rows : int
        Rows to draw.
    rng : Generator
        What draws.
    """
    X, drawn = draw(stats._replace(T=T), prior, n_rows, rng)
    # A cluster's counts of a variable sum to its rows with an entry.
    entries = sum_levels(stats.S, row_prior.offsets)
    observed = entries / np.maximum(stats.T, 1e-300)[:, None]
    X[rng.random(X.shape) >= observed[drawn]] = -1
    log_levels = expectations(stats, row_prior).log_levels.T
    log_rho = np.tile(expected_log_weights(T, row_prior), (n_rows, 1))
    for j, start in enumerate(row_prior.offsets[:-1]):
        log_rho += np.where(X[:, j, None] < 0, 0.0, log_levels[start + X[:, j]])
    return MadeUp(X, drawn, np.exp(log_rho - logsumexp(log_rho, axis=1, keepdims=True)))
