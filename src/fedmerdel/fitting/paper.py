"""MerDel as in the paper: laps of passes, then one merge and one delete proposal."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fedmerdel.fitting.history import History
from fedmerdel.fitting.passes import label_rows
from fedmerdel.fitting.solution import Problem, Solution, e_step, em_step
from fedmerdel.records.packing import PackedRows
from fedmerdel.sums.arrays import IntArray
from fedmerdel.sums.expectations import Expectations, expectations
from fedmerdel.sums.similarity import LIKENESS, MIN_CORRELATION, MergeCriterion
from fedmerdel.sums.sums import Sums

N_CANDIDATES = 3
"""A merge pair is drawn from this many most alike, a deletion from as many smallest."""

SMALL_CLUSTER = 0.05
"""Clusters under this share of the rows are candidates for deletion."""

STILL_PASSES = 3
"""The ELBO must stay within the tolerance this many times in a row."""


class Schedule(NamedTuple):
    """When to move and when to stop.

    Attributes
    ----------
    laps : int or None
        Passes before each pair of proposals; 0 makes one pass in all and then
        proposals only, None never proposes.
    merge_criterion : str
        How the merge pair is chosen.
    tol : float
        Nats by which the ELBO may still move.
    max_iter : int
        Most passes.
    """

    laps: int | None
    merge_criterion: MergeCriterion
    tol: float
    max_iter: int


def fit_paper(
    problem: Problem,
    start: Sums,
    schedule: Schedule,
    rng: np.random.Generator,
    history: History,
) -> tuple[Solution, bool]:
    """Run MerDel (section 4) from the statistics of a start; say whether it converged.

    As in VICatMix, the first E step takes the levels from the start and knows nothing of the
    weights.
    """
    levels = expectations(start, problem.prior).log_levels
    even = Expectations(np.zeros(len(levels)), levels)
    solution = e_step(problem, even, problem.prior)
    history.add_pass(solution.elbo, solution.n_clusters)
    still = 0
    while history.n_iter < schedule.max_iter:
        before = solution.elbo
        for _ in range(1 if schedule.laps is None else schedule.laps):
            if history.n_iter >= schedule.max_iter:
                return solution, False
            last = solution.elbo
            solution = em_step(problem, solution.stats, solution.prior)
            history.add_pass(solution.elbo, solution.n_clusters)
            still = still + 1 if abs(solution.elbo - last) < schedule.tol else 0
        if schedule.laps is not None:
            at_rest = solution.elbo
            solution = _merge(problem, solution, schedule.merge_criterion, rng, history)
            solution = _delete(problem, solution, rng, history)
            if solution.elbo != at_rest:
                still = 0
            elif schedule.laps == 0:
                still = still + 1 if solution.elbo == before else 0
        if still >= STILL_PASSES:
            return solution, True
    return solution, False


def _merge(
    problem: Problem,
    solution: Solution,
    criterion: MergeCriterion,
    rng: np.random.Generator,
    history: History,
) -> Solution:
    """Propose one merge (appendix C.1): M step on the merged cluster, then E and M."""
    pair = merge_candidate(solution, criterion, rng)
    if pair is None:
        return solution
    a, b = pair
    # The M step on r_a + r_b needs T and S alone; the entropy term plays no part in it.
    together = solution.stats.merged(a, b, overlap=0.0)
    merged = em_step(problem, together, solution.prior)
    elbos = (solution.elbo, merged.elbo)
    accepted = history.add_move(
        "merge", pair, elbos, (solution.n_clusters, merged.n_clusters), n_passes=1
    )
    return merged if accepted else solution


def _delete(
    problem: Problem, solution: Solution, rng: np.random.Generator, history: History
) -> Solution:
    """Propose one deletion (appendix C.2).

    E and M without the cluster on the rows that are not its own; then E and M on all.
    """
    if solution.n_clusters < 2:
        return solution
    k = delete_candidate(solution, rng)
    others = solution.stats.without(k)
    rows = problem.rows
    labels = label_rows(rows, solution.theta, problem.workers)
    not_its_own = PackedRows(rows.codes, np.where(labels == k, 0.0, rows.weights), rows.packing)
    kept = em_step(problem._replace(rows=not_its_own, learning=None), others, solution.prior)
    deleted = em_step(problem, kept.stats, solution.prior)
    elbos = (solution.elbo, deleted.elbo)
    accepted = history.add_move(
        "delete", (k,), elbos, (solution.n_clusters, deleted.n_clusters), n_passes=2
    )
    return deleted if accepted else solution


def merge_candidate(
    solution: Solution, criterion: MergeCriterion, rng: np.random.Generator
) -> tuple[int, int] | None:
    """Draw a pair from the three most alike, or from all pairs at random."""
    first, second = np.triu_indices(solution.n_clusters, k=1)
    if len(first) == 0:
        return None
    if criterion == "random":
        choice = rng.integers(len(first))
        return int(first[choice]), int(second[choice])
    alike = LIKENESS[criterion](solution.stats, solution.prior)[first, second]
    top = np.argsort(-alike, kind="stable")[:N_CANDIDATES]
    if criterion == "correlation":
        top = top[alike[top] > MIN_CORRELATION]
    if len(top) == 0:
        return None
    choice = rng.choice(top)
    return int(first[choice]), int(second[choice])


def delete_candidate(solution: Solution, rng: np.random.Generator) -> int:
    """Draw a cluster from those under 5 % of the rows, or else from the three smallest."""
    T = solution.stats.T
    small: IntArray = np.flatnonzero(T < SMALL_CLUSTER * T.sum())
    if len(small) == 0:
        small = np.argsort(T, kind="stable")[:N_CANDIDATES]
    return int(rng.choice(small))
