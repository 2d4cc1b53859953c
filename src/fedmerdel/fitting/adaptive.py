"""The default recipe: divide one cluster on a small sample, then search on growing ones.

Structure is searched where it is cheap. A sample of the rows is divided into as many
clusters as there may be, whether each cut pays or not: twenty clusters can be worth
what no two of them are. Then clusters that are one after all are merged, those that only
collect leftovers are deleted, and what still holds two is split, by the ELBO. The result
starts the same search on a sample eight times as large, and so on to all rows, where
little is left to do but a few passes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from fedmerdel.fitting.history import History
from fedmerdel.fitting.moves import (
    delete_moves,
    merge_moves,
    propose_splits,
    split_moves,
    tried_merges,
)
from fedmerdel.fitting.passes import count_together
from fedmerdel.fitting.solution import Problem, Solution, em_step
from fedmerdel.records.collapse import WORTH_SHARE
from fedmerdel.records.packing import PackedRows, repack
from fedmerdel.sums.sums import Sums

ROWS_PER_CLUSTER = 100
"""Rows of the smallest sample, for each cluster that there may be."""

GROWTH = 8
"""A sample holds this many times the rows of the one before."""

CLIMB = 0.02
"""Between moves, passes go on while each adds this share of what a cluster costs ..."""

CLIMB_SHARE = 0.05
"""... and at least this share of what the last moves gained."""


DIVIDE_STEPS = 2
"""E and M steps inside each cluster before it is cut: passes over all follow anyway."""

SMALLEST_HALF = 4.0
"""Rows of a part that is worth cutting off when a sample is divided."""


class Limits(NamedTuple):
    """What the search may use.

    Attributes
    ----------
    max_clusters : int
        Most clusters.
    max_iter : int
        Most passes over all rows.
    tol : float
        Nats that passes to come may still gain at the end.
    thorough : bool
        Whether to try merges that need passes to pay, once there is nothing else to do.
    """

    max_clusters: int
    max_iter: int
    tol: float
    thorough: bool = True


def fit_adaptive(
    problem: Problem,
    start: Sums | None,
    limits: Limits,
    rng: np.random.Generator,
    history: History,
) -> tuple[Solution, bool]:
    """Search on growing samples and then on all rows, from one cluster or a given start."""
    found, prior = start, problem.prior
    for rows in _growing_samples(problem.rows, limits.max_clusters, rng):
        sample = problem._replace(rows=rows)
        record = history if rows is problem.rows else history.on_sample(rows.n_rows)
        if found is None:
            solution = _divide(sample, limits.max_clusters, rng)
        else:
            solution = em_step(sample, found, prior)
        record.add_pass(solution.elbo, solution.n_clusters)
        thorough = limits.thorough and rows is problem.rows
        solution = _search(sample, solution, limits, thorough, rng, record)
        found, prior = solution.stats, solution.prior
    while True:
        searched = solution.elbo
        solution, converged = settle(problem, solution, limits, history)
        moved = solution.elbo - searched > _cluster_cost(problem)
        if not moved or not converged:
            return solution, converged
        settled = solution.elbo
        solution = _search(problem, solution, limits, limits.thorough, rng, history)
        if solution.elbo - settled < limits.tol:
            return solution, converged


def _divide(problem: Problem, max_clusters: int, rng: np.random.Generator) -> Solution:
    """Cut all rows into ever more clusters, the cuts that gain most first."""
    # Too early to learn a prior: until there are clusters, all rows look alike.
    problem = problem._replace(learning=None)
    prior = problem.prior
    solution = em_step(problem, count_together(problem.rows, problem.workers), prior)
    while solution.n_clusters < max_clusters:
        splits = propose_splits(problem, solution, DIVIDE_STEPS, rng)
        smaller = np.minimum(splits.first.T, splits.whole.T - splits.first.T)
        order = np.argsort(-splits.gain, kind="stable")
        chosen = order[smaller[order] >= SMALLEST_HALF][: max_clusters - solution.n_clusters]
        if len(chosen) == 0:
            break
        solution = em_step(problem, splits.made(solution.stats, chosen), prior)
        solution = em_step(problem, solution.stats, prior)
    return solution


def _search(
    problem: Problem,
    solution: Solution,
    limits: Limits,
    thorough: bool,
    rng: np.random.Generator,
    history: History,
) -> Solution:
    """Climb and move in turn until no kind of move raises the ELBO.

    A sample supports fewer clusters than all rows do, so merges that need passes to pay
    are left to the end, when the search is to be thorough.
    """
    fine = CLIMB * _cluster_cost(problem)
    gained, least = fine, 0.0
    while gained > least and history.n_iter < limits.max_iter:
        solution = _climb(problem, solution, max(fine, CLIMB_SHARE * gained), limits, history)
        before = solution.elbo
        solution = merge_moves(problem, solution, history)
        solution = delete_moves(problem, solution, history)
        if solution.elbo <= before:  # splits cost most to propose: once there is nothing to tidy
            solution = split_moves(problem, solution, limits.max_clusters, rng, history)
        if solution.elbo <= before and thorough:
            solution = tried_merges(problem, solution, history)
        gained, least = solution.elbo - before, limits.tol
    return solution


def _climb(
    problem: Problem, solution: Solution, step: float, limits: Limits, history: History
) -> Solution:
    """Pass over the rows until a pass adds less than ``step`` nats."""
    gained = np.inf
    while gained >= step and history.n_iter < limits.max_iter:
        last = solution.elbo
        solution = _pass(problem, solution, history)
        gained = solution.elbo - last
    return solution


def settle(
    problem: Problem, solution: Solution, limits: Limits, history: History
) -> tuple[Solution, bool]:
    """Pass over the rows until all passes to come would add less than the tolerance.

    Passes near a maximum gain in a geometric series, whose ratio the last two tell.
    """
    earlier = 0.0
    while history.n_iter < limits.max_iter:
        last = solution.elbo
        solution = _pass(problem, solution, history)
        gained = solution.elbo - last
        ratio = gained / earlier if 0 < gained < earlier else float(gained > 0)
        if gained * ratio <= limits.tol * (1.0 - ratio):
            return solution, True
        earlier = gained
    return solution, False


def _pass(problem: Problem, solution: Solution, history: History) -> Solution:
    solution = em_step(problem, solution.stats, solution.prior)
    history.add_pass(solution.elbo, solution.n_clusters)
    return solution


def _cluster_cost(problem: Problem) -> float:
    """Return about what the evidence asks for one more cluster: half ln N a free parameter."""
    prior = problem.prior
    free = len(prior.eps) - len(prior.n_levels)
    return 0.5 * max(free, 1) * float(np.log1p(problem.rows.weights.sum()))


def _growing_samples(
    rows: PackedRows, max_clusters: int, rng: np.random.Generator
) -> Iterator[PackedRows]:
    """Yield samples, each some times larger than the one before, and last the rows.

    Rows are drawn with probability proportional to their weight and then count once
    for each time they were drawn; so a row of weight three is drawn as three rows are.
    """
    size = ROWS_PER_CLUSTER * max_clusters
    ends = np.cumsum(rows.weights)
    # How many samples: by weight, as three rows may be written as one. Unless many have been
    # joined: then a large sample of them would cost more than all of them do.
    total = ends[-1]
    n_rows = rows.n_rows if rows.n_rows <= WORTH_SHARE * total else total
    while 2 * size <= n_rows:
        points = np.sort(rng.random(size)) * total
        drawn, times = np.unique(np.searchsorted(ends, points, side="right"), return_counts=True)
        drawn = np.minimum(drawn, rows.n_rows - 1)
        yield repack(rows.take(drawn)._replace(weights=times.astype(np.float64)))
        size *= GROWTH
    yield rows
