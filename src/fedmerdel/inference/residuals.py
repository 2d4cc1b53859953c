"""Bivariate residuals: pairs of variables that go together more, or less, than clusters explain.

Within a cluster variables are independent, so the rows that are at level l of one variable and
at level m of another are expected to be ``E = sum_k T_k phi_kl phi_km``. The residual of a pair
is ``sum (O - E)^2 / E`` over its cells, divided by the degrees of freedom: about 1 or less where
the clusters explain the pair, since they were fitted to it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.stats import chi2

from fedmerdel.inference.check_counts import pair_blocks
from fedmerdel.sums.arrays import FloatArray, IntArray


class Residual(NamedTuple):
    """What is left of a pair of variables.

    Attributes
    ----------
    first, second : int
        Which two, among those that are paired.
    residual : float
        Pearson's chi-squared over its degrees of freedom.
    degrees : int
        Degrees of freedom.
    p_value : float
        Chance of so large a residual where clusters explain the pair. As they were fitted to it,
        the chance is smaller than this.
    cell : tuple of int
        The levels of the two that add most.
    observed, expected : float
        Rows there.
    """

    first: int
    second: int
    residual: float
    degrees: int
    p_value: float
    cell: tuple[int, int]
    observed: float
    expected: float


def expected_pairs(T: FloatArray, cells: FloatArray) -> FloatArray:
    """Return the rows (C, C) expected in each two cells, from their shares (K, C) in clusters."""
    return np.asarray((cells * T[:, None]).T @ cells)


def pair_residuals(
    observed: FloatArray, expected: FloatArray, noise: FloatArray, offsets: IntArray
) -> list[Residual]:
    """Return the residual of each pair, the largest first.

    Parameters
    ----------
    observed, expected : float64 arrays (C, C)
        Rows in each two cells; the last cell of each variable, missing, is left out, and
        what is expected is scaled to the rows that have both entries.
    noise : float64 array (C, C)
        Variance of what disclosure control has done to the observed rows.
    offsets : int64 array
        Where each variable's cells start.

    Notes
    -----
    A pair of which nothing was told has no residual.
    """
    found = []
    for a, b, rows, columns in pair_blocks(offsets):
        told, E, v = (each[rows, columns][:-1, :-1] for each in (observed, expected, noise))
        # Levels that nobody has are no levels here.
        lines, places = (told + E).any(axis=1), (told + E).any(axis=0)
        degrees = int((lines.sum() - 1) * (places.sum() - 1))
        if told.sum() <= 0 or E.sum() <= 0 or degrees < 1:
            continue
        E = E * (told.sum() / E.sum())
        parts = np.where(E > 0, (told - E) ** 2 / np.where(E > 0, E + v, 1.0), 0.0)
        most = np.unravel_index(int(parts.argmax()), parts.shape)
        total = float(parts.sum())
        found.append(
            Residual(
                a,
                b,
                total / degrees,
                degrees,
                float(chi2.sf(total, degrees)),
                (int(most[0]), int(most[1])),
                float(told[most]),
                float(E[most]),
            )
        )
    return sorted(found, key=lambda each: -each.residual)
