"""The centre's arithmetic against the truth that only someone with all rows can compute."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedmerdel.centre.federation import Federation, merge_sites
from fedmerdel.sums.elbo import elbo
from fedmerdel.sums.learning import Learned
from fedmerdel.sums.merging import Merging, merged_sums
from tests.drawn import seeds
from tests.federations import Federation as Drawn
from tests.federations import Groups, Recorder, federations, made_study
from tests.reference import Dense, statistics_from

pytestmark = pytest.mark.filterwarnings("ignore::fedmerdel.errors.OddSiteWarning")
"""Sites of a few rows, drawn at random, may well be odd."""


SEARCHES = ["exact", "tree", "greedy", "random"]


def close(value: float, true: float) -> None:
    assert value == pytest.approx(true, rel=1e-8, abs=1e-8)


def not_above(value: float, true: float) -> None:
    assert value <= true + 1e-8 * max(1.0, abs(true))


def random_groups(n: int, seed: int) -> Groups:
    rng = np.random.default_rng(seed)
    label = rng.integers(0, rng.integers(1, n + 1), n)
    return [np.flatnonzero(label == k) for k in np.unique(label)]


def clusters_at(group: np.ndarray, site: np.ndarray, n_sites: int) -> np.ndarray:
    return np.bincount(site[group], minlength=n_sites)


@settings(max_examples=80, deadline=None)
@given(federation=federations(), search=st.sampled_from(SEARCHES))
def test_global_elbo_is_the_one_of_all_rows(federation: Drawn, search: str) -> None:
    merged = merge_sites(federation.study, federation.summaries(), search, criterion="kl")
    assert merged.prior.n_components == 6 * len(federation.tables)
    true = federation.true_elbo(list(merged.groups))
    site = federation.local().site
    counts = [clusters_at(group, site, len(federation.tables)) for group in merged.groups]
    if search == "greedy":
        assert max(count.max() for count in counts) == 1
    if max(count.max() for count in counts) == 1:
        close(merged.lower_bound, true)
    else:
        not_above(merged.lower_bound, true)


@settings(max_examples=40, deadline=None)
@given(federation=federations())
def test_before_any_merge_the_elbo_is_the_one_of_all_rows(federation: Drawn) -> None:
    sent = tuple(federation.summaries())
    apart = tuple(np.array([i]) for i in range(sum(s.n_clusters for s in sent)))
    merged = Federation(federation.study, sent, apart, "exact", "kl")
    close(merged.lower_bound, federation.true_elbo(list(apart)))


@settings(max_examples=80, deadline=None)
@given(federation=federations(), seed=seeds)
def test_gains_are_exact_across_sites_and_lower_bounds_within(federation: Drawn, seed: int) -> None:
    local, n_sites = federation.local(), len(federation.tables)
    groups = random_groups(local.stats.n_clusters, seed)
    merging = Merging(local, federation.prior, list(groups))
    for a in range(len(groups)):
        others = np.delete(np.arange(len(groups)), a)
        for b, gain in zip(others, merging.gains(a, others), strict=True):
            true = federation.true_gain(groups[a], groups[b])
            in_a, in_b = (clusters_at(groups[g], local.site, n_sites) for g in (a, b))
            not_above(gain, true)
            # One cluster of each group at every site that they share: Q is known exactly.
            if np.all((in_a * in_b) <= 1):
                close(gain, true)


def test_a_bound_within_a_site_is_a_bound_and_no_equality() -> None:
    """Three clusters that share every row: Q(ab, c) is less than Q(a, c) + Q(b, c)."""
    federation = one_site(np.log(np.full((30, 3), 1 / 3)))
    merging = Merging(federation.local(), federation.prior)
    merging.merge(0, 1)
    gain = merging.gains(0, np.array([2]))[0]
    # The exact Q(ab, c), 30 g(2/3, 1/3), against the bound, 60 g(1/3, 1/3).
    exact = -30 * (2 / 3 * np.log(2 / 3) + 1 / 3 * np.log(1 / 3))
    bound = 60 * (2 / 3 * np.log(2 / 3) - 2 / 3 * np.log(1 / 3))
    true = federation.true_gain(np.array([0, 1]), np.array([2]))
    assert gain == pytest.approx(true + exact - bound)
    assert bound - exact > 5


def one_site(log_r: np.ndarray) -> Drawn:
    levels = np.array([2, 3])
    X = np.random.default_rng(0).integers(0, levels, (len(log_r), 2))
    return Drawn(made_study(levels), [Dense(X, np.ones(len(X)), levels)], [log_r])


@settings(max_examples=80, deadline=None)
@given(
    federation=federations(),
    search=st.sampled_from(SEARCHES),
    criterion=st.sampled_from(["correlation", "kl", "bhattacharyya"]),
    learned=st.sampled_from([None, "strengths"]),
    seed=seeds,
)
def test_no_accepted_merge_lowers_the_true_elbo(
    federation: Drawn, search: str, criterion: str, learned: Learned, seed: int
) -> None:
    """The ELBO under the centre's prior at that time."""
    recorder = Recorder()
    local = federation.local()
    groups = recorder.run(search, local, federation.prior, criterion, seed, learned)
    apart = [np.array([i]) for i in range(local.stats.n_clusters)]
    if learned is None:
        not_above(federation.true_elbo(apart), federation.true_elbo(groups))
    for (a, b), prior in zip(recorder.merges, recorder.priors, strict=True):
        assert (prior.strength is None) == (learned is None)
        before = federation.true_elbo([a, b], prior)
        assert federation.true_gain(a, b, prior) > -1e-8 * max(1.0, abs(before))


@settings(max_examples=60, deadline=None)
@given(federation=federations(), seed=seeds)
def test_merged_sums_bound_the_true_ones(federation: Drawn, seed: int) -> None:
    local = federation.local()
    groups = random_groups(local.stats.n_clusters, seed)
    found = merged_sums(local, groups)
    true = statistics_from(federation.sums(groups))
    np.testing.assert_allclose(found.T, true.T, rtol=1e-10)
    np.testing.assert_allclose(found.S, true.S, rtol=1e-10, atol=1e-12)
    for k, group in enumerate(groups):
        not_above(true.h[k], found.h[k])
        if clusters_at(group, local.site, len(federation.tables)).max() <= 2:
            close(found.h[k], true.h[k])
    not_above(elbo(found, federation.prior), federation.true_elbo(groups))


@settings(max_examples=50, deadline=None)
@given(federation=federations(), seed=seeds)
def test_merging_keeps_its_books(federation: Drawn, seed: int) -> None:
    """After any merges, groups, sums and evidence are those of a fresh start from the groups."""
    local, rng = federation.local(), np.random.default_rng(seed)
    merging = Merging(local, federation.prior)
    for _ in range(rng.integers(0, local.stats.n_clusters)):
        a, b = rng.choice(np.flatnonzero(merging.alive), 2, replace=False)
        merging.merge(int(a), int(b))
    groups = merging.groups
    assert np.array_equal(np.sort(np.concatenate(groups)), np.arange(local.stats.n_clusters))
    assert all(np.all(np.diff(group) > 0) for group in groups)
    fresh = Merging(local, federation.prior, list(groups))
    for name in ("T", "S", "sites", "evidence"):
        np.testing.assert_allclose(
            getattr(merging, name)[merging.alive], getattr(fresh, name), rtol=1e-9, atol=1e-9
        )
    apart = [
        k for k, group in enumerate(groups)
        if not np.intersect1d(local.site[group], local.site[groups[0]]).size
    ]  # fmt: skip
    assert np.flatnonzero(fresh.apart()[0]).tolist() == apart
