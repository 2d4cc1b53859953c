"""A site's rows in the clusters that the centre sent out: what they sum to, and how well."""

from __future__ import annotations

import numpy as np

from fedmerdel.fitting.halving import count_halves, propose_halves
from fedmerdel.fitting.passes import (
    Workers,
    delete_costs,
    expect_and_count,
    log_evidence,
    overlap_matrix,
)
from fedmerdel.model.broadcast import Broadcast
from fedmerdel.records.packing import PackedRows
from fedmerdel.release.answer import Answer, Prospects
from fedmerdel.release.disclosure import coarse, releases_exactly
from fedmerdel.sums.arrays import FloatArray
from fedmerdel.sums.expectations import Expectations
from fedmerdel.sums.sums import Sums


def count_clusters(
    rows: PackedRows, theta: Expectations, workers: Workers
) -> tuple[Sums, FloatArray]:
    """Give rows to clusters; return the statistics and Q of every pair."""
    return expect_and_count(rows, theta, workers), overlap_matrix(rows, theta, workers)


def make_answer(rows: PackedRows, sent: Broadcast, site: str, workers: Workers) -> Answer:
    """Return what the centre needs besides the counts: how well, and what moves would bring.

    Under a policy that changes counts nothing is told of moves, and the evidence is rounded
    down in the steps of other sums of this kind.
    """
    evidence = float(rows.weights @ log_evidence(rows, sent.clusters, workers))
    policy = sent.study.policy
    if not releases_exactly(policy):
        return Answer(sent.hash, float(coarse(np.array(evidence), policy, np.floor)))
    return Answer(sent.hash, evidence, _prospects(rows, sent, site, workers))


def _prospects(rows: PackedRows, sent: Broadcast, site: str, workers: Workers) -> Prospects:
    """Count halves along the cuts that were sent, or as the rows suggest where none was."""
    theta, uncut = sent.clusters, sent.uncut
    halves = None if uncut.all() else count_halves(rows, theta, sent.cuts, workers)
    if uncut.any():
        # Sites draw different numbers from one seed, each the same ones every time.
        seed = np.random.SeedSequence([sent.study.seed, sent.number, *site.encode("utf-8")])
        rng = np.random.default_rng(seed)
        stats = expect_and_count(rows, theta, workers)
        proposed = propose_halves(rows, theta, stats, sent.prior, workers, rng)
        halves = proposed if halves is None else proposed.where(uncut, halves)
    assert halves is not None
    return Prospects(halves, delete_costs(rows, theta, workers))
