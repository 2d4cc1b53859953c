"""Sums of a clustering: all that the model needs to know of the rows.

One type from the first pass over rows to the model: sums that leave a site, that the centre
adds up, and that stand for people behind them are all `Sums`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from fedmerdel.sums.arrays import FloatArray, IntArray

NOT_COUNTED: FloatArray = np.empty((0, 0))
"""The overlaps of sums that nobody has counted overlaps of."""


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
    Q : float64 array (K, K)
        ``sum_n w_n g(r_na, r_nb)``, how much two clusters overlap, symmetric with 0 on its
        diagonal; of no size where it was not counted.
    outcomes : mapping of str to float64 array (K, C)
        Rows in each of the C cells of what is counted beside the variables; rows of which
        nothing is known are in none.
    """

    T: FloatArray
    S: FloatArray
    h: FloatArray
    Q: FloatArray = NOT_COUNTED
    outcomes: Mapping[str, FloatArray] = {}

    @property
    def n_clusters(self) -> int:
        """Clusters counted, empty ones included."""
        return len(self.T)

    def take(self, clusters: IntArray) -> Sums:
        """Return these clusters alone, in this order."""
        return Sums(
            self.T[clusters],
            self.S[clusters],
            self.h[clusters],
            self.Q[np.ix_(clusters, clusters)] if len(self.Q) else self.Q,
            {name: cells[clusters] for name, cells in self.outcomes.items()},
        )

    def total(self) -> Sums:
        """Return T, S and outcomes of all clusters together, as one."""
        return Sums(
            self.T.sum(keepdims=True),
            self.S.sum(axis=0, keepdims=True),
            np.zeros(1),
            outcomes={
                name: cells.sum(axis=0, keepdims=True) for name, cells in self.outcomes.items()
            },
        )

    def without(self, clusters: int | IntArray) -> Sums:
        """Return all clusters but one, or but some."""
        return self.take(np.delete(np.arange(self.n_clusters), clusters))

    def merged(self, a: int, b: int, overlap: float) -> Sums:
        """Return T, S and h with cluster ``b`` poured into cluster ``a``.

        ``r_na + r_nb`` has the entropy term ``h_a + h_b + Q(a, b)``.
        """
        T, S, h = self.T.copy(), self.S.copy(), self.h.copy()
        T[a] += T[b]
        S[a] += S[b]
        h[a] += h[b] + overlap
        return Sums(T, S, h).without(b)

    def joined(self, *others: Sums) -> Sums:
        """Return T, S and h of the clusters of all, these first."""
        every = (self, *others)
        return Sums(
            np.concatenate([each.T for each in every]),
            np.concatenate([each.S for each in every]),
            np.concatenate([each.h for each in every]),
        )
