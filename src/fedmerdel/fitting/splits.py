"""Where to split: the best halves of every cluster, found together.

Each cluster's rows are cut along the leading direction of what its product of
independent variables does not explain (the first axis of a multiple correspondence
analysis of the cluster), and the halves are improved by a few E and M steps inside the
cluster. The gain of a split is minus the gain of merging the halves again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fedmerdel.fitting import split_kernels
from fedmerdel.fitting.code_tables import build_table, decode_counts
from fedmerdel.fitting.passes import count_labels, statistics_of, summed
from fedmerdel.fitting.solution import Problem
from fedmerdel.sums.arrays import FloatArray, IntArray
from fedmerdel.sums.elbo import merge_gains
from fedmerdel.sums.expectations import Expectations, expectations
from fedmerdel.sums.levels import sum_levels
from fedmerdel.sums.prior import Prior
from fedmerdel.sums.sums import Sums

POWER_STEPS = 4
"""Steps towards the leading direction of each cluster."""

FIRM = 3.0
"""Log odds of the first halves, one standard deviation from the middle."""

RARE = 4.0
"""Rows by which the direction of a level is shrunk: rare levels say little."""


class Halves(NamedTuple):
    """The proposed halves of each of K clusters.

    Attributes
    ----------
    stats : Sums
        2 K clusters: the halves of cluster k are 2 k and 2 k + 1.
    gain : float64 array (K,)
        What each split adds to the ELBO, for the rows labelled with the cluster.
    """

    stats: Sums
    gain: FloatArray

    def applied(self, stats: Sums, chosen: IntArray) -> Sums:
        """Return the clusters with the chosen ones replaced by their halves, which go last."""
        kept = stats.take(np.setdiff1d(np.arange(stats.n_clusters), chosen))
        return kept.joined(self.stats.take(np.concatenate((2 * chosen, 2 * chosen + 1))))


def propose_halves(
    problem: Problem,
    prior: Prior,
    labels: IntArray,
    n_clusters: int,
    steps: int,
    rng: np.random.Generator,
) -> Halves:
    """Return good halves of every cluster of hard labels, after some E and M steps in each.

    The steps end early once no cluster is on the way to a gain.
    """
    whole = count_labels(problem.rows, labels, n_clusters, problem.workers)
    direction = leading_directions(problem, labels, whole, rng)
    both = np.repeat(direction, 2, axis=0)
    both[0::2] *= FIRM / 2
    both[1::2] *= -FIRM / 2
    theta = Expectations(np.zeros(2 * n_clusters), both)
    halves = _halves_pass(problem, labels, theta)
    gain = _split_gains(halves, prior)
    for step in range(2, steps + 1):
        halves = _halves_pass(problem, labels, expectations(halves, prior))
        last, gain = gain, _split_gains(halves, prior)
        if not np.any(gain + (steps - step) * (gain - last) > 0):
            break
    return Halves(halves, gain)


def _split_gains(halves: Sums, prior: Prior) -> FloatArray:
    """Return minus what merging the halves again would gain."""
    pairs = np.arange(halves.n_clusters).reshape(-1, 2)
    # r_a ln r_a + r_b ln r_b of a whole row: merging the halves takes exactly this away.
    overlap = -(halves.h[0::2] + halves.h[1::2])
    return -merge_gains(halves, prior, pairs, overlap)


def leading_directions(
    problem: Problem, labels: IntArray, whole: Sums, rng: np.random.Generator
) -> FloatArray:
    """Return for each cluster a direction (K, M) along which its rows vary most.

    Power iteration on the cluster's indicator matrix in the chi-square metric, which
    is what an E and an M step do to halves that hardly differ. Rows projected on the
    result have variance 1.
    """
    rows, prior = problem.rows, problem.prior
    base = rows.packing.state_offsets
    seen = whole.S + RARE
    direction = centred(rng.standard_normal(whole.S.shape), whole.S, prior)
    for _ in range(POWER_STEPS):
        table = build_table(Expectations(np.zeros(whole.n_clusters), direction), rows.packing)

        def work(start: int, stop: int, table: FloatArray = table) -> tuple[FloatArray, FloatArray]:
            counts, spread = np.zeros_like(table), np.zeros(whole.n_clusters)
            split_kernels.project_pass(
                rows.codes, rows.weights, base, labels, table, start, stop, counts, spread
            )
            return counts, spread

        counts, spread = summed(problem.workers.over_chunks(rows.n_rows, work))
        scale = np.sqrt(np.maximum(spread / np.maximum(whole.T, 1.0), 1e-300))
        last, last_scale = direction, scale
        direction = centred(decode_counts(counts, rows.packing) / seen, whole.S, prior)
        direction /= scale[:, None]
    return last / last_scale[:, None]


def centred(direction: FloatArray, S: FloatArray, prior: Prior) -> FloatArray:
    """Take from each variable its mean over the cluster, so that projections have mean 0."""
    totals = np.maximum(sum_levels(S, prior.offsets), 1e-300)
    mean = sum_levels(direction * S, prior.offsets) / totals
    return direction - np.repeat(mean, prior.n_levels, axis=1)


def _halves_pass(problem: Problem, labels: IntArray, theta: Expectations) -> Sums:
    rows = problem.rows
    base = rows.packing.state_offsets
    table = build_table(theta, rows.packing)

    def work(start: int, stop: int) -> tuple[FloatArray, FloatArray]:
        counts, h = np.zeros_like(table), np.zeros(theta.n_clusters)
        split_kernels.halves_pass(
            rows.codes, rows.weights, base, labels, table, start, stop, counts, h
        )
        return counts, h

    return statistics_of(rows, *summed(problem.workers.over_chunks(rows.n_rows, work)))
