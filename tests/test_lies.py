"""One lying site: impossible numbers are refused, copies too, and whoever is odd is named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedmerdel import (
    DataError,
    Doubt,
    Federation,
    LoneCluster,
    OddSiteWarning,
    Reply,
    SiteSummary,
    fit_site,
    merge_sites,
    reply_site,
    run_rounds,
)
from fedmerdel.centre.copies import check_copies
from fedmerdel.inference.outlying import outlying
from fedmerdel.sums.between import between
from fedmerdel.sums.elbo import cluster_evidence
from fedmerdel.sums.halves import FirstHalves
from fedmerdel.sums.prior import uniform_prior
from fedmerdel.sums.sums import Sums
from tests.command_line import Run, done, refused, words
from tests.federations import binary, made_study, summary_of
from tests.liars import LIAR, REFUSED, Made, copied, doubled, dying, halfway, invented, overlapping
from tests.page_tree import parsed
from tests.reported import page_of


@cache
def sites(policy: str = "none") -> Made:
    return overlapping(3, policy)


def merged(made: Made, lie: SiteSummary) -> Federation:
    return merge_sites(made.study, [*made.summaries[1:], lie])


# Numbers that can't be.


@pytest.mark.parametrize("policy", ["none", "opensafely"])
@pytest.mark.parametrize("lie", REFUSED)
def test_h_and_overlaps_that_no_rows_have_are_refused(lie: str, policy: str) -> None:
    with pytest.raises(DataError, match=rf"summary of site '{LIAR}': .*(h|overlap)") as found:
        REFUSED[lie](sites(policy))
    assert "\n" not in str(found.value)


@pytest.fixture(scope="module", params=["none", "opensafely"])
def replies(request: pytest.FixtureRequest) -> tuple[Federation, list[Reply]]:
    made = sites(request.param)
    federation = made.merged()
    pairs = zip(federation.sites, made.tables, strict=True)
    return federation, [reply_site(made.study, federation.broadcast, X, b) for b, X in pairs]


def test_moves_that_no_rows_make_are_refused() -> None:
    made = sites()
    sent = made.merged().broadcast
    reply = reply_site(made.study, sent, made.tables[0], LIAR)
    assert reply.moves is not None
    halves, cost = reply.moves
    much = FirstHalves(halves.T, halves.S, halves.blur + 1e9)
    for moves, reason in (
        (reply.moves._replace(halves=much), "blur is larger"),
        (reply.moves._replace(cost=cost * 0), "cost is not"),
        (reply.moves._replace(cost=cost - 1e9), "cost is not"),
    ):
        with pytest.raises(DataError, match=f"reply of site '{LIAR}': {reason}"):
            replace(reply, moves=moves)


def test_other_totals_than_before_are_refused(
    replies: tuple[Federation, list[Reply]],
) -> None:
    federation, (first, *others) = replies
    # Of all its rows fifty times as many, each wholly in its cluster.
    T, S = 50 * first.sums.T, 50 * first.sums.S
    least = first.mechanism.nats * np.outer(T > 0, T > 0) * (1 - np.eye(len(T)))
    sums = first.sums._replace(T=T, S=S, h=np.zeros_like(T), Q=least)
    lie = replace(first, sums=sums, moves=None)
    with pytest.raises(DataError, match=f"site '{LIAR}': .* sum to those that it sent before"):
        federation.step([lie, *others])
    # Of a site that is new nobody knows.
    sent = replace(federation, next_round=federation.round_state).remove(LIAR)
    assert LIAR not in sent.sites


def test_a_new_summary_in_place_of_a_reply_has_the_same_totals(
    replies: tuple[Federation, list[Reply]],
) -> None:
    """A site may fit again, and then its clusters are others; its rows are not."""
    federation, (_, *others) = replies
    study, (table, *_) = federation.study, sites(federation.study.policy.name).tables
    federation.step([fit_site(study, table, LIAR), *others])
    lie = fit_site(study, np.concatenate([table, table[:50]]), LIAR)
    with pytest.raises(DataError, match=f"site '{LIAR}': .* sum to those that it sent before"):
        federation.step([lie, *others])


def turned(reply: Reply) -> Reply:
    """Each cluster's counts told of the next, so that totals agree."""
    told = np.flatnonzero(reply.sums.T > 0)
    order = np.arange(reply.n_clusters)
    order[told] = np.roll(told, 1)
    sums, rest = reply.sums.take(order), reply.rest
    if rest is not None:
        rest = int(np.flatnonzero(order == rest)[0])
    return replace(reply, sums=sums, rest=rest, moves=None)


def test_counts_that_do_not_fit_the_clusters_sent_are_refused_or_named(
    replies: tuple[Federation, list[Reply]],
) -> None:
    """Refused where counts are exact, also by one site of two."""
    federation, (first, *others) = replies
    lie = turned(first)
    assert federation.step([first, *others])[0].doubts == ()
    if federation.study.policy.name == "none":
        with pytest.raises(DataError, match=f"site '{LIAR}': its counts don't fit the clusters"):
            federation.step([lie, *others])
        return
    with pytest.warns(OddSiteWarning, match=f"'{LIAR}': .* do not fit the clusters that were sent"):
        stepped, _ = federation.step([lie, *others])
    (doubt,) = (each for each in stepped.doubts if each.kind == "misfit")
    assert doubt.site == LIAR
    assert doubt.score > 0.5
    two = merge_sites(federation.study, sites("opensafely").summaries[:2])
    replied = reply_site(two.study, two.broadcast, sites("opensafely").tables[0], LIAR)
    with pytest.warns(OddSiteWarning, match=f"'{LIAR}': .* do not fit the clusters that were sent"):
        two.step([turned(replied)])


# Outcomes.


@pytest.mark.parametrize("policy", ["none", "opensafely"])
def test_an_outcome_that_is_coded_the_other_way_round_is_odd(policy: str) -> None:
    """A rate of three times the others' is not, nor is one that nobody knows at a site."""

    def doubts(*shares: float) -> tuple[Doubt, ...]:
        rows = np.full(len(shares), 500.0)
        return dying(rows, 500 * np.array(shares), policy).doubts

    (found,) = doubts(0.94, 0.06, 0.06, 0.04, 0.08)
    assert (found.site, found.kind) == (LIAR, "outcome")
    assert "outcome 'died' is in 94% of its rows, elsewhere 6%" in found.text
    assert [each.site for each in doubts(0.06, 0.94, 0.06)] == ["site 01"]
    assert doubts(0.18, 0.06, 0.06, 0.06) == doubts(0.02, 0.06, 0.06, 0.06) == ()
    assert doubts(0.02, 0.06, 0.18, 0.06, 0.12) == ()
    assert doubts(0.94, 0.06, np.nan) == ()  # of two that differ nobody can say
    assert doubts(0.0, 0.02, 0.02, 0.04) == ()


def test_how_far_a_number_is_from_all_others() -> None:
    low, centre, high = np.array([[0.0, 1.0, 3.0, 9.0], [1, 2, 4, 10], [1.5, 3.0, 5.0, 11.0]])
    # The last: the others' median is 2, and they are 1, 0 and 2 from it.
    assert outlying(low, centre, high, 0.1)[3] == pytest.approx(7 / 1.4826)
    assert outlying(low, centre, high, 3.5)[3] == pytest.approx(2)
    assert outlying(low - 9, centre, high + 9, 0.1).tolist() == [0] * 4  # each may be anywhere
    assert outlying(low, centre, high, 0.1)[0] == pytest.approx(2.5 / (1.4826 * 2))


# Copies.


@pytest.mark.parametrize("policy", ["none", "opensafely", "ons"])
@pytest.mark.parametrize("but", [0, 2])
def test_a_copy_of_another_site_is_refused_by_name(policy: str, but: int) -> None:
    """In another order, all of its clusters or nearly all, also with other h and Q."""
    made = sites(policy)
    copy = copied(made, 0, but)
    with pytest.raises(DataError, match=f"sites '{LIAR}' and 'site 01' have sent the same counts"):
        merged(made, copy)
    with pytest.raises(DataError, match="one is a copy of the other"):
        merged(made, replace(made.summaries[1], site=LIAR))


def test_a_copied_reply_is_refused(replies: tuple[Federation, list[Reply]]) -> None:
    federation, (first, second, *others) = replies
    copy = replace(second, site=first.site)
    with pytest.raises(DataError, match=f"sites '{LIAR}' and 'site 01' have sent the same counts"):
        federation.step([copy, second, *others])


def test_small_tables_that_are_alike_are_no_copies() -> None:
    """One cluster of few variables may well be the same at two sites, and so may empty ones."""
    study = made_study(np.array([2, 2, 2]))
    same = [summary_of(study, f"s{b}", binary([[0.5, 0.2, 0.1]], [40])) for b in range(40)]
    check_copies(same)
    # All rows at one level: only their number is told.
    alike = binary([[0.0] * 3, [1.0] * 3], [400, 900])
    check_copies([summary_of(study, f"s{b}", alike) for b in range(2)])


def test_equal_counts_are_not_by_chance_where_that_is_said() -> None:
    """20,000 pairs of small sites with the same kinds of rows, and none is taken for a copy."""
    rng = np.random.default_rng(5)
    study = made_study(np.full(6, 2))
    equal = 0
    for _ in range(10):
        T = rng.binomial(200, 0.3, 64).astype(float)
        yes = rng.binomial(T[:, None].astype(int), [0.5, 0.5, 0.02, 0.01, 0.3, 0.9])
        drawn = []
        for n, ones in zip(T, yes, strict=True):
            S = np.stack([n - ones, ones], axis=1).reshape(1, -1).astype(float)
            drawn.append(summary_of(study, f"s{len(drawn)}", Sums(np.array([n]), S, np.zeros(1))))
        check_copies(drawn)
        equal += len(T) - len(np.unique(T))
    assert equal > 100  # so many have the same number of rows


# Lies that rows could have told, and hardly ever do.


def named(made: Made, lie: SiteSummary) -> tuple[Federation, str]:
    with pytest.warns(OddSiteWarning, match=f"'{LIAR}': ") as caught:
        federation = merged(made, lie)
    (warning,) = caught
    assert warning.filename == __file__
    assert "site 01" not in str(warning.message)
    return federation, str(warning.message)


@pytest.mark.parametrize("policy", ["none", "ons"])
@pytest.mark.parametrize("times", [50, 1e6])
def test_clusters_between_those_of_others_are_named(policy: str, times: float) -> None:
    made = sites(policy)
    federation, message = named(made, halfway(made, times, 0))
    assert "lie between clusters that others tell apart" in message
    assert ("times the rows of all others together" in message) == (times > 1000)
    between = [doubt for doubt in federation.doubts if doubt.kind == "between"]
    assert [doubt.site for doubt in between] == [LIAR]
    assert between[0].score > 0.5


def test_what_changes_without_a_liar_is_told() -> None:
    """Who pulls: without it there are other clusters, and the others lose by it."""
    made = sites()
    federation = made.merged(halfway(made, 50, 0))
    lost = {each.site: each for each in federation.left_out}
    assert lost[LIAR].n_clusters == 6
    assert np.nanmin(lost[LIAR].likeness) < 0.7
    assert lost[LIAR].loss > 0.2
    assert max(abs(each.loss) for each in made.merged().left_out) < 0.01


@pytest.mark.parametrize("policy", ["none", "opensafely"])
def test_rows_of_which_nothing_is_known_are_named(policy: str) -> None:
    made = sites(policy)
    federation, message = named(made, doubled(made))
    assert "50% of the entries or more are missing in each of its variables" in message
    assert [doubt.kind for doubt in federation.doubts] == ["missing"]


def test_a_reply_between_clusters_is_named() -> None:
    made = sites()
    federation = made.merged()
    sent = federation.broadcast
    tables = dict(zip(federation.sites, made.tables, strict=True))

    def ask(broadcast: Any) -> list[Reply]:
        honest = [reply_site(made.study, broadcast, X, site) for site, X in tables.items()]
        return [_between(honest[0], broadcast), *honest[1:]]

    with pytest.warns(OddSiteWarning, match=f"'{LIAR}': .* lie between") as caught:
        stepped, brought = federation.step(ask(sent))
    assert caught[0].filename == __file__
    # They are worse than what was known, so nobody is the worse for it.
    assert brought.move == "taken back"
    assert stepped.doubts == ()
    with pytest.warns(OddSiteWarning, match=f"'{LIAR}': .* lie between") as caught:
        run_rounds(federation, ask, 1)
    assert caught[0].filename == __file__


def _between(reply: Reply, sent: Any) -> Reply:
    """Each cluster a third of the way to the next, and all that follows from it right.

    Halfway would not fit the clusters that were sent.
    """
    sums = reply.sums
    S = (2 * sums.S + np.roll(sums.S, 1, axis=0)) / 3
    T = (2 * sums.T + np.roll(sums.T, 1)) / 3
    lie = Sums(T, S, np.zeros_like(T), np.zeros_like(sums.Q))
    return replace(reply, sums=lie, moves=None)


def test_two_sites_are_not_compared() -> None:
    made = sites()
    assert merge_sites(made.study, [halfway(made, 1e6, 0), made.summaries[1]]).doubts == ()


def test_many_sites_are_judged_by_some() -> None:
    """More than are looked at one by one: the liar is found, and so is nobody else."""
    many = overlapping(1, n_rows=9000)
    study, X = many.study, np.concatenate(many.tables)
    sent = [fit_site(study, X[b::15], f"site {b:02d}") for b in range(15)]
    made = Made(study, [], [], sent)
    assert made.merged().doubts == ()
    assert {d.site for d in made.merged(halfway(made, 50, 0)).doubts} == {LIAR}


def test_invented_clusters_are_found_there_only() -> None:
    made = sites()
    federation = made.merged(invented(made, 20, 0))
    rows = federation.site_rows
    found = federation.lone_clusters
    assert {each.site for each in found} == {LIAR}
    assert len(found) >= 5
    for each in found:
        assert isinstance(each, LoneCluster)
        assert rows[0, each.cluster] == rows[:, each.cluster].sum() == each.rows
        assert each.share == pytest.approx(each.rows / rows[0].sum())
    assert made.merged().lone_clusters == ()
    alone = merge_sites(made.study, made.summaries[:1])
    assert alone.lone_clusters == ()  # there is no other site


def test_the_report_says_it() -> None:
    made = sites()
    federation = made.merged(halfway(made, 50, 0))
    page = parsed(page_of(federation))
    assert f"Odd, compared with the other sites: {LIAR}, " in page.text
    lines = {line[0]: line[-1] for line in page.one(id="sites").tables()[1][1:]}
    assert "lie between clusters that others tell apart" in lines[LIAR]
    assert {line for site, line in lines.items() if site != LIAR} == {"–"}
    assert "Odd, compared" not in parsed(page_of(made.merged())).text


# The formula.


def test_a_cluster_between_two_is_on_their_line_and_another_is_not() -> None:
    """Profiles drawn alone: a third is three quarters of its distance away, on average."""
    rng = np.random.default_rng(1)
    prior = uniform_prior(np.full(200, 2), 0.01, 10)
    ends = rng.uniform(0.05, 0.95, (2, 200))
    others = binary(ends.tolist(), [1e5, 1e5])
    third = rng.uniform(0.05, 0.95, 200)
    shares = [0.5 * ends[0] + 0.5 * ends[1], 0.8 * ends[0] + 0.2 * ends[1], ends[0], third]
    found = between(binary([s.tolist() for s in shares], [5e4] * 4), others, prior)
    assert found.off[:2] == pytest.approx([0, 0], abs=1e-4)
    assert found.weight[:2] == pytest.approx([0.5, 0.2], abs=1e-3)
    assert found.off[3] == pytest.approx(0.75, abs=0.1)
    assert found.gain[0] > 1e5
    one = others.take(np.array([0]))
    assert between(others, one, prior).off.tolist() == [1, 1]  # there is no line


def test_the_gain_of_a_split_is_at_most_that_of_rows_that_are_split() -> None:
    """Brute force: all rows of three variables by their probabilities, given to their kinds."""
    rng = np.random.default_rng(2)
    patterns = np.stack(np.meshgrid([0, 1], [0, 1], [0, 1], indexing="ij"), axis=-1).reshape(-1, 3)
    for _ in range(50):
        phi, weight, T = rng.uniform(0.05, 0.95, (2, 3)), rng.uniform(0.2, 0.8), 1e5
        each = np.prod(np.where(patterns[None], phi[:, None], 1 - phi[:, None]), axis=2)
        joint = np.array([1 - weight, weight])[:, None] * each
        r = joint / joint.sum(axis=0)
        blur = T * (joint * -np.log(r)).sum()
        prior = uniform_prior(np.full(3, 2), 0.01, 10)
        whole = binary([((1 - weight) * phi[0] + weight * phi[1]).tolist()], [T])
        found = between(whole, binary(phi.tolist(), [1e7, 1e7]), prior)
        assert found.weight[0] == pytest.approx(weight, abs=1e-3)
        halves = binary(phi.tolist(), [T * (1 - weight), T * weight])
        parts = cluster_evidence(halves.T, halves.S, prior).sum()
        best = parts - cluster_evidence(whole.T, whole.S, prior).sum() + blur
        assert found.gain[0] <= best + 1e-4 * T


# On the command line.


@pytest.fixture
def folders(tmp_path: Path) -> Callable[[SiteSummary], list[str]]:
    """A study, and what its sites sent, one of them this."""

    def write(lie: SiteSummary) -> list[str]:
        made = sites()
        made.study.save(tmp_path / "liars.toml")
        for summary in (lie, *made.summaries[1:]):
            summary.save(tmp_path / summary.site.replace(" ", "-"))
        return [s.site.replace(" ", "-") for s in made.summaries]

    return write


def test_merge_names_liars_and_leaves_them_out(
    run: Run, folders: Callable[[SiteSummary], list[str]]
) -> None:
    sent = folders(halfway(sites(), 50, 0))
    said = run("merge", "liars.toml", *sent, "-o", "centre")
    assert said.code == 0
    assert said.err.startswith(f"note: odd, compared with the other sites: '{LIAR}': ")
    assert said.err.count("\n") == 1
    out = words(run("describe", "centre"))
    assert f"Odd, compared with the other sites: {LIAR}: 6 of its 6 clusters" in out
    out = words(run("merge", "liars.toml", *sent, "-o", "without", "--leave-out", LIAR))
    assert f"Left out, as asked for: {LIAR}." in out
    assert "of 4 sites became 6 clusters" in out
    assert LIAR not in Federation.load("without").sites
    again = ("--leave-out", LIAR, "--leave-out", "site 01", "--leave-out", LIAR)
    out = words(run("merge", "liars.toml", *sent, "-o", "two", *again))
    assert f"Left out, as asked for: {LIAR}, site 01." in out
    assert Federation.load("two").sites == ("site 02", "site 03", "site 04")
    wrong = run("merge", "liars.toml", *sent, "-o", "never", "--leave-out", "leeds")
    refused(wrong, "--leave-out: no summary is of site 'leeds'", LIAR)
    assert not Path("never").exists()
    everyone = [part for s in sites().summaries for part in ("--leave-out", s.site)]
    refused(run("merge", "liars.toml", *sent, "-o", "never", *everyone), "no summary was given")


def test_merge_lists_clusters_of_one_site(
    run: Run, folders: Callable[[SiteSummary], list[str]]
) -> None:
    sent = folders(invented(sites(), 20, 0))
    for command in (("merge", "liars.toml", *sent, "-o", "centre"), ("describe", "centre")):
        out = words(run(*command))
        assert f"Found at one site only: {LIAR} " in out
        assert "of its rows)." in out
    done(run("report", "centre", "-o", "page.html"))
    (line,) = (
        x for x in parsed(Path("page.html").read_text()).one(id="sites").tables()[1] if x[0] == LIAR
    )
    assert int(line[3]) == len(Federation.load("centre").lone_clusters)


def test_a_doubt_is_a_plain_tuple() -> None:
    made = sites()
    (doubt,) = made.merged(doubled(made)).doubts
    assert doubt == Doubt(LIAR, "missing", doubt.score, doubt.text)
