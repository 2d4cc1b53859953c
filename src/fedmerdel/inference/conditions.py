"""Whether clusters explain how many conditions a row has.

In a cluster the number of conditions is a sum of independent ones, so the model says how many
rows have none, one, two and so on. Where rows differ along one scale, such as severity, and there
are no kinds of people, clusters cut the scale into pieces, and the numbers betray it.

The test compares the first moments of the two histograms (a smooth test in Neyman's sense, with
the polynomials that are orthogonal for the model's own histogram). Parameters were fitted to the
same rows, which takes away part of the difference: as much as a regression of the moments on the
scores of the parameters explains, found with rows that the model makes up. Left out of that
regression are scores of single levels: the number of conditions depends on them by their sum.

Under a disclosure policy the ends of the histogram are hidden, and there a scale tells most. But
rows with each two conditions add up to the second moment, ends included: it is taken from these.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.stats import chi2

from fedmerdel.sums.arrays import FloatArray, IntArray

DEGREE = 4
"""The highest moment that is compared."""

LEAST_LEFT = 1e-3
"""Share of the variance of a moment that is added to what the fit leaves of it."""


class ConditionsTest(NamedTuple):
    """Whether the model explains how many conditions rows have.

    Attributes
    ----------
    p_value : float
        Chance of histograms so different if the rows were drawn from the model.
    distance : float
        Share of the rows that would have to have another number of conditions.
    """

    p_value: float
    distance: float


def expected_conditions(weights: FloatArray, present: FloatArray) -> FloatArray:
    """Return the share of rows with none, one and so on of some conditions.

    Parameters
    ----------
    weights : float64 array (K,)
        Share of each cluster.
    present : float64 array (K, C)
        Share of its rows that have each condition.
    """
    shares = np.zeros((len(weights), present.shape[1] + 1))
    shares[:, 0] = 1.0
    for p in present.T:
        shares[:, 1:] = shares[:, 1:] * (1 - p[:, None]) + shares[:, :-1] * p[:, None]
        shares[:, 0] *= 1 - p
    return np.asarray(weights @ shares)


def conditions_test(
    observed: FloatArray,
    expected: FloatArray,
    noise: FloatArray,
    number: IntArray,
    r: FloatArray,
    both: tuple[float, float] | None = None,
) -> ConditionsTest:
    """Compare how many conditions rows have with how many they should have.

    Parameters
    ----------
    observed : float64 array (C + 1,)
        Rows with none, one and so on.
    expected : float64 array (C + 1,)
        The share that the model expects.
    noise : float64 array (C + 1,)
        Variance of what disclosure control has done to the observed rows.
    number : int64 array (M,)
        Conditions of rows that the model made up.
    r : float64 array (M, K)
        The probability of each cluster for these.
    both : (float, float) or None
        Rows with each two of the conditions, over all pairs, and the variance of that sum; None if
        they are not told.
    """
    N = float(observed.sum())
    shares = observed / N
    distance = float(np.abs(shares - expected).sum() / 2)
    moments = _moments(expected)
    D = moments.shape[1]
    if D == 0:
        return ConditionsTest(1.0, distance)
    difference = (shares - expected) @ moments
    noisy = (moments.T * noise) @ moments
    if both is not None:
        # The first is quadratic: of a number n so many times n (n - 1) / 2; the mean is right.
        times, pairs = float(np.diff(moments[:3, 0], 2)[0]), np.arange(len(shares))
        difference[0] = times * (both[0] / N - expected @ (pairs * (pairs - 1) / 2))
        noisy[0] = noisy[:, 0] = 0.0
        noisy[0, 0] = times**2 * both[1]
    scores = np.column_stack([np.ones(len(r)), r, r * (number[:, None] - number.mean())])
    drawn = moments[number]
    left = drawn - scores @ np.linalg.lstsq(scores, drawn, rcond=None)[0]
    covariance = (left.T @ left / len(r) + LEAST_LEFT * np.eye(D)) / N + noisy / N**2
    size = float(difference @ np.linalg.solve(covariance, difference))
    return ConditionsTest(float(chi2.sf(size, D)), distance)


def _moments(shares: FloatArray) -> FloatArray:
    """Return polynomials of the number, orthonormal where numbers are so frequent: (C + 1, D)."""
    number = np.arange(len(shares), dtype=np.float64)
    mean = shares @ number
    spread = np.sqrt(shares @ (number - mean) ** 2)
    degree = min(DEGREE, int((shares > 0).sum()) - 1)
    if degree < 2 or spread <= 0:
        return np.zeros((len(shares), 0))
    powers = np.vander((number - mean) / spread, degree + 1, increasing=True)
    R = np.linalg.qr(np.sqrt(shares)[:, None] * powers)[1]
    # The mean is right by itself: clusters have the rows' own counts.
    return np.asarray(np.linalg.solve(R.T, powers.T).T[:, 2:])
