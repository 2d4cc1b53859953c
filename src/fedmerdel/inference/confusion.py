"""How clusters are taken for each other, asked of rows that a model makes up.

A row of cluster k is counted in cluster g of a site by a share r_g, on average ``D_gk = E[r_g | z =
k]``. The rows are drawn once from the common clusters, as many from each, and given to clusters
as the site does it: in a round to those sent out; before the first merge to the common ones, with
the site's own weights, as if its local clusters had their levels.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import softmax

from fedmerdel.sums.arrays import FloatArray, IntArray
from fedmerdel.sums.expectations import Expectations
from fedmerdel.sums.levels import sum_levels
from fedmerdel.sums.predictive import draw
from fedmerdel.sums.prior import Prior
from fedmerdel.sums.sums import Sums

LEAST_DRAWN, MOST_DRAWN, DRAWN = 8_000, 40_000, 1_000
"""Rows to draw: this many of each cluster, but in all no fewer and hardly more than these."""


class Confusion(NamedTuple):
    """How rows of each of K clusters are counted in G clusters of a site.

    Attributes
    ----------
    mean : float64 array (G, K)
        D: the mean share in each cluster, a line, of the rows of each, a column.
    products : float64 array (K, G, G)
        The mean of r r' of the rows of each.
    """

    mean: FloatArray
    products: FloatArray


class MadeUp(NamedTuple):
    """Rows drawn from the clusters, as many from each.

    Attributes
    ----------
    levels : int64 array (K, n, P)
        Where each entry's level is among all M levels; M if the entry is missing.
    """

    levels: IntArray

    def confusion(self, theta: Expectations) -> Confusion:
        """Return how they are counted by whoever gives rows to clusters so."""
        said = np.vstack([theta.log_levels.T, np.zeros(theta.n_clusters)])
        means, products = [], []
        for rows in self.levels:
            log_rho = np.tile(theta.log_weights, (len(rows), 1))
            for column in rows.T:
                log_rho += said[column]
            r = softmax(log_rho, axis=1)
            means.append(r.mean(axis=0))
            products.append(r.T @ r / len(r))
        return Confusion(np.stack(means, axis=1), np.stack(products))


def make_up(stats: Sums, prior: Prior) -> MadeUp:
    """Draw rows from the clusters, the same every time.

    Entries are missing as often as in the cluster.
    """
    rng = np.random.default_rng(0)
    K, offsets = stats.n_clusters, prior.offsets
    each = int(np.clip(DRAWN, LEAST_DRAWN / K, max(MOST_DRAWN / K, 100)))
    observed = sum_levels(stats.S, offsets) / np.maximum(stats.T, 1e-300)[:, None]
    found = []
    for k in range(K):
        X, _ = draw(stats.take(np.array([k])), prior, each, rng)
        missing = rng.random(X.shape) >= observed[k]
        found.append(np.where(missing, offsets[-1], offsets[:-1] + X))
    return MadeUp(np.stack(found))
