"""The cells that rows fall into, and which of them are told: what follows from others is not.

Were all cells told, each with noise of its own, the rows of a cluster would be there once for each
variable, and the mean of these nearly free of noise.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fedmerdel.sums.arrays import BoolArray, FloatArray, IntArray
from fedmerdel.sums.levels import sum_levels

SURE = 4.0
"""Standard deviations of noise: less than so much is taken for noise."""


class Cells(NamedTuple):
    """Cells of variables, outcomes or both, those of one after those of the one before.

    Attributes
    ----------
    offsets : int64 array (V + 1,)
        Where the cells of each start, and the end.
    left : int64 array (V,)
        The cell of each that is not told: it is what the others leave.
    missing : bool array (V,)
        Whether entries may be missing, and are told. Where not, a missing entry is in `left`.
    """

    offsets: IntArray
    left: IntArray
    missing: BoolArray

    @classmethod
    def first(cls, offsets: IntArray, missing: BoolArray) -> Cells:
        """Return the cells as they are told while nothing is known of them: all but the last."""
        return cls(offsets, offsets[1:] - 1, missing)

    def after(self, T: float, S: FloatArray, noise: float) -> Cells:
        """Return the cells as they are told once the rows in each are known: all but the commonest.

        Where entries are hardly ever missing, these are not told either.
        """
        left = [
            a + int(S[a:b].argmax()) for a, b in zip(self.offsets, self.offsets[1:], strict=False)
        ]
        away = T - sum_levels(S, self.offsets) > SURE * noise
        return Cells(self.offsets, np.array(left, dtype=np.int64), self.missing & away)

    def variables(self, n: int) -> Cells:
        """Return the cells of the first n, which are the variables."""
        return Cells(self.offsets[: n + 1], self.left[:n], self.missing[:n])

    @property
    def told(self) -> BoolArray:
        """Which cells are told."""
        found = np.ones(int(self.offsets[-1]), dtype=bool)
        found[self.left] = False
        return found

    @property
    def width(self) -> int:
        """Numbers of each cluster: its rows, the cells that are told, and missing entries."""
        return 1 + int(self.told.sum()) + int(self.missing.sum())

    def numbers(self, T: FloatArray, S: FloatArray) -> FloatArray:
        """Return what is told of clusters with these rows: (K, width)."""
        away = T[:, None] - sum_levels(S, self.offsets)
        return np.column_stack([T, S[:, self.told], away[:, self.missing]])

    def counts(self, numbers: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return rows and cells of clusters of which these numbers were told."""
        n_told = int(self.told.sum())
        T, S = numbers[:, 0].copy(), np.zeros((len(numbers), len(self.told)))
        S[:, self.told] = numbers[:, 1 : 1 + n_told]
        away = np.zeros((len(numbers), len(self.left)))
        away[:, self.missing] = numbers[:, 1 + n_told :]
        S[:, self.left] = T[:, None] - sum_levels(S, self.offsets) - away
        return T, S

    def possible(self, numbers: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the same, moved to the nearest that rows can have: noise may have led beyond."""
        T, S = self.counts(numbers)
        T = np.maximum(T, 0.0)
        S = np.clip(S, 0.0, T[:, None])
        total = sum_levels(S, self.offsets)
        too_many = total > T[:, None]
        scale = np.where(too_many, T[:, None] / np.where(too_many, total, 1.0), 1.0)
        return T, S * np.repeat(scale, np.diff(self.offsets), axis=1)
