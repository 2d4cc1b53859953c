"""What came back when the same was done again with other rows: numbers of clusters, likeness."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fedmerdel.release.grid import number_text, write_grid
from fedmerdel.sums.agreement import SURVIVED
from fedmerdel.sums.arrays import FloatArray, IntArray

DRAWN = 1.0 - float(np.exp(-1.0))
"""Share of the rows, or sites, that a bootstrap sample of as many holds."""

COLUMNS = ("draw", "sites", "clusters", "cluster", "name", "likeness", "share")
"""Of the file of all draws."""


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


@dataclass(frozen=True)
class FederationStability:
    """How surely the clusters of a federation come back. `print` shows it as a table.

    Attributes
    ----------
    names : tuple of str
        The clusters' names.
    rows : float64 array (K,)
        Rows of each cluster, as the sites told them.
    new_rows : Replicates
        With new rows at all sites.
    other_sites : Replicates
        With new rows, at some of the sites alone; without a draw where there is one site.
    """

    names: tuple[str, ...]
    rows: FloatArray
    new_rows: Replicates
    other_sites: Replicates

    def __str__(self) -> str:
        columns = [
            ["cluster", *self.names],
            ["rows", *(f"{rows:,.0f}" for rows in self.rows)],
        ]
        lines = []
        for title, found in (("new rows", self.new_rows), ("other sites", self.other_sites)):
            if len(found.n_clusters):
                columns.append([title, *(f"{mean:.2f}" for mean in found.mean_likeness)])
                columns.append(["found again", *(f"{each:.0%}" for each in found.found_again)])
                lines.append(f"clusters with {title}: {numbers_text(found.n_clusters)} draws")
        ranges = self.new_rows.share_range()
        columns.append(["share of rows", *(_range(*each) for each in ranges.tolist())])
        return "\n".join([*aligned(columns), *lines])

    def to_csv(self) -> str:
        """Return all draws as the text of a CSV file: a line for each draw and cluster."""
        lines = []
        for sites, found in (("all", self.new_rows), ("drawn", self.other_sites)):
            for r, n_clusters in enumerate(found.n_clusters.tolist()):
                for k, name in enumerate(self.names):
                    share = float(found.shares[r, k])
                    lines.append(
                        [
                            str(r + 1),
                            sites,
                            str(n_clusters),
                            str(k),
                            name,
                            number_text(float(found.likeness[r, k])),
                            "" if np.isnan(share) else number_text(share),
                        ]
                    )
        return write_grid(list(COLUMNS), lines)


def is_draws(first: bytes) -> bool:
    """Whether these are the first bytes of what `FederationStability.to_csv` gave."""
    return first.startswith(",".join(COLUMNS).encode())


def _range(low: float, high: float) -> str:
    return "-" if np.isnan(low) else f"{low:.1%} to {high:.1%}"


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
