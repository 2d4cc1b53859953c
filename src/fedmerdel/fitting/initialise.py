"""Where a fit starts: labels of the rows."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedmerdel.fitting.passes import count_labels, label_rows
from fedmerdel.fitting.solution import Problem
from fedmerdel.records.collapse import find_distinct
from fedmerdel.sums.arrays import FloatArray, IntArray
from fedmerdel.sums.expectations import Expectations

KMODES_STEPS = 10
"""Most times that rows change their mode."""


def start_labels(
    init: Literal["kmodes", "random"] | IntArray,
    problem: Problem,
    n_clusters: int,
    rng: np.random.Generator,
) -> IntArray:
    """Return the start that was asked for; labels that were given are taken as they are."""
    if isinstance(init, np.ndarray):
        return init
    make = {"kmodes": kmodes_labels, "random": random_labels}[init]
    return make(problem, n_clusters, rng)


def random_labels(problem: Problem, n_clusters: int, rng: np.random.Generator) -> IntArray:
    """Give every row to a cluster at random."""
    return rng.integers(0, n_clusters, size=problem.rows.n_rows)


def kmodes_labels(problem: Problem, n_clusters: int, rng: np.random.Generator) -> IntArray:
    """Cluster by k-modes (Chaturvedi 2001), the paper's start, as R's klaR does.

    Rows go to the mode they differ from in the fewest variables, and each tied row draws one
    of these; then each mode becomes the most frequent level of each variable among its rows. A
    mode without rows stays as it was. The first modes are distinct rows drawn at random.
    """
    rows, prior = problem.rows, problem.prior
    counting = np.flatnonzero(rows.weights > 0)
    distinct = counting[find_distinct(rows.codes[counting])[1]]
    seeds = rng.choice(distinct, size=min(n_clusters, len(distinct)), replace=False)
    labels = np.full(rows.n_rows, -1, dtype=np.int64)
    labels[seeds] = np.arange(len(seeds))
    modes = np.zeros((len(seeds), len(prior.eps)))
    for _ in range(KMODES_STEPS):
        stats = count_labels(rows, labels, len(seeds), problem.workers)
        found = _is_mode(stats.S, prior.offsets).astype(np.float64)
        modes = np.where(stats.T[:, None] > 0, found, modes)
        matches = Expectations(np.zeros(len(seeds)), modes)
        nearest = label_rows(rows, matches, problem.workers, rng.random(rows.n_rows))
        if np.array_equal(nearest, labels):
            break
        labels = nearest
    return labels


def _is_mode(S: FloatArray, offsets: IntArray) -> NDArray[np.bool_]:
    """Mark the first most frequent level of each variable in each cluster."""
    mode = np.zeros(S.shape, dtype=bool)
    for start, stop in pairwise(offsets):
        top = start + S[:, start:stop].argmax(axis=1)
        mode[np.arange(len(S)), top] = True
    return mode
