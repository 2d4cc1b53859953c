"""Intervals of a model's shares and levels, without a row: asked of rows that it makes up."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import numpy as np

from fedmerdel.inference.information import (
    Mixture,
    Rows,
    block_worth,
    level_squares,
    outer_products,
    prior_information,
    steadied,
    worth,
)
from fedmerdel.inference.intervals import CountErrors, Intervals, intervals
from fedmerdel.model.made_up import made_up
from fedmerdel.study.policy import Policy
from fedmerdel.sums.arrays import FloatArray
from fedmerdel.sums.predictive import mean_levels, mean_weights
from fedmerdel.sums.prior import Prior
from fedmerdel.sums.sums import Sums

N_DRAWN = 20_000
"""Rows made up: ten for each parameter at least."""

N_BLOCKS = 5_000
"""Rows made up where only blocks are looked at: each has few parameters."""

MOST_PARAMETERS = 2_000
"""With more, only blocks of the information are looked at: the whole would take minutes."""

PART = 2_000
"""Rows whose scores are held at a time."""


def model_intervals(
    stats: Sums, prior: Prior, row_prior: Prior, policy: Policy, n_sites: int
) -> Intervals:
    """Return the intervals that rows of the model give, as many as there were.

    Parameters
    ----------
    stats : Sums
        The clusters.
    prior, row_prior : Prior
        Under which they are described, and under which rows are given to them.
    policy : Policy
        What was done to the counts of each site.
    n_sites : int
        Sites whose counts were added up.
    """
    mixture = Mixture(mean_weights(stats, prior), mean_levels(stats, prior), prior.offsets)
    whole = mixture.n_parameters <= MOST_PARAMETERS
    n_drawn = N_DRAWN if whole else N_BLOCKS
    made = made_up(stats, prior, row_prior, stats.T, n_drawn, np.random.default_rng(0))
    each = float(stats.T.sum()) / n_drawn

    def parts() -> Iterator[Rows]:
        for start in range(0, n_drawn, PART):
            X, r = made.X[start : start + PART], made.r[start : start + PART]
            yield Rows(X, r, np.full(len(X), each))

    known = None
    if whole:
        squares = level_squares(parts(), mixture)
        information = steadied(outer_products(parts(), mixture), squares, mixture)
        # The inverse of a mean over n rows of p parameters is too large by about n / (n - p).
        information *= n_drawn / (n_drawn - mixture.n_parameters)
        # Of counts without measure, rounding may leave less than nothing.
        with suppress(np.linalg.LinAlgError):
            known = worth(information + prior_information(mixture), mixture)
    known = known or block_worth(parts(), mixture)
    return intervals(stats, mixture, known, count_errors(stats, policy, n_sites))


def count_errors(stats: Sums, policy: Policy, n_sites: int) -> CountErrors | None:
    """Return the variances of counts that each site has rounded, and has hidden where small.

    A rounded count is anywhere within a step, at each site by itself. One so small that sites may
    have hidden it is anywhere below the smallest that they tell, and at all sites alike: what it
    is filled with errs in the same way.
    """
    if policy.smallest <= 1:
        return None
    step = policy.step if policy.step > 1 else 0
    hidden = n_sites * policy.smallest

    def variance(counts: FloatArray) -> FloatArray:
        return np.where(counts < hidden, hidden**2, n_sites * step**2) / 12.0

    return CountErrors(variance(stats.T), variance(stats.S))
