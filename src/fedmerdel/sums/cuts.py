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
from numpy.typing import NDArray
from scipy.special import digamma

from fedmerdel.sums.arrays import FloatArray, IntArray
from fedmerdel.sums.elbo import cluster_evidence
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


class FirstHalves(NamedTuple):
    """Counts of the first half of each cluster; the cluster's own leave the second.

    Attributes
    ----------
    T : float64 array (K,)
        Rows.
    S : float64 array (K, M)
        Rows at each level.
    blur : float64 array (K,)
        The overlap Q of the two halves; a lower bound of it gives one of the gain.
    """

    T: FloatArray
    S: FloatArray
    blur: FloatArray

    def take(self, clusters: IntArray) -> FirstHalves:
        """Return the halves of these clusters, in this order."""
        return FirstHalves(self.T[clusters], self.S[clusters], self.blur[clusters])

    def where(self, chosen: NDArray[np.bool_], others: FirstHalves) -> FirstHalves:
        """Return these halves of the chosen clusters, and the others' of the rest."""
        return FirstHalves(
            np.where(chosen, self.T, others.T),
            np.where(chosen[:, None], self.S, others.S),
            np.where(chosen, self.blur, others.blur),
        )

    def both(self, stats: Sums, chosen: IntArray) -> Sums:
        """Return both halves of the chosen clusters: all first ones, then all second ones.

        A cluster's entropy term loses the blur; its halves share the rest by their rows.
        """
        first, stats = self.take(chosen), stats.take(chosen)
        second_T, second_S = second_halves(stats, first)
        by_row = (stats.h - first.blur) / np.maximum(first.T + second_T, 1e-300)
        second = Sums(second_T, second_S, by_row * second_T)
        return Sums(first.T, first.S, by_row * first.T).joined(second)

    def divide(self, stats: Sums, chosen: IntArray) -> Sums:
        """Return the clusters with the chosen ones replaced by their halves, which go last."""
        in_turn = np.arange(2 * len(chosen)).reshape(2, -1).T.ravel()
        return stats.without(chosen).joined(self.both(stats, chosen).take(in_turn))


def second_halves(stats: Sums, first: FirstHalves) -> tuple[FloatArray, FloatArray]:
    """Return T and S of what the first halves leave of the clusters."""
    return np.maximum(stats.T - first.T, 0.0), np.maximum(stats.S - first.S, 0.0)


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
