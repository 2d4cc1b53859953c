"""The ELBO from sufficient statistics, and what a merge would add to it.

With q(pi) and q(phi) at their optimum for the statistics, the seven terms of
appendix D.2 collapse to (proposition 1 of docs/explanation/method.md)

    ELBO = ln B(alpha*) - ln B(alpha0) + sum_kj [ln B(eps*_kj) - ln B(eps_j)] - sum_k h_k

which is a constant plus one term per cluster; an empty cluster's term is 0. So a
move changes only the terms of the clusters that it touches. What a fit learns of the
prior adds terms of its own, kept with the prior.
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln

from fedmerdel.sums.arrays import FloatArray, IntArray
from fedmerdel.sums.prior import Prior
from fedmerdel.sums.special import ln_beta, ln_beta_joined, paired_ln_betas
from fedmerdel.sums.sums import Sums


def elbo(stats: Sums, prior: Prior) -> float:
    """Return the evidence lower bound in nats."""
    alpha_total = prior.n_components * prior.alpha
    constant = gammaln(alpha_total) - gammaln(alpha_total + stats.T.sum())
    clusters = np.sum(cluster_evidence(stats.T, stats.S, prior) - stats.h)
    return float(constant + clusters + prior.constant)


def cluster_evidence(T: FloatArray, S: FloatArray, prior: Prior) -> FloatArray:
    """Return each cluster's share of the ELBO before its entropy, 0 for an empty one.

    ``ln G(alpha0 + T) - ln G(alpha0) + sum_j [ln B(eps_j + S_j) - ln B(eps_j)]``
    """
    weight = gammaln(prior.alpha + T) - gammaln(prior.alpha)
    levels = ln_beta(prior.posterior(S), prior.offsets) - ln_beta(prior.eps, prior.offsets)
    return np.asarray(weight + levels)


def joined_evidence(
    T: float, S: FloatArray, others: Sums, rows: IntArray, sign: FloatArray, prior: Prior
) -> FloatArray:
    """Return the evidence of one cluster with each of some others added, or taken out.

    What `cluster_evidence` says of their sums, without a table of these.

    Parameters
    ----------
    T, S : float, float64 array (M,)
        The cluster.
    others : Sums
        Of which some are added.
    rows : int64 array (Z,)
        Which.
    sign : float64 array (Z,)
        1 to add, -1 to take out; counts stay at least 0.
    prior : Prior
        Of them all.
    """
    weight = gammaln(prior.alpha + np.maximum(T + sign * others.T[rows], 0.0))
    weight -= gammaln(prior.alpha)
    explained = prior.explained(np.ones(len(prior.eps)))
    levels = ln_beta_joined(S, others.S, rows, sign, prior.eps, explained, prior.offsets)
    return np.asarray(weight + (levels - ln_beta(prior.eps, prior.offsets)))


def merge_gains(stats: Sums, prior: Prior, pairs: IntArray, overlap: FloatArray) -> FloatArray:
    """Return what merging each pair of clusters adds to the ELBO, responsibilities summed.

    Parameters
    ----------
    stats : Sums
        The clusters.
    prior : Prior
        Their prior.
    pairs : int64 array (Z, 2)
        The clusters of each pair.
    overlap : float64 array (Z,)
        ``Q(a, b) = sum_n w_n g(r_na, r_nb)``; an upper bound of it gives a lower
        bound of the gain, and 0 an upper bound.
    """
    a, b = pairs.T
    single = cluster_evidence(stats.T, stats.S, prior)
    S, explained = np.ascontiguousarray(stats.S), prior.explained(np.ones(len(prior.eps)))
    levels = paired_ln_betas(S, np.ascontiguousarray(pairs), prior.eps, explained, prior.offsets)
    both = gammaln(prior.alpha + stats.T[a] + stats.T[b]) - gammaln(prior.alpha)
    both += levels - ln_beta(prior.eps, prior.offsets)
    return np.asarray(both - single[a] - single[b] - overlap)


def all_pairs(n_clusters: int) -> IntArray:
    """Return every pair (a, b) with a < b as an int64 array (Z, 2)."""
    return np.stack(np.triu_indices(n_clusters, k=1), axis=1).astype(np.int64)
