"""How a row is written down for a noised sum: what it adds is bounded, whatever the row.

Each variable is one cell of its levels and "missing". The row's cells, less the share that each
has of all rows (its centre), are weighed, and turned into one number less than there are cells:
centred cells of a variable are not independent. What that does to lengths is nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fedmerdel.sums.arrays import BoolArray, FloatArray, IntArray
from fedmerdel.sums.levels import sum_levels

Where = IntArray


class Coding(NamedTuple):
    """How cells become numbers.

    Attributes
    ----------
    n_levels : int64 array (P,)
        Levels of each variable.
    told : bool array (P,)
        Whether missing is a cell. Where it is not, a missing entry adds nothing.
    centre, weight : float64 array (cells,)
        Share and weight of each cell; those of a variable after those of the one before,
        "missing" last.
    """

    n_levels: IntArray
    told: BoolArray
    centre: FloatArray
    weight: FloatArray

    @property
    def n_cells(self) -> IntArray:
        """Cells of each variable."""
        return self.n_levels + self.told

    @property
    def starts(self) -> IntArray:
        """Where each variable's cells start, and the end."""
        return np.concatenate(([0], np.cumsum(self.n_cells)))

    @property
    def size(self) -> int:
        """Numbers that stand for a row's cells."""
        return int(self.n_levels.sum() + self.told.sum()) - len(self.n_levels)

    @property
    def levels(self) -> BoolArray:
        """Which cells are levels."""
        found = np.ones(int(self.n_cells.sum()), dtype=bool)
        found[self.starts[1:][self.told] - 1] = False
        return found

    def lengths(self) -> tuple[FloatArray, FloatArray]:
        """Return the squared length of each level (M,) and of each variable's "missing" (P,)."""
        squared, n = self.weight**2, self.n_cells
        of_centre = sum_levels(squared * self.centre**2, self.starts)
        of_cell = squared * (1.0 - 2.0 * self.centre) + np.repeat(of_centre, n)
        missing = np.zeros(len(n))
        missing[self.told] = of_cell[~self.levels]
        return of_cell[self.levels], missing

    def expected_length(self) -> float:
        """Return the mean squared length of rows with these shares."""
        return float((self.weight**2 * self.centre * (1.0 - self.centre)).sum())

    def cells(self, T: FloatArray, S: FloatArray) -> FloatArray:
        """Return sums over rows at each cell: (K, cells)."""
        found = np.empty((len(T), len(self.centre)))
        found[:, self.levels] = S
        offsets = np.concatenate(([0], np.cumsum(self.n_levels)))
        found[:, ~self.levels] = (T[:, None] - sum_levels(S, offsets))[:, self.told]
        return found

    def numbers(self, cells: FloatArray) -> FloatArray:
        """Return what sums over rows are written as: (K, cells) to (K, size)."""
        starts, n = self.starts, self.n_cells
        rows = np.repeat(sum_levels(cells, starts), n, axis=-1)
        z = self.weight * (cells - self.centre * rows)
        u, first = self._across(), starts[:-1]
        # A reflection that takes u, which z is at right angles to, to the first axis.
        turn = np.repeat(z[:, first] / (1.0 + u[first]), n, axis=-1)
        return np.delete(z - u * turn, first, axis=-1)

    def deviations(self, numbers: FloatArray) -> FloatArray:
        """Return cells less their centres' share of rows, from numbers: the way back."""
        starts, n = self.starts, self.n_cells
        u, first = self._across(), starts[:-1]
        z = np.zeros((len(numbers), len(self.centre)))
        z[:, self._others()] = numbers
        along = sum_levels(z * u, starts)
        z -= u * np.repeat(along / (1.0 + u[first]), n, axis=-1)
        z[:, first] = -along
        return np.asarray(z / self.weight)

    def _others(self) -> IntArray:
        return np.delete(np.arange(len(self.centre)), self.starts[:-1])

    def _across(self) -> FloatArray:
        """Return the unit vector, in each variable's cells, that weighed deviations are across."""
        u = 1.0 / self.weight
        return np.asarray(u / np.sqrt(np.repeat(sum_levels(u**2, self.starts), self.n_cells)))


def first_coding(n_levels: IntArray) -> Coding:
    """Return the coding before anything is known: all cells alike, and so all rows as long."""
    n = n_levels + 1
    even = np.repeat(1.0 / n, n)
    return Coding(n_levels, np.ones(len(n), dtype=bool), even, np.ones(len(even)))


def coding_around(
    n_levels: IntArray, told: BoolArray, shares: FloatArray, least: float, power: float
) -> Coding:
    """Return the coding around shares of cells, none taken for less than ``least``.

    A cell's weight is its share to the power of minus ``power``. At 1/2 an error counts as
    what it costs in log-likelihood, but rows with a rare level are long; at 0 they are not.
    """
    n = n_levels + told
    starts = np.concatenate(([0], np.cumsum(n)))
    centre = np.maximum(shares, least)
    centre = centre / np.repeat(sum_levels(centre, starts), n)
    return Coding(n_levels, told, centre, centre**-power)
