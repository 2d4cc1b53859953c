"""Halves of clusters counted from rows: along given cuts, or along those that the rows suggest."""

from __future__ import annotations

import numpy as np

from fedmerdel.fitting import cut_kernels
from fedmerdel.fitting.code_tables import build_table, decode_counts
from fedmerdel.fitting.passes import Workers, expect_and_count, statistics_of, summed
from fedmerdel.fitting.splits import FIRM, POWER_STEPS, RARE, centred
from fedmerdel.records.packing import PackedRows
from fedmerdel.sums.arrays import FloatArray
from fedmerdel.sums.cuts import Cuts, FirstHalves, cuts_between
from fedmerdel.sums.expectations import Expectations
from fedmerdel.sums.prior import Prior
from fedmerdel.sums.sums import Sums

LOCAL_STEPS = 12
"""E and M steps inside each cluster before its halves are proposed."""


def count_halves(
    rows: PackedRows, theta: Expectations, cuts: Cuts, workers: Workers
) -> FirstHalves:
    """Count the first half of each cluster along its cut."""
    table = build_table(theta, rows.packing)
    cut_table = build_table(Expectations(cuts.offset, cuts.direction), rows.packing)
    base = rows.packing.state_offsets

    def work(start: int, stop: int) -> tuple[FloatArray, FloatArray]:
        counts, blur = np.zeros_like(table), np.zeros(theta.n_clusters)
        cut_kernels.cut_pass(
            rows.codes, rows.weights, base, table, cut_table, start, stop, counts, blur
        )
        return counts, blur

    counts, blur = summed(workers.over_chunks(rows.n_rows, work))
    found = statistics_of(rows, counts, blur)
    return FirstHalves(found.T, found.S, found.h)


def propose_halves(
    rows: PackedRows,
    theta: Expectations,
    prior: Prior,
    workers: Workers,
    rng: np.random.Generator,
) -> FirstHalves:
    """Return good halves of every cluster.

    The first cut is across the direction along which the cluster's rows vary most; E and M
    steps inside the cluster improve on it.
    """
    stats = expect_and_count(rows, theta, workers)
    direction = FIRM * _leading_directions(rows, theta, stats, prior, workers, rng)
    cuts = Cuts(np.zeros(theta.n_clusters), direction)
    first = count_halves(rows, theta, cuts, workers)
    for _ in range(LOCAL_STEPS - 1):
        cuts = cuts_between(stats, first, prior)
        first = count_halves(rows, theta, cuts, workers)
    return first


def _leading_directions(
    rows: PackedRows,
    theta: Expectations,
    stats: Sums,
    prior: Prior,
    workers: Workers,
    rng: np.random.Generator,
) -> FloatArray:
    """Return for each cluster the direction (K, M) along which its rows vary most.

    As `splits.leading_directions`, with every row counted in each cluster by its share.
    """
    base, table = rows.packing.state_offsets, build_table(theta, rows.packing)
    direction = centred(rng.standard_normal(stats.S.shape), stats.S, prior)
    for _ in range(POWER_STEPS):
        turned = build_table(Expectations(np.zeros(theta.n_clusters), direction), rows.packing)

        def work(
            start: int, stop: int, turned: FloatArray = turned
        ) -> tuple[FloatArray, FloatArray]:
            counts, spread = np.zeros_like(table), np.zeros(theta.n_clusters)
            cut_kernels.turn_pass(
                rows.codes, rows.weights, base, table, turned, start, stop, counts, spread
            )
            return counts, spread

        counts, spread = summed(workers.over_chunks(rows.n_rows, work))
        scale = np.sqrt(np.maximum(spread / np.maximum(stats.T, 1.0), 1e-300))[:, None]
        last = direction / scale
        direction = centred(decode_counts(counts, rows.packing) / (stats.S + RARE), stats.S, prior)
        direction /= scale
    return last
