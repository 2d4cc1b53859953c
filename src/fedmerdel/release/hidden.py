"""Counts that disclosure control has hidden, filled with what is expected of them.

A released 0 stands for fewer than s rows. Taken for none, it makes the next clusters sure
that the level does not occur there; rows that have it leave, the count falls further, and
round by round the model drifts away from the rows. So the centre takes it for what it
is, a count that was cut off: with the clusters that it sent out, a cell of T rows has about
Poisson(lambda) of them, lambda = T phi, and given that they are fewer than s,

    E[X | X < s] = lambda P(X < s - 1) / P(X < s)

which is the E step of EM for censored counts. The site has added hidden rows to the
variable's largest cell, from which they are taken.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from scipy.special import gammaln, xlogy

from fedmerdel.release.cells import with_missing
from fedmerdel.sums.arrays import BoolArray, FloatArray, IntArray
from fedmerdel.sums.expectations import Expectations
from fedmerdel.sums.levels import level_means, level_shares
from fedmerdel.sums.sums import Sums

STEPS = 10
"""Of EM for the shares of levels with hidden counts: they settle in fewer."""


def expected_below(mean: FloatArray, limit: int) -> FloatArray:
    """Return ``E[X | X < limit]`` of a Poisson count with this mean."""
    if limit < 2:
        return np.zeros_like(mean)
    x = np.arange(limit)
    # Relative to the largest weight: a large mean makes each of them 0.
    log_weight = xlogy(x, mean[..., None]) - gammaln(x + 1)
    weight = np.exp(log_weight - log_weight.max(axis=-1, keepdims=True))
    return np.asarray((weight * x).sum(axis=-1) / weight.sum(axis=-1))


def filled_alike(stats: Sums, offsets: IntArray, limit: int, smallest: int) -> Sums:
    """Return counts with the hidden ones filled in as if all clusters had the same levels.

    Whether a variable tells clusters apart must not be read off zeros: a rare level is hidden in
    small clusters and told in large ones, also where it is as rare in all. With these counts a
    variable differs between clusters as little as what was released allows.
    """
    found, none = stats, np.zeros(stats.n_clusters, dtype=bool)
    with np.errstate(divide="ignore"):
        log_weights = np.log(stats.T)
    for _ in range(STEPS):
        with np.errstate(divide="ignore"):
            alike = np.log(level_shares(found.S, offsets))
        theta = Expectations(log_weights, np.tile(alike, (stats.n_clusters, 1)))
        found = filled(stats, theta, offsets, none, limit, smallest)
    return found


def filled(
    stats: Sums,
    theta: Expectations,
    offsets: IntArray,
    alive: BoolArray,
    limit: int,
    smallest: int,
) -> Sums:
    """Return a site's counts with the hidden ones filled in.

    Parameters
    ----------
    stats : Sums
        As released.
    theta : Expectations
        What is known of these clusters.
    offsets : int64 array (P + 1,)
        Where each variable's levels start.
    alive : bool array (K,)
        Clusters that some site has told of: others are not filled.
    limit : int
        A cell of fewer rows was released as 0.
    smallest : int
        A cluster of fewer rows was left out, with its rows.
    """
    phi = level_means(np.exp(theta.log_levels), offsets)
    T, S = stats.T.copy(), stats.S.copy()
    told = np.flatnonzero(T > 0)
    for start, end in pairwise(offsets):
        cells = with_missing(T[told], stats.S[told, start:end])
        observed = cells[:, :-1].sum(axis=1, keepdims=True)
        hidden = np.zeros_like(cells)
        expected = expected_below(observed * phi[told, start:end], limit)
        hidden[:, :-1] = np.where(cells[:, :-1] == 0, expected, 0.0)
        # The largest cell has lost nothing, and keeps half of what it was told to have.
        rows, largest = np.arange(len(told)), cells.argmax(axis=1)
        total = hidden.sum(axis=1)
        given = np.minimum(total, cells[rows, largest] / 2)
        cells += hidden * (given / np.maximum(total, 1e-300))[:, None]
        cells[rows, largest] -= given
        S[told, start:end] = cells[:, :-1]
    small = np.flatnonzero((T == 0) & alive)
    share = np.exp(theta.log_weights - np.logaddexp.reduce(theta.log_weights))
    # Sites differ in their shares: one that should have many rows may well have none.
    most = (smallest - 1) / 2
    T[small] = np.minimum(expected_below(stats.T.sum() * share[small], smallest), most)
    S[small] = T[small, None] * phi[small]
    return stats._replace(T=T, S=S)
