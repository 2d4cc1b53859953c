"""Clusters that lie between two others, as rows of both would if they were counted as one.

A cluster of rows of two kinds has levels on the line between theirs. A fit of that many rows
tells the kinds apart as soon as that adds to the ELBO, so whoever finds both of them elsewhere
may ask why they are one here. A cluster of a third kind is hardly ever on that line: where kinds
have nothing to do with each other, its distance from the line is still three quarters of that
from the nearest of them (squared).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import entr

from fedmerdel.sums.arrays import FloatArray, IntArray
from fedmerdel.sums.elbo import cluster_evidence
from fedmerdel.sums.levels import level_means, level_totals
from fedmerdel.sums.prior import Prior
from fedmerdel.sums.sums import Sums


class Between(NamedTuple):
    """The line between two of some other clusters that each of K clusters is nearest to.

    Attributes
    ----------
    off : float64 array (K,)
        Squared distance from the line, over that from the nearest of the others. Distances are
        those of chi-square, with the others' levels as expected; 1 where there is no line.
    weight : float64 array (K,)
        Where on the line: 0 and 1 are its ends.
    gain : float64 array (K,)
        Nats that it would add to the ELBO to split the cluster into its parts of the two, at
        least, were it made of them.
    """

    off: FloatArray
    weight: FloatArray
    gain: FloatArray


def between(clusters: Sums, others: Sums, prior: Prior) -> Between:
    """Return how far each cluster lies between two of the others.

    Parameters
    ----------
    clusters : Sums
        Whose T and S are looked at; none is empty.
    others : Sums
        The clusters that they may lie between.
    prior : Prior
        Of them all.
    """
    offsets = prior.offsets
    phi = level_means(prior.posterior(others.S), offsets)
    expected = level_means(prior.posterior(others.S.sum(axis=0)), offsets)
    own = level_means(prior.posterior(clusters.S), offsets)
    seen = level_totals(clusters.S, offsets) / np.maximum(clusters.T, 1e-300)[:, None]
    found = []
    for k in range(clusters.n_clusters):
        # Entries that are missing tell nothing.
        off, weight, pair = _nearest_line((phi - own[k]) * np.sqrt(seen[k] / expected))
        gain = -np.inf
        if len(pair):
            gain = _split_gain(clusters.T[k], clusters.S[k], phi[pair], weight, seen[k], prior)
        found.append((off, weight, gain))
    return Between(*np.array(found).reshape(-1, 3).T)


def _nearest_line(apart: FloatArray) -> tuple[float, float, IntArray]:
    """Return how far the origin is from the nearest line between two points (G, M), and where."""
    if len(apart) < 2:
        return 1.0, 0.0, np.empty(0, dtype=np.int64)
    gram = apart @ apart.T
    from_ends = np.diag(gram)[:, None]
    length = np.maximum(from_ends + from_ends.T - 2.0 * gram, 1e-300)
    weight = np.clip((from_ends - gram) / length, 0.0, 1.0)
    off = from_ends - 2.0 * weight * (from_ends - gram) + weight**2 * length
    off[np.tril_indices(len(off))] = np.inf
    a, b = np.unravel_index(off.argmin(), off.shape)
    share = max(float(off[a, b]), 0.0) / max(float(from_ends.min()), 1e-300)
    return share, float(weight[a, b]), np.array([a, b])


def _split_gain(
    T: float, S: FloatArray, phi: FloatArray, weight: float, seen: FloatArray, prior: Prior
) -> float:
    """Return at least what splitting a cluster adds to the ELBO if its rows are of two kinds.

    The parts take their shares of each level. The blur is what a row leaves unknown of its kind,
    ``H(weights) - I``, and I, what it tells, is at most
    ``-sum_a w_a ln sum_b w_b exp(-KL(a || b))``, since a logarithm of a sum of exponentials is
    convex.
    """
    w = np.array([1.0 - weight, weight])
    parts = w[:, None] * phi
    mixed = parts.sum(axis=0)
    apart = np.einsum("am,abm,m->ab", phi, np.log(phi[:, None] / phi[None, :]), seen)
    told = -float(w @ np.log(np.maximum(np.exp(-apart) @ w, 1e-300)))
    blur = T * max(float(entr(w).sum()) - told, 0.0)
    shares = parts / mixed
    whole = np.append(T * w, T), np.vstack([S * shares, S])
    first, second, one = cluster_evidence(*whole, prior)
    return float(first + second - one) + blur
