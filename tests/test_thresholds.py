"""Thresholds: no count that leaves a site, or follows from those, breaks its policy."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.special import digamma, gammaln

from fedmerdel.errors import DataError
from fedmerdel.release.account import release_cost
from fedmerdel.release.mechanism import People
from fedmerdel.release.mechanisms import mechanism_for
from fedmerdel.release.protection import Protected, protect
from fedmerdel.release.tables import furthest
from fedmerdel.study.policy import POLICIES, Policy
from fedmerdel.sums.elbo import merge_gains
from fedmerdel.sums.prior import Prior, uniform_prior
from fedmerdel.sums.sums import Sums
from tests.drawn_sites import ACTIVE, Site, clusterings, sites, too_small
from tests.federations import everyone


def variables(site: Site, out: Protected) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Cells (K, L + 1) of each variable and outcome: soft, hard, released; missing last."""

    def cut(sums: Sums) -> list[np.ndarray]:
        parts = [sums.S[:, a:b] for a, b in pairwise(site.prior.offsets)]
        parts.extend(sums.outcomes.values())
        return [np.column_stack([part, sums.T - part.sum(axis=1)]) for part in parts]

    return list(zip(cut(site.soft), cut(site.hard), cut(out.released.sums), strict=True))


def fits(counts: np.ndarray, policy: Policy) -> bool:
    whole = np.all(counts % max(policy.rounding, 1) == 0)
    return bool(whole and np.all((counts == 0) | (counts >= policy.smallest)))


@pytest.mark.parametrize("policy", ACTIVE, ids=lambda p: f"{p.name}-{p.threshold}-{p.rounding}")
@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_nothing_that_follows_by_adding_or_subtracting_breaks_the_policy(
    policy: Policy, data: st.DataObject
) -> None:
    site = data.draw(sites(policy))
    out = site.protect(policy)
    T, rest = out.released.sums.T, out.released.rest
    assert fits(T, policy)
    assert T[rest] == T.max()
    told = np.flatnonzero((T > 0) & (np.arange(len(T)) != rest))
    assert np.all(np.abs(T - site.soft.T)[told] <= len(T) * furthest(policy))
    for soft, hard, cells in variables(site, out):
        # Exactly, so that the last cell is a count too.
        np.testing.assert_array_equal(cells.sum(axis=1), T)
        # Every union of cells, its complement in T, in a cluster and over some clusters.
        for chosen in product([0.0, 1.0], repeat=cells.shape[1]):
            union = cells @ np.array(chosen)
            assert fits(union, policy)
            assert fits(T - union, policy)
            for some in product([0.0, 1.0], repeat=min(len(T), 4)):
                assert fits(np.array([np.array(some) @ union[: len(some)]]), policy)
            assert fits(union.sum(keepdims=True), policy)
            assert fits(T.sum() - union.sum(keepdims=True), policy)
        # What is told of a cluster that is counted is near to what it is, but for its largest cell.
        others = cells[told] < cells[told].max(axis=1, keepdims=True)
        others &= soft[told] < soft[told].max(axis=1, keepdims=True)
        further = np.abs(cells - soft)[told]
        small = np.minimum(soft, hard)[told] < policy.smallest
        assert np.all((further <= furthest(policy) + 1e-6)[others & ~small])
        assert np.all((cells[told] <= furthest(policy) + soft[told] + 1e-6)[others])


@pytest.mark.parametrize("policy", ACTIVE, ids=lambda p: f"{p.name}-{p.threshold}-{p.rounding}")
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_releases_of_one_site_fit_together(policy: Policy, data: st.DataObject) -> None:
    """Whatever the clusters, their counts sum to the same: rows, levels, missing, outcomes."""
    many = data.draw(clusterings(policy))
    first, *later = [each.protect(policy) for each in many]
    for other in later:
        before, after = first.released.sums.total(), other.released.sums.total()
        np.testing.assert_array_equal(before.T, after.T)
        np.testing.assert_array_equal(before.S, after.S)
        for name, counts in before.outcomes.items():
            np.testing.assert_array_equal(counts, after.outcomes[name])


@settings(max_examples=60, deadline=None)
@given(data=st.data(), policy=st.sampled_from(ACTIVE))
def test_a_release_might_be_the_truth(data: st.DataObject, policy: Policy) -> None:
    """A table with just these counts would be released so: none of them proves a smaller one."""
    site = data.draw(sites(policy))
    out = site.protect(policy).released
    assert out.rest is not None
    told = np.flatnonzero(out.sums.T > 0)
    # Of two that are as large the first is the rest.
    order = np.concatenate([[out.rest], told[told != out.rest]])
    true = out.sums.take(order)
    again = mechanism_for(policy).protect(true, everyone(true), site.prior.offsets)
    assert again.rest == 0
    np.testing.assert_array_equal(again.sums.T, true.T)
    np.testing.assert_array_equal(again.sums.S, true.S)
    for name, counts in true.outcomes.items():
        np.testing.assert_array_equal(counts, again.sums.outcomes[name])


def test_a_small_cluster_is_in_the_rest() -> None:
    """Six rows of their own kind: no number tells of them, but the totals have them."""
    policy = POLICIES["ons"]
    T = np.array([300.0, 6.0, 40.0])
    S = np.array([[300.0, 0.0, 0.0], [0.0, 6.0, 0.0], [0.0, 20.0, 20.0]])
    sums = Sums(T, S, np.zeros(3), np.zeros((3, 3)))
    out = mechanism_for(policy).protect(sums, everyone(sums), np.array([0, 3]))
    assert out.rest == 0
    assert out.sums.T.tolist() == [306.0, 0.0, 40.0]
    assert out.sums.S.sum(axis=0).tolist() == [300.0, 26.0, 20.0]
    assert not out.sums.S[1].any()
    assert fits(out.sums.S[0], policy)


@settings(max_examples=100, deadline=None)
@given(data=st.data(), policy=st.sampled_from(ACTIVE))
def test_a_small_group_moved_to_the_rest_changes_no_other_cluster(
    data: st.DataObject, policy: Policy
) -> None:
    """Whether few rows are a cluster of their own or the rest's makes no difference at all."""
    site = data.draw(sites(policy))
    K = site.hard.n_clusters
    site = site._replace(soft=site.hard._replace(Q=np.zeros((K, K))))
    rest = site.protect(policy).released.rest
    few = data.draw(st.integers(1, max(policy.smallest - 1, 1)))
    if few >= policy.smallest or site.soft.T[rest] <= 3 * policy.smallest:
        return
    part = few / site.soft.T[rest]

    def divided(sums: Sums) -> Sums:
        def cut(array: np.ndarray) -> np.ndarray:
            apart = np.concatenate([array, array[rest : rest + 1] * part])
            apart[rest] *= 1 - part
            return apart

        Q = np.zeros((len(sums.T) + 1,) * 2)
        if len(sums.Q):
            Q[:-1, :-1] = sums.Q
        outcomes = {name: cut(cells) for name, cells in sums.outcomes.items()}
        return Sums(cut(sums.T), cut(sums.S), cut(sums.h), Q, outcomes)

    other = site._replace(soft=divided(site.soft), hard=divided(site.hard))
    if np.sum(other.soft.T >= other.soft.T[rest]) > 1:
        return
    one, two = site.protect(policy).released.sums, other.protect(policy).released.sums
    np.testing.assert_array_equal(one.T, two.T[:-1])
    np.testing.assert_array_equal(one.S, two.S[:-1])
    assert two.T[-1] == 0


@settings(max_examples=150, deadline=None)
@given(data=st.data(), policy=st.sampled_from(ACTIVE))
def test_overlap_and_entropy_are_coarse_and_never_too_good(
    data: st.DataObject, policy: Policy
) -> None:
    site = data.draw(sites(policy))
    out = site.protect(policy)
    unit = policy.smallest * np.log(2.0)
    told = np.flatnonzero(out.released.sums.T > 0)
    out, site = (
        out._replace(released=out.released.take(told)),
        site._replace(soft=site.soft.take(told)),
    )
    off = ~np.eye(len(site.soft.Q), dtype=bool)
    Q, h = out.released.sums.Q, out.released.sums.h
    np.testing.assert_array_equal(Q, Q.T)
    assert not np.diag(Q).any()
    assert np.all(Q[off] >= site.soft.Q[off])
    assert np.all(Q[off] >= unit)
    assert np.all(Q[off] <= site.soft.Q[off] + 1.001 * unit)
    assert np.all(h <= 0)
    assert not np.signbit(h[h == 0]).any()
    assert np.all(-h <= -site.soft.h)
    assert np.all(-h >= -site.soft.h - 1.001 * unit)
    for bound in (Q / unit, h / unit):
        np.testing.assert_allclose(bound, np.round(bound), atol=1e-9)
    # So a merge that the released numbers allow has no less to gain under the exact Q.
    pairs = np.argwhere(np.triu(off))
    if len(pairs):
        released = merge_gains(out.released.sums, site.prior, pairs, Q[tuple(pairs.T)])
        exact = merge_gains(out.released.sums, site.prior, pairs, site.soft.Q[tuple(pairs.T)])
        assert np.all(released <= exact)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_without_a_policy_numbers_go_out_as_they_are(data: st.DataObject) -> None:
    none = POLICIES["none"]
    site = data.draw(sites(none))
    out = site.protect(none)
    for exact, told in zip(site.soft[:4], out.released.sums[:4], strict=True):
        np.testing.assert_array_equal(told, exact)
    for exact, told in zip(
        site.soft.outcomes["death"], out.released.sums.outcomes["death"], strict=True
    ):
        np.testing.assert_array_equal(told, exact)
    account = out.account
    assert (account.smallest, out.changes.changed) == (0, 0)


@settings(max_examples=100, deadline=None)
@given(data=st.data(), policy=st.sampled_from(ACTIVE))
def test_the_account_tells_no_more_than_the_released_counts(
    data: st.DataObject, policy: Policy
) -> None:
    site = data.draw(sites(policy))
    out = site.protect(policy, absorbed=2, cost_so_far=3.0)
    T = out.released.sums.T
    cells = np.concatenate([T, *(told.ravel() for _, _, told in variables(site, out))])
    account = out.account
    assert (account.n_cells, account.n_zero) == (cells.size, (cells == 0).sum())
    assert account.smallest_cell == cells[cells > 0].min()
    # What was too small, and what it cost, is for the site alone.
    assert out.changes.absorbed >= 2
    assert out.changes.cost >= 3.0
    assert not {"absorbed", "cost"} & set("_".join(account.to_dict()).split("_"))
    assert account == type(account).from_dict(account.to_dict())


def released(
    T: np.ndarray, soft: np.ndarray, hard: np.ndarray, prior: Prior, policy: Policy
) -> Protected:
    """Protect these counts, behind which are these people, and as many in all as there are rows."""
    sums = Sums(T, soft, np.zeros(len(T)), np.zeros((len(T), len(T))))
    return protect(sums, everyone(sums._replace(S=hard), sums), prior, policy)


@settings(max_examples=60, deadline=None)
@given(
    n_levels=st.integers(2, 30),
    rows=st.integers(30, 5000),
    policy=st.sampled_from(ACTIVE),
    data=st.data(),
)
def test_one_hidden_cell_is_not_seen_in_the_stated_cost(
    n_levels: int, rows: int, policy: Policy, data: st.DataObject
) -> None:
    hidden = data.draw(st.integers(0, max(policy.threshold - 1, 0)))
    assume(rows - hidden >= max(policy.smallest, hidden))
    assume(rows % max(policy.rounding, 1) == 0)
    S = np.zeros((1, n_levels))
    S[0, :2] = rows - hidden, hidden
    T = np.array([float(rows)])
    strength = data.draw(st.sampled_from([1e-6, 0.01, 1.0, 30.0]))
    prior = uniform_prior(np.array([n_levels]), 0.01, 5)
    prior = prior._replace(eps=strength * prior.eps)
    empty = np.zeros((1, n_levels))
    empty[0, 0] = rows
    out, none = (released(T, each, each, prior, policy) for each in (S, empty))
    assert out.account == none.account


def test_a_cell_must_pass_as_a_sum_of_parts_and_row_by_row() -> None:
    T = np.array([100.0])
    prior = uniform_prior(np.array([3]), 0.01, 5)
    # Twelve rows in parts, of which three are sure; three in parts, where twelve are likeliest.
    for soft, hard in (
        ([88.0, 12.0, 0.0], [97.0, 3.0, 0.0]),
        ([97.0, 3.0, 0.0], [88.0, 12.0, 0.0]),
    ):
        out = released(T, np.array([soft]), np.array([hard]), prior, POLICIES["ons"])
        assert out.released.sums.S.tolist() == [[100.0, 0.0, 0.0]]
        assert (out.changes.zeroed, out.changes.changed) == (1, 2)
        assert out.changes.largest_change == soft[1]


def test_rounding_takes_no_large_cell_away() -> None:
    # Twenty cells of 12.6 round up to 15 each, which is 35 rows more than there are.
    S = np.full((1, 20), 12.6)
    T = np.array([252.0])
    out = released(T, S, S, uniform_prior(np.array([20]), 0.01, 5), POLICIES["opensafely"])
    assert out.released.sums.S.sum() == 250
    assert set(out.released.sums.S.ravel()) == {10.0, 15.0}


def test_small_clusters_and_empty_sites_are_refused() -> None:
    policy = POLICIES["opensafely"]
    T, hard = np.array([9.0, 30.0, 12.0, 10.0]), np.array([20.0, 30.0, 9.0, 10.0])
    assert too_small(T, hard, policy).tolist() == [True, False, True, False]
    assert not too_small(T, hard, POLICIES["none"]).any()
    # Both must be enough: the rows behind a cluster, and those whose likeliest it is.
    few, many = Sums(np.full(1, 9.0), np.zeros((1, 0)), np.zeros(1)), np.full(1, 30.0)
    for people in (People(few, many, few, few), People(few._replace(T=many), few.T, few, few)):
        assert mechanism_for(policy).too_small(many, lambda found=people: found).all()
    prior = uniform_prior(np.array([2]), 0.01, 5)

    def release(T: np.ndarray, T_hard: np.ndarray) -> None:
        S = np.column_stack([T, 0 * T])
        sums = Sums(T, S, 0 * T, np.zeros((len(T), len(T))))
        protect(sums, everyone(sums._replace(T=T_hard)), prior, policy)

    release(T, hard)
    for few in (T[[0, 2]], hard[[0, 2]]), (np.zeros(0), np.zeros(0)):
        with pytest.raises(DataError, match="no cluster of this site has 10 rows"):
            release(*few)


@settings(max_examples=60, deadline=None)
@given(data=st.data(), policy=st.sampled_from(ACTIVE))
def test_the_cost_is_what_the_elbo_falls_with_the_released_posterior(
    data: st.DataObject, policy: Policy
) -> None:
    site = data.draw(sites(policy))
    out = site.protect(policy)

    def part(prior: np.ndarray, counts: np.ndarray, told: np.ndarray) -> float:
        """ELBO of one Dirichlet: counts and prior under q set from the told counts, and entropy."""
        q = prior + told
        mean = digamma(q) - digamma(q.sum())
        ln_b = [gammaln(a).sum() - gammaln(a.sum()) for a in (prior, q)]
        return float(((prior + counts - q) * mean).sum() + ln_b[1] - ln_b[0])

    def fall(prior: np.ndarray, counts: np.ndarray, told: np.ndarray) -> float:
        return part(prior, counts, counts) - part(prior, counts, told)

    def all_components(T: np.ndarray) -> np.ndarray:
        return np.append(T, np.zeros(site.prior.n_components - len(T)))

    alpha = np.full(site.prior.n_components, site.prior.alpha)
    expected = fall(alpha, all_components(site.soft.T), all_components(out.released.sums.T))
    for a, b in pairwise(site.prior.offsets):
        for counts, told in zip(site.soft.S[:, a:b], out.released.sums.S[:, a:b], strict=True):
            expected += fall(site.prior.eps[a:b], counts, told)
    cost = release_cost(site.soft, out.released.sums, site.prior)
    assert cost >= 0
    np.testing.assert_allclose(cost, expected, rtol=1e-8, atol=1e-6)
