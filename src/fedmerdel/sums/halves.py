"""Halves of clusters: the counts of one of them, which leave those of the other."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fedmerdel.sums.arrays import BoolArray, FloatArray, IntArray
from fedmerdel.sums.sums import Sums


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

    def where(self, chosen: BoolArray, others: FirstHalves) -> FirstHalves:
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
