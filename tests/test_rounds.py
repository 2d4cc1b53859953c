"""Rounds as a protocol: sums of replies are passes over pooled rows, and moves keep their word."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq

from fedmerdel import Broadcast, DataError, Round, SiteSummary, admit, reply_site, run_rounds
from fedmerdel.centre.rounds import (
    LEAST_GAIN,
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
from fedmerdel.centre.run import QUIET_ROUNDS, has_settled
from fedmerdel.fitting.halving import count_halves, propose_halves
from fedmerdel.fitting.passes import (
    Workers,
    count_together,
    expect_and_count,
)
from fedmerdel.site.site_table import study_rows
from fedmerdel.sums.cuts import split_gains
from fedmerdel.sums.elbo import elbo
from fedmerdel.sums.expectations import expectations
from fedmerdel.sums.halves import FirstHalves
from fedmerdel.sums.merging import merged_sums
from fedmerdel.sums.prior import Prior, uniform_prior
from fedmerdel.sums.sums import Sums
from tests.federations import binary, hard_sites
from tests.reference import Dense, packed
from tests.round_trips import made, noisy, play, replies_of


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_one_round_is_one_pass_over_pooled_rows(missing: float) -> None:
    sites = made(3, n_rows=400, prior="fixed")
    X = sites.X.astype(float)
    X[np.random.default_rng(1).random(X.shape) < missing] = np.nan
    tables = {site: X[sites.site == site] for site in sites.tables}
    sites = sites._replace(X=X, tables=tables)
    begun = sites.begun(noisy(sites.labels, 0.3, 3))
    sent = begun.broadcast.clusters
    replies = replies_of(begun, sites.tables)
    with Workers() as workers:
        pooled = expect_and_count(study_rows(sites.study, X), sent, workers)
    for part in ("T", "S", "h"):
        total = sum(getattr(reply.sums, part) for reply in replies)
        np.testing.assert_allclose(total, getattr(pooled, part), rtol=1e-11, atol=1e-9)
    order = np.argsort(-pooled.T)
    found, brought = begun.step(replies)
    np.testing.assert_allclose(found.sums.S, pooled.S[order], rtol=1e-11, atol=1e-9)
    assert brought.elbo == pytest.approx(elbo(pooled, begun.prior), rel=1e-12)


# The moves, on clusters made by hand: rows in thousands, so that gains are clear.

EVEN, LOW, HIGH = [0.5] * 8, [0.1] * 8, [0.9] * 8


def centre(shares: list[list[float]], rows: list[float]) -> tuple[Any, list[Any], Sums]:
    """One site with these hard clusters, each a group of its own."""
    stats = binary(shares, rows)
    local = hard_sites([stats])
    groups = [np.array([k]) for k in range(len(rows))]
    return local, groups, merged_sums(local, groups)


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
    moves = SummedMoves(halves, [(stats, halves)], options.pop("cost", None))
    kept = {"gained": 0.0, "most_clusters": 20, **options}
    return plan_moves(local, groups, stats, prior_of(), age, moves, **kept)


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
    moves = SummedMoves(halves, [(stats, halves)], None)
    state = next_state(first_state(stats, prior_of()), stats, prior_of(), moves, plan)
    np.testing.assert_allclose(
        state.clusters.log_levels, expectations(parts, prior_of()).log_levels
    )
    assert state.parents.tolist() == [1, 0, 0]
    assert state.age[1:].tolist() == [UNCUT, UNCUT]
    assert state.number == 1


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


def test_a_gain_of_next_to_nothing_is_no_move_even_after_a_loss() -> None:
    _, _, stats = centre([EVEN], [1000.0])

    def half(lean: float) -> FirstHalves:
        return halves_of([[0.5 + lean] * 8], [500])

    def gain(lean: float) -> float:
        return float(split_gains(stats, half(lean), prior_of())[0])

    for share, move in ((0.5, ""), (2.0, "split")):
        lean = brentq(lambda x, share=share: gain(x) - share * LEAST_GAIN, 0.0, 0.4)
        assert gain(lean) > 0
        for gained in (0.0, -5.0):
            plan = plan_for([EVEN], [1000.0], half(lean), gained=gained)
            assert plan.move == move


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
    state = first_state(stats, prior_of())
    moves = SummedMoves(halves, [(stats, halves)], None)
    for old, new in ((UNCUT, 0), (0, 1), (PATIENCE - 1, PATIENCE)):
        _, age = next_cuts(state._replace(age=np.full(2, old)), stats, prior_of(), moves)
        assert age.tolist() == [new, new]
    _, age = next_cuts(state._replace(age=np.full(2, PATIENCE)), stats, prior_of(), moves)
    assert age.tolist() == [UNCUT, PATIENCE + 1]


def followed_cut(seed: int, rounds: int = 30) -> tuple[int | None, int]:
    """The round in which a split pays, and how often sites proposed a cut.

    Twenty-five sites of twenty rows: two clusters that differ little, sent out as one.
    """
    rng = np.random.default_rng(seed)
    kind, base = rng.integers(0, 2, 500), rng.uniform(0.2, 0.8, 12)
    other = np.clip(base + 0.2 * rng.choice([-1, 1], 12), 0.03, 0.97)
    X = (rng.random((500, 12)) < np.stack([base, other])[kind]).astype(int)
    prior, one = uniform_prior(np.full(12, 2), 0.01, 4), Workers(1)
    rows = packed(Dense(X, np.ones(500), np.full(12, 2)))
    parts = [rows.take(np.arange(b, 500, 25)) for b in range(25)]
    own = [count_together(part, one) for part in parts]
    stats = count_together(rows, one)
    state, theta = first_state(stats, prior), expectations(stats, prior)
    none = FirstHalves(np.zeros(1), np.zeros((1, 24)), np.zeros(1))
    proposals: list[tuple[Sums, FirstHalves]] = []
    n_proposals = 0
    for number in range(1, rounds + 1):
        halves = none
        if state.age[0] == UNCUT:
            n_proposals += 1
            proposals = [
                (sums, propose_halves(part, theta, sums, prior, one, rng))
                for sums, part in zip(own, parts, strict=True)
            ]
        else:
            halves = count_halves(rows, theta, state.cuts, one)
            if split_gains(stats, halves, prior)[0] > LEAST_GAIN:
                return number, n_proposals
        cuts, age = next_cuts(state, stats, prior, SummedMoves(halves, proposals, None))
        state = state._replace(cuts=cuts, age=age)
    return None, n_proposals


@pytest.mark.parametrize("seed", [1, 5])
def test_a_cut_that_needs_rounds_to_pay_is_waited_for(seed: int) -> None:
    """Given up after three, one of them is not found in thirty rounds, and one in twenty."""
    assert followed_cut(seed) == ({1: 6, 5: 7}[seed], 1)


def test_a_cut_that_never_pays_makes_room_for_others() -> None:
    assert followed_cut(3) == (None, 3)


def test_the_second_round_without_a_move_is_a_guess() -> None:
    sites = made(1, n_rows=400)
    first = play(sites.begun(noisy(sites.labels, 0.3, 1)), sites.tables)
    plain = expectations(first.sums, first.prior)
    np.testing.assert_array_equal(first.round_state.clusters.log_levels, plain.log_levels)
    second = play(first, sites.tables)
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


# The loop over whoever asks the sites.


def test_rounds_run_with_whatever_asks_the_sites() -> None:
    """A letter box that knows bytes and no rows: the rounds are those that were played by hand."""
    sites = made(4, n_rows=300, n_sites=3)
    federation = begun = sites.begun(noisy(sites.labels, 0.3, 4))
    letters: dict[str, list[bytes]] = {}
    for _ in range(3):
        replies = replies_of(federation, sites.tables)
        letters[federation.broadcast.hash] = [reply.to_bytes() for reply in replies]
        federation, _ = federation.step(replies)
    asked: list[Broadcast] = []
    seen: list[Round] = []

    def ask(broadcast: Broadcast) -> Iterator[SiteSummary]:
        asked.append(broadcast)
        return (admit(sites.study, letter) for letter in letters[broadcast.hash])

    found = run_rounds(begun, ask, 3, seen.append)
    assert [broadcast.number for broadcast in asked] == [1, 2, 3]
    assert asked[0].hash == begun.broadcast.hash
    assert tuple(seen) == found.record == federation.record
    assert found.broadcast.hash == federation.broadcast.hash
    for one, other in zip(found.sums[:3], federation.sums[:3], strict=True):
        assert one.tobytes() == other.tobytes()
    assert begun.record == ()
    # Nobody is asked where there are no rounds, and who does not reply is carried.
    assert run_rounds(begun, ask, 0) is begun
    assert len(asked) == 3
    fewer = run_rounds(begun, lambda broadcast: list(ask(broadcast))[1:], 1)
    assert [each.stale for each in fewer.record] == [("s00",)]
    assert fewer.sites == begun.sites
    with pytest.raises(DataError, match="no summary was given"):
        run_rounds(begun, lambda _: [], 1)


def test_rounds_end_by_themselves_or_with_the_study() -> None:
    sites = made(4, n_rows=300, n_sites=3)
    begun = sites.begun(noisy(sites.labels, 0.3, 4))

    def ask(broadcast: Broadcast) -> list[SiteSummary]:
        return [reply_site(sites.study, broadcast, X, site) for site, X in sites.tables.items()]

    settled = run_rounds(begun, ask)
    record, total = settled.record, float(settled.site_rows.sum())
    assert QUIET_ROUNDS < len(record) < 100
    assert has_settled(record, total)
    assert not any(has_settled(record[:n], total) for n in range(len(record)))
    few = made(4, n_rows=300, n_sites=3, rounds=4)
    begun = few.begun(noisy(few.labels, 0.3, 4))
    sites = few
    assert [each.elbo for each in run_rounds(begun, ask).record] == [e.elbo for e in record[:4]]
