"""Cuts through clusters, and what a split along one adds to the ELBO, exactly.

A cut gives each row of cluster k to its first half by ``s_nk = logistic(u_nk)``, u linear in
the row's levels, and the rest to its second half. The halves of a row's share r_nk are then
``r_nk s_nk`` and ``r_nk (1 - s_nk)``: the responsibilities of another clustering, whose ELBO
follows from the halves' counts and from their overlap ("blur")

    Q = sum_n w_n r_nk [ -s ln s - (1 - s) ln(1 - s) ]

So the gain of a split is known before it is made, and additive over sites. Judged by rows
that are wholly in a cluster, as with hard labels, overlapping clusters look as if there were
always something to split: their tails have been cut off.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import digamma

from fedmerdel.sums.arrays import FloatArray, IntArray
from fedmerdel.sums.elbo import cluster_evidence
from fedmerdel.sums.halves import FirstHalves, second_halves
from fedmerdel.sums.levels import expected_log_levels
from fedmerdel.sums.prior import Prior
from fedmerdel.sums.sums import Sums


class Cuts(NamedTuple):
    """A cut through each of K clusters: ``u_nk = offset[k] + sum_j direction[k, j x_nj]``.

    Attributes
    ----------
    offset : float64 array (K,)
        Log odds of the first half before a row is seen.
    direction : float64 array (K, M)
        What each level adds to them.
    """

    offset: FloatArray
    direction: FloatArray

    def take(self, clusters: IntArray) -> Cuts:
        """Return the cuts of these clusters, in this order."""
        return Cuts(self.offset[clusters], self.direction[clusters])


def split_gains(stats: Sums, first: FirstHalves, prior: Prior) -> FloatArray:
    """Return what splitting each cluster along its cut adds to the ELBO: (K,)."""
    halves = cluster_evidence(first.T, first.S, prior)
    halves = halves + cluster_evidence(*second_halves(stats, first), prior)
    return np.asarray(halves - cluster_evidence(stats.T, stats.S, prior) + first.blur)


def cuts_between(stats: Sums, first: FirstHalves, prior: Prior) -> Cuts:
    """Return the cuts that an E step inside each cluster makes between these halves."""
    second_T, second_S = second_halves(stats, first)
    one, other = (
        prior.explained(expected_log_levels(prior.posterior(S), prior.offsets))
        for S in (first.S, second_S)
    )
    offset = digamma(prior.alpha + first.T) - digamma(prior.alpha + second_T)
    return Cuts(np.asarray(offset), np.asarray(one - other))
