"""Merging with a prior that the centre learns, clear pieces of one site, and votes of sites."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedmerdel.centre.federation import Federation, merge_sites
from fedmerdel.release.summary import SiteSummary
from fedmerdel.sums.elbo import elbo
from fedmerdel.sums.expectations import expectations
from fedmerdel.sums.learning import learning_of, settled
from fedmerdel.sums.merging import Merging, local_clusters, merged_sums
from fedmerdel.sums.prior import uniform_prior
from fedmerdel.sums.search import CLEAR, merge_clear, search_groups
from tests.federations import Federation as Drawn
from tests.federations import (
    Recorder,
    as_sets,
    binary,
    federations,
    hard_sites,
    made_study,
    many_sites,
    summary_of,
)

pytestmark = pytest.mark.filterwarnings("ignore::fedmerdel.errors.OddSiteWarning")
"""Sites of a few rows, drawn at random, may well be odd."""


few = settings(max_examples=40, deadline=None)


def learned_federations() -> st.SearchStrategy[Drawn]:
    return federations().map(lambda federation: federation.learned())


def assert_same(one: Federation, other: Federation) -> None:
    assert one.sites == other.sites
    assert [group.tolist() for group in one.groups] == [group.tolist() for group in other.groups]
    assert one.lower_bound == other.lower_bound
    assert one.prior.eps.tobytes() == other.prior.eps.tobytes()
    np.testing.assert_array_equal(one.selection_probability, other.selection_probability)


@few
@given(federation=learned_federations(), search=st.sampled_from(["exact", "tree", "greedy"]))
def test_the_bound_is_at_least_that_of_all_clusters_apart(federation: Drawn, search: str) -> None:
    """Both under the best prior for them; and it is no more than the truth of all rows."""
    sent = tuple(federation.summaries())
    merged = merge_sites(federation.study, sent, search, criterion="kl")  # type: ignore[arg-type]
    apart = tuple(np.array([i]) for i in range(sum(s.n_clusters for s in sent)))
    before = Federation(federation.study, sent, apart, "exact", "kl")
    assert merged.prior.strength is not None
    slack = 1e-6 * max(1.0, abs(before.lower_bound))
    # One cluster can't tell how much clusters differ, and teaches nothing: there it is under the
    # prior of all apart.
    prior = merged.prior if merged.n_clusters > 1 else before.prior
    assert elbo(merged.sums, prior) >= before.lower_bound - slack
    # Under its own prior too.
    assert merged.lower_bound >= elbo(before.sums, merged.prior) - slack
    true = federation.true_elbo(list(merged.groups), merged.prior)
    assert merged.lower_bound <= true + 1e-8 * max(1.0, abs(true))
    site = federation.local().site
    if all(len(np.unique(site[group])) == len(group) for group in merged.groups):
        assert merged.lower_bound == pytest.approx(true, rel=1e-8, abs=1e-8)


@few
@given(federation=learned_federations())
def test_the_centre_learns_from_the_sum_of_what_was_sent(federation: Drawn) -> None:
    merged = merge_sites(federation.study, federation.summaries())
    assert merged.prior.strength is not None
    sums = merged_sums(federation.local(), list(merged.groups))
    S = sums.S.sum(axis=0)
    assert merged.prior.floor is not None
    start = federation.prior.offsets[:-1]
    more = merged.prior.eps - merged.prior.floor * federation.prior.eps
    np.testing.assert_allclose(np.add.reduceat(more, start), merged.prior.strength, rtol=1e-9)
    totals = np.repeat(np.add.reduceat(S, start), federation.prior.n_levels)
    there = totals > 0
    share = S[there] / totals[there]
    c = np.repeat(merged.prior.strength, federation.prior.n_levels)[there]
    np.testing.assert_allclose(more[there], c * share, rtol=1e-6, atol=1e-9)


@few
@given(federation=learned_federations(), order=st.randoms(use_true_random=False))
def test_sites_come_and_go_as_if_from_scratch(federation: Drawn, order: Random) -> None:
    sent = federation.summaries()
    mixed = list(sent)
    order.shuffle(mixed)
    for search in ("exact", "tree"):
        merged = merge_sites(federation.study, sent, search)  # type: ignore[arg-type]
        assert_same(merge_sites(federation.study, iter(mixed), search), merged)  # type: ignore[arg-type]
        if len(sent) > 1:
            fewer = merged.remove(mixed[0].site)
            assert_same(fewer, merge_sites(federation.study, mixed[1:], search))  # type: ignore[arg-type]
            assert_same(fewer.add(mixed[0]), merged)


@pytest.mark.parametrize("n_sites", [3, 9, 26])
@pytest.mark.parametrize("search", ["exact", "tree"])
def test_clear_clusters_are_found_with_a_learned_prior(search: str, n_sites: int) -> None:
    local, kind, prior = many_sites(n_sites)
    true = {frozenset(np.flatnonzero(kind == k).tolist()) for k in range(4)}
    rng = np.random.default_rng(0)
    found = search_groups(search, local, prior, "strengths", "kl", rng)  # type: ignore[arg-type]
    assert as_sets(found) == true


# Clear pieces of one site

ONE, TWO = [0.9, 0.9, 0.1, 0.1] * 4, [0.1, 0.1, 0.9, 0.9] * 4
PRIOR = uniform_prior(np.full(16, 2), 0.01, 20)


def cut_cluster(overlap: float) -> Merging:
    """Site 0 cut cluster ONE in two (0, 1) that share rows; site 1 has it whole (3)."""
    cut, whole = binary([ONE, ONE, TWO], [60, 50, 90]), binary([ONE, TWO], [100, 100])
    Q = np.zeros((3, 3))
    Q[0, 1] = Q[1, 0] = overlap
    local = local_clusters([cut._replace(Q=Q), whole._replace(Q=np.zeros((2, 2)))])
    return Merging(local, PRIOR, [np.array([0, 3]), np.array([1]), np.array([2, 4])])


def test_a_cut_piece_of_a_site_is_merged() -> None:
    merging = cut_cluster(0.0)
    merge_clear(merging)
    assert as_sets(merging.groups) == {frozenset({0, 1, 3}), frozenset({2, 4})}


def test_pieces_that_overlap_are_not_merged() -> None:
    """Up to a share of the gain they are clear; beyond, rows may belong to either."""
    gain = float(cut_cluster(0.0).gains(0, np.array([1]))[0])
    # gain - Q is what a merge gains; Q may be 2 % of that.
    limit = CLEAR * gain / (1 + CLEAR)
    for overlap, n_groups in ((0.99 * limit, 2), (1.01 * limit, 3), (gain / 2, 3), (2 * gain, 3)):
        merging = cut_cluster(overlap)
        merge_clear(merging)
        assert len(merging.groups) == n_groups


def test_clusters_of_a_site_that_differ_are_not_merged() -> None:
    merging = Merging(hard_sites([binary([ONE, TWO], [100, 100])]), PRIOR)
    merge_clear(merging)
    assert len(merging.groups) == 2


@few
@given(federation=federations(), learned=st.sampled_from([None, "strengths"]))
def test_merges_within_a_site_are_clear_and_gain(federation: Drawn, learned: str) -> None:
    recorder, local = Recorder(), federation.local()
    recorder.run("exact", local, federation.prior, learned=learned)  # type: ignore[arg-type]
    for (a, b), prior in zip(recorder.merges, recorder.priors, strict=True):
        if set(local.site[a]) & set(local.site[b]):
            merging = Merging(local, prior, [a, b])
            gain, overlap = float(merging.gains(0, np.array([1]))[0]), merging.overlap(0, 1)
            assert gain > 0
            assert overlap <= CLEAR * gain * (1 + 1e-9)
            true = federation.true_gain(a, b, prior)
            assert true >= gain - 1e-8 * max(1.0, abs(federation.true_elbo([a, b], prior)))


# Which variables tell clusters apart


def voting(selected: list[tuple[str, ...]]) -> Federation:
    """Sites alike but for the variables that they selected, of v0 to v2."""
    study = made_study(np.array([2, 2, 2]), variable_selection=True)
    stats = binary([[0.1, 0.9, 0.5], [0.9, 0.1, 0.5]], [60, 40])
    sent: list[SiteSummary] = [
        summary_of(study, f"site {b}", stats, selected=chosen) for b, chosen in enumerate(selected)
    ]
    return merge_sites(study, sent)


BOTH, FIRST, NONE = ("v0", "v1"), ("v0",), ()


@pytest.mark.parametrize(
    ("selected", "shares", "expected"),
    [
        ([FIRST], [1, 0, 0], FIRST),
        ([NONE], [0, 0, 0], NONE),
        ([BOTH, FIRST], [1, 0.5, 0], FIRST),
        ([BOTH, BOTH], [1, 1, 0], BOTH),
        ([NONE, FIRST], [0.5, 0, 0], NONE),
        ([BOTH, FIRST, BOTH], [1, 2 / 3, 0], BOTH),
        ([BOTH, FIRST, FIRST], [1, 1 / 3, 0], FIRST),
        ([BOTH, BOTH, BOTH, BOTH, NONE], [0.8, 0.8, 0], BOTH),
        ([BOTH, BOTH, BOTH, FIRST, NONE], [0.8, 0.6, 0], FIRST),
        ([FIRST] * 3 + [NONE] * 2, [0.6, 0, 0], NONE),
    ],
)
def test_sites_vote_on_variables(
    selected: list[tuple[str, ...]], shares: list[float], expected: tuple[str, ...]
) -> None:
    """All sites, or all but one where there are more than two (appendix D.3)."""
    merged = voting(selected)
    np.testing.assert_allclose(merged.selection_probability, shares)
    assert merged.selected == expected
    assert merged.prior.inclusion is None  # the centre learns no selection of its own
    np.testing.assert_array_equal(merged.row_prior.inclusion, [name in expected for name in
                                                              ("v0", "v1", "v2")])  # fmt: skip
    # Rows are told by these variables alone.
    told = expectations(merged.sums, merged.row_prior).log_levels.reshape(-1, 3, 2)
    for j, name in enumerate(("v0", "v1", "v2")):
        assert np.any(told[:, j]) == (name in expected)


def test_without_a_selection_the_counts_say_which_variables_tell() -> None:
    study = made_study(np.array([2, 2, 2]), prior="learned")
    stats = binary([[0.1, 0.9, 0.5], [0.9, 0.1, 0.5]], [600, 400])
    sent = [summary_of(study, site, stats) for site in ("hull", "leeds")]
    merged = merge_sites(study, sent)
    assert merged.selected == ("v0", "v1")
    assert np.all(merged.selection_probability[:2] > 0.999)
    assert merged.selection_probability[2] < 0.2
    assert merged.row_prior is merged.prior
    fixed = replace(study, prior="fixed")
    other = merge_sites(fixed, [replace(s, study_hash=fixed.hash) for s in sent])
    assert other.selected == ("v0", "v1")


@pytest.mark.parametrize("selected", [("v0", "v9"), ("V0",)])
def test_a_variable_that_is_not_in_the_codebook_can_not_be_selected(
    selected: tuple[str, ...],
) -> None:
    with pytest.raises(ValueError, match=r"site 0.*selects variables that its codebook"):
        voting([selected])


def test_a_prior_has_settled_where_more_learning_changes_nothing() -> None:
    stats = binary([[0.1, 0.9, 0.5], [0.9, 0.1, 0.5]], [600, 400])
    prior = uniform_prior(np.full(3, 2), 0.01, 6)
    learning = learning_of("strengths", stats.S, prior)
    assert learning is not None
    found = settled(learning, stats.S, learning.start(prior))
    again = learning.learn(stats.S, found)
    np.testing.assert_allclose(again.eps, found.eps, rtol=1e-5)
    assert settled(None, stats.S, prior) is prior
    assert learning_of(None, stats.S, prior) is None
    assert np.all(np.isfinite(settled(learning, stats.S[:0], found).eps))
