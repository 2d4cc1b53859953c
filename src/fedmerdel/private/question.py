"""What sites are asked for in one release, and how long the answer of one row may be."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np

from fedmerdel.private.coding import Coding
from fedmerdel.sums.arrays import FloatArray, IntArray

FINEST = 2.0**9
"""Times that what rounding to the grid adds to the sensitivity goes into it."""


class Question(NamedTuple):
    """Plain arrays and numbers that every site is sent.

    Attributes
    ----------
    what : "clusters" or "moments"
        Sums in clusters; or products of all pairs of numbers that a row is written as.
    log_weights, log_levels : float64 arrays (K,), (K, M)
        What an E step reads; no clusters for moments.
    coding : Coding
        How a row's cells become numbers.
    axes : float64 array (size of the coding, axes)
        Directions at right angles, of length 1, if only what rows are along them is asked for;
        of no size if all is.
    limit : float
        Length at which these are cut off: a longer row counts less, as a whole.
    row : float
        What stands for the row itself, beside its numbers.
    outcomes : tuple of (str, int)
        Names and cells of what is counted beside the variables.
    outcome : float
        What stands for a row in an outcome's cells.
    grid : float
        Sums are told in whole steps of this.
    share : float
        Scale of the noise that each site adds, in steps.
    """

    what: Literal["clusters", "moments"]
    log_weights: FloatArray
    log_levels: FloatArray
    coding: Coding
    axes: FloatArray
    limit: float
    row: float
    outcomes: tuple[tuple[str, int], ...]
    outcome: float
    grid: float
    share: float

    @property
    def size(self) -> int:
        """Numbers in the answer."""
        return answer_size(self.what, len(self.log_weights), self.width, self.outcomes)

    @property
    def width(self) -> int:
        """Numbers that stand for a row."""
        return self.axes.shape[1] if self.axes.size else self.coding.size


class Answer(NamedTuple):
    """An answer in the units of rows, before or after noise.

    Attributes
    ----------
    T : float64 array (K,)
        Rows in each cluster.
    numbers : float64 array (K, width)
        What their cells are written as.
    outcomes : dict of str to float64 array (K, C)
        Rows in each cell.
    """

    T: FloatArray
    numbers: FloatArray
    outcomes: dict[str, FloatArray]


def answer_size(
    what: str, n_clusters: int, width: int, outcomes: tuple[tuple[str, int], ...] = ()
) -> int:
    """Return how many numbers an answer has."""
    if what == "moments":
        return width * (width + 1) // 2
    return n_clusters * (1 + width + sum(cells for _, cells in outcomes))


def sensitivity(question: Question, unit: int) -> float:
    """Return the most that one person changes an answer by, in steps of the grid.

    A row in clusters adds ``r (x) (row, y, outcomes)``, where r sums to 1, so that it is no longer
    than 1, and y than the limit. In moments it adds ``y (x) y``. A person's rows may be at several
    sites, and each rounds its sums: that moves each number by less than a step, and sums in
    floating point by less than another.
    """
    if question.what == "moments":
        length = question.limit**2
    else:
        others = question.row**2 + len(question.outcomes) * question.outcome**2
        length = math.sqrt(question.limit**2 + others)
    return unit * (length / question.grid + 2.0 * math.sqrt(question.size))


def grid_for(length: float, size: int) -> float:
    """Return steps so small that rounding to them costs next to nothing."""
    return length / (FINEST * math.sqrt(size))


def to_steps(question: Question, parts: list[FloatArray]) -> IntArray:
    """Return sums as the vector of whole steps that is added up over sites."""
    return np.rint(np.concatenate([part.ravel() for part in parts]) / question.grid).astype(
        np.int64
    )


def read_clusters(question: Question, totals: IntArray) -> Answer:
    """Return what a vector of whole steps says of clusters."""
    K, size = len(question.log_weights), question.width
    sums = totals * question.grid
    T, numbers, rest = np.split(sums, [K, K * (1 + size)])
    outcomes, start = {}, 0
    for name, cells in question.outcomes:
        outcomes[name] = rest[start : start + K * cells].reshape(K, cells) / question.outcome
        start += K * cells
    return Answer(T / question.row, numbers.reshape(K, size), outcomes)


def read_moments(question: Question, totals: IntArray) -> FloatArray:
    """Return the matrix of products that a vector of whole steps says."""
    size = question.coding.size
    upper = np.triu_indices(size)
    found = np.zeros((size, size))
    found[upper] = totals * question.grid / np.where(upper[0] == upper[1], 1.0, math.sqrt(2.0))
    return found + np.triu(found, 1).T
