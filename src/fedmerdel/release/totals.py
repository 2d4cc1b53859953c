"""Totals that sites have hidden, filled with what the totals of all sites tell.

A level that every site hides has its likeliest number of rows at none. Taken for that, it makes
all clusters sure that the level does not occur, and a model of a wide table at small sites is
then far worse than no clusters. But hidden levels are levels among others, and how frequent those
are can be learned from all that is told: shares of rows are log-normal,

    ln p_l ~ N(mu, tau^2)

of all levels but the most frequent one of each variable, with the mu and tau under which the
totals are most probable: told ones, known to a step of rounding, and hidden ones, of which it is
known that they are less than is told. (Shares of single levels are summed out on a grid.) Given
that, each level has a mean share, and each hidden total is expected to be E[X | X < t] of a
Poisson count. No share is taken to be under one row of all sites: a level has a name.
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln, pdtr, xlogy

from fedmerdel.release.few import TINY, expected_below
from fedmerdel.study.policy import Policy
from fedmerdel.sums.arrays import FloatArray, IntArray
from fedmerdel.sums.levels import level_shares, level_totals, most_frequent

GRID = 100
"""Values of a share that are tried, evenly in its logarithm: steps of a tenth."""

UPDATES = 100
"""Of mean and spread, by EM: far more than it takes where a tenth of the levels is told."""


def expected_totals(told: FloatArray, offsets: IntArray, policy: Policy) -> FloatArray:
    """Return the totals of all sites (B, M) with hidden ones as expected.

    Parameters
    ----------
    told : float64 array (B, M)
        As released.
    offsets : int64 array (P + 1,)
        Where each variable's levels start.
    policy : Policy
        Under which they were released.
    """
    rows = level_totals(told, offsets)
    others = ~most_frequent(told.sum(axis=0), offsets) & (rows.sum(axis=0) > 0)
    hidden = (told == 0) & (rows > 0)
    if policy.least < 2 or not hidden[:, others].any():
        return told
    shares = level_shares(told, offsets)
    shares[others] = _shares(told[:, others], rows[:, others], policy)
    return np.where(hidden, expected_below(rows * shares, policy.least), told)


def _shares(told: FloatArray, rows: FloatArray, policy: Policy) -> FloatArray:
    """Return the mean share of each of some levels (M,), given totals and rows (B, M)."""
    x = np.linspace(-np.log(rows.sum(axis=0).max()), 0.0, GRID)
    evidence = np.zeros((told.shape[1], GRID))
    for counts, n in zip(told, rows, strict=True):
        evidence += _log_likelihood(counts, n[:, None] * np.exp(x), policy)
    likelihood = np.exp(evidence - evidence.max(axis=1, keepdims=True))
    mean, spread = float(x.mean()), float(np.ptp(x)) / 4.0
    for _ in range(UPDATES):
        weight = likelihood * np.exp(-0.5 * ((x - mean) / spread) ** 2)
        weight /= np.maximum(weight.sum(axis=1, keepdims=True), TINY)
        level = weight.mean(axis=0)
        mean = float(level @ x)
        spread = max(float(np.sqrt(level @ (x - mean) ** 2)), float(x[1] - x[0]))
    return np.asarray(weight @ np.exp(x))


def _log_likelihood(told: FloatArray, mean: FloatArray, policy: Policy) -> FloatArray:
    """Return that of totals (M,) of one site, as they are told, under each mean (M, G)."""
    hidden = np.log(np.maximum(pdtr(policy.least - 1, mean), TINY))
    low = np.where(told == policy.smallest, policy.least, told - policy.step // 2)
    # Anywhere within the step: its ends and its middle stand for it.
    at: list[FloatArray] = [low, told, told + (policy.step - 1) // 2]
    seen = [xlogy(x[:, None], mean) - gammaln(np.maximum(x, 0.0) + 1.0)[:, None] for x in at]
    return np.asarray(np.where(told[:, None] == 0, hidden, np.logaddexp.reduce(seen) - mean))
