"""A step takes replies in: what never gets worse, and sites that are late, absent or gone."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from fedmerdel import (
    DataError,
    Federation,
    OptionError,
    assign,
    fit_site,
    merge_sites,
    reply_site,
    score_samples,
)
from fedmerdel.centre.rounds import first_state
from fedmerdel.release.thresholds import Thresholds
from fedmerdel.study.policy import POLICIES
from tests.federations import summary_of
from tests.round_trips import (
    BINARY,
    Made,
    made,
    noisy,
    nonsense,
    play,
    replies_of,
    small_sites,
)
from tests.stored import content


def one_shot(sites: Made) -> Federation:
    sent = [fit_site(sites.study, X, site) for site, X in sites.tables.items()]
    return merge_sites(sites.study, sent)


def path_of(federation: Federation, sites: Made, rounds: int) -> tuple[Federation, list[float]]:
    bounds = [federation.lower_bound]
    for _ in range(rounds):
        federation = play(federation, sites.tables)
        bounds.append(federation.lower_bound)
    return federation, bounds


def assert_never_falls(bounds: list[float]) -> None:
    assert np.diff(bounds).min() >= -1e-10 * abs(bounds[0])


def ari(federation: Federation, sites: Made) -> float:
    found = [assign(federation.model, X).labels for X in sites.tables.values()]
    true = [sites.labels[sites.site == site] for site in sites.tables]
    return float(adjusted_rand_score(np.concatenate(true), np.concatenate(found)))


# What rounds reach.


@pytest.mark.parametrize("seed", range(3))
def test_a_cluster_that_no_site_could_see_is_found(seed: int) -> None:
    """Two of four clusters begin as one: a split is worth hundreds of nats, so it is found."""
    sites = small_sites(seed)
    coarse = sites.begun(np.where(sites.labels == 3, 2, sites.labels))
    assert coarse.n_clusters == 3
    found, bounds = path_of(coarse, sites, 8)
    assert_never_falls(bounds)
    assert bounds[-1] > bounds[0] + 500
    assert "split" in [each.move for each in found.record]
    assert found.n_clusters == 4
    assert ari(found, sites) > max(ari(coarse, sites) + 0.1, 0.85)


@pytest.mark.parametrize("seed", range(3))
def test_one_cluster_of_everything_is_split_until_all_are_found(seed: int) -> None:
    sites = small_sites(seed, prior="fixed")
    everything = sites.begun(np.zeros(1500, dtype=np.int64))
    found, bounds = path_of(everything, sites, 12)
    assert_never_falls(bounds)
    assert found.n_clusters == 4
    assert ari(found, sites) > 0.85


@pytest.mark.parametrize("seed", range(3))
def test_clusters_cut_in_two_at_random_are_merged(seed: int) -> None:
    sites = small_sites(seed)
    halved = sites.labels + 4 * np.random.default_rng(seed).integers(0, 2, 1500)
    found, bounds = path_of(sites.begun(halved), sites, 6)
    assert_never_falls(bounds)
    merges = [each.number for each in found.record if each.move == "merge"]
    assert merges
    assert bounds[merges[0]] > bounds[merges[0] - 1] + 10
    assert found.n_clusters == 4


def test_a_cluster_of_few_stray_rows_is_deleted() -> None:
    """Rows drawn from all clusters make no cluster of their own; a merge may be as good."""
    moves = []
    for seed in (0, 2, 4):
        sites = small_sites(seed, 6)
        stray = np.random.default_rng(seed).random(1500) < 0.02
        begun = sites.begun(np.where(stray, 4, sites.labels))
        assert begun.n_clusters == 5
        found, bounds = path_of(begun, sites, 5)
        assert_never_falls(bounds)
        assert found.n_clusters == 4
        moves += [each.move for each in found.record]
        if found.record[1].move == "delete":
            # The clusters left are sent out; the round after it decides.
            assert bounds[3] > bounds[1]
            # Without the rows of a site nobody knows what they would lose.
            before = play(begun, sites.tables)
            _, brought = before.step(replies_of(before, sites.tables)[1:])
            assert brought.move != "delete"
    assert moves.count("delete") >= 2


# A step is pure.


def test_a_step_leaves_the_federation_and_the_replies_as_they_were(tmp_path: Path) -> None:
    """Moves, guesses and what is taken back: the old federation's files don't change a byte."""
    sites = small_sites(0, 3)
    federation = sites.begun(np.where(sites.labels == 3, 2, sites.labels))
    moves = []
    for at in range(5):
        federation.save(tmp_path / "before")
        replies = replies_of(federation, sites.tables)
        sent = [reply.to_bytes() for reply in replies]
        other = dataclasses.replace(federation)  # nothing is computed yet
        following, brought = other.step(replies)
        for each, name in ((federation, "same"), (other, "other")):
            each.save(tmp_path / name)
            assert content(tmp_path / name) == content(tmp_path / "before")
            assert len(each.record) == len(following.record) - 1
        assert [reply.to_bytes() for reply in replies] == sent
        # And the same again gives the same again.
        again, told = federation.step(reversed(replies))
        assert told == brought == following.record[-1]
        assert again.broadcast.hash == following.broadcast.hash
        moves.append(brought.move)
        federation = nonsense(following, at) if at == 3 else following
    assert "split" in moves
    assert moves[-1] == "taken back"


# Guesses.


@pytest.mark.parametrize("seed", range(3))
def test_a_guess_that_is_worse_is_taken_back(seed: int) -> None:
    sites = small_sites(seed)
    before = play(sites.begun(noisy(sites.labels, 0.2, seed)), sites.tables, 2)
    guess = nonsense(before, seed)
    back, brought = guess.step(replies_of(guess, sites.tables))
    assert brought is back.record[-1]
    told = (brought.move, brought.n_clusters, brought.number)
    assert told == ("taken back", before.n_clusters, 3)
    assert brought.elbo is not None
    assert brought.elbo < before.lower_bound
    assert back.lower_bound == before.lower_bound
    assert back.summaries is guess.summaries
    for one, other in zip(back.sums[:3], before.sums[:3], strict=True):
        assert one.tobytes() == other.tobytes()
    # Nothing is guessed next: the federation's own clusters are sent out, and lead on.
    own = first_state(before.sums, before.row_prior, 3).clusters
    assert back.broadcast.clusters.log_levels.tobytes() == own.log_levels.tobytes()
    assert back.broadcast.number == 4
    after = play(back, sites.tables)
    assert after.lower_bound > before.lower_bound
    assert after.record[-1].move != "taken back"


@pytest.mark.parametrize("seed", range(2))
def test_nothing_falls_whatever_is_guessed(seed: int) -> None:
    sites = small_sites(seed)
    found = sites.begun(noisy(sites.labels, 0.4, seed))
    bounds = [found.lower_bound]
    for at in range(9):
        found = play(nonsense(found, at) if at % 3 == 2 else found, sites.tables)
        bounds.append(found.lower_bound)
    assert_never_falls(bounds)
    assert [each.move for each in found.record].count("taken back") >= 3


# Sites that are absent, late or gone.


@pytest.fixture(scope="module")
def three() -> tuple[Made, Federation]:
    sites = made(2, 600, 3, 3, prior="learned")
    return sites, play(one_shot(sites), sites.tables, 2)


def test_an_absent_site_is_carried_with_its_last_reply(three: tuple[Made, Federation]) -> None:
    sites, federation = three
    present = {site: X for site, X in sites.tables.items() if site != "s01"}
    found, brought = federation.step(replies_of(federation, present))
    assert brought.stale == ("s01",)
    assert federation.record[-1].stale == ()
    assert found.sites == federation.sites
    assert found.summaries[1] is federation.summaries[1]
    assert found.sums.T.sum() == pytest.approx(600)
    after = play(found, sites.tables)
    assert after.record[-1].stale == ()
    assert_never_falls([federation.lower_bound, found.lower_bound, after.lower_bound])
    _, again = found.step(replies_of(found, {"s02": sites.tables["s02"]}))
    assert again.stale == ("s00", "s01")


def test_a_late_site_joins_by_a_reply() -> None:
    sites = made(2, 600, 3, 3, prior="learned")
    early = {site: sites.tables[site] for site in ("s00", "s02")}
    study = sites.study
    federation = merge_sites(study, [fit_site(study, X, site) for site, X in early.items()])
    federation = play(federation, early, 2)
    late, brought = federation.step(replies_of(federation, sites.tables))
    assert late.sites == ("s00", "s01", "s02")
    assert brought.stale == ()
    assert late.prior.n_components == 3 * study.n_components
    assert late.sums.T.sum() == pytest.approx(600)
    assert brought.move != "taken back"  # of more rows, so lower, and no worse
    assert_never_falls([late.lower_bound, play(late, sites.tables).lower_bound])


def test_a_site_that_leaves_takes_all_its_counts_along(three: tuple[Made, Federation]) -> None:
    sites, federation = three
    less = federation.remove("s01")
    assert less.sites == ("s00", "s02")
    assert less.n_clusters == federation.n_clusters
    others = [summary for summary in federation.summaries if summary.site != "s01"]
    totals = [sum(getattr(s.sums, part) for s in others) for part in ("T", "S")]
    order = np.argsort(-totals[0], kind="stable")
    for found, total in zip(less.sums[:2], totals, strict=True):
        assert found.tobytes() == total[order].tobytes()
    rest = {site: sites.tables[site] for site in less.sites}
    after, bounds = path_of(less, made(2, 600, 3, 3)._replace(tables=rest), 3)
    assert_never_falls(bounds)
    assert after.sites == less.sites
    with pytest.raises(DataError, match="is to another broadcast than this one"):
        less.step(replies_of(federation, rest))
    with pytest.raises(DataError, match="no site would be left"):
        less.remove("s00").remove("s02")


def test_a_site_may_leave_while_another_is_carried() -> None:
    """The one that is carried has its own clusters, of one shot, in its own order."""
    sites = made(2, 900, 3, 3, levels=BINARY, beta=(0.3, 0.3), prior="learned")
    for common, site in enumerate(sites.tables):  # a different one at each site
        own = sites.labels[sites.site == site]
        kept = (own == common) | (np.arange(len(own)) % 2 == 0)
        sites.tables[site] = sites.tables[site][kept]
    first = one_shot(sites)
    assert len({tuple(a.cluster for a in first.lineage if a.site == s) for s in first.sites}) == 3
    federation, brought = first.step(replies_of(first, sites.tables)[:2])
    assert brought.stale == ("s02",)
    less = federation.remove("s00")
    rows = federation.site_rows[1:]
    order = np.argsort(-rows.sum(axis=0), kind="stable")
    np.testing.assert_array_equal(less.site_rows, rows[:, order])


def test_mistakes_at_the_centre_are_one_line(three: tuple[Made, Federation]) -> None:
    sites, federation = three
    study, replies = sites.study, replies_of(federation, sites.tables)
    fresh = fit_site(study, sites.tables["s00"], "s00")
    following, _ = federation.step(replies)
    other = dataclasses.replace(study, seed=9)
    foreign = summary_of(other, "s09", replies[0].sums)
    cases: list[tuple[list[Any], str]] = [
        ([], "no summary was given"),
        ([fresh], "no site has replied to this broadcast"),
        ([replies[0], replies[0]], "'s00' is there twice"),
        (replies_of(following, sites.tables), "is to another broadcast than this one"),
        ([replies[0], *replies_of(following, sites.tables)[1:]], "another broadcast"),
        ([*replies, foreign], "another study"),
    ]
    for sent, words in cases:
        with pytest.raises(DataError, match=words) as caught:
            federation.step(sent)
        assert "\n" not in str(caught.value)
    with pytest.raises(OptionError, match="give a list of SiteSummary"):
        federation.step([3])  # type: ignore[list-item]
    with pytest.raises(OptionError, match="let the new site reply to its broadcast") as refused:
        federation.add(fresh)
    assert "\n" not in str(refused.value)


# Policies that change counts.


@pytest.mark.parametrize("seed", range(2))
def test_under_a_policy_rounds_don_t_drift_away_from_the_rows(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the log probability of a row, which nobody at the centre knows."""
    sites = made(
        seed, 2400, 6, 4, levels=(2, 3) * 8, beta=(0.5, 1.0), prior="learned",
        policy=POLICIES["opensafely"],
    )  # fmt: skip
    first = one_shot(sites)
    gained = []
    for fill in (True, False):
        if not fill:
            monkeypatch.setattr(Thresholds, "expected", lambda _, released, *__: released.sums)
        fits = []
        for n_rounds in (1, 5):
            federation = play(first, sites.tables, n_rounds)
            assert all(each.move == "" for each in federation.record)
            rows = [score_samples(federation.model, table) for table in sites.tables.values()]
            fits.append(float(np.concatenate(rows).mean()))
        gained.append(fits[1] - fits[0])
    assert gained[0] > -0.01
    assert gained[1] < -0.05


def test_under_a_policy_the_elbo_is_unknown_and_a_site_may_be_absent() -> None:
    sites = made(2, 900, 3, 3, prior="fixed", policy=POLICIES["ohdsi"])
    federation = play(one_shot(sites), sites.tables)
    assert federation.elbo is None
    reply = reply_site(sites.study, federation.broadcast, sites.tables["s00"], "s00")
    found, brought = federation.step([reply])
    assert brought.stale == ("s01", "s02")
    assert brought.elbo is None
    less = found.remove("s02")
    assert less.sums.T.sum() < found.sums.T.sum()
    rest = {site: sites.tables[site] for site in ("s00", "s01")}
    assert play(less, rest, 2).sites == ("s00", "s01")
