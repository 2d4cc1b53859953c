"""The default recipe: divide one cluster on a small sample, then search on growing ones.

Structure is searched where it is cheap. A sample of the rows is divided into as many
clusters as there is room for, whether each cut pays or not: twenty clusters can be worth
what no two of them are. Then clusters that are one after all are merged, those that only
collect leftovers are deleted, and what still holds two is split, by the ELBO; where all
room is used, clusters are cut into twice as many, and the search goes on. The result
starts the same search on a sample eight times as large, and so on to all rows, where
little is left to do but a few passes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from fedmerdel.fitting.ascent import climb, settle
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
from fedmerdel.sums.learning import while_searching
from fedmerdel.sums.sums import Sums

ROWS_PER_CLUSTER = 100
"""Rows of the smallest sample, for each cluster that there may be."""

GROWTH = 8
"""A sample holds this many times the rows of the one before."""

CLIMB = 0.1
"""Between moves, passes go on while each adds this share of what a cluster costs ..."""

CLIMB_SHARE = 0.05
"""... and at least this share of what the last moves gained."""


DIVIDE_STEPS = 2
"""E and M steps inside each cluster before it is cut: passes over all follow anyway."""

SMALLEST_HALF = 4.0
"""Rows of a part that is worth cutting off when a sample is divided."""


NEARLY_ALL = 0.9
"""Share of the room that is as good as all of it: a search that is short of room may end with a
cluster or two less."""


class Limits(NamedTuple):
    """What the search may use.

    Attributes
    ----------
    room : int
        Clusters that there is room for now.
    max_clusters : int
        Most clusters that room may be made for.
    max_iter : int
        Most passes over all rows.
    tol : float
        Nats that passes to come may still gain at the end.
    thorough : bool
        Whether to try merges that need passes to pay, once there is nothing else to do.
    """

    room: int
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
    found, prior, room = start, problem.prior, limits.room
    early = problem._replace(learning=while_searching(problem.learning))
    for rows in _growing_samples(problem.rows, room, rng):
        sample, whole = early._replace(rows=rows), rows is problem.rows
        record = history if whole else history.on_sample(rows.n_rows)
        if found is None:
            solution = _divide(sample, _one_cluster(sample), room, rng)
        else:
            solution = em_step(sample, found, prior)
        record.add_pass(solution.elbo, solution.n_clusters)
        bounds = limits._replace(room=room)
        if not whole:
            most = max(room, rows.n_rows // ROWS_PER_CLUSTER)
            bounds = bounds._replace(max_clusters=min(most, limits.max_clusters), thorough=False)
        solution, room = _search(sample, solution, bounds, rng, record)
        found, prior = solution.stats, solution.prior
    while True:
        searched = solution.elbo
        solution, converged = settle(problem, solution, limits.tol, limits.max_iter, history)
        moved = solution.elbo - searched > _cluster_cost(problem)
        if not moved or not converged:
            return solution, converged
        settled = solution.elbo
        solution, room = _search(problem, solution, limits._replace(room=room), rng, history)
        if solution.elbo - settled < limits.tol:
            return solution, converged


def _search(
    problem: Problem,
    solution: Solution,
    limits: Limits,
    rng: np.random.Generator,
    history: History,
) -> tuple[Solution, int]:
    """Search in the room that there is, and while that is used up, in twice the room.

    As with the first clusters, more are cut out of those at hand whether each cut pays or not;
    what that leads to is kept if the ELBO has risen.
    """
    solution = _move(problem, solution, limits, rng, history)
    while NEARLY_ALL * limits.room <= solution.n_clusters and limits.room < limits.max_clusters:
        limits = limits._replace(room=min(2 * limits.room, limits.max_clusters))
        aside = history.aside()
        tried = _divide(problem, solution, limits.room, rng)
        tried = _move(problem, tried, limits, rng, aside)
        if not history.take(aside, tried.elbo > solution.elbo):
            break
        solution = tried
    return solution, limits.room


def _one_cluster(problem: Problem) -> Solution:
    """Return the solution that has all rows in one cluster, before anything is learned."""
    together = count_together(problem.rows, problem.workers)
    return em_step(problem._replace(learning=None), together, problem.prior)


def _divide(problem: Problem, solution: Solution, room: int, rng: np.random.Generator) -> Solution:
    """Cut clusters into ever more, the cuts that gain most first, until they fill the room."""
    # Too early to learn a prior: until there are clusters, all rows look alike.
    problem, prior = problem._replace(learning=None), solution.prior
    while solution.n_clusters < room:
        splits = propose_splits(problem, solution, DIVIDE_STEPS, rng)
        smaller = np.minimum(splits.first.T, splits.whole.T - splits.first.T)
        order = np.argsort(-splits.gain, kind="stable")
        chosen = order[smaller[order] >= SMALLEST_HALF][: room - solution.n_clusters]
        if len(chosen) == 0:
            break
        solution = em_step(problem, splits.made(solution.stats, chosen), prior)
        solution = em_step(problem, solution.stats, prior)
    return solution


def _move(
    problem: Problem,
    solution: Solution,
    limits: Limits,
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
        step = max(fine, CLIMB_SHARE * gained)
        solution = climb(problem, solution, step, limits.max_iter, history)
        before = solution.elbo
        solution = merge_moves(problem, solution, history)
        solution = delete_moves(problem, solution, history)
        if solution.elbo <= before:  # splits cost most to propose: once there is nothing to tidy
            # Where room can be made, there is no need to swap.
            swaps = limits.room == limits.max_clusters
            solution = split_moves(problem, solution, limits.room, rng, history, swaps=swaps)
        if solution.elbo <= before and limits.thorough:
            solution = tried_merges(problem, solution, history)
        gained, least = solution.elbo - before, limits.tol
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
