"""What deleting a cluster adds to the ELBO at least, and what its q(phi) and q(pi) cost."""

from __future__ import annotations

import numpy as np
from scipy.special import digamma

from fedmerdel.sums.arrays import FloatArray
from fedmerdel.sums.expectations import expectations
from fedmerdel.sums.prior import Prior
from fedmerdel.sums.special import ln_beta
from fedmerdel.sums.sums import Sums


def delete_gains(stats: Sums, prior: Prior, cost: FloatArray) -> FloatArray:
    """Return for each cluster what its deletion adds to the ELBO at least.

    The bound holds q of the other clusters fixed: the rows lose ``ln(1 - r_nk)``, the
    cluster's own q(phi) costs nothing any more, and the weights are shared by fewer.

    Parameters
    ----------
    stats : Sums
        The clusters.
    prior : Prior
        Their prior.
    cost : float64 array (K,)
        ``sum_n w_n ln(1 - r_nk)`` for the responsibilities that the statistics lead to. (A
        row's loss counts for 700 nats at most: no cluster with such rows is a candidate.)
    """
    without = np.array([kl_weights(np.delete(stats.T, k), prior) for k in range(len(stats.T))])
    weights = kl_weights(stats.T, prior) - without
    alpha_total = prior.n_components * prior.alpha + stats.T.sum()
    shared = stats.T.sum() * (digamma(alpha_total) - digamma(alpha_total - stats.T))
    return np.asarray(cost + kl_levels(stats, prior) + weights + shared)


def kl_levels(stats: Sums, prior: Prior) -> FloatArray:
    """KL(q(phi_k) || p(phi_k)) of each cluster, summed over the variables."""
    theta = expectations(stats, prior)
    phi = ln_beta(prior.eps, prior.offsets) - ln_beta(prior.posterior(stats.S), prior.offsets)
    return np.asarray(phi + np.sum(stats.S * theta.log_levels, axis=1))


def kl_weights(T: FloatArray, prior: Prior) -> float:
    """KL(q(pi) || p(pi)) of Dirichlets with the empty components left in."""
    alpha = np.full(prior.n_components, prior.alpha)
    counts = np.zeros(prior.n_components)
    counts[: len(T)] = T
    offsets = np.array([0, prior.n_components])
    log_weights = digamma(alpha + counts) - digamma((alpha + counts).sum())
    kl = ln_beta(alpha, offsets) - ln_beta(alpha + counts, offsets) + np.sum(counts * log_weights)
    return float(kl)
