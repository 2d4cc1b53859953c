"""A point of the search: responsibilities, given by what made them, and what they sum to."""

from __future__ import annotations

from typing import NamedTuple

from fedmerdel.mixture.elbo import elbo
from fedmerdel.mixture.expectations import Expectations, expectations
from fedmerdel.mixture.passes import Workers, expect_and_count
from fedmerdel.mixture.prior import Prior
from fedmerdel.mixture.statistics import Statistics
from fedmerdel.records.packing import PackedRows


class Problem(NamedTuple):
    """What a fit is given: the rows, the prior, and the threads to work with."""

    rows: PackedRows
    prior: Prior
    workers: Workers


class Solution(NamedTuple):
    """The state after an E and an M step.

    Attributes
    ----------
    theta : Expectations
        What the E step read. It stands for the responsibilities, which are never kept.
    stats : Statistics
        The statistics of these responsibilities.
    elbo : float
        The ELBO of the responsibilities with q(pi) and q(phi) at their optimum.
    """

    theta: Expectations
    stats: Statistics
    elbo: float

    @property
    def n_clusters(self) -> int:
        """Clusters that rows may be given to."""
        return self.stats.n_clusters


def pass_from(problem: Problem, theta: Expectations) -> Solution:
    """One E step with these expectations and one M step: a pass over the rows."""
    stats = expect_and_count(problem.rows, theta, problem.workers)
    return Solution(theta, stats, elbo(stats, problem.prior))


def pass_on(problem: Problem, stats: Statistics) -> Solution:
    """M step on these statistics, then a pass. Never lowers the ELBO of the statistics."""
    return pass_from(problem, expectations(stats, problem.prior))
