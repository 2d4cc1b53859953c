"""Exchanges as a protocol: sums of replies are passes over pooled rows, and moves keep their word.

The helpers at the top make a federation whose rows the tests hold, as no centre does.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedmerdel import merge_onto
from fedmerdel.centre.rounds import (
    PATIENCE,
    UNCUT,
    Plan,
    SummedMoves,
    best_clusters,
    first_state,
    next_cuts,
    next_state,
    plan_moves,
)
from fedmerdel.fitting.passes import Workers, expect_and_count, log_evidence
from fedmerdel.site.site_table import study_rows
from fedmerdel.sums.cuts import FirstHalves, split_gains
from fedmerdel.sums.elbo import elbo
from fedmerdel.sums.expectations import expectations
from fedmerdel.sums.merging import local_clusters, merged_statistics
from fedmerdel.sums.prior import Prior, uniform_prior
from fedmerdel.sums.sums import Sums
from tests.federations import binary


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_one_exchange_is_one_pass_over_pooled_rows(missing: float) -> None:
    federation = made(3, n_rows=400, prior="fixed")
    X = federation.X.astype(float)
    X[np.random.default_rng(1).random(X.shape) < missing] = np.nan
    tables = {site: X[federation.site == site] for site in federation.tables}
    federation = federation._replace(X=X, tables=tables)
    begun = federation.begun(noisy(federation.labels, 0.3, 3))
    sent = begun.broadcast.clusters
    replies = replies_of(begun, federation.tables)
    with Workers() as workers:
        pooled = expect_and_count(study_rows(federation.study, X), sent, workers)
    for part in ("T", "S", "h"):
        total = sum(getattr(reply.sums, part) for reply in replies)
        np.testing.assert_allclose(total, getattr(pooled, part), rtol=1e-11, atol=1e-9)
    order = np.argsort(-pooled.T)
    model = merge_onto(begun, replies)
    np.testing.assert_allclose(model.sums.S, pooled.S[order], rtol=1e-11, atol=1e-9)
    assert model.record[0].elbo == pytest.approx(elbo(pooled, begun.prior), rel=1e-12)


def test_evidence_less_divergence_lies_between_two_passes() -> None:
    """What is sent has an ELBO: above that of the last pass, below that of the next."""
    federation = made(0, prior="fixed")
    begun = federation.begun(noisy(federation.labels, 0.3, 0))
    course = first_state(begun.sums, begun.prior)
    assert course.divergence is not None
    with Workers() as workers:
        rows = study_rows(federation.study, federation.X)
        between = float(log_evidence(rows, course.sent, workers).sum()) - course.divergence
        after = elbo(expect_and_count(rows, course.sent, workers), begun.prior)
    assert begun.lower_bound < between < after


# The moves, on clusters made by hand: rows in thousands, so that gains are clear.

EVEN, LOW, HIGH = [0.5] * 8, [0.1] * 8, [0.9] * 8


def centre(shares: list[list[float]], rows: list[float]) -> tuple[Any, list[Any], Sums]:
    """One site with these hard clusters, each a group of its own."""
    stats = binary(shares, rows)
    local = local_clusters([(stats, np.zeros((len(rows), len(rows))))])
    groups = [np.array([k]) for k in range(len(rows))]
    return local, groups, merged_statistics(local, groups)


def prior_of(n_components: int = 20) -> Prior:
    return uniform_prior(np.full(8, 2), 0.01, n_components)


def halves_of(shares: list[list[float]], rows: list[float]) -> FirstHalves:
    half = binary(shares, rows)
    return FirstHalves(half.T, half.S, np.zeros(len(rows)))


def plan_for(
    shares: list[list[float]], rows: list[float], halves: FirstHalves, **options: Any
) -> Plan:
    local, groups, stats = centre(shares, rows)
    if "overlap" in options:
        local = local._replace(overlaps=[options.pop("overlap")])
    age = options.pop("age", np.ones(len(rows), dtype=np.int64))
    replies = SummedMoves(halves, [(stats, halves)], options.pop("cost", None))
    kept = {"gained": 0.0, "most_clusters": 20, **options}
    return plan_moves(local, groups, stats, prior_of(), age, replies, **kept)


def moved_to(plan: Plan) -> list[list[int]]:
    return [parts.tolist() for parts in plan.clusters]


def test_a_split_that_pays_is_made_and_gains_what_was_said() -> None:
    mixed = [[(a + b) / 2 for a, b in zip(LOW, HIGH, strict=True)], EVEN]
    halves = halves_of([LOW, EVEN], [500, 400])
    plan = plan_for(mixed, [1000, 800], halves)
    assert plan.move == "split"
    assert moved_to(plan) == [[1], [0], [0]]
    assert plan.twice.tolist() == [False, True, True]
    _, _, stats = centre(mixed, [1000, 800])
    gain = split_gains(stats, halves, prior_of())
    parts = halves.divide(stats, np.array([0]))
    assert elbo(parts, prior_of()) - elbo(stats, prior_of()) == pytest.approx(gain[0], rel=1e-9)
    replies = SummedMoves(halves, [(stats, halves)], None)
    course = next_state(first_state(stats, prior_of()), stats, prior_of(), replies, plan)
    np.testing.assert_allclose(course.sent.log_levels, expectations(parts, prior_of()).log_levels)
    assert course.parents.tolist() == [1, 0, 0]
    assert course.age[1:].tolist() == [UNCUT, UNCUT]
    assert course.number == 1
    assert course.divergence is not None


def test_splits_wait_for_a_cut_for_room_and_for_what_gains_more() -> None:
    mixed, rows = [EVEN, EVEN], [1000.0, 600.0]
    halves = halves_of([LOW, LOW], [500, 300])
    split = plan_for(mixed, rows, halves)
    assert moved_to(split) == [[0], [0], [1], [1]]
    # Room for one more: the split that gains most.
    one = plan_for(mixed, rows, halves, most_clusters=3)
    assert moved_to(one) == [[1], [0], [0]]
    assert plan_for(mixed, rows, halves, most_clusters=2).move != "split"
    uncut = plan_for(mixed, rows, halves, age=np.array([UNCUT, 3]))
    assert moved_to(uncut) == [[0], [1], [1]]
    assert plan_for(mixed, rows, halves, gained=1e9).move == ""


def test_clusters_that_are_alike_are_merged_and_those_that_overlap_are_not() -> None:
    useless = halves_of([LOW, LOW, HIGH], [150, 120, 200])
    shares, rows = [LOW, LOW, HIGH], [300.0, 240.0, 400.0]
    plan = plan_for(shares, rows, useless)
    assert plan.move == "merge"
    assert moved_to(plan) == [[0, 1], [2]]
    Q = np.zeros((3, 3))
    Q[0, 1] = Q[1, 0] = 1e4
    assert plan_for(shares, rows, useless, overlap=Q).move == ""


def test_one_cluster_is_deleted_only_where_all_rows_were_asked() -> None:
    """Half a row is no cluster. A merge would gain too, and go first: overlaps forbid it."""
    shares, rows = [LOW, HIGH, EVEN], [500.0, 400.0, 0.5]
    useless = halves_of(shares, [250, 200, 0.25])
    cost, Q = np.array([-1e5, -1e5, -0.6]), np.full((3, 3), 1e4)
    plan = plan_for(shares, rows, useless, cost=cost, overlap=Q)
    assert plan.move == "delete"
    assert moved_to(plan) == [[0], [1]]
    plan = plan_for(shares, rows, useless, overlap=Q)
    assert plan.move == ""
    assert moved_to(plan) == [[0], [1], [2]]
    alone = plan_for([LOW], [500.0], halves_of([LOW], [250]), cost=np.array([0.0]))
    assert alone.move == ""


def test_a_cut_ages_and_one_without_hope_is_proposed_anew() -> None:
    _, _, stats = centre([LOW, EVEN], [500.0, 600.0])
    halves = halves_of([LOW, LOW], [250, 300])  # the first gains nothing, the second much
    course = first_state(stats, prior_of())
    replies = SummedMoves(halves, [(stats, halves)], None)
    for old, new in ((UNCUT, 0), (0, 1), (PATIENCE - 1, PATIENCE)):
        _, age = next_cuts(course._replace(age=np.full(2, old)), stats, prior_of(), replies)
        assert age.tolist() == [new, new]
    _, age = next_cuts(course._replace(age=np.full(2, PATIENCE)), stats, prior_of(), replies)
    assert age.tolist() == [UNCUT, PATIENCE + 1]


def test_the_second_exchange_without_a_move_is_a_guess() -> None:
    federation = made(1, n_rows=400)
    model = federation.begun(noisy(federation.labels, 0.3, 1))
    first = play(model, federation.tables)
    assert first.round_state.divergence is not None
    plain = expectations(first.sums, first.prior)
    np.testing.assert_array_equal(first.round_state.clusters.log_levels, plain.log_levels)
    second = play(first, federation.tables)
    assert second.round_state.divergence is None
    plain = expectations(second.sums, second.prior)
    assert not np.array_equal(second.round_state.clusters.log_levels, plain.log_levels)


def test_what_was_sent_earlier_goes_where_the_elbo_gains_most() -> None:
    rng = np.random.default_rng(2)
    stats = binary(rng.uniform(0.1, 0.9, (3, 8)).tolist(), [300, 200, 100])
    late = binary(rng.uniform(0.1, 0.9, (6, 8)).tolist(), [30, 20, 10, 5, 60, 70])
    found = best_clusters(stats, prior_of(), late)
    for i, k in enumerate(found):
        reached = []
        for at in range(3):
            T, S = stats.T.copy(), stats.S.copy()
            T[at] += late.T[i]
            S[at] += late.S[i]
            reached.append(elbo(Sums(T, S, stats.h), prior_of()))
        assert k == np.argmax(reached)
    assert len(set(found.tolist())) > 1
    assert best_clusters(stats, prior_of(), late.take(np.arange(0))).shape == (0,)
