"""How sure rows are of their cluster, without a row: asked of rows that the model makes up."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from fedmerdel.mixture.expectations import expectations
from fedmerdel.mixture.predictive import draw
from fedmerdel.mixture.prior import FloatArray, Prior
from fedmerdel.mixture.statistics import Statistics

SURE = 0.8
"""A row with a cluster more probable than this is surely in it."""

N_DRAWN = 20_000
N_BINS = 20


class Certainty(NamedTuple):
    """Of rows drawn from the model and given to clusters anew.

    Attributes
    ----------
    sure : float
        Share of them whose cluster is more probable than `SURE`.
    sure_of : float64 array (K,)
        The same for the rows given to each cluster; nan where there are none.
    given : float64 array (K, K)
        Of the rows drawn from a cluster (a line), the share given to each.
    histogram : float64 array (N_BINS,)
        Share of the rows by the probability of their cluster, from 0 to 1.
    """

    sure: float
    sure_of: FloatArray
    given: FloatArray
    histogram: FloatArray


def expected_certainty(stats: Statistics, prior: Prior, row_prior: Prior) -> Certainty:
    """Draw rows from the clusters, the same every time, and give them to clusters.

    Parameters
    ----------
    stats : Statistics
        The clusters.
    prior, row_prior : Prior
        Under which they are described, and under which rows are given to them.
    """
    X, drawn = draw(stats, prior, N_DRAWN, np.random.default_rng(0))
    theta = expectations(stats, row_prior)
    log_rho = np.tile(theta.log_weights, (N_DRAWN, 1))
    for j, start in enumerate(row_prior.offsets[:-1]):
        log_rho += theta.log_levels.T[start + X[:, j]]
    r = np.exp(log_rho - logsumexp(log_rho, axis=1, keepdims=True))
    given, most = r.argmax(axis=1), r.max(axis=1)
    n_clusters = stats.n_clusters
    table = np.zeros((n_clusters, n_clusters))
    np.add.at(table, (drawn, given), 1.0)
    size = np.bincount(given, minlength=n_clusters)
    sure = np.bincount(given, most > SURE, minlength=n_clusters)
    with np.errstate(invalid="ignore"):
        sure_of = sure / size
    lines = table / np.maximum(table.sum(axis=1, keepdims=True), 1.0)
    histogram, _ = np.histogram(most, bins=N_BINS, range=(0.0, 1.0))
    return Certainty(float((most > SURE).mean()), sure_of, lines, histogram / N_DRAWN)
