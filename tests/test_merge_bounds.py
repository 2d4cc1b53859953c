"""What a merge may and may not do at the edges: gains next to nothing, bounds that overshoot."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedmerdel.centre.federation import Federation, merge_sites
from fedmerdel.centre.filling import filled_alike
from fedmerdel.errors import DataError
from fedmerdel.release.summary import SiteSummary
from fedmerdel.study.policy import POLICIES, Policy, custom_policy
from fedmerdel.study.priors import study_prior
from fedmerdel.study.study import Study
from fedmerdel.sums import search as search_module
from fedmerdel.sums.elbo import elbo
from fedmerdel.sums.merging import LocalClusters, Merging, local_clusters, merged_sums
from fedmerdel.sums.moving import move_singly
from fedmerdel.sums.prior import Prior, uniform_prior
from fedmerdel.sums.search import Search, merge_best_first, search_groups
from fedmerdel.sums.sums import Sums
from tests.drawn import seeds
from tests.federations import Federation as Drawn
from tests.federations import (
    Groups,
    as_sets,
    binary,
    federations,
    hard_sites,
    made_study,
    summary_of,
)
from tests.outcome_cells import yes_no
from tests.reference import Dense

pytestmark = pytest.mark.filterwarnings("ignore::fedmerdel.errors.OddSiteWarning")
"""Sites of a few rows, drawn at random, may well be odd."""


PRIOR = uniform_prior(np.full(16, 2), 0.01, 12)
APART = {frozenset({0}), frozenset({1})}


def two_sites(difference: float) -> LocalClusters:
    """One cluster each, alike but for this difference in every prevalence."""
    one = np.array([0.5, 0.3, 0.4, 0.45] * 4)
    return hard_sites([binary([p.tolist()], [80.0]) for p in (one, one + difference)])


def gain_at(difference: float) -> float:
    return float(Merging(two_sites(difference), PRIOR).gains(0, np.array([1]))[0])


def about_break_even(gain: float) -> LocalClusters:
    """Return two sites whose merge gains about this much, by halving the interval."""
    low, high = 0.0, 0.4
    assert gain_at(low) > gain > gain_at(high)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if gain_at(middle) > gain else (low, middle)
    assert gain_at(low) == pytest.approx(gain, rel=1e-3)
    return two_sites(low)


def joined(search: Search, local: LocalClusters, prior: Prior = PRIOR) -> Groups:
    """Groups by one search, before clusters are moved one by one."""
    if search == "exact":
        merging = Merging(local, prior)
        merge_best_first(merging)
        return merging.groups
    if search == "tree":
        return search_module._tree(local, prior)
    return search_groups(search, local, prior, None, "kl", np.random.default_rng(0))


@pytest.mark.parametrize("search", ["exact", "tree", "greedy", "random"])
@pytest.mark.parametrize("nats", [1e-4, 0.01, 1.0])
def test_the_least_gain_is_taken_and_the_least_loss_is_not(search: Search, nats: float) -> None:
    assert as_sets(joined(search, about_break_even(-nats))) == APART
    assert as_sets(joined(search, about_break_even(nats))) == {frozenset({0, 1})}


def made_federation(seed: int) -> LocalClusters:
    """Three sites with one or two clusters each, of four yes/no variables."""
    rng = np.random.default_rng(seed)
    return hard_sites(
        [
            binary((rng.integers(1, 10, (k, 4)) / 10).tolist(), rng.integers(3, 40, k).tolist())
            for k in rng.integers(1, 3, 3)
        ]
    )


@pytest.mark.parametrize("search", ["exact", "tree"])
def test_clusters_are_moved_one_by_one_after_merging(search: Search) -> None:
    """Merging best first leaves a cluster in the wrong group; these federations were looked for."""
    prior = uniform_prior(np.full(4, 2), 0.01, 12)
    for seed, moved in ((5, [(0, 3, 4), (1, 2)]), (6, [(2, 4), (0, 1, 3)])):
        local = made_federation(seed)
        assert as_sets(joined(search, local, prior)) != {frozenset(group) for group in moved}
        with pytest.MonkeyPatch.context() as patch:  # before clear pieces of a site are merged
            patch.setattr(search_module, "merge_clear", lambda merging: None)
            found = search_groups(search, local, prior, None, "kl", np.random.default_rng(0))
        assert as_sets(found) == {frozenset(group) for group in moved}


@pytest.mark.parametrize("n_sites", [2, 4, 7])
def test_every_cluster_of_a_group_can_end_alone(n_sites: int) -> None:
    """There is always one more place to be alone, however many were taken."""
    prevalences = np.full((n_sites, 14), 0.05)
    for b in range(n_sites):
        prevalences[b, 2 * b : 2 * b + 2] = 0.95
    local = hard_sites([binary([p.tolist()], [200.0]) for p in prevalences])
    prior = uniform_prior(np.full(14, 2), 0.01, 6 * n_sites)
    found = move_singly(local, prior, [np.arange(n_sites)])
    assert as_sets(found) == {frozenset({b}) for b in range(n_sites)}


@settings(max_examples=60, deadline=None)
@given(federation=federations(), more=st.sampled_from([0.0, 0.5, 7.0, 1e4]), seed=seeds)
def test_coarse_overlaps_keep_the_bound_and_no_entropy_is_negative(
    federation: Drawn, more: float, seed: int
) -> None:
    """Under a policy Q is told as a bound; bounds may add up to more than any entropy."""
    exactly = federation.site_sums()
    local = local_clusters([s._replace(Q=s.Q + more * (1 - np.eye(len(s.Q)))) for s in exactly])
    label = np.random.default_rng(seed).integers(0, 2, local.stats.n_clusters)
    groups = [np.flatnonzero(label == k) for k in np.unique(label)]
    found = merged_sums(local, groups)
    exact = merged_sums(federation.local(), groups)
    assert np.all(found.h <= 0)
    assert np.all(found.h >= exact.h)
    true = federation.true_elbo(groups)
    assert elbo(found, federation.prior) <= true + 1e-8 * max(1.0, abs(true))


def test_bounds_that_overshoot_are_cut_at_sure_rows() -> None:
    Q = np.full((3, 3), 7.0) - 7.0 * np.eye(3)
    local = local_clusters([Sums(np.full(3, 20.0), np.full((3, 2), 10.0), np.full(3, -4.0), Q)])
    # Two: -8 + 7; three: -12 + 21, which no entropy can be.
    found = merged_sums(local, [np.array([0, 1]), np.array([2]), np.arange(3)])
    assert found.h.tolist() == [-1.0, -4.0, 0.0]


def own_conditions(n_rows: int, seven: slice) -> Dense:
    """Rows of a site, of which seven have each of these of 60 conditions, and nobody another."""
    X = np.zeros((n_rows, 60), dtype=np.int64)
    X[:7, seven] = 1
    return Dense(X, np.ones(n_rows), np.full(60, 2))


def test_under_a_policy_the_guarantee_is_of_the_released_counts() -> None:
    """A merge that gains as the centre sees it, and loses with the rows: docs/.../method.md."""
    tables = [own_conditions(100, slice(0, 30) if b < 3 else slice(30, 60)) for b in range(6)]
    study = made_study(np.full(60, 2), policy=POLICIES["opensafely"])
    rows = Drawn(study, tables, [np.zeros((100, 1))] * 6)
    sent = tuple(rows.summaries())
    assert all((summary.sums.S[0, 1::2] == 0).all() for summary in sent)
    first, second = np.arange(3), np.arange(3, 6)
    seen = Merging(filled_alike(study, sent), rows.prior, [first, second])
    gain = float(seen.gains(0, np.array([1]))[0])
    assert gain == pytest.approx(587.2, abs=0.05)
    assert rows.true_gain(first, second) == pytest.approx(-289.5, abs=0.05)
    # With the counts as they are, the centre sees the same, and keeps the two apart.
    exact = Merging(rows.local(), rows.prior, [first, second])
    assert float(exact.gains(0, np.array([1]))[0]) == pytest.approx(-289.5, abs=0.05)
    assert merge_sites(study, sent).n_clusters == 1
    apart = as_sets(joined("exact", rows.local(), rows.prior))
    assert apart == {frozenset({0, 1, 2}), frozenset({3, 4, 5})}


STUDY = made_study(np.array([2, 2]), outcomes=("death",))


def sent(site: str, **changed: object) -> SiteSummary:
    stats = binary([[0.1, 0.9], [0.9, 0.1]], [60, 40])
    deaths = {"death": yes_no(np.array([3.0, 20.0]), np.array([30.0, 30.0]))}
    summary = summary_of(STUDY, site, stats, deaths)
    return dataclasses.replace(summary, **changed)  # type: ignore[arg-type]


def test_the_prior_has_the_components_of_all_sites() -> None:
    merged = merge_sites(STUDY, [sent("hull"), sent("leeds"), sent("york")])
    assert merged.prior.n_components == 18
    assert merged.lower_bound == elbo(merged.sums, study_prior(STUDY, 18))
    assert merged.remove("leeds").prior.n_components == 12


@pytest.mark.parametrize("n_components", [2, 5, 7, 1000])
def test_other_components_than_the_studys_are_refused(n_components: int) -> None:
    """They would change the prior of everyone's clusters."""
    with pytest.raises(DataError, match=r"^site 'hull': .*components.*study says 6: .*fit again$"):
        merge_sites(STUDY, [sent("hull", n_components=n_components), sent("leeds")])
    with pytest.raises(DataError, match="components"):
        merge_sites(STUDY, [sent("leeds")]).add(sent("hull", n_components=n_components))


@pytest.mark.parametrize("policy", [custom_policy(10, 5), custom_policy(0), POLICIES["nhs"]])
def test_another_policy_than_the_studys_is_refused(policy: Policy, tmp_path: Path) -> None:
    """Also one that asks for more, and one of the same numbers: the study names the rule."""
    agreed = dataclasses.replace(STUDY, policy=POLICIES["opensafely"])
    stats = binary([[0.1, 0.9], [0.9, 0.1]], [600, 400])
    deaths = {"death": yes_no(np.array([30.0, 200.0]), np.array([300.0, 300.0]))}

    def released(study: Study) -> SiteSummary:
        made = summary_of(study, "hull", stats, deaths)
        return dataclasses.replace(made, study_hash=agreed.hash)

    merged = merge_sites(agreed, [released(agreed)])
    other = released(dataclasses.replace(agreed, policy=policy))
    with pytest.raises(DataError, match=r"^site 'hull': .*policy 'opensafely': .*fit again$"):
        merge_sites(agreed, [other])
    merged.save(tmp_path / "centre")
    other.save(tmp_path / "centre" / "sites" / "hull")
    with pytest.raises(DataError, match=r"centre'.*policy 'opensafely'"):
        Federation.load(tmp_path / "centre")


def test_an_outcome_that_the_study_does_not_name_is_refused() -> None:
    sums = sent("hull").sums
    known = sums.outcomes["death"]
    more = sums._replace(outcomes={"death": known, "fall": known})
    with pytest.raises(DataError, match=r"'hull'.*outcomes"):
        merge_sites(STUDY, [sent("hull", sums=more)])


@pytest.mark.parametrize("at", [0, 31, 63])
def test_the_whole_hash_of_the_study_counts(at: int) -> None:
    other = "0" if STUDY.hash[at] != "0" else "1"
    changed = STUDY.hash[:at] + other + STUDY.hash[at + 1 :]
    with pytest.raises(DataError, match=r"'hull'.*another study"):
        merge_sites(STUDY, [sent("hull", study_hash=changed), sent("leeds")])
