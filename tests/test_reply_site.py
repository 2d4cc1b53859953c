"""A site's reply to the centre's clusters: exact without a policy, and safe under one."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from fedmerdel.site.update import prepare_update
from scipy.special import digamma, logsumexp

from fedmerdel import (
    Broadcast,
    DataError,
    FedMerDelError,
    GlobalModel,
    OptionError,
    Study,
    fit_site,
    merge_onto,
    merge_sites,
    update_site,
)
from fedmerdel.fitting.passes import Workers
from fedmerdel.site.people import count_people, own_rows, soft_outcomes
from fedmerdel.study.policy import POLICIES, Policy, custom_policy
from fedmerdel.sums.cuts import split_gains
from fedmerdel.sums.elbo import elbo
from fedmerdel.sums.prior import Prior
from fedmerdel.sums.sums import Sums
from tests.federations import overlaps
from tests.reference import (
    Dense,
    blur,
    by_variable,
    cut_in_two,
    delete_cost,
    e_step,
    ln_beta,
    log_rho,
    m_step,
    packed,
    statistics_from,
)
from tests.site_tables import N_LEVELS, frame_of, level_numbers, study
from tests.summaries import assert_same

CHANGING = [name for name in POLICIES if name != "none"]


def tables(n_rows: int = 500) -> dict[str, np.ndarray]:
    return {site: level_numbers(n_rows, seed) for seed, site in enumerate(("hull", "leeds"))}


def merged(agreed: Study, exchanges: int = 0, n_rows: int = 500) -> GlobalModel:
    frames = {site: frame_of(X, 1) for site, X in tables(n_rows).items()}
    model = merge_sites(agreed, [fit_site(agreed, table, site) for site, table in frames.items()])
    for _ in range(exchanges):
        model = merge_onto(model, [update_site(model, t, site) for site, t in frames.items()])
    return model


@pytest.fixture(scope="module")
def model() -> GlobalModel:
    return merged(study(outcomes=("died",)), exchanges=2)


def linear(X: np.ndarray, sent: Broadcast) -> np.ndarray:
    """The log odds (N, K) of the first halves, from the cuts."""
    return log_rho(X, sent.cuts.offset, by_variable(sent.cuts.direction, N_LEVELS))


@pytest.mark.parametrize("first_uncut", [False, True])
def test_every_number_is_what_the_rows_say(model: GlobalModel, first_uncut: bool) -> None:
    """Against the slow oracles, with missing entries and weights."""
    X, rng = level_numbers(300, 9), np.random.default_rng(3)
    weights = rng.gamma(1.0, 2.0, 300)
    weights[:20] = 0.0
    uncut = (np.arange(model.broadcast.n_clusters) == 0) & first_uncut
    sent = dataclasses.replace(model.broadcast, uncut=uncut)
    reply = update_site(sent, frame_of(X), "york", sample_weight=weights)
    table = Dense(X, weights, N_LEVELS)
    log_r = e_step(table, sent.clusters)
    for found, true in zip(reply.sums, statistics_from(m_step(table, log_r)), strict=True):
        np.testing.assert_allclose(found, true, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(reply.overlap, overlaps(log_r, weights), atol=1e-7)
    rho = log_rho(X, sent.clusters.log_weights, by_variable(sent.clusters.log_levels, N_LEVELS))
    answer = reply.answer
    assert answer is not None
    assert answer.prospects is not None
    assert answer.broadcast == sent.hash
    assert answer.evidence == pytest.approx(weights @ logsumexp(rho, axis=1), rel=1e-11)
    np.testing.assert_allclose(answer.prospects.cost, delete_cost(log_r, weights), rtol=1e-7)
    u, cut = linear(X, sent), ~sent.uncut
    first = statistics_from(m_step(table, cut_in_two(log_r, u)[0]))
    halves = answer.prospects.halves
    np.testing.assert_allclose(halves.T[cut], first.T[cut], rtol=1e-9)
    np.testing.assert_allclose(halves.S[cut], first.S[cut], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(halves.blur[cut], blur(log_r, u, weights)[cut], rtol=1e-7)


def test_where_no_cut_was_sent_the_site_proposes_good_halves() -> None:
    """Two kinds of rows sent out as one cluster: the site sees them apart, from any seed."""
    for seed in range(3):
        agreed = study(prior="fixed", seed=seed)
        summary = fit_site(agreed, frame_of(level_numbers(800, seed, rare=0.1)), "hull")
        stats = summary.sums
        alone = Sums(stats.T.sum(keepdims=True), stats.S.sum(axis=0)[None], np.zeros(1))
        groups = (np.arange(summary.n_clusters),)
        lump = GlobalModel(agreed, (summary,), groups, "exact", "correlation")
        assert lump.broadcast.uncut.all()
        reply = update_site(lump, frame_of(level_numbers(800, seed, rare=0.1)), "hull")
        assert reply.answer is not None
        assert reply.answer.prospects is not None
        halves = reply.answer.prospects.halves
        assert split_gains(alone, halves, lump.prior)[0] > 100
        assert 0.3 < halves.T[0] / 800 < 0.7


def test_model_broadcast_and_threads_give_the_same_bytes(model: GlobalModel) -> None:
    table = frame_of(level_numbers(700, 5))
    told = summary_files(update_site(model, table, "york"))
    assert told == summary_files(update_site(model.broadcast, table, "york"))
    assert told == summary_files(update_site(model, table, "york", n_jobs=3))
    assert update_site(model, table, "york").n_clusters == model.broadcast.n_clusters
    # The outcome that the study names is counted in these clusters too.
    reply = update_site(model, table, "york")
    known = reply.outcomes["died"]
    assert known.observed.sum() == pytest.approx(table["died"].notna().sum())
    assert known.positive.sum() == pytest.approx((table["died"] == 1).sum())


def test_a_site_without_rows_in_a_cluster_still_answers_for_it() -> None:
    agreed = study()
    model = merged(agreed)
    assert model.n_clusters >= 2
    X = np.zeros((50, 4), dtype=int)
    reply = update_site(model, frame_of(X), "york")
    assert reply.n_clusters == model.n_clusters
    assert reply.sums.T.min() < 0.01
    assert merge_onto(model, [reply]).sites == ("hull", "leeds", "york")


# Under policies that change counts.


@pytest.mark.parametrize("name", CHANGING)
def test_under_a_policy_no_count_is_small(name: str) -> None:
    policy = POLICIES[name]
    agreed = study(policy=policy, outcomes=("died",))
    model, seen = merged(agreed), 0
    for n_rows, seed in ((500, 0), (60, 4), (230, 5)):
        table = frame_of(level_numbers(n_rows, seed), seed)
        reply = update_site(model, table, "york")
        cells = reply.cells()
        assert np.all((cells == 0) | (cells >= policy.smallest))
        assert not np.any(cells % max(policy.rounding, 1))
        seen += int((cells == 0).sum())
        assert reply.answer is not None
        assert reply.answer.prospects is None
        told = set(reply.to_files())
        assert told == {"summary.json", "counts.csv", "overlap.csv", "outcomes.csv", "README.txt"}
        header = reply.to_files()["overlap.csv"].decode().splitlines()[0]
        assert "cost" not in header
        assert "blur" not in header
    assert seen > 0


@pytest.mark.parametrize("policy", [POLICIES["opensafely"], custom_policy(20), custom_policy(0, 7)])
def test_evidence_is_told_in_coarse_steps_and_never_too_good(policy: Policy) -> None:
    """A step stands for as many rows as the smallest count."""
    model = merged(study(policy=policy))
    unit = policy.smallest * np.log(2.0)
    for seed in range(5):
        X = level_numbers(200, seed)
        reply = update_site(model, frame_of(X), "york")
        sent = model.broadcast.clusters
        rho = log_rho(X, sent.log_weights, by_variable(sent.log_levels, N_LEVELS))
        exact = float(logsumexp(rho, axis=1).sum())
        assert reply.answer is not None
        told = reply.answer.evidence
        assert told <= exact < told + unit
        assert told / unit == pytest.approx(round(told / unit), abs=1e-6)


def dirichlet_kl(counts: np.ndarray, prior: np.ndarray) -> float:
    """KL of Dirichlet(prior + counts) from Dirichlet(prior)."""
    post = prior + counts
    mean = digamma(post) - digamma(post.sum())
    return float(ln_beta(prior) - ln_beta(post) + np.sum(counts * mean))


def rows_elbo(model: GlobalModel, X: np.ndarray) -> float:
    """The ELBO of rows with the q(pi) and q(phi) that a model sends out, term by term."""
    sent, prior, stats = model.broadcast.clusters, model.prior, model.sums
    rho = log_rho(X, sent.log_weights, by_variable(sent.log_levels, N_LEVELS))
    weights = np.zeros(prior.n_components)
    weights[: stats.n_clusters] = stats.T
    kl = dirichlet_kl(weights, np.full(prior.n_components, prior.alpha))
    for S, eps in zip(
        by_variable(stats.S, N_LEVELS), by_variable(prior.eps, N_LEVELS), strict=True
    ):
        kl += sum(dirichlet_kl(row, eps) for row in S)
    return float(logsumexp(rho, axis=1).sum()) - kl


def exact_elbo(X: np.ndarray, model: GlobalModel, prior: Prior) -> float:
    table = Dense(X, np.ones(len(X)), N_LEVELS)
    return elbo(statistics_from(m_step(table, e_step(table, model.broadcast.clusters))), prior)


@pytest.mark.parametrize("policy", [POLICIES["opensafely"], POLICIES["pcornet"], custom_policy(1)])
def test_the_recorded_elbo_is_a_lower_bound_of_the_rows(policy: Policy) -> None:
    """With whole numbers as the only rule, it is known to less than 2 nats."""
    model = merged(study(policy=policy, prior="fixed"))
    X = np.concatenate(list(tables().values()))
    steps = 2 * policy.smallest * np.log(2.0)  # one of each site
    for _ in range(4):
        sent = rows_elbo(model, X)
        best = exact_elbo(X, model, model.prior)
        replies = [update_site(model, frame_of(t, 1), site) for site, t in tables().items()]
        model = merge_onto(model, replies)
        told = model.record[-1].elbo
        assert told is not None
        assert told <= sent + 1e-6
        assert told > sent - steps
        assert sent < best


@pytest.mark.parametrize("few", [0, 1])
def test_clusters_too_small_to_tell_are_zeros_in_their_places(few: int) -> None:
    """Nine rows of one kind: fewer than ten, so that nothing is told of them."""
    agreed = study(policy=POLICIES["opensafely"], prior="fixed")
    model = merged(agreed)
    assert model.n_clusters == 2
    of_first = np.argmax(model.sums.S[:, :2], axis=1)[0]  # its level of variable a
    kinds = [np.zeros(4, dtype=int), N_LEVELS - 1]
    if of_first == 1:
        kinds.reverse()
    both = np.concatenate([np.tile(kinds[few], (9, 1)), np.tile(kinds[1 - few], (300, 1))])
    released = prepare_update(model, frame_of(both), "york")
    T, small = released.summary.sums.T, few
    assert T[small] == 0
    assert T[1 - small] == 300
    assert not released.summary.sums.S[small].any()
    assert not released.summary.sums.Q[small].any()
    assert released.summary.sums.h[small] == 0
    assert released.summary.account.withheld == 1
    # The centre expects a few rows there all the same: fewer than it would be told of.
    found = merge_onto(model, [released.summary, *(
        update_site(model, frame_of(t, 1), site) for site, t in tables().items()
    )])  # fmt: skip
    rows = found.sums.T.sum() - sum(s.n_rows for s in found.summaries)
    assert 0 <= rows < 10


def test_people_stand_behind_a_sum_by_a_tenth_at_least(model: GlobalModel) -> None:
    """Whatever their weight, unless it is 0; the outcome's sums are of shares, as all others."""
    X, rng = level_numbers(300, 9), np.random.default_rng(3)
    weights = rng.gamma(1.0, 2.0, 300) * (rng.random(300) > 0.2)
    died = rng.choice([0.0, 1.0, np.nan], 300)
    table, theta = Dense(X, weights, N_LEVELS), model.broadcast.clusters
    r = np.exp(e_step(table, theta))
    behind = (r >= 0.1) & (weights > 0)[:, None]
    assert np.any((r > 1e-3) & (r < 0.1))
    with Workers() as workers:
        people = count_people(packed(table), theta, {"died": died}, workers)
        own = own_rows(packed(table), theta, workers)
        soft = soft_outcomes(packed(table), theta, {"died": died}, workers)["died"]
    np.testing.assert_array_equal(people.T, behind.sum(axis=0))
    np.testing.assert_array_equal(people.S[:, 0], behind[X[:, 0] == 0].sum(axis=0))
    np.testing.assert_array_equal(people.outcomes["died"].positive, behind[died == 1].sum(axis=0))
    np.testing.assert_array_equal(own, np.bincount(r.argmax(axis=1)[weights > 0]))
    known = ~np.isnan(died)
    np.testing.assert_allclose(soft.observed, weights[known] @ r[known], rtol=1e-9)


def test_selected_variables_are_those_of_the_centre() -> None:
    agreed = study(variable_selection=True, prior=None)
    model = merged(agreed)
    reply = update_site(model, frame_of(level_numbers(200, 3)), "york")
    assert reply.selected == model.selected == model.broadcast.selected


# Mistakes.


def test_mistakes_at_a_site_are_one_line_without_a_value(model: GlobalModel) -> None:
    table = frame_of(level_numbers(100, 3))
    secret = table.assign(c=table["c"].mask(table.index == 7, "SECRET"))
    safe = merged(study(policy=POLICIES["opensafely"]))
    cases: list[tuple[type[FedMerDelError], str, Any]] = [
        (DataError, "'c'", lambda: update_site(model, secret, "york")),
        (DataError, "'b'", lambda: update_site(model, table.drop(columns="b"), "york")),
        (DataError, "no rows", lambda: update_site(model, table.head(0), "york")),
        (DataError, "a folder can have", lambda: update_site(model, table, "a/b")),
        (OptionError, "n_jobs", lambda: update_site(model, table, "york", n_jobs=0)),
        (DataError, "too small to take part alone", lambda: update_site(safe, table[:6], "york")),
    ]
    for error, words, attempt in cases:
        with pytest.raises(error, match=words) as caught:
            attempt()
        assert "\n" not in str(caught.value)
        assert "SECRET" not in str(caught.value)


def test_nothing_of_a_row_is_in_a_reply(model: GlobalModel) -> None:
    frame = frame_of(level_numbers(100, 3)).assign(a_code=[f"{n:08d}" for n in range(100)])
    for agreed in (model, merged(study(policy=POLICIES["ons"]))):
        told = b"".join(summary_files(update_site(agreed, frame, "york")).values()).decode()
        assert "SECRET" not in told
        assert not any(code in told for code in frame["a_code"][10:])
        assert not any(str(bmi) in told for bmi in frame["bmi"])
        assert "1960-" not in told


def test_a_reply_says_the_same_however_the_rows_are_ordered(model: GlobalModel) -> None:
    """Sums in another order differ in their last digits only; rows have no place in a reply."""
    frame = frame_of(level_numbers(300, 3))
    one = update_site(model, frame, "york")
    other = update_site(model, frame.sample(frac=1, random_state=1), "york")
    for a, b in zip(one.sums, other.sums, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-9)
    assert_same(one, update_site(model, frame, "york"))
