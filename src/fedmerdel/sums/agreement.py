"""How well several clusterings of the same rows agree: from labels alone.

``starts`` holds one clustering a line, ``starts[s, n]`` the cluster of row n, numbered from 0.
A row counts by its weight, which for variation of information is above 0. No measure depends
on which number a cluster has.
"""

from __future__ import annotations

import numpy as np
from scipy.special import xlogy

from fedmerdel.sums.arrays import FloatArray, IntArray

BITS = float(np.log(2.0))
"""Nats of a bit: variation of information is told in bits, as its authors do."""


SURVIVED = 0.75
"""Jaccard similarity from which a cluster counts as found again (Hennig 2007)."""


def weight_in(labels: IntArray, weights: FloatArray, n_clusters: int = 0) -> FloatArray:
    """Return the weight of the rows in each cluster."""
    return np.bincount(labels, weights, n_clusters).astype(np.float64, copy=False)


def contingency(first: IntArray, second: IntArray, weights: FloatArray) -> FloatArray:
    """Return the weight of the rows in each cluster of one and of the other: (K, L)."""
    n_first, n_second = int(first.max()) + 1, int(second.max()) + 1
    joint = weight_in(first * n_second + second, weights, n_first * n_second)
    return joint.reshape(n_first, n_second)


def jaccard(shared: FloatArray) -> FloatArray:
    """Return weight in both over weight in either, for a contingency table: (K, L)."""
    either = shared.sum(axis=1)[:, None] + shared.sum(axis=0)[None, :] - shared
    return shared / np.where(either > 0, either, 1.0)


def adjusted_rand(shared: FloatArray) -> float:
    """Return the adjusted Rand index of a contingency table (Hubert and Arabie 1985).

    1 where both clusterings are the same, 0 on average where they have nothing to do with each
    other. Weights are taken for numbers of rows.
    """
    total = float(shared.sum())
    together, first, second, every = (
        float((part * (part - 1.0)).sum())
        for part in (shared, shared.sum(axis=1), shared.sum(axis=0), np.array([total]))
    )
    by_chance = first * second / every if every else 0.0
    most = (first + second) / 2
    return 1.0 if most == by_chance else (together - by_chance) / (most - by_chance)


def best_jaccard(labels: IntArray, starts: IntArray, weights: FloatArray) -> FloatArray:
    """Return how alike each cluster is to the most alike one of each start: (S, K).

    1 where a start has the very same cluster (Hennig 2007, clusterwise stability).
    """
    return np.array([jaccard(contingency(labels, s, weights)).max(axis=1) for s in starts])


def most_alike(
    labels: IntArray, other: IntArray, weights: FloatArray, n_clusters: int
) -> tuple[FloatArray, IntArray]:
    """Return how alike each cluster is to the most alike one of another clustering, and which.

    Above a half no two clusters have the same one: it would hold more than half of its rows of
    both. A cluster without rows is like none: 0.
    """
    alike = jaccard(contingency(labels, other, weights))
    likeness, which = np.zeros(n_clusters), np.zeros(n_clusters, dtype=np.int64)
    likeness[: len(alike)], which[: len(alike)] = alike.max(axis=1), alike.argmax(axis=1)
    return likeness, which


def similarity(starts: IntArray) -> FloatArray:
    """Return the share of starts in which two rows are together: (N, N).

    Over draws of a posterior this is its similarity matrix (Wade and Ghahramani 2018).
    """
    together = np.zeros((starts.shape[1], starts.shape[1]))
    for labels in starts:
        together += labels[:, None] == labels[None, :]
    return together / len(starts)


def expected_vi(labels: IntArray, starts: IntArray, weights: FloatArray) -> float:
    """Return the mean variation of information between labels and the starts, in bits."""
    return float(np.mean([_variation(contingency(labels, s, weights)) for s in starts]))


def vi_lower_bound(labels: IntArray, starts: IntArray, weights: FloatArray) -> float:
    """Return the bound of `expected_vi` from below that needs the similarity matrix alone.

    Equation 13 of Wade and Ghahramani (2018), with rows weighed and with the term that does
    not depend on the labels as it is, not bounded: so 0 where all starts agree.
    """
    sizes = [np.log(weight_in(s, weights)[s]) for s in starts]
    spread = weights @ np.mean(sizes, axis=0)
    return float((spread + label_loss(labels, similarity(starts), weights)) / weights.sum() / BITS)


def label_loss(labels: IntArray, together: FloatArray, weights: FloatArray) -> float:
    """Return the part of the lower bound that depends on the labels, in nats of all rows.

    ``sum_n w_n [ ln T_n - 2 ln sum_m w_m P_nm [m with n] ]``, with T_n the weight of n's cluster.
    """
    members = np.zeros((len(labels), int(labels.max()) + 1))
    members[np.arange(len(labels)), labels] = weights
    near = (together @ members)[np.arange(len(labels)), labels]
    total = weight_in(labels, weights)
    return float(xlogy(total, total).sum() - 2.0 * (weights @ np.log(near)))


def shares(labels: IntArray, starts: IntArray, weights: FloatArray) -> FloatArray:
    """Return the share of starts that put a row into each cluster of the labels: (N, K).

    A start's cluster stands for the cluster of the labels that holds most of its weight, the
    first of equals.
    """
    votes = np.zeros((len(labels), int(labels.max()) + 1))
    for s in starts:
        stands_for = contingency(labels, s, weights).argmax(axis=0)
        votes[np.arange(len(labels)), stands_for[s]] += 1.0
    return votes / len(starts)


def by_size(labels: IntArray, weights: FloatArray) -> IntArray:
    """Return the labels numbered anew, the heaviest cluster first, without empty ones."""
    found, numbered = np.unique(labels, return_inverse=True)
    order = np.argsort(-weight_in(numbered, weights), kind="stable")
    rank = np.empty(len(found), dtype=np.int64)
    rank[order] = np.arange(len(found))
    return rank[numbered]


def _variation(shared: FloatArray) -> float:
    """Return the variation of information of a contingency table: 2 H(both) - H - H."""
    share = shared / shared.sum()
    first, second = share.sum(axis=1), share.sum(axis=0)
    entropies = [-float(xlogy(p, p).sum()) for p in (share, first, second)]
    return max((2.0 * entropies[0] - entropies[1] - entropies[2]) / BITS, 0.0)
