"""What a site counts in a round, as one vector of whole numbers, and back from their total.

Every number is told in steps that are a fraction of a row, or of the entropy of a row that two
clusters share. So noise of one size, in rows, is on all of them.
"""

from __future__ import annotations

from math import log
from typing import NamedTuple

import numpy as np

from fedmerdel.summing.cells import Cells
from fedmerdel.sums.arrays import FloatArray, IntArray
from fedmerdel.sums.elbo import all_pairs

STEPS = 32
"""Of a row: fine beside the noise, and so few that totals of a billion rows fit 64 bits."""

SHARED = log(2.0)
"""Nats that a row adds to h, Q or blur where two clusters have half of it each: as one row."""


class Tally(NamedTuple):
    """Sums over rows in K clusters: of a site, or of all of them, with noise then.

    Attributes
    ----------
    clusters : float64 array (K, width)
        What is told of the cells of each cluster; see `Cells.numbers`.
    halves : float64 array (K, width) or (0, width)
        The same of its first half; none in the last round.
    h, blur : float64 arrays (K,) or (0,)
        In nats.
    Q : float64 array (K, K)
        In nats.
    """

    clusters: FloatArray
    halves: FloatArray
    h: FloatArray
    blur: FloatArray
    Q: FloatArray

    def to_vector(self) -> IntArray:
        """Return all of it in whole steps."""
        a, b = all_pairs(len(self.clusters)).T
        nats = np.concatenate([self.h, self.blur, self.Q[a, b]]) / SHARED
        rows = np.concatenate([self.clusters.ravel(), self.halves.ravel(), nats])
        return np.asarray(np.rint(rows * STEPS), dtype=np.int64)

    @classmethod
    def from_vector(
        cls, vector: IntArray, n_clusters: int, cells: Cells, halves: Cells | None
    ) -> Tally:
        """Return what a total stands for; noise may have made some of it impossible."""
        K = n_clusters
        n_halves = 0 if halves is None else K
        sizes = [K * cells.width, 0 if halves is None else K * halves.width, K, n_halves]
        parts = np.split(vector / STEPS, np.cumsum(sizes))
        pairs = all_pairs(K)
        Q = np.zeros((K, K))
        Q[pairs[:, 0], pairs[:, 1]] = Q[pairs[:, 1], pairs[:, 0]] = np.maximum(parts[4], 0) * SHARED
        return cls(
            parts[0].reshape(K, -1),
            parts[1].reshape(n_halves, -1) if halves is not None else np.zeros((0, 0)),
            np.minimum(parts[2], 0.0) * SHARED,
            np.maximum(parts[3], 0.0) * SHARED,
            Q,
        )


def vector_size(n_clusters: int, cells: Cells, halves: Cells | None) -> int:
    """Return how many numbers a site tells."""
    K = n_clusters
    return (
        K * cells.width + K + K * (K - 1) // 2 + (0 if halves is None else K * (halves.width + 1))
    )
