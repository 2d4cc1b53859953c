"""Which site, or random batch, each row of a table belongs to."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedmerdel.errors import OptionError
from fedmerdel.sums.arrays import IntArray

ROWS_PER_BATCH = 5000
"""Rows of a random batch, about, where neither sites nor a number of batches are given."""

MISSING_GROUPS = frozenset({"", "nan", "NaN", "None", "NaT", "<NA>"})
"""Texts of what is no name of a site, from whatever library."""


def site_of_rows(
    groups: Any, n_batches: int | None, n_rows: int, rng: np.random.Generator
) -> tuple[list[str], IntArray]:
    """Return the sites' names and the site of each row.

    Parameters
    ----------
    groups : array (N,) or None
        The site of each row; None makes random batches.
    n_batches : int or None
        How many; None is one per 5,000 rows.
    n_rows : int
        Rows of the table.
    rng : numpy Generator
        Draws the batches.
    """
    if groups is None:
        n_batches = n_batches or max(1, round(n_rows / ROWS_PER_BATCH))
        n_batches = min(n_batches, n_rows)
        width = len(str(n_batches - 1))
        names = [f"batch {b:0{width}d}" for b in range(n_batches)]
        return names, rng.permutation(np.arange(n_rows) % n_batches)
    given: NDArray[Any] = np.asarray(groups)
    if given.shape != (n_rows,):
        raise OptionError("groups: give the site of each row of the table")
    if n_batches is not None:
        warnings.warn("n_batches is not used: groups are given", UserWarning, stacklevel=3)
    found, site = np.unique(given.astype(str), return_inverse=True)
    names = [str(name) for name in found]
    if not MISSING_GROUPS.isdisjoint(names):
        raise OptionError("groups: the site of a row is missing: give one for each row")
    return names, site.reshape(-1).astype(np.int64)
