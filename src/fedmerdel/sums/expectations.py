"""Expected log parameters under q(pi) and q(phi): what an E step reads (appendix E.2)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import digamma

from fedmerdel.sums.arrays import FloatArray, IntArray
from fedmerdel.sums.levels import expected_log_levels
from fedmerdel.sums.prior import Prior
from fedmerdel.sums.sums import Sums


class Expectations(NamedTuple):
    """``ln rho_nk = log_weights[k] + sum_j log_levels[k, j x_nj]`` (equation rhodef).

    Attributes
    ----------
    log_weights : float64 array (K,)
        ``E[ln pi_k]``.
    log_levels : float64 array (K, M)
        ``E[ln phi_kjl]``.
    """

    log_weights: FloatArray
    log_levels: FloatArray

    @property
    def n_clusters(self) -> int:
        """Clusters that rows may be given to."""
        return len(self.log_weights)

    def take(self, clusters: IntArray) -> Expectations:
        """Return these clusters alone, in this order."""
        return Expectations(self.log_weights[clusters], self.log_levels[clusters])


def expectations(stats: Sums, prior: Prior) -> Expectations:
    """M step and expectations: alpha* = alpha0 + T, eps* = eps + S (equation epsdef)."""
    log_levels = expected_log_levels(prior.posterior(stats.S), prior.offsets)
    # The background's part of a row (equation rhodef2) is the same in every cluster.
    return Expectations(expected_log_weights(stats.T, prior), prior.explained(log_levels))


def expected_log_weights(T: FloatArray, prior: Prior) -> FloatArray:
    """Return ``E[ln pi_k]`` (equation Epi).

    The total of alpha* counts the empty components too: they are in the prior.
    """
    alpha_total = prior.n_components * prior.alpha + T.sum()
    return np.asarray(digamma(prior.alpha + T) - digamma(alpha_total))
