"""Latent class analysis as it is classically done: maximum likelihood by EM, without a prior.

The E step is that of all fits here; the M step takes the shares as they are. One pass gives
the likelihood of the estimates that it read and the counts for the next ones. EM alone can
need ten thousand passes for the fourth digit of a likelihood, so that each two of its steps
are stretched (Varadhan and Roland 2008, SQUAREM); a stretch that lowers the likelihood is
taken back.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fedmerdel.fitting.passes import Workers, expect_and_count
from fedmerdel.records.packing import PackedRows
from fedmerdel.sums.arrays import FloatArray, IntArray
from fedmerdel.sums.expectations import Expectations
from fedmerdel.sums.levels import level_means
from fedmerdel.sums.stretch import GROWTH, next_longest, stretched
from fedmerdel.sums.sums import Sums

SMALLEST = float(np.exp(-700.0))
"""What a probability of 0 is taken for: its logarithm is finite, so that no row overflows."""

WINDOW = 5
"""Stretches that together must add less than the tolerance at the end. One that adds little
says nothing: the next may find the slow direction."""


class Estimate(NamedTuple):
    """Estimates of the parameters, and what a pass over the rows says of them.

    Attributes
    ----------
    theta : Expectations
        Logarithms of the class shares and of each class's level probabilities.
    stats : Sums
        Statistics of the responsibilities under them.
    log_likelihood : float
        Their log-likelihood in nats.
    """

    theta: Expectations
    stats: Sums
    log_likelihood: float


class Climb(NamedTuple):
    """Where EM from one start ended.

    Attributes
    ----------
    found : Estimate
        The last estimates, the best of the climb.
    n_iter : int
        Passes over the rows.
    converged : bool
        Whether the likelihood stood still within the passes allowed.
    """

    found: Estimate
    n_iter: int
    converged: bool


def maximise(stats: Sums, offsets: IntArray) -> Expectations:
    """M step without a prior: the logarithms of the shares, even ones where nothing was seen."""
    return _logs(stats.T / stats.T.sum(), level_means(stats.S, offsets))


def log_likelihood(theta: Expectations, stats: Sums) -> float:
    """Return the log-likelihood of estimates from the statistics of their own E step.

    ``ln p(x_n) = sum_k r_nk (ln rho_nk - ln r_nk)`` holds for the exact responsibilities, and
    the sums over the rows of both terms are in the statistics.
    """
    explained = stats.T @ theta.log_weights + np.sum(stats.S * theta.log_levels)
    return float(explained - stats.h.sum())


def evaluate(rows: PackedRows, theta: Expectations, workers: Workers) -> Estimate:
    """Pass over the rows with these estimates."""
    stats = expect_and_count(rows, theta, workers)
    return Estimate(theta, stats, log_likelihood(theta, stats))


def climb(
    rows: PackedRows, start: Expectations, tol: float, max_iter: int, workers: Workers
) -> Climb:
    """Climb from a start to a maximum of the likelihood; never goes down.

    Parameters
    ----------
    rows : PackedRows
        The rows; missing entries add nothing to their likelihood.
    start : Expectations
        Where to begin.
    tol : float
        Nats, in all, that the last `WINDOW` stretches may still add.
    max_iter : int
        Most passes; a stretch that is under way is finished.
    workers : Workers
        The threads to work with.
    """
    offsets = rows.packing.level_offsets
    here = evaluate(rows, start, workers)
    reached = [here.log_likelihood]
    n_iter, longest, n_classes = 1, GROWTH, start.n_clusters
    while n_iter < max_iter:
        step = evaluate(rows, maximise(here.stats, offsets), workers)
        after = maximise(step.stats, offsets)
        # Of probabilities, not of their logarithms: one on its way to 0 has a logarithm that
        # never settles, and would drown all others.
        x0, x1, x2 = (_probabilities(theta) for theta in (here.theta, step.theta, after))
        x, length = stretched(x0, x1, x2, np.ones(1), longest)
        weights, levels = x[:n_classes], x[n_classes:].reshape(n_classes, -1)
        theta = _logs(weights / weights.sum(), level_means(levels, offsets))
        there = evaluate(rows, theta, workers)
        n_iter += 2
        went_well = there.log_likelihood >= step.log_likelihood
        longest = next_longest(longest, length, went_well=went_well)
        if went_well:
            here = there
        else:
            here = evaluate(rows, after, workers)
            n_iter += 1
        reached.append(here.log_likelihood)
        if len(reached) > WINDOW and reached[-1] - reached[-1 - WINDOW] <= tol:
            return Climb(here, n_iter, converged=True)
    return Climb(here, n_iter, converged=False)


def _probabilities(theta: Expectations) -> FloatArray:
    return np.exp(np.concatenate((theta.log_weights, theta.log_levels.ravel())))


def _logs(weights: FloatArray, levels: FloatArray) -> Expectations:
    return Expectations(np.log(np.maximum(weights, SMALLEST)), np.log(np.maximum(levels, SMALLEST)))
