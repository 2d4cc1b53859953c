"""What each cluster is worth: by how much the ELBO falls without it.

It can be merged with another cluster, or deleted, so that each row goes where it fits best: what
loses less counts. A merge with a much smaller cluster does not do away with it, but with the
other: what comes of it is the same cluster still, by the measure of `stability`.

The gain of a merge needs the rows, for the two clusters may share some (proposition 2), and what
sites tell of that is a bound, at responsibilities that differ from site to site. So it is asked
of made-up rows. With q(pi) and q(phi) of the clusters at hand, and r at its optimum for these, the
ELBO is ``sum_n ln sum_k rho_nk`` less the divergences of q from the prior (as for proposition 3).
A merge changes the rho and the divergences of its two clusters alone; proposition 3 is a deletion.

Rows are drawn with the levels that the clusters' counts have, not with posterior means: what
counts add to a log probability then is what they add for the rows that were counted.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import digamma, logsumexp

from fedmerdel.inference.confusion import make_up
from fedmerdel.sums.agreement import SURVIVED
from fedmerdel.sums.arrays import FloatArray, IntArray
from fedmerdel.sums.divergence import delete_gains, kl_levels, kl_weights
from fedmerdel.sums.elbo import all_pairs, merge_gains
from fedmerdel.sums.expectations import expectations
from fedmerdel.sums.prior import Prior
from fedmerdel.sums.sums import Sums

N_PARTNERS = 3
"""Merges that are looked at for each cluster: those that would lose least if no row were shared."""

TOUCHED = 1e-4
"""Share in two clusters from which a row of another takes notice of their merge."""

NEXT_TO_NOTHING = 1e-6
"""Share of the prior that is left where rows are drawn with the levels that counts have."""


class ClusterWorth(NamedTuple):
    """What each of K clusters is worth.

    Attributes
    ----------
    nats : float64 array (K,)
        About how much lower the ELBO is without the cluster: merged with the one with which it
        loses least, or its rows given to all others. Below 0, it would rather be gone.
    error : float64 array (K,)
        Standard error of that, since it is asked of made-up rows.
    partner : int64 array (K,)
        The cluster that it would be merged with, or that most of its rows would go to.
    """

    nats: FloatArray
    error: FloatArray
    partner: IntArray


def cluster_worth(stats: Sums, prior: Prior) -> ClusterWorth | None:
    """Return what clusters are worth, from their sums alone; None of a single one.

    Parameters
    ----------
    stats : Sums
        The clusters.
    prior : Prior
        Under which rows are given to them.
    """
    K = stats.n_clusters
    if K < 2:
        return None
    rows = make_up(stats, prior._replace(eps=NEXT_TO_NOTHING * prior.eps), 1)
    theta = expectations(stats, prior)
    log_rho = rows.said_of(theta.log_levels) + theta.log_weights
    evidence = logsumexp(log_rho, axis=2)
    r = np.exp(log_rho - evidence[:, :, None])
    each = stats.T / evidence.shape[1]  # rows that a made-up one stands for
    pairs = _promising(stats, prior)
    merged = Sums(stats.T[pairs].sum(axis=1), stats.S[pairs].sum(axis=1), np.zeros(len(pairs)))
    # With a level more, which a missing entry has.
    log_levels = np.pad(expectations(merged, prior).log_levels, ((0, 0), (0, 1)))
    total = prior.n_components * prior.alpha + stats.T.sum()
    log_weights = digamma(prior.alpha + merged.T) - digamma(total)
    saved = kl_levels(stats, prior)[pairs].sum(axis=1) - kl_levels(merged, prior)
    whole = kl_weights(stats.T, prior)
    worth = _deleted(stats, prior, log_rho, each)
    for z, (a, b) in enumerate(pairs.tolist()):
        here = r[:, :, a] + r[:, :, b] > TOUCHED
        here[[a, b]] = True
        said = log_levels[z][rows.levels[here]].sum(axis=1) + log_weights[z] - evidence[here]
        with np.errstate(divide="ignore"):
            others = np.log(np.maximum(1.0 - r[here][:, a] - r[here][:, b], 0.0))
        change = np.zeros(evidence.shape)
        change[here] = np.logaddexp(others, said)
        left = kl_weights(np.append(np.delete(stats.T, [a, b]), merged.T[z]), prior)
        lost = -float(each @ change.sum(axis=1) + saved[z] + whole - left)
        for k, partner in ((a, b), (b, a)):
            gone = stats.T[k] < SURVIVED * merged.T[z]
            if gone and lost < worth.nats[k]:
                worth.nats[k], worth.partner[k] = lost, partner
                worth.error[k] = _error(change, each)
    return worth


def _deleted(stats: Sums, prior: Prior, log_rho: FloatArray, each: FloatArray) -> ClusterWorth:
    """Return what clusters lose whose rows go wherever they fit best (proposition 3)."""
    K = stats.n_clusters
    cost, error, partner = np.empty(K), np.empty(K), np.empty(K, dtype=np.int64)
    evidence = logsumexp(log_rho, axis=2)
    for k in range(K):
        r = np.exp(log_rho[:, :, k] - evidence)
        change, mine = np.log1p(-np.minimum(r, 0.5)), r > 0.5
        # Of a row that is sure, 1 - r is rounding: what the others say of it is not.
        change[mine] = logsumexp(np.delete(log_rho[mine], k, axis=1), axis=1) - evidence[mine]
        cost[k], error[k] = each @ change.sum(axis=1), _error(change, each)
        most = np.bincount(np.delete(log_rho[k], k, axis=1).argmax(axis=1)).argmax()
        partner[k] = most + (most >= k)
    return ClusterWorth(-delete_gains(stats, prior, cost), error, partner)


def _error(change: FloatArray, each: FloatArray) -> float:
    """Return the standard error of a sum over made-up rows."""
    return float(np.sqrt(each**2 @ change.var(axis=1) * change.shape[1]))


def _promising(stats: Sums, prior: Prior) -> IntArray:
    """Return the pairs that would lose least if they shared no row, a few of each cluster."""
    pairs = all_pairs(stats.n_clusters)
    gains = merge_gains(stats, prior, pairs, np.zeros(len(pairs)))
    chosen: set[int] = set()
    for k in range(stats.n_clusters):
        own = np.flatnonzero((pairs == k).any(axis=1))
        chosen.update(own[np.argsort(-gains[own], kind="stable")[:N_PARTNERS]].tolist())
    return pairs[sorted(chosen)]
