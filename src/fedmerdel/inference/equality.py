"""Tests of rates: are they equal in all clusters, in which pairs not, and at all sites."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.stats import chi2, norm

from fedmerdel.sums.arrays import FloatArray


class PairTest(NamedTuple):
    """Whether an outcome is as frequent in one cluster as in another.

    Attributes
    ----------
    first, second : int
        The clusters.
    difference : float
        Rate in the first less that in the second.
    p_value : float
        Of no difference, adjusted for the number of pairs by Holm's method.
    """

    first: int
    second: int
    difference: float
    p_value: float


@dataclass(frozen=True)
class OutcomeTest:
    """Whether an outcome is as frequent in all clusters.

    Attributes
    ----------
    statistic : float
        Wald's, of all differences.
    df : int
        Its degrees of freedom.
    p_value : float
        Of no difference between clusters.
    pairs : tuple of PairTest
        Every pair of clusters, the surest difference first.
    """

    statistic: float
    df: int
    p_value: float
    pairs: tuple[PairTest, ...]


def equality(mean: FloatArray, covariance: FloatArray) -> OutcomeTest:
    """Test whether all rates are equal; clusters of which nothing is known are left out."""
    known = np.flatnonzero(np.isfinite(mean))
    pairs = [(int(a), int(b)) for at, a in enumerate(known) for b in known[at + 1 :]]
    if not pairs:
        return OutcomeTest(0.0, 0, 1.0, ())
    first = known[:1]
    C = np.zeros((len(known) - 1, len(mean)))
    C[np.arange(len(C)), known[1:]] = 1.0
    C[:, first] = -1.0
    mean = np.where(np.isfinite(mean), mean, 0.0)
    gap = C @ mean
    statistic = float(gap @ np.linalg.pinv(C @ covariance @ C.T, hermitian=True) @ gap)
    gaps = np.array([mean[a] - mean[b] for a, b in pairs])
    var = np.array([covariance[a, a] + covariance[b, b] - 2 * covariance[a, b] for a, b in pairs])
    raw = 2 * norm.sf(np.abs(gaps) / np.sqrt(np.maximum(var, 1e-300)))
    adjusted = holm(raw)
    tests = [
        PairTest(a, b, float(gap), float(p))
        for (a, b), gap, p in zip(pairs, gaps, adjusted, strict=True)
    ]
    order = np.argsort(raw, kind="stable")
    p_value = float(chi2.sf(statistic, len(C)))
    return OutcomeTest(statistic, len(C), p_value, tuple(tests[at] for at in order))


def joint_equality(means: FloatArray, covariance: FloatArray) -> OutcomeTest:
    """Test whether each of several numbers is equal in all clusters.

    Parameters
    ----------
    means : float64 array (M, K)
        Each number in each cluster.
    covariance : float64 array (M * K, M * K)
        Of these, number by number.
    """
    M, K = means.shape
    known = np.flatnonzero(np.isfinite(means).all(axis=0))
    if len(known) < 2:
        return OutcomeTest(0.0, 0, 1.0, ())
    one = np.zeros((len(known) - 1, K))
    one[np.arange(len(one)), known[1:]] = 1.0
    one[:, known[0]] = -1.0
    C = np.kron(np.eye(M), one)
    gap = C @ np.where(np.isfinite(means), means, 0.0).ravel()
    statistic = float(gap @ np.linalg.pinv(C @ covariance @ C.T, hermitian=True) @ gap)
    return OutcomeTest(statistic, len(C), float(chi2.sf(statistic, len(C))), ())


def holm(p_values: FloatArray) -> FloatArray:
    """Return p-values adjusted for their number (Holm, 1979)."""
    order = np.argsort(p_values, kind="stable")
    factors = len(p_values) - np.arange(len(p_values))
    adjusted = np.empty_like(p_values)
    adjusted[order] = np.minimum(np.maximum.accumulate(factors * p_values[order]), 1.0)
    return adjusted


def heterogeneity(means: FloatArray, variances: FloatArray) -> tuple[float, int, float]:
    """Return Cochran's Q of one rate at several sites, its degrees of freedom and p-value.

    Parameters
    ----------
    means, variances : float64 arrays (sites,)
        Of the rate at each site; nan where nothing is known.
    """
    known = np.isfinite(means) & (variances > 0)
    if known.sum() < 2:
        return 0.0, 0, 1.0
    weights = 1.0 / variances[known]
    mean = weights @ means[known] / weights.sum()
    Q = float(weights @ (means[known] - mean) ** 2)
    df = int(known.sum()) - 1
    return Q, df, float(chi2.sf(Q, df))
