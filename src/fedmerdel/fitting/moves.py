"""Moves of the default recipe: proposals for all clusters at once, ranked by their gain.

A merge whose gain is positive needs no trial: the gain is exact for the responsibilities
at hand, and a pass can only add to it. Other merges, deletions and splits are ranked by
their gain, a bound or an estimate, tried with a few passes, and kept if the ELBO has risen.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fedmerdel.fitting.halving import propose_halves
from fedmerdel.fitting.history import History, MoveKind
from fedmerdel.fitting.passes import count_labels, delete_costs, label_rows, overlaps
from fedmerdel.fitting.solution import Problem, Solution, em_step
from fedmerdel.sums.arrays import FloatArray, IntArray
from fedmerdel.sums.cuts import split_gains
from fedmerdel.sums.divergence import delete_gains
from fedmerdel.sums.elbo import all_pairs, merge_gains
from fedmerdel.sums.expectations import expectations
from fedmerdel.sums.halves import FirstHalves
from fedmerdel.sums.prior import Prior
from fedmerdel.sums.sums import Sums

TRIAL_PAIRS = 3
"""Pairs of overlapping clusters that are tried with passes when no merge gains as it is."""

HORIZON = 10
"""A proposal below the ELBO goes on if this many passes like its last would bring it above."""

HALVES_STEPS = 6
"""E and M steps inside each cluster before the gain of its split is judged."""

SMALL_CLUSTER = 0.05
"""Clusters under this share of the rows may be deleted, as in the paper."""


DYING = 1.0
"""Clusters of fewer rows than this may be deleted together."""


class Splits(NamedTuple):
    """What splitting each of K clusters would bring, for the rows labelled with it.

    Attributes
    ----------
    whole : Sums
        The clusters of labelled rows.
    first : FirstHalves
        Their first halves.
    gain : float64 array (K,)
        What each split adds to the ELBO.
    """

    whole: Sums
    first: FirstHalves
    gain: FloatArray

    def made(self, stats: Sums, chosen: IntArray) -> Sums:
        """Return the clusters with the chosen ones replaced by their halves, which go last."""
        return stats.without(chosen).joined(self.first.both(self.whole, chosen))


def merge_moves(problem: Problem, solution: Solution, history: History) -> Solution:
    """Merge pairs that gain and share no cluster, best first; then one pass."""
    pairs, gains, Q = _candidate_merges(problem, solution)
    stats, elbo = solution.stats, solution.elbo
    number = np.arange(stats.n_clusters)
    gone: set[int] = set()
    for (a, b), gain, overlap in zip(pairs.tolist(), gains, Q, strict=True):
        if gain <= 0:
            break
        if a in gone or b in gone:
            continue
        here = int(np.flatnonzero(number == a)[0]), int(np.flatnonzero(number == b)[0])
        sizes = (stats.n_clusters, stats.n_clusters - 1)
        history.add_move("merge", (a, b), (elbo, elbo + gain), sizes, n_passes=0)
        stats = stats.merged(*here, overlap=overlap)
        number = np.delete(number, here[1])
        elbo += gain
        gone |= {a, b}
    if not gone:
        return solution
    solution = em_step(problem, stats, solution.prior)
    history.add_pass(solution.elbo, solution.n_clusters)
    return solution


def tried_merges(problem: Problem, solution: Solution, history: History) -> Solution:
    """Try the pairs that come nearest to a gain, and keep the first that reaches one.

    Clusters that overlap much share rows, and lose by a merge until passes have given
    these rows to others.
    """
    pairs, _, Q = _candidate_merges(problem, solution)
    for (a, b), overlap in zip(pairs[:TRIAL_PAIRS].tolist(), Q, strict=False):
        merged = solution.stats.merged(a, b, overlap=overlap)
        tried = _try(problem, solution, merged, "merge", (a, b), history)
        if tried is not solution:
            return tried
    return solution


def delete_moves(problem: Problem, solution: Solution, history: History) -> Solution:
    """Try to delete the small cluster whose rows would lose least without it.

    Clusters that are dying go together: one by one, each would take a pass.
    """
    T = solution.stats.T
    small = np.flatnonzero(T < SMALL_CLUSTER * T.sum())
    if solution.n_clusters < 2 or len(small) == 0:
        return solution
    bounds = delete_bounds(problem, solution.stats, solution.prior)
    best = small[np.argmax(bounds[small])]
    if bounds[best] <= 0:
        return solution
    dying = small[(bounds[small] > 0) & (T[small] < DYING)]
    tried = solution
    if len(dying) > 1:
        tried = _try_deletion(problem, solution, dying, history)
    if tried is solution:
        tried = _try_deletion(problem, solution, np.array([best]), history)
    return tried


def split_moves(
    problem: Problem,
    solution: Solution,
    max_clusters: int,
    rng: np.random.Generator,
    history: History,
    *,
    swaps: bool = True,
) -> Solution:
    """Try all splits that promise a gain together, or else the best one alone.

    Where there are as many clusters as there may be, the best split is tried with the
    cheapest merge of two others, if both together promise a gain and ``swaps`` are wanted.
    """
    if solution.n_clusters == max_clusters and not swaps:
        return solution
    splits = propose_splits(problem, solution, HALVES_STEPS, rng)
    order = np.argsort(-splits.gain, kind="stable")
    promising = order[splits.gain[order] > 0]
    free = max_clusters - solution.n_clusters
    if len(promising) == 0:
        return solution
    if free == 0:
        return _try_swap(problem, solution, splits, int(promising[0]), history)
    chosen = promising[:free]
    tried = _try_splits(problem, solution, splits, chosen, history)
    if tried is solution and len(chosen) > 1:
        tried = _try_splits(problem, solution, splits, chosen[:1], history)
    return tried


def propose_splits(
    problem: Problem, solution: Solution, steps: int, rng: np.random.Generator
) -> Splits:
    """Propose a split of every cluster, after some E and M steps inside each."""
    rows, workers, prior = problem.rows, problem.workers, solution.prior
    labels = label_rows(rows, solution.theta, workers)
    whole = count_labels(rows, labels, solution.n_clusters, workers)
    first = propose_halves(rows, labels, whole, prior, workers, rng, steps=steps, give_up=True)
    return Splits(whole, first, split_gains(whole, first, prior))


def delete_bounds(problem: Problem, stats: Sums, prior: Prior) -> FloatArray:
    """Return for each cluster what its deletion adds to the ELBO at least."""
    theta = expectations(stats, prior)
    cost = delete_costs(problem.rows, theta, problem.workers)
    return delete_gains(stats, prior, cost)


def _candidate_merges(
    problem: Problem, solution: Solution
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return the pairs that could gain if they shared no row, best first, gains and overlaps.

    Only these pairs need a look at the rows: an overlap never adds to the gain.
    """
    pairs = all_pairs(solution.n_clusters)
    at_most = merge_gains(solution.stats, solution.prior, pairs, np.zeros(len(pairs)))
    pairs, at_most = pairs[at_most > 0], at_most[at_most > 0]
    if len(pairs) == 0:
        return pairs, at_most, at_most
    Q = overlaps(problem.rows, solution.theta, pairs, problem.workers)
    order = np.argsort(Q - at_most, kind="stable")
    return pairs[order], (at_most - Q)[order], Q[order]


def _try_deletion(
    problem: Problem, solution: Solution, chosen: IntArray, history: History
) -> Solution:
    clusters = tuple(int(k) for k in chosen)
    return _try(problem, solution, solution.stats.without(chosen), "delete", clusters, history)


def _try_splits(
    problem: Problem, solution: Solution, splits: Splits, chosen: IntArray, history: History
) -> Solution:
    stats = splits.made(solution.stats, chosen)
    clusters = tuple(int(k) for k in chosen)
    return _try(problem, solution, stats, "split", clusters, history)


def _try_swap(
    problem: Problem, solution: Solution, splits: Splits, k: int, history: History
) -> Solution:
    pairs = all_pairs(solution.n_clusters)
    pairs = pairs[(pairs != k).all(axis=1)]
    at_most = splits.gain[k] + merge_gains(
        solution.stats, solution.prior, pairs, np.zeros(len(pairs))
    )
    # As with merges alone: only pairs that could pay if they shared no row need a look at the rows.
    pairs, at_most = pairs[at_most > 0], at_most[at_most > 0]
    if len(pairs) == 0:
        return solution
    Q = overlaps(problem.rows, solution.theta, pairs, problem.workers)
    z = int(np.argmax(at_most - Q))
    if at_most[z] - Q[z] <= 0:
        return solution
    a, b = (int(c) for c in pairs[z])
    split, merged = np.array([k]), np.array([a, b])
    stats = solution.stats.without(np.array([k, a, b]))
    stats = stats.joined(splits.first.both(splits.whole, split)).joined(solution.stats.take(merged))
    stats = stats.merged(stats.n_clusters - 2, stats.n_clusters - 1, overlap=Q[z])
    return _try(problem, solution, stats, "swap", (k, a, b), history)


def _try(
    problem: Problem,
    solution: Solution,
    stats: Sums,
    kind: MoveKind,
    clusters: tuple[int, ...],
    history: History,
) -> Solution:
    """Pass over the rows from changed statistics; keep the result if the ELBO rose.

    Passes go on while the ELBO is below and some more passes that gain as much as the
    last one would bring it above.
    """
    tried = em_step(problem, stats, solution.prior)
    n_passes, step = 1, np.inf
    while tried.elbo <= solution.elbo and HORIZON * step > solution.elbo - tried.elbo:
        last, tried = tried, em_step(problem, tried.stats, tried.prior)
        n_passes, step = n_passes + 1, tried.elbo - last.elbo
    sizes = (solution.n_clusters, tried.n_clusters)
    elbos = (solution.elbo, tried.elbo)
    accepted = history.add_move(kind, clusters, elbos, sizes, n_passes=n_passes)
    return tried if accepted else solution
