"""What came back when the same was done again with other rows: numbers of clusters, likeness."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fedmerdel.sums.arrays import FloatArray, IntArray

DRAWN = 1.0 - float(np.exp(-1.0))
"""Share of the rows, or sites, that a bootstrap sample of as many holds."""

SURVIVED = 0.75
"""Jaccard similarity from which a cluster counts as found again (Hennig 2007)."""


class Replicates(NamedTuple):
    """What n repetitions found of K clusters.

    Attributes
    ----------
    n_clusters : int64 array (n,)
        Clusters of each repetition.
    likeness : float64 array (n, K)
        Jaccard similarity of each cluster to the one most alike: rows in both over rows in either.
    shares : float64 array (n, K)
        Share of all rows that the one most alike has; nan where the cluster was not found again.
    """

    n_clusters: IntArray
    likeness: FloatArray
    shares: FloatArray

    @property
    def counts(self) -> dict[int, int]:
        """How many repetitions had each number of clusters."""
        return counted(self.n_clusters)

    @property
    def mean_likeness(self) -> FloatArray:
        """Mean likeness of each cluster: (K,)."""
        return np.asarray(self.likeness.mean(axis=0))

    @property
    def found_again(self) -> FloatArray:
        """Share of the repetitions in which each cluster's likeness was at least 0.75: (K,)."""
        return np.asarray((self.likeness >= SURVIVED).mean(axis=0))

    def share_range(self, level: float = 0.9) -> FloatArray:
        """Return quantiles of the share of rows where a cluster was found again: (K, 2).

        Parameters
        ----------
        level : float, default=0.9
            Share of these repetitions inside.
        """
        found = np.full((self.shares.shape[1], 2), np.nan)
        for k, each in enumerate(self.shares.T):
            if not np.isnan(each).all():
                found[k] = np.nanquantile(each, [(1 - level) / 2, (1 + level) / 2])
        return found


def counted(numbers: IntArray) -> dict[int, int]:
    """Return how often each number is there."""
    found, times = np.unique(numbers, return_counts=True)
    return dict(zip(found.tolist(), times.tolist(), strict=True))


def numbers_text(numbers: IntArray) -> str:
    """Return how often each number of clusters was found: "4 in 18 of 20, 5 in 2 of 20"."""
    found = counted(numbers).items()
    return ", ".join(f"{number} in {times} of {len(numbers)}" for number, times in found)


def aligned(columns: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table of text, each cell at the right of its column."""
    wide = [max(map(len, column)) for column in columns]
    return [
        "  ".join(cell.rjust(width) for cell, width in zip(line, wide, strict=True))
        for line in zip(*columns, strict=True)
    ]
