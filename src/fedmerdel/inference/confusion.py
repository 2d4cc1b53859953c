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
from fedmerdel.sums.levels import sum_levels
from fedmerdel.sums.predictive import draw
from fedmerdel.sums.prior import Prior
from fedmerdel.sums.sums import Sums

LEAST_DRAWN, MOST_DRAWN = 8_000, 80_000
"""Rows to draw, at least and at most: what is left to chance in D is small beside real rows."""

OFTEN = 10
"""Rows to draw for each real one, between these: few rows are not worth many."""

ENTRIES = 6_000_000
"""Entries of all rows drawn, at most: memory. Where variables are many, rows are sure anyway."""

AT_SITES = 2_000_000
"""Rows given to clusters at all sites together, at most, where there are many sites."""


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

    def said_of(self, log_levels: FloatArray) -> FloatArray:
        """Return what their levels say of clusters with these (G, M): (K, n, G).

        It is the same for all sites that give rows to clusters with the same levels.
        """
        said = np.vstack([log_levels.T, np.zeros(len(log_levels))])
        found = np.zeros((*self.levels.shape[:2], len(log_levels)))
        for j in range(self.levels.shape[2]):
            found += said[self.levels[:, :, j]]
        return found


def confusion_of(said: FloatArray, log_weights: FloatArray) -> Confusion:
    """Return how rows are counted in clusters with these weights, by what their levels say.

    Parameters
    ----------
    said : float64 array (K, n, G)
        What `MadeUp.said_of` returned.
    log_weights : float64 array (G,)
        Of the clusters that a site has counted in.
    """
    shares = [softmax(rows + log_weights, axis=1) for rows in said]
    return Confusion(
        np.stack([r.mean(axis=0) for r in shares], axis=1),
        np.stack([r.T @ r / len(r) for r in shares]),
    )


def make_up(stats: Sums, prior: Prior, n_sites: int) -> MadeUp:
    """Draw rows from the clusters, the same every time, for so many sites.

    Entries are missing as often as in the cluster.
    """
    rng = np.random.default_rng(0)
    K, offsets = stats.n_clusters, prior.offsets
    wanted = min(OFTEN * float(stats.T.sum()), ENTRIES / (len(offsets) - 1))
    by_size = np.clip(wanted, LEAST_DRAWN, MOST_DRAWN)
    each = int(max(min(by_size, AT_SITES / n_sites) / K, 100))
    observed = sum_levels(stats.S, offsets) / np.maximum(stats.T, 1e-300)[:, None]
    found = []
    for k in range(K):
        X, _ = draw(stats.take(np.array([k])), prior, each, rng)
        missing = rng.random(X.shape) >= observed[k]
        found.append(np.where(missing, offsets[-1], offsets[:-1] + X))
    return MadeUp(np.stack(found))
