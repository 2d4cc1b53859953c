"""Entries that are missing, by site and variable: from the counts that sites have released."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fedmerdel.centre.summaries import Summaries
from fedmerdel.release.cells import DUST
from fedmerdel.sums.arrays import FloatArray
from fedmerdel.sums.levels import sum_levels


class Missingness(NamedTuple):
    """Rows of each site with and without an entry of each variable, as released.

    Under a policy these are rounded, and small ones are hidden: fewer missing entries than the
    smallest count may be told as none, and fewer entries than that at each level as missing.

    Attributes
    ----------
    sites : tuple of str
        The sites, in the order of their names.
    variables : tuple of str
        The variables, in the order of the study.
    rows : float64 array (sites,)
        Rows of each site.
    entries : float64 array (sites, P)
        Of these, rows with an entry. Where missing is a level of its own, this is no entry.
    """

    sites: tuple[str, ...]
    variables: tuple[str, ...]
    rows: FloatArray
    entries: FloatArray

    @property
    def shares(self) -> FloatArray:
        """Share of each site's rows without an entry: (sites, P); 1 where there is none."""
        return _left(self.entries / self.rows[:, None])

    @property
    def overall(self) -> FloatArray:
        """Share of all rows without an entry: (P,)."""
        return _left(self.entries.sum(axis=0) / self.rows.sum())

    @property
    def never_recorded(self) -> tuple[tuple[str, str], ...]:
        """Site and variable where no entry was told."""
        at = np.argwhere(self.entries == 0).tolist()
        return tuple((self.sites[b], self.variables[j]) for b, j in at)


def _left(share: FloatArray) -> FloatArray:
    """Return what a share leaves of 1; what sums in another order may lack is nothing."""
    left = 1.0 - share
    return np.where(left < DUST, 0.0, left)


def missing_at_sites(summaries: Summaries) -> Missingness:
    """Return what the last release of each site tells of missing entries."""
    codebook = summaries[0].codebook
    is_entry = np.ones(codebook.level_offsets[-1])
    for variable, end in zip(codebook.variables, codebook.level_offsets[1:], strict=True):
        if variable.missing_level:
            is_entry[end - 1] = 0.0
    entries = [
        sum_levels(summary.sums.S.sum(axis=0) * is_entry, codebook.level_offsets)
        for summary in summaries
    ]
    return Missingness(
        tuple(summary.site for summary in summaries),
        codebook.names,
        np.array([summary.n_rows for summary in summaries]),
        np.array(entries),
    )
