"""The cells that a cluster's rows fall into: levels and missing entries, outcomes."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import numpy as np

from fedmerdel.study.codebook import Codebook
from fedmerdel.sums.arrays import FloatArray, IntArray
from fedmerdel.sums.sums import Sums

# What sums of floats in another order may differ by, for each row.
DUST = 1e-8


NEGATIVE = ("h", "cost")
"""Numbers of a summary that are sums of logarithms, and below 0."""


def with_missing(T: FloatArray, levels: FloatArray) -> FloatArray:
    """Add the missing cell to a variable's levels: (K, L) to (K, L + 1)."""
    missing = T - levels.sum(axis=1)
    missing[missing < DUST * np.maximum(T, 1.0)] = 0.0
    return np.column_stack([levels, missing])


def all_cells(sums: Sums, offsets: IntArray) -> FloatArray:
    """Return every count that is told or implied, one after the other."""
    parts = [sums.T]
    for start, end in pairwise(offsets):
        parts.append(with_missing(sums.T, sums.S[:, start:end]).ravel())
    parts.extend(with_missing(sums.T, cells).ravel() for cells in sums.outcomes.values())
    return np.concatenate(parts)


def checked_totals(sums: Sums, offsets: IntArray, checked: tuple[int, ...]) -> FloatArray:
    """Return the rows of a site in each cell of the variables that are paired."""
    total = sums.total()
    parts = [with_missing(total.T, total.S[:, offsets[j] : offsets[j + 1]])[0] for j in checked]
    return np.concatenate([np.zeros(0), *parts])


def wrong_arrays(arrays: Mapping[str, tuple[FloatArray, tuple[int, ...]]]) -> str | None:
    """Return the first array of another shape than it should have, or not finite, or None."""
    for name, (array, shape) in arrays.items():
        if np.shape(array) != shape:
            return f"{name} has shape {np.shape(array)}, and {shape} fits clusters and codebook"
        if not np.isfinite(array).all():
            return f"{name} has a number that is not finite"
        if name not in NEGATIVE and np.min(array) < 0:
            return f"{name} has a negative number"
    return None


def missing_counts(T: FloatArray, S: FloatArray, codebook: Codebook) -> FloatArray:
    """Return the missing entries of each variable in each cluster: (K, P)."""
    return np.stack(
        [
            with_missing(T, S[:, start:end])[:, -1]
            for start, end in pairwise(codebook.level_offsets)
        ],
        axis=1,
    )
