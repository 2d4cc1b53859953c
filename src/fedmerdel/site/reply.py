"""A site's rows given to the clusters that the centre sent out, and what they sum to."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fedmerdel.mixture.cuts import Cuts, FirstHalves
from fedmerdel.mixture.expectations import Expectations
from fedmerdel.mixture.halving import count_halves, propose_halves
from fedmerdel.mixture.passes import (
    Workers,
    delete_costs,
    expect_and_count,
    log_evidence,
    overlap_matrix,
)
from fedmerdel.mixture.prior import FloatArray, IntArray
from fedmerdel.mixture.statistics import Statistics
from fedmerdel.model.broadcast import Broadcast
from fedmerdel.records.packing import PackedRows


class Counted(NamedTuple):
    """What a site's rows sum to in K clusters. Stays at the site until it is protected.

    Attributes
    ----------
    stats : Statistics
        T, S and h.
    overlap : float64 array (K, K)
        Q of every pair.
    cost : float64 array (K,)
        ``sum_n w_n ln(1 - r_nk)``.
    cuts : Cuts
        Along which the halves were counted.
    halves : FirstHalves
        The first half of each cluster.
    """

    stats: Statistics
    overlap: FloatArray
    cost: FloatArray
    cuts: Cuts
    halves: FirstHalves


def count_reply(
    rows: PackedRows,
    sent: Broadcast,
    clusters: IntArray,
    workers: Workers,
    rng: np.random.Generator,
) -> Counted:
    """Give rows to some of the clusters that were sent, and count.

    Where no cut was sent with a cluster, the halves are those that the rows suggest.
    """
    theta, cuts = sent.clusters.take(clusters), sent.cuts.take(clusters)
    uncut = sent.uncut[clusters]
    stats = expect_and_count(rows, theta, workers)
    if uncut.any():
        proposed, halves = propose_halves(rows, theta, sent.prior, workers, rng)
        cuts = Cuts(
            np.where(uncut, proposed.offset, cuts.offset),
            np.where(uncut[:, None], proposed.direction, cuts.direction),
        )
    if not uncut.all():
        halves = count_halves(rows, theta, cuts, workers)
    return Counted(
        stats,
        overlap_matrix(rows, theta, workers),
        delete_costs(rows, theta, workers),
        cuts,
        halves,
    )


def total_evidence(rows: PackedRows, theta: Expectations, workers: Workers) -> float:
    """Return how well the clusters explain the rows, in nats."""
    return float(rows.weights @ log_evidence(rows, theta, workers))


def reply_seed(sent: Broadcast, site: str) -> np.random.Generator:
    """Return random numbers of a site's own for this exchange, the same ones every time."""
    seed = np.random.SeedSequence([sent.study.seed, sent.number, *site.encode("utf-8")])
    return np.random.default_rng(seed)
