"""Sufficient statistics of a clustering: all that the model needs to know of the rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fedmerdel.sums.arrays import FloatArray, IntArray


class Sums(NamedTuple):
    """Sums over the rows, for each of K clusters. Additive over rows and over sites.

    Attributes
    ----------
    T : float64 array (K,)
        ``sum_n w_n r_nk``, the rows in each cluster.
    S : float64 array (K, M)
        ``sum_n w_n r_nk [x_nj = l]``, levels of one variable after those of the other.
    h : float64 array (K,)
        ``sum_n w_n r_nk ln r_nk``, the assignment entropy's share of each cluster.
    """

    T: FloatArray
    S: FloatArray
    h: FloatArray

    @property
    def n_clusters(self) -> int:
        """Clusters counted, empty ones included."""
        return len(self.T)

    def take(self, clusters: IntArray) -> Sums:
        """Return these clusters alone, in this order."""
        return Sums(self.T[clusters], self.S[clusters], self.h[clusters])

    def without(self, clusters: int | IntArray) -> Sums:
        """Return all clusters but one, or but some."""
        return self.take(np.delete(np.arange(self.n_clusters), clusters))

    def merged(self, a: int, b: int, overlap: float) -> Sums:
        """Return the statistics with cluster ``b`` poured into cluster ``a``.

        ``r_na + r_nb`` has the entropy term ``h_a + h_b + Q(a, b)``.
        """
        T, S, h = self.T.copy(), self.S.copy(), self.h.copy()
        T[a] += T[b]
        S[a] += S[b]
        h[a] += h[b] + overlap
        return Sums(T, S, h).without(b)

    def joined(self, other: Sums) -> Sums:
        """Return the clusters of both, these first."""
        return Sums(*(np.concatenate(pair) for pair in zip(self, other, strict=True)))
