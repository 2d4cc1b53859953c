"""A site's reply to a broadcast: exact without a policy, and safe under one."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.special import digamma, logsumexp

from fedmerdel import (
    Broadcast,
    DataError,
    Federation,
    FedMerDelError,
    OptionError,
    Reply,
    Study,
    fit_site,
    merge_sites,
    reply_site,
)
from fedmerdel.fitting.passes import Workers
from fedmerdel.release.cells import all_cells
from fedmerdel.site.people import count_outcomes, count_people
from fedmerdel.site.reply_site import prepare_reply
from fedmerdel.study.policy import POLICIES
from fedmerdel.sums.cuts import split_gains
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


def reply(federation: Federation, table: Any, site: str = "york", **options: Any) -> Reply:
    return reply_site(federation.study, federation.broadcast, table, site, **options)


def replies(federation: Federation, n_rows: int = 500) -> list[Reply]:
    return [reply(federation, frame_of(X, 1), site) for site, X in tables(n_rows).items()]


def merged(agreed: Study, rounds: int = 0, n_rows: int = 500) -> Federation:
    frames = {site: frame_of(X, 1) for site, X in tables(n_rows).items()}
    found = merge_sites(agreed, [fit_site(agreed, table, site) for site, table in frames.items()])
    for _ in range(rounds):
        found, _ = found.step(replies(found, n_rows))
    return found


@pytest.fixture(scope="module")
def federation() -> Federation:
    return merged(study(outcomes=("died",)), rounds=2)


def linear(X: np.ndarray, sent: Broadcast) -> np.ndarray:
    """The log odds (N, K) of the first halves, from the cuts."""
    return log_rho(X, sent.cuts.offset, by_variable(sent.cuts.direction, N_LEVELS))


@pytest.mark.parametrize("first_uncut", [False, True])
def test_every_number_is_what_the_rows_say(federation: Federation, first_uncut: bool) -> None:
    """Against the slow oracles, with missing entries and weights."""
    X, rng = level_numbers(300, 9), np.random.default_rng(3)
    weights = rng.gamma(1.0, 2.0, 300)
    weights[:20] = 0.0
    uncut = (np.arange(federation.broadcast.n_clusters) == 0) & first_uncut
    sent = dataclasses.replace(federation.broadcast, uncut=uncut)
    told = reply_site(federation.study, sent, frame_of(X), "york", sample_weight=weights)
    table = Dense(X, weights, N_LEVELS)
    log_r = e_step(table, sent.clusters)
    counted = statistics_from(m_step(table, log_r))
    for found, true in zip(told.sums[:3], counted[:3], strict=True):
        np.testing.assert_allclose(found, true, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(told.sums.Q, overlaps(log_r, weights), atol=1e-7)
    assert told.moves is not None
    assert told.broadcast == sent.hash
    np.testing.assert_allclose(told.moves.cost, delete_cost(log_r, weights), rtol=1e-7)
    u, cut = linear(X, sent), ~sent.uncut
    first = statistics_from(m_step(table, cut_in_two(log_r, u)[0]))
    halves = told.moves.halves
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
        lump = Federation(agreed, (summary,), groups, "exact", "correlation")
        assert lump.broadcast.uncut.all()
        told = reply(lump, frame_of(level_numbers(800, seed, rare=0.1)), "hull")
        assert told.moves is not None
        halves = told.moves.halves
        assert split_gains(alone, halves, lump.prior)[0] > 100
        assert 0.3 < halves.T[0] / 800 < 0.7


def test_a_sent_broadcast_and_threads_give_the_same_bytes(federation: Federation) -> None:
    table = frame_of(level_numbers(700, 5))
    told = reply(federation, table)
    arrived = Broadcast.from_bytes(federation.broadcast.to_bytes())
    assert told.to_bytes() == reply_site(federation.study, arrived, table, "york").to_bytes()
    assert told.to_bytes() == reply(federation, table, n_jobs=3).to_bytes()
    assert told.n_clusters == federation.broadcast.n_clusters
    # The outcome that the study names is counted in these clusters too.
    known = told.sums.outcomes["died"]
    assert known.sum() == pytest.approx(table["died"].notna().sum())
    assert known[:, 1].sum() == pytest.approx((table["died"] == 1).sum())


def test_a_site_without_rows_in_a_cluster_still_replies_for_it() -> None:
    federation = merged(study())
    assert federation.n_clusters >= 2
    told = reply(federation, frame_of(np.zeros((50, 4), dtype=int)))
    assert told.n_clusters == federation.n_clusters
    assert told.sums.T.min() < 0.01
    assert federation.step([told])[0].sites == ("hull", "leeds", "york")


# Under policies that change counts.


@pytest.mark.parametrize("name", CHANGING)
def test_under_a_policy_no_count_is_small(name: str) -> None:
    policy = POLICIES[name]
    federation, seen = merged(study(policy=policy, outcomes=("died",))), 0
    for n_rows, seed in ((500, 0), (60, 4), (230, 5)):
        table = frame_of(level_numbers(n_rows, seed), seed)
        told = reply(federation, table)
        cells = all_cells(told.sums, told.codebook.level_offsets)
        assert np.all((cells == 0) | (cells >= policy.smallest))
        assert not np.any(cells % max(policy.rounding, 1))
        seen += int((cells == 0).sum())
        assert told.moves is None
        sheets = {"counts.csv", "overlap.csv", "outcomes.csv"}
        assert set(told.to_files()) == {"reply.json", "README.txt", *sheets}
        header = told.to_files()["overlap.csv"].decode().splitlines()[0]
        assert "cost" not in header
        assert "blur" not in header
    assert seen > 0


def dirichlet_kl(counts: np.ndarray, prior: np.ndarray) -> float:
    """KL of Dirichlet(prior + counts) from Dirichlet(prior)."""
    post = prior + counts
    mean = digamma(post) - digamma(post.sum())
    return float(ln_beta(prior) - ln_beta(post) + np.sum(counts * mean))


def rows_elbo(federation: Federation, X: np.ndarray) -> float:
    """The ELBO of rows with the q(pi) and q(phi) that are sent out, term by term."""
    sent, prior, stats = federation.broadcast.clusters, federation.prior, federation.sums
    rho = log_rho(X, sent.log_weights, by_variable(sent.log_levels, N_LEVELS))
    weights = np.zeros(prior.n_components)
    weights[: stats.n_clusters] = stats.T
    kl = dirichlet_kl(weights, np.full(prior.n_components, prior.alpha))
    for S, eps in zip(
        by_variable(stats.S, N_LEVELS), by_variable(prior.eps, N_LEVELS), strict=True
    ):
        kl += sum(dirichlet_kl(row, eps) for row in S)
    return float(logsumexp(rho, axis=1).sum()) - kl


@pytest.mark.parametrize("few", [0, 1])
def test_clusters_too_small_to_tell_are_zeros_in_their_places(few: int) -> None:
    """Nine rows of one kind: fewer than ten, so that nothing is told of them."""
    federation = merged(study(policy=POLICIES["opensafely"], prior="fixed"))
    assert federation.n_clusters == 2
    of_first = np.argmax(federation.sums.S[:, :2], axis=1)[0]  # its level of variable a
    kinds = [np.zeros(4, dtype=int), N_LEVELS - 1]
    if of_first == 1:
        kinds.reverse()
    both = np.concatenate([np.tile(kinds[few], (9, 1)), np.tile(kinds[1 - few], (300, 1))])
    agreed, sent = federation.study, federation.broadcast
    told = prepare_reply(agreed, sent, frame_of(both), "york").summary
    assert told.sums.T[few] == 0
    # All rows are in the rest, so that nobody can subtract.
    assert told.rest == 1 - few
    assert told.sums.T[1 - few] == 310
    assert not told.sums.S[few].any()
    assert not told.sums.Q[few].any()
    assert told.sums.h[few] == 0
    # The centre finds the few rows by their levels: the rest has more of these than is its own.
    found, _ = federation.step([told, *replies(federation)])
    assert found.sums.T.sum() == pytest.approx(sum(s.n_rows for s in found.summaries))
    assert 0 < found.site_rows[found.sites.index("york")].min() < 20


def test_people_stand_behind_a_sum_by_a_tenth_at_least(federation: Federation) -> None:
    """Whatever their weight, unless it is 0; the outcome's sums are of shares, as all others."""
    X, rng = level_numbers(300, 9), np.random.default_rng(3)
    weights = rng.gamma(1.0, 2.0, 300) * (rng.random(300) > 0.2)
    died = rng.choice([0.0, 1.0, np.nan], 300)
    table, theta = Dense(X, weights, N_LEVELS), federation.broadcast.clusters
    r = np.exp(e_step(table, theta))
    behind = (r >= 0.1) & (weights > 0)[:, None]
    assert np.any((r > 1e-3) & (r < 0.1))
    with Workers() as workers:
        cells = {"died": np.column_stack([died == 0, died == 1]).astype(float)}
        people = count_people(packed(table), theta, cells, workers)
        soft = count_outcomes(packed(table), theta, cells, workers)["died"]
    counted = people.behind
    np.testing.assert_array_equal(counted.T, behind.sum(axis=0))
    np.testing.assert_array_equal(counted.S[:, 0], behind[X[:, 0] == 0].sum(axis=0))
    np.testing.assert_array_equal(counted.outcomes["died"][:, 1], behind[died == 1].sum(axis=0))
    np.testing.assert_array_equal(people.own, np.bincount(r.argmax(axis=1)[weights > 0]))
    known = ~np.isnan(died)
    np.testing.assert_allclose(soft.sum(axis=1), weights[known] @ r[known], rtol=1e-9)


def test_selected_variables_are_those_of_the_centre() -> None:
    federation = merged(study(variable_selection=True, prior=None))
    told = reply(federation, frame_of(level_numbers(200, 3)))
    assert told.selected == federation.selected == federation.broadcast.selected


# Mistakes.


def test_mistakes_at_a_site_are_one_line_without_a_value(federation: Federation) -> None:
    table = frame_of(level_numbers(100, 3))
    secret = table.assign(c=table["c"].mask(table.index == 7, "SECRET"))
    safe = merged(study(policy=POLICIES["opensafely"]))
    cases: list[tuple[type[FedMerDelError], str, Any]] = [
        (DataError, "'c'", lambda: reply(federation, secret)),
        (DataError, "'b'", lambda: reply(federation, table.drop(columns="b"))),
        (DataError, "no rows", lambda: reply(federation, table.head(0))),
        (DataError, "a folder can have", lambda: reply(federation, table, "a/b")),
        (OptionError, "n_jobs", lambda: reply(federation, table, n_jobs=0)),
        (DataError, "too small to take part alone", lambda: reply(safe, table[:6])),
    ]
    for error, words, attempt in cases:
        with pytest.raises(error, match=words) as caught:
            attempt()
        assert "\n" not in str(caught.value)
        assert "SECRET" not in str(caught.value)


def test_nothing_of_a_row_is_in_a_reply(federation: Federation) -> None:
    frame = frame_of(level_numbers(100, 3)).assign(a_code=[f"{n:08d}" for n in range(100)])
    for each in (federation, merged(study(policy=POLICIES["ons"]))):
        told = b"".join(reply(each, frame).to_files().values()).decode()
        assert "SECRET" not in told
        assert not any(code in told for code in frame["a_code"][10:])
        assert not any(str(bmi) in told for bmi in frame["bmi"])
        assert "1960-" not in told


def test_a_reply_says_the_same_however_the_rows_are_ordered(federation: Federation) -> None:
    """Sums in another order differ in their last digits only; rows have no place in a reply."""
    frame = frame_of(level_numbers(300, 3))
    one = reply(federation, frame)
    other = reply(federation, frame.sample(frac=1, random_state=1))
    for a, b in zip(one.sums[:3], other.sums[:3], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-9)
    again = reply(federation, frame)
    assert_same(one, again)
    assert one.to_bytes() == again.to_bytes()


# Broadcasts that are not of the site's study.


class Unread:
    """A table that nobody may look at."""

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError(f"{name} of a row was asked for")


def test_nothing_in_a_broadcast_raises_the_number_of_rounds() -> None:
    """The study fixes it; 0 if it says nothing."""
    for rounds, words in ((0, "agrees on 0 rounds"), (1, "agrees on 1 round:")):
        begun = merged(study(rounds=rounds))
        sent = dataclasses.replace(begun.broadcast, number=rounds + 1)
        with pytest.raises(DataError, match=words):
            reply_site(begun.study, sent, Unread(), "york")
    assert reply(begun, frame_of(level_numbers(100, 3))).n_clusters == begun.n_clusters


def levels_changed(sent: Broadcast, at: int, name: tuple[str, str]) -> Broadcast:
    levels = [*sent.levels]
    levels[at] = name
    return dataclasses.replace(sent, levels=tuple(levels))


FORGED: dict[str, Callable[[Broadcast], Broadcast]] = {
    "another study": lambda sent: dataclasses.replace(sent, study_hash="0123456789abcdef"),
    "no study": lambda sent: dataclasses.replace(sent, study_hash=""),
    "another level": lambda sent: levels_changed(sent, 0, ("a", "2")),
    "another variable": lambda sent: levels_changed(sent, 0, ("note", "0")),
    "levels swapped": lambda sent: dataclasses.replace(sent, levels=sent.levels[::-1]),
}

IMPOSSIBLE: dict[str, Callable[[Broadcast], dict[str, Any]]] = {
    "a level less": lambda sent: {"levels": sent.levels[:-1]},
    "a level more": lambda sent: {"levels": (*sent.levels, ("e", "0"))},
    "fewer numbers": lambda sent: {
        "clusters": sent.clusters._replace(log_levels=sent.clusters.log_levels[:, :-2])
    },
    "no prior": lambda sent: {"eps": np.zeros_like(sent.eps)},
    "not finite": lambda sent: {"eps": np.full_like(sent.eps, np.inf)},
    "no round": lambda sent: {"number": 0},
    "selects what is not there": lambda sent: {"selected": ("note",)},
}


@pytest.mark.parametrize("change", IMPOSSIBLE)
def test_a_broadcast_that_no_centre_can_mean_is_refused(
    change: str, federation: Federation
) -> None:
    sent = federation.broadcast
    with pytest.raises(DataError, match="broadcast: its parts don't fit each other"):
        dataclasses.replace(sent, **IMPOSSIBLE[change](sent))


@pytest.mark.parametrize("wrong", ["study.toml", None])
def test_what_is_no_study_is_refused_in_one_line(wrong: Any, federation: Federation) -> None:
    with pytest.raises(OptionError, match="study: give a Study"):
        reply_site(wrong, federation.broadcast, Unread(), "york")


@pytest.mark.parametrize("forged", FORGED)
@pytest.mark.parametrize("policy", ["none", "opensafely"])
def test_a_broadcast_of_another_study_is_refused_before_a_row_is_read(
    forged: str, policy: str
) -> None:
    """Whoever can send a broadcast can't make a site count anything that it did not agree on."""
    federation = merged(study(policy=POLICIES[policy]), n_rows=200)
    sent = FORGED[forged](federation.broadcast)
    with pytest.raises(DataError, match="the broadcast is of another study than 's'") as caught:
        reply_site(federation.study, sent, Unread(), "york")
    assert "\n" not in str(caught.value)
    assert reply(federation, frame_of(level_numbers(100, 3))).broadcast == federation.broadcast.hash


@pytest.mark.parametrize("change", [{"seed": 9}, {"policy": POLICIES["none"]}, {"max_clusters": 6}])
def test_a_site_replies_under_its_own_study_only(change: dict[str, Any]) -> None:
    """A centre whose study differs, such as by its policy, gets nothing."""
    agreed = study(policy=POLICIES["opensafely"])
    theirs = merged(study(**{"policy": agreed.policy, **change}), n_rows=200)
    with pytest.raises(DataError, match="of another study than 's', or of another version"):
        reply_site(agreed, theirs.broadcast, Unread(), "york")
    # With its hash put right it is replied to, and under the site's own policy.
    forged = dataclasses.replace(theirs.broadcast, study_hash=agreed.hash)
    told = reply_site(agreed, forged, frame_of(level_numbers(300, 3)), "york")
    cells = all_cells(told.sums, told.codebook.level_offsets)
    assert np.all((cells == 0) | (cells >= agreed.policy.smallest))
    assert told.moves is None
    assert told.account.policy == "opensafely"
    with pytest.raises(DataError, match="of another study"):
        theirs.step([told])
