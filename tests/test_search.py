"""The searches "exact" and "tree": what they may join, and that all searches are fair."""

from __future__ import annotations

from itertools import chain
from random import Random

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fedmerdel.centre.federation import merge_sites
from fedmerdel.estimators.federated import FedMerDel
from fedmerdel.sums import search as search_module
from fedmerdel.sums.learning import Learned
from fedmerdel.sums.merging import LocalClusters, Merging, local_clusters
from fedmerdel.sums.moving import LEAST_GAIN, move_singly
from fedmerdel.sums.prior import Prior, uniform_prior
from fedmerdel.sums.search import BRANCH, PRIOR_UPDATES, merge_best_first, search_groups
from tests.drawn import seeds
from tests.federations import (
    Federation,
    Groups,
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


ONE, TWO, THREE = [0.9, 0.9, 0.1, 0.1] * 4, [0.1, 0.1, 0.9, 0.9] * 4, [0.5, 0.1, 0.9, 0.1] * 4
PRIOR = uniform_prior(np.full(16, 2), 0.01, 20)


def run(
    search: str,
    local: LocalClusters,
    prior: Prior,
    criterion: str = "kl",
    learned: Learned = None,
) -> Groups:
    rng = np.random.default_rng(0)
    return search_groups(search, local, prior, learned, criterion, rng)  # type: ignore[arg-type]


def slow_best_first(federation: Federation, groups: Groups, site: np.ndarray) -> Groups:
    """Each round, all gains anew from the rows; where two are equal, any order is right."""
    groups = list(groups)
    while True:
        gains = {
            (a, b): federation.true_gain(groups[a], groups[b])
            for b in range(len(groups))
            for a in range(b)
            if not set(site[groups[a]]) & set(site[groups[b]])
        }
        ranked = sorted(gains.values(), reverse=True)
        assume(len(ranked) < 2 or ranked[0] - ranked[1] > 1e-7)
        assume(not ranked or abs(ranked[0]) > 1e-7)
        if not ranked or ranked[0] < 0:
            return groups
        a, b = max(gains, key=gains.__getitem__)
        groups[a] = np.concatenate([groups[a], groups.pop(b)])


def alone(local: LocalClusters, sites: range) -> Groups:
    return [np.array([i]) for i in np.flatnonzero(np.isin(local.site, sites))]


def best_first(local: LocalClusters, prior: Prior, groups: Groups | None = None) -> Groups:
    merging = Merging(local, prior, groups)
    merge_best_first(merging)
    return merging.groups


def plain_best_first(merging: Merging) -> None:
    """Each time, the greatest of all gains, the first of equals; none is kept from before."""
    n = len(merging.T)
    while True:
        gains = np.full((n, n), -np.inf)
        for a, b in np.argwhere(np.triu(merging.apart(), k=1)):
            if merging.alive[a] and merging.alive[b]:
                gains[a, b] = merging.gains(int(a), np.array([b]))[0]
        if gains.max(initial=-np.inf) <= 0:
            return
        a, b = np.unravel_index(gains.argmax(), gains.shape)
        merging.merge(int(a), int(b))


def no_site_twice(groups: Groups, site: np.ndarray) -> bool:
    return all(len(np.unique(site[group])) == len(group) for group in groups)


@settings(max_examples=25, deadline=None)
@given(federation=federations(max_rows=6))
def test_merging_best_first_is_what_it_says(federation: Federation) -> None:
    local = federation.local()
    true = slow_best_first(federation, alone(local, range(local.n_sites)), local.site)
    found = best_first(local, federation.prior)
    assert as_sets(found) == as_sets(true)
    assert no_site_twice(found, local.site)


@settings(max_examples=40, deadline=None)
@given(
    federation=federations(sites=st.integers(1, 6)), learned=st.sampled_from([None, "strengths"])
)
def test_exact_is_what_it_was_when_all_pairs_were_looked_through(
    federation: Federation, learned: Learned
) -> None:
    """Merges, moves and what is learned between them: the same groups."""
    local, prior = federation.local(), federation.prior
    found = run("exact", local, prior, learned=learned)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search_module, "merge_best_first", plain_best_first)
        plain = run("exact", local, prior, learned=learned)
    assert [group.tolist() for group in found] == [group.tolist() for group in plain]


@pytest.mark.parametrize("seed", range(3))
def test_so_it_is_where_gains_are_equal(seed: int) -> None:
    """Sites that are copies of each other: which of equal pairs is first decides."""
    local, _, prior = many_sites(3, seed)
    copies = local.overlaps * 3
    sites = [local.stats.take(np.flatnonzero(local.site == b % 3)) for b in range(len(copies))]
    many = hard_sites(sites)
    found, plain = Merging(many, prior), Merging(many, prior)
    merge_best_first(found)
    plain_best_first(plain)
    assert [group.tolist() for group in found.groups] == [group.tolist() for group in plain.groups]


@settings(max_examples=25, deadline=None)
@given(federation=federations(sites=st.integers(3, 5), max_rows=6))
def test_tree_is_best_first_within_branches_and_then_across(federation: Federation) -> None:
    local = federation.local()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search_module, "BRANCH", 2)
        found = search_module._tree(local, federation.prior)
    bundles = [alone(local, range(site, site + 1)) for site in range(local.n_sites)]
    while len(bundles) > 1:
        bundles = [
            slow_best_first(federation, list(chain(*bundles[at : at + 2])), local.site)
            for at in range(0, len(bundles), 2)
        ]
    assert as_sets(found) == as_sets(bundles[0])


@settings(max_examples=40, deadline=None)
@given(federation=federations())
def test_exact_and_tree_are_the_same_for_few_sites(federation: Federation) -> None:
    local, prior = federation.local(), federation.prior
    found = run("exact", local, prior)
    assert as_sets(run("tree", local, prior)) == as_sets(found)
    groups = best_first(local, prior)
    for _ in range(PRIOR_UPDATES):
        last = groups
        groups = best_first(local, prior, move_singly(local, prior, groups))
        if as_sets(groups) == as_sets(last):
            break
    # All but clear pieces of one site: these come last.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search_module, "merge_clear", lambda merging: None)
        before = run("exact", local, prior)
    assert as_sets(before) == as_sets(groups)
    assert no_site_twice(before, local.site)
    assert all(any(part <= whole for whole in as_sets(found)) for part in as_sets(before))


@settings(max_examples=40, deadline=None)
@given(federation=federations(max_rows=6), seed=seeds)
def test_moving_singly_ends_where_no_cluster_gains_by_a_change(
    federation: Federation, seed: int
) -> None:
    local, rng = federation.local(), np.random.default_rng(seed)
    start: Groups = []
    for i in rng.permutation(local.stats.n_clusters):  # any groups without a site twice
        fit = [k for k, group in enumerate(start) if local.site[i] not in local.site[group]]
        if fit and rng.random() < 0.7:
            k = rng.choice(fit)
            start[k] = np.append(start[k], i)
        else:
            start.append(np.array([i]))
    before = federation.true_elbo(start)
    found = move_singly(local, federation.prior, [group.copy() for group in start])
    assert np.array_equal(np.sort(np.concatenate(found)), np.arange(local.stats.n_clusters))
    assert no_site_twice(found, local.site)
    after = federation.true_elbo(found)
    slack = 1e-8 * max(1.0, abs(before))
    assert after >= before - slack
    if as_sets(found) != as_sets(start):
        assert after > before
    nothing = np.array([], dtype=np.int64)
    for i, k in np.ndindex(local.stats.n_clusters, len(found) + 1):
        others = [group[group != i] for group in (*found, nothing)]
        if local.site[i] not in local.site[others[k]]:
            others[k] = np.append(others[k], i)
            moved = federation.true_elbo([group for group in others if len(group)])
            assert moved <= after + LEAST_GAIN + slack


def test_moving_singly_takes_back_an_early_merge() -> None:
    """A cluster in the wrong group changes to the right one, or is alone if there is none."""
    local = hard_sites([binary([ONE, TWO], [100, 100]), binary([ONE, THREE], [100, 100])])
    found = move_singly(local, PRIOR, [np.array([0, 3]), np.array([1, 2])])
    assert as_sets(found) == {frozenset(g) for g in [(0, 2), (1,), (3,)]}


@pytest.mark.parametrize("n_sites", [BRANCH, BRANCH + 1, 3 * BRANCH + 2, BRANCH**2 + 1])
def test_exact_and_tree_find_clear_clusters_at_many_sites(n_sites: int) -> None:
    local, kind, prior = many_sites(n_sites)
    true = {frozenset(np.flatnonzero(kind == k).tolist()) for k in range(4)}
    assert as_sets(run("exact", local, prior)) == true
    assert as_sets(run("tree", local, prior)) == true


@settings(max_examples=25, deadline=None)
@given(
    federation=federations(sites=st.integers(3, 5)),
    more=st.integers(-3, 2),
    learned=st.sampled_from([None, "strengths"]),
)
def test_auto_is_exact_up_to_a_number_of_local_clusters_and_the_tree_beyond(
    federation: Federation, more: int, learned: Learned
) -> None:
    local, prior = federation.local(), federation.prior
    named = "exact" if more >= 0 else "tree"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search_module, "BRANCH", 2)
        patch.setattr(search_module, "MOST_EXACT", local.stats.n_clusters + more)
        trees = noted_trees(patch)
        found = run("auto", local, prior, learned=learned)
        assert len(trees) == (named == "tree")
        other = run(named, local, prior, learned=learned)
    assert [group.tolist() for group in found] == [group.tolist() for group in other]


def noted_trees(patch: pytest.MonkeyPatch) -> list[int]:
    """How many local clusters each tree merges from now on."""
    sizes, tree = list[int](), search_module._tree

    def noted(local: LocalClusters, prior: Prior) -> Groups:
        sizes.append(local.stats.n_clusters)
        return tree(local, prior)

    patch.setattr(search_module, "_tree", noted)
    return sizes


def test_auto_is_the_default_and_looks_again_when_sites_come_and_go() -> None:
    study, sites = made_study(np.full(16, 2)), {"hull": 100, "leeds": 110, "york": 120}
    sent = [summary_of(study, site, binary([ONE, TWO], [n, n])) for site, n in sites.items()]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search_module, "MOST_EXACT", 4)
        trees = noted_trees(patch)
        three = merge_sites(study, sent)
        assert trees == [6]
        two = three.remove("york")
        assert trees == [6]
        again = two.add(sent[2])
        assert trees == [6, 6]
    assert three.search == two.search == again.search == FedMerDel().search == "auto"


@pytest.mark.parametrize("search", ["exact", "tree", "greedy"])
def test_clusters_of_one_site_that_overlap_stay_apart_even_if_they_are_the_same(
    search: str,
) -> None:
    """Each row half in another cluster: what they share is more than a merge gains."""
    same = binary([[0.3, 0.8, 0.5]] * 3, [50, 50, 50])
    local = local_clusters([same._replace(Q=10.0 * (1 - np.eye(3)))] * 2)
    groups = run(search, local, uniform_prior(np.full(3, 2), 0.01, 12))
    assert sorted(len(group) for group in groups) == [2, 2, 2]
    assert all(len(np.unique(local.site[group])) == 2 for group in groups)


@pytest.mark.parametrize(("search", "n_groups"), [("exact", 1), ("tree", 1), ("greedy", 3)])
def test_clusters_of_one_site_that_share_no_row_are_merged_last(search: str, n_groups: int) -> None:
    same = binary([[0.3, 0.8, 0.5]] * 3, [50, 50, 50])
    local, prior = hard_sites([same, same]), uniform_prior(np.full(3, 2), 0.01, 12)
    recorder = Recorder()
    assert len(recorder.run(search, local, prior)) == n_groups
    within = [bool(set(local.site[a]) & set(local.site[b])) for a, b in recorder.merges]
    assert within == sorted(within)
    # The paper's random search has no such rule.
    assert len(run("random", local, prior)) == 1


@settings(max_examples=30, deadline=None)
@given(federation=federations(), order=st.randoms(use_true_random=False))
def test_the_order_of_the_summaries_does_not_matter(federation: Federation, order: Random) -> None:
    sent = federation.summaries()
    for search in ("auto", "exact", "tree", "greedy", "random"):
        merged = merge_sites(federation.study, sent, search, criterion="kl")
        mixed = list(sent)
        order.shuffle(mixed)
        other = merge_sites(federation.study, iter(mixed), search, criterion="kl")
        assert other.sites == merged.sites
        assert [g.tolist() for g in other.groups] == [g.tolist() for g in merged.groups]
        assert other.lower_bound == merged.lower_bound
        assert np.all(np.diff(merged.sums.T) <= 0)


@settings(max_examples=25, deadline=None)
@given(federation=federations(max_rows=8), seed=seeds)
def test_best_first_does_not_depend_on_the_names_of_the_sites(
    federation: Federation, seed: int
) -> None:
    local = federation.local()
    slow_best_first(federation, alone(local, range(local.n_sites)), local.site)  # no ties
    order = np.random.default_rng(seed).permutation(local.n_sites)
    other = Federation(
        federation.study,
        [federation.tables[b] for b in order],
        [federation.log_r[b] for b in order],
    )
    moved = np.concatenate([np.flatnonzero(local.site == b) for b in order])
    found = best_first(other.local(), other.prior)
    assert as_sets([moved[g] for g in found]) == as_sets(best_first(local, federation.prior))


def test_a_site_alone_has_nothing_to_merge_with() -> None:
    local = hard_sites([binary([ONE, TWO], [10, 900])])
    for search in ("exact", "tree", "greedy"):
        assert as_sets(run(search, local, PRIOR)) == {frozenset({0}), frozenset({1})}
    single = hard_sites([binary([ONE], [10])])
    assert len(run("random", single, PRIOR)) == 1
