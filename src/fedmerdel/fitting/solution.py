"""A point of the search: responsibilities, given by what made them, and what they sum to."""

from __future__ import annotations

from typing import NamedTuple

from fedmerdel.fitting.passes import Workers, count_together, expect_and_count
from fedmerdel.records.packing import PackedRows
from fedmerdel.sums.elbo import elbo
from fedmerdel.sums.expectations import Expectations, expectations
from fedmerdel.sums.learning import Learned, Learning, learning_of
from fedmerdel.sums.prior import Prior
from fedmerdel.sums.sums import Sums


class Problem(NamedTuple):
    """What a fit is given.

    Attributes
    ----------
    rows : PackedRows
        The rows.
    prior : Prior
        The prior, or the one to begin with.
    workers : Workers
        The threads to work with.
    learning : Strengths, Selection or None
        What is learned of the prior, if anything.
    """

    rows: PackedRows
    prior: Prior
    workers: Workers
    learning: Learning | None = None


class Solution(NamedTuple):
    """The state after an E and an M step.

    Attributes
    ----------
    theta : Expectations
        What the E step read. It stands for the responsibilities, which are never kept.
    stats : Sums
        The statistics of these responsibilities.
    elbo : float
        The ELBO of the responsibilities with q(pi) and q(phi) at their optimum.
    prior : Prior
        The prior that it is under: the problem's, or what was learned so far.
    """

    theta: Expectations
    stats: Sums
    elbo: float
    prior: Prior

    @property
    def n_clusters(self) -> int:
        """Clusters that rows may be given to."""
        return self.stats.n_clusters


def make_problem(
    rows: PackedRows, prior: Prior, workers: Workers, learned: Learned = None
) -> Problem:
    """Return the problem of fitting these rows, with the prior that learning begins with."""
    if learned is None:
        return Problem(rows, prior, workers)
    learning = learning_of(learned, count_together(rows, workers).S, prior)
    assert learning is not None
    return Problem(rows, learning.start(prior), workers, learning)


def em_step(problem: Problem, stats: Sums, prior: Prior) -> Solution:
    """M step on these statistics, then an E step.

    Never lowers the ELBO of the statistics under the prior.
    """
    return e_step(problem, expectations(stats, prior), prior)


def e_step(problem: Problem, theta: Expectations, prior: Prior) -> Solution:
    """E step over the rows with these expectations, and what is learned of the prior."""
    stats = expect_and_count(problem.rows, theta, problem.workers)
    if problem.learning is not None:
        prior = problem.learning.learn(stats.S, prior)
    return Solution(theta, stats, elbo(stats, prior), prior)
