"""Counts with which a model is checked against the rows: of a whole site, or of several."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

import numpy as np

from fedmerdel.sums.arrays import FloatArray, IntArray

N_BINS = 20
"""Bins of the probability of a row's cluster, from 0 to 1."""

SURE = 0.8
"""A row with a cluster more probable than this is surely in it."""


class CheckCounts(NamedTuple):
    """Rows of a whole site, counted in tables that the clusters have to explain.

    Attributes
    ----------
    checked : tuple of int
        Positions in the codebook of the variables that are paired.
    present : tuple of int
        Positions, among all levels, of those that say that a condition is there.
    pairs : float64 array (C, C)
        Rows in the cells of each two of them. Cells are the levels of a variable and, last, its
        missing entries, one variable after the other; a pair is told once, the earlier variable
        along the lines, and everything else is 0.
    conditions : float64 array
        Rows with no condition, one, two and so on; missing ones are taken for absent. All 0 where
        none of it could be told.
    certainty : float64 array (N_BINS,)
        Rows by the probability of their most probable cluster.
    own : float64 array (K,)
        Rows whose most probable cluster it is.
    belonging : float64 array (K,)
        Sum of that probability over these rows.
    """

    checked: tuple[int, ...]
    present: tuple[int, ...]
    pairs: FloatArray
    conditions: FloatArray
    certainty: FloatArray
    own: FloatArray
    belonging: FloatArray


def cell_offsets(n_levels: IntArray, checked: tuple[int, ...]) -> IntArray:
    """Return where the cells of each paired variable start, and where the last one's end."""
    return np.concatenate(([0], np.cumsum([n_levels[j] + 1 for j in checked]))).astype(np.int64)


def condition_places(counts: CheckCounts, cells: IntArray, offsets: IntArray) -> list[int] | None:
    """Return the cells of the pairs' tables that say that a condition is there.

    None if not every condition is paired. `offsets` say where each variable's levels start.
    """
    variable = np.searchsorted(offsets, counts.present, side="right") - 1
    if not set(variable.tolist()) <= set(counts.checked):
        return None
    return [
        int(cells[counts.checked.index(j)] + level - offsets[j])
        for j, level in zip(variable.tolist(), counts.present, strict=True)
    ]


def pair_blocks(offsets: IntArray) -> Iterator[tuple[int, int, slice, slice]]:
    """Yield the places of the two variables of each pair, and their cells."""
    for a, b in combinations(range(len(offsets) - 1), 2):
        first, second = (slice(int(offsets[at]), int(offsets[at + 1])) for at in (a, b))
        yield a, b, first, second
