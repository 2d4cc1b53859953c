"""Several starts for a given number of classes, each climbed to its maximum."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from fedmerdel.fitting.adaptive import Limits, fit_adaptive
from fedmerdel.fitting.ascent import settle
from fedmerdel.fitting.classical import Climb, climb, maximise
from fedmerdel.fitting.history import History
from fedmerdel.fitting.passes import Workers, count_labels, count_together
from fedmerdel.fitting.solution import Problem, em_step
from fedmerdel.records.packing import PackedRows
from fedmerdel.sums.arrays import IntArray
from fedmerdel.sums.expectations import Expectations
from fedmerdel.sums.levels import level_means, level_shares, level_totals
from fedmerdel.sums.prior import uniform_prior
from fedmerdel.sums.sums import Sums

ALPHA = 0.01
"""Dirichlet parameter of each class's share where there is a prior: `MerDel`'s own."""

SEARCH_PASSES = 100
"""Most passes over all rows of the search that makes the first start."""

SEARCH_TOLERANCE = 1e-4
"""Nats a row at which that search is done: EM goes on from there."""

FEW_ROWS = 1000
"""Tables with fewer rows than this are climbed on one thread: passes take less time than
threads take to wait for each other."""

LIKE_ITS_ROW = 0.5
"""How much a class drawn as a row is like that row; for the rest it is like all rows."""


def climb_from_starts(
    rows: PackedRows,
    n_classes: int,
    seeds: Sequence[np.random.SeedSequence],
    tol: float,
    max_iter: int,
    n_threads: int,
) -> list[Climb]:
    """Climb from as many starts as there are seeds.

    The first is found by the default recipe's search. The others are drawn, in turns, as rows,
    which does best where there are many variables, and as probabilities, best where there are
    few. Starts are what the threads share out: the result of each is that of one thread.
    """

    def run(at: int) -> Climb:
        rng = np.random.default_rng(seeds[at])
        with Workers() as workers:
            if at == 0:
                start = searched_start(rows, n_classes, rng, workers)
            elif at % 2 == 1:
                start = drawn_rows(rows, n_classes, rng, workers)
            else:
                start = drawn_probabilities(rows.packing.level_offsets, n_classes, rng)
            return climb(rows, start, tol, max_iter, workers)

    with ThreadPoolExecutor(n_threads if rows.n_rows >= FEW_ROWS else 1) as pool:
        return list(pool.map(run, range(len(seeds))))


def searched_start(
    rows: PackedRows, n_classes: int, rng: np.random.Generator, workers: Workers
) -> Expectations:
    """Start where the default recipe finds at most so many clusters; draw those that lack."""
    packing = rows.packing
    problem = Problem(rows, uniform_prior(packing.n_levels, ALPHA, n_classes), workers)
    tol = SEARCH_TOLERANCE * float(rows.weights.sum())
    limits = Limits(n_classes, n_classes, SEARCH_PASSES, tol, thorough=False)
    solution, _ = fit_adaptive(problem, None, limits, rng, History(rows.n_rows))
    found = maximise(solution.stats, packing.level_offsets)
    n_lacking = n_classes - found.n_clusters
    if n_lacking == 0:
        return found
    drawn = drawn_rows(rows, n_lacking, rng, workers)
    return Expectations(
        np.concatenate(
            (
                found.log_weights + np.log(found.n_clusters / n_classes),
                np.full(n_lacking, -np.log(n_classes)),
            )
        ),
        np.concatenate((found.log_levels, drawn.log_levels)),
    )


def drawn_rows(
    rows: PackedRows, n_classes: int, rng: np.random.Generator, workers: Workers
) -> Expectations:
    """Make each class half like a row drawn by its weight, half like all rows; equal shares."""
    offsets = rows.packing.level_offsets
    n_drawn = min(n_classes, rows.n_rows)
    share = rows.weights / rows.weights.sum()
    labels = np.full(rows.n_rows, -1, dtype=np.int64)
    labels[rng.choice(rows.n_rows, n_drawn, replace=False, p=share)] = np.arange(n_drawn)
    once = rows._replace(weights=np.ones(rows.n_rows))
    own = count_labels(once, labels, n_classes, workers).S
    all_rows = level_shares(count_together(rows, workers).S, offsets)
    # A class without a row, or a variable that is missing in it, is a draw near all rows.
    drawn = level_means(all_rows * rng.exponential(size=own.shape) + 1e-6, offsets)
    seen = level_totals(own, offsets) > 0
    levels = LIKE_ITS_ROW * np.where(seen, own, drawn) + (1 - LIKE_ITS_ROW) * drawn
    return Expectations(np.full(n_classes, -np.log(n_classes)), np.log(levels))


def drawn_probabilities(
    offsets: IntArray, n_classes: int, rng: np.random.Generator
) -> Expectations:
    """Draw each class's level probabilities evenly from all that there are; equal shares."""
    levels = level_means(rng.exponential(size=(n_classes, int(offsets[-1]))), offsets)
    return Expectations(np.full(n_classes, -np.log(n_classes)), np.log(levels))


def bayesian_bound(
    rows: PackedRows, start: Sums, tol: float, max_iter: int, workers: Workers
) -> float:
    """Return the ELBO that variational passes reach from the statistics of given classes.

    The prior is the paper's, for as many components as there are classes.
    """
    prior = uniform_prior(rows.packing.n_levels, ALPHA, start.n_clusters)
    problem = Problem(rows, prior, workers)
    begun = em_step(problem, start, prior)
    solution, _ = settle(problem, begun, tol, max_iter, History(rows.n_rows))
    return solution.elbo
