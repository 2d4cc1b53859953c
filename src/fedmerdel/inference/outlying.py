"""How far one of several numbers is from all others, in spreads of these."""

from __future__ import annotations

import numpy as np

from fedmerdel.sums.arrays import FloatArray

TO_DEVIATION = 1.4826
"""Times the median absolute deviation of normal numbers is their standard deviation."""


def outlying(
    low: FloatArray, centre: FloatArray, high: FloatArray, least_spread: float
) -> FloatArray:
    """Return how many spreads of the others each number is from their median.

    Medians, so that one number that is far off does not hide itself or accuse others.

    Parameters
    ----------
    low, centre, high : float64 arrays (B,)
        Each of at least three numbers, and the ends of what it may be: the nearer end counts.
    least_spread : float
        What honest numbers may differ by also where the others agree by chance.
    """
    found = np.zeros(len(centre))
    for b in range(len(centre)):
        others = np.delete(centre, b)
        middle = np.median(others)
        spread = TO_DEVIATION * np.median(np.abs(others - middle))
        away = max(low[b] - middle, middle - high[b], 0.0)
        found[b] = away / max(spread, least_spread)
    return found
