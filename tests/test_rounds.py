"""Exchanges as a protocol: sums of replies are passes over pooled rows, and moves keep their word.

The helpers at the top make a federation whose rows the tests hold, as no centre does.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

from fedmerdel import GlobalModel, Study, merge_onto, simulate, update_site
from fedmerdel.centre.rounds import (
    LEAST_GAIN,
    PATIENCE,
    UNCUT,
    Plan,
    Replies,
    begin,
    go_on,
    make_plan,
    next_cuts,
    placed,
)
from fedmerdel.fitting.halving import count_halves, propose_halves
from fedmerdel.fitting.passes import (
    Workers,
    count_labels,
    count_together,
    expect_and_count,
    log_evidence,
)
from fedmerdel.release import HardCounts, SiteSummary, protect
from fedmerdel.release.summary import make_summary
from fedmerdel.site.site_table import study_rows
from fedmerdel.study.priors import study_prior
from fedmerdel.sums.cuts import FirstHalves, split_gains
from fedmerdel.sums.elbo import elbo
from fedmerdel.sums.expectations import expectations
from fedmerdel.sums.merging import local_clusters, merged_statistics
from fedmerdel.sums.prior import Prior, uniform_prior
from fedmerdel.sums.sums import Sums
from tests.federations import binary, made_study
from tests.reference import Dense, packed

Tables = dict[str, np.ndarray]


class Made(NamedTuple):
    """A study, the rows of each of its sites, and all of them with the truth."""

    study: Study
    tables: Tables
    X: np.ndarray
    labels: np.ndarray

    @property
    def site(self) -> np.ndarray:
        return np.array(sorted(self.tables))[np.arange(len(self.X)) % len(self.tables)]

    def begun(self, labels: np.ndarray) -> GlobalModel:
        """The model whose sites sent hard clusters of these labels, merged by their labels."""
        sent, owners = [], []
        with Workers() as workers:
            for name in sorted(self.tables):
                own = labels[self.site == name]
                rows = study_rows(self.study, self.tables[name])
                stats = count_labels(rows, own, int(labels.max()) + 1, workers)
                here = np.flatnonzero(stats.T)
                sent.append(summary_from(self.study, name, stats.take(here)))
                owners.append(here)
        owner = np.concatenate(owners)
        groups = [np.flatnonzero(owner == k) for k in np.unique(owner)]
        rows_of = np.concatenate([s.statistics.T for s in sent])
        groups.sort(key=lambda group: -float(rows_of[group].sum()))
        return GlobalModel(self.study, tuple(sent), tuple(groups), "exact", "correlation")


def summary_from(study: Study, site: str, stats: Sums) -> SiteSummary:
    prior, none = study_prior(study, study.max_clusters), np.zeros((stats.n_clusters,) * 2)
    out = protect(stats, HardCounts(stats.T, stats.S), none, prior, study.policy)
    return make_summary(study, site, out)


def made(
    seed: int,
    n_rows: int = 1200,
    n_sites: int = 4,
    n_clusters: int = 4,
    levels: tuple[int, ...] = (2, 3) * 6,
    beta: tuple[float, float] = (1.0, 1.0),
    **options: Any,
) -> Made:
    P = len(levels)
    table = simulate(n_rows, P, n_clusters, levels=levels, beta=beta, random_state=seed)
    study = made_study(np.array(levels), **options)
    tables = {f"s{b:02d}": table.X[b::n_sites] for b in range(n_sites)}
    return Made(study, tables, table.X, table.labels)


def replies_of(model: GlobalModel, tables: Tables, **options: Any) -> list[SiteSummary]:
    return [update_site(model, table, site, **options) for site, table in tables.items()]


def exchange(model: GlobalModel, tables: Tables, times: int = 1) -> GlobalModel:
    for _ in range(times):
        model = merge_onto(model, replies_of(model, tables))
    return model


def noisy(labels: np.ndarray, share: float, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    other = rng.integers(0, labels.max() + 1, len(labels))
    return np.where(rng.random(len(labels)) < share, other, labels)


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
        total = sum(getattr(reply.statistics, part) for reply in replies)
        np.testing.assert_allclose(total, getattr(pooled, part), rtol=1e-11, atol=1e-9)
    order = np.argsort(-pooled.T)
    model = merge_onto(begun, replies)
    np.testing.assert_allclose(model.statistics.S, pooled.S[order], rtol=1e-11, atol=1e-9)
    assert model.record[0].elbo == pytest.approx(elbo(pooled, begun.prior), rel=1e-12)


def test_evidence_less_divergence_lies_between_two_passes() -> None:
    """What is sent has an ELBO: above that of the last pass, below that of the next."""
    federation = made(0, prior="fixed")
    begun = federation.begun(noisy(federation.labels, 0.3, 0))
    course = begin(begun.statistics, begun.prior)
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
    replies = Replies(halves, [(stats, halves)], options.pop("cost", None))
    kept = {"gained": 0.0, "most_clusters": 20, **options}
    return make_plan(local, groups, stats, prior_of(), age, replies, **kept)


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
    replies = Replies(halves, [(stats, halves)], None)
    course = go_on(begin(stats, prior_of()), stats, prior_of(), replies, plan)
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
    course = begin(stats, prior_of())
    replies = Replies(halves, [(stats, halves)], None)
    for old, new in ((UNCUT, 0), (0, 1), (PATIENCE - 1, PATIENCE)):
        _, age = next_cuts(course._replace(age=np.full(2, old)), stats, prior_of(), replies)
        assert age.tolist() == [new, new]
    _, age = next_cuts(course._replace(age=np.full(2, PATIENCE)), stats, prior_of(), replies)
    assert age.tolist() == [UNCUT, PATIENCE + 1]


def followed_cut(seed: int, exchanges: int = 30) -> tuple[int | None, int]:
    """The exchange in which a split pays, and how often sites proposed a cut.

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
    course, theta = begin(stats, prior), expectations(stats, prior)
    none = FirstHalves(np.zeros(1), np.zeros((1, 24)), np.zeros(1))
    proposals: list[tuple[Sums, FirstHalves]] = []
    n_proposals = 0
    for number in range(1, exchanges + 1):
        halves = none
        if course.age[0] == UNCUT:
            n_proposals += 1
            firsts = [propose_halves(part, theta, prior, one, rng) for part in parts]
            proposals = list(zip(own, firsts, strict=True))
        else:
            halves = count_halves(rows, theta, course.cuts, one)
            if split_gains(stats, halves, prior)[0] > LEAST_GAIN:
                return number, n_proposals
        cuts, age = next_cuts(course, stats, prior, Replies(halves, proposals, None))
        course = course._replace(cuts=cuts, age=age)
    return None, n_proposals


@pytest.mark.parametrize("seed", [1, 5])
def test_a_cut_that_needs_exchanges_to_pay_is_waited_for(seed: int) -> None:
    """Given up after three, one of them is not found in thirty exchanges, and one in twenty."""
    assert followed_cut(seed) == ({1: 6, 5: 7}[seed], 1)


def test_a_cut_that_never_pays_makes_room_for_others() -> None:
    assert followed_cut(3) == (None, 3)


def test_the_second_exchange_without_a_move_is_a_guess() -> None:
    federation = made(1, n_rows=400)
    model = federation.begun(noisy(federation.labels, 0.3, 1))
    first = exchange(model, federation.tables)
    assert first.course.divergence is not None
    plain = expectations(first.statistics, first.prior)
    np.testing.assert_array_equal(first.course.sent.log_levels, plain.log_levels)
    second = exchange(first, federation.tables)
    assert second.course.divergence is None
    plain = expectations(second.statistics, second.prior)
    assert not np.array_equal(second.course.sent.log_levels, plain.log_levels)


def test_what_was_sent_earlier_goes_where_the_elbo_gains_most() -> None:
    rng = np.random.default_rng(2)
    stats = binary(rng.uniform(0.1, 0.9, (3, 8)).tolist(), [300, 200, 100])
    late = binary(rng.uniform(0.1, 0.9, (6, 8)).tolist(), [30, 20, 10, 5, 60, 70])
    found = placed(stats, prior_of(), late)
    for i, k in enumerate(found):
        reached = []
        for at in range(3):
            T, S = stats.T.copy(), stats.S.copy()
            T[at] += late.T[i]
            S[at] += late.S[i]
            reached.append(elbo(Sums(T, S, stats.h), prior_of()))
        assert k == np.argmax(reached)
    assert len(set(found.tolist())) > 1
    assert placed(stats, prior_of(), late.take(np.arange(0))).shape == (0,)
