"""Passes up to a maximum of the ELBO: each two are followed by a stretch of both.

A pass never lowers the ELBO, and near a maximum many in a row hardly raise it. So every third
pass reads sums that the two before it point at. What it leads to is a clustering with an exact
ELBO: a stretch that went too far is found out, and taken back.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fedmerdel.fitting.history import History
from fedmerdel.fitting.solution import Problem, Solution, em_step
from fedmerdel.records.packing import PackedRows
from fedmerdel.sums.arrays import FloatArray
from fedmerdel.sums.stretch import GROWTH, next_longest, stretched
from fedmerdel.sums.sums import Sums

SLOW = 0.8
"""Passes are slow where each gains more than this share of what the one before has gained, ..."""

SLOW_PASSES = 2
"""... so many times in a row."""

WINDOW = 6
"""Stretches that together must add less than the tolerance at the end. A few that add little
say nothing: there are plateaus from which passes rise by many nats again."""

LEAST_PASSES = 1000
"""Passes that every fit may make, ..."""

MOST_WORK = 1e9
"""... and more on a small table: until rows times variables times passes are as many."""


def most_passes(rows: PackedRows) -> int:
    """Return how many passes over these rows a fit may make."""
    return max(LEAST_PASSES, int(MOST_WORK / (rows.n_rows * len(rows.packing.n_levels))))


def climb(
    problem: Problem, solution: Solution, step: float, max_iter: int, history: History
) -> Solution:
    """Pass over the rows until a pass adds less than ``step`` nats."""
    while True:
        last, solution = solution, _pass(problem, solution, history)
        if solution.elbo - last.elbo < step or history.n_iter >= max_iter:
            return solution


def settle(
    problem: Problem, solution: Solution, tol: float, max_iter: int, history: History
) -> tuple[Solution, bool]:
    """Pass over the rows until all passes to come would add less than the tolerance."""
    passes = _ascend(problem, solution, history)
    while True:
        solution, rest = next(passes)
        if rest <= tol or history.n_iter >= max_iter:
            return solution, bool(rest <= tol)


def _ascend(
    problem: Problem, solution: Solution, history: History
) -> Iterator[tuple[Solution, float]]:
    """Pass over the rows, and stretch once passes have become slow.

    Yields the solution, and about the nats that all passes to come would add.

    Passes near a maximum gain in a geometric series, whose ratio the last two tell.
    """
    earlier, slow = 0.0, 0
    while slow < SLOW_PASSES:
        last, solution = solution, _pass(problem, solution, history)
        gained = solution.elbo - last.elbo
        ratio = gained / earlier if 0 < gained < earlier else float(gained > 0)
        yield solution, gained * ratio / (1.0 - ratio) if ratio < 1 else np.inf
        slow = slow + 1 if ratio > SLOW else 0
        earlier = gained
    longest, gains = GROWTH, [np.inf] * WINDOW
    while True:
        before = solution.elbo
        solution, longest = _cycle(problem, solution, longest, history)
        gains = [*gains[1:], solution.elbo - before]
        yield solution, sum(gains)


def _cycle(
    problem: Problem, solution: Solution, longest: float, history: History
) -> tuple[Solution, float]:
    """Make two passes and stretch them; return how long the next stretch may be, too."""
    second = _pass(problem, solution, history)
    third = _pass(problem, second, history)
    x0, x1, x2 = _flat(solution), _flat(second), _flat(third)
    # A count is weighed by its standard error, about.
    x, length = stretched(x0, x1, x2, 1.0 / np.sqrt(x2 + 0.5), longest)
    tried = em_step(problem, _sums(x, third.n_clusters), third.prior)
    went_well = tried.elbo >= third.elbo
    longest = next_longest(longest, length, went_well=went_well)
    if not went_well:
        history.n_iter += 1
        return third, longest
    history.add_pass(tried.elbo, tried.n_clusters)
    return tried, longest


def _pass(problem: Problem, solution: Solution, history: History) -> Solution:
    solution = em_step(problem, solution.stats, solution.prior)
    history.add_pass(solution.elbo, solution.n_clusters)
    return solution


def _flat(solution: Solution) -> FloatArray:
    return np.concatenate([solution.stats.T, solution.stats.S.ravel()])


def _sums(x: FloatArray, n_clusters: int) -> Sums:
    """Return the sums to read; h is not needed for that."""
    return Sums(x[:n_clusters], x[n_clusters:].reshape(n_clusters, -1), np.zeros(n_clusters))
