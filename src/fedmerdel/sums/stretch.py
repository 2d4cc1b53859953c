"""Go on from two steps as far as their shrinking tells (Varadhan and Roland 2008, SQUAREM).

Steps of E and M near a maximum shrink by about the same factor each time; where that factor is
near 1, thousands of them lead nowhere. Two steps tell the factor, and so where they would end.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fedmerdel.sums.arrays import FloatArray

KEPT = 0.01
"""Share of a number that a stretch leaves at least. At 0 it could never rise again."""

GROWTH = 2.0
"""How much the longest stretch grows after one that went well, and shrinks after one that
did not. Without such a limit, every other stretch of a slow climb is taken back."""

_TINY = 1e-300


class Stretch(NamedTuple):
    """Where two steps lead.

    Attributes
    ----------
    x : float64 array
        Numbers above 0.
    length : float
        How far it went: 1 is where the second step has led already.
    """

    x: FloatArray
    length: float


def stretched(
    first: FloatArray, second: FloatArray, third: FloatArray, weight: FloatArray, longest: float
) -> Stretch:
    """Go on from three points, one step after the other, at most so many times.

    Parameters
    ----------
    first, second, third : float64 arrays
        Numbers of at least 0.
    weight : float64 array
        How much each counts when lengths are compared.
    longest : float
        Longest stretch, at least 1.
    """
    step, change = second - first, (third - second) - (second - first)
    shrinking = float(np.linalg.norm(step * weight)) / max(
        float(np.linalg.norm(change * weight)), _TINY
    )
    length = min(max(shrinking, 1.0), longest)
    return Stretch(
        np.maximum(first + 2.0 * length * step + length**2 * change, KEPT * third), length
    )


def next_longest(longest: float, length: float, *, went_well: bool) -> float:
    """Return how long the next stretch may be."""
    if went_well:
        return longest * GROWTH if length == longest else longest
    return max(length / GROWTH, GROWTH)
