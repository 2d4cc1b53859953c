"""Bounds of h, Q and their like: they hold of any rows, also as released, and lies break them."""

from __future__ import annotations

from itertools import combinations
from math import log
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_softmax, xlogy

from fedmerdel.inference.margins import margins, misfits
from fedmerdel.release.bounds import (
    Unknown,
    impossible_clusters,
    impossible_moves,
    impossible_overlap,
    unknown,
)
from fedmerdel.release.mechanism import MoveSums
from fedmerdel.release.mechanisms import mechanism_for
from fedmerdel.study.policy import POLICIES
from fedmerdel.sums.expectations import Expectations
from fedmerdel.sums.halves import FirstHalves
from fedmerdel.sums.sums import Sums
from tests.drawn import seeds
from tests.drawn_sites import ACTIVE, clusterings

EXACT = mechanism_for(POLICIES["none"])


class Shares(NamedTuple):
    """Shares of some rows in clusters, and their weights."""

    r: np.ndarray
    w: np.ndarray

    def sums(self) -> Sums:
        """Each sum in plain loops, from its definition."""
        r, w = self.r, self.w
        K = r.shape[1]
        T = np.array([sum(w[n] * r[n, k] for n in range(len(w))) for k in range(K)])
        h = np.array([sum(w[n] * xlogy(r[n, k], r[n, k]) for n in range(len(w))) for k in range(K)])
        Q = np.zeros((K, K))
        for a, b in combinations(range(K), 2):
            both = r[:, a] + r[:, b]
            parts = xlogy(both, both) - xlogy(r[:, a], r[:, a]) - xlogy(r[:, b], r[:, b])
            Q[a, b] = Q[b, a] = max(float(w @ parts), 0.0)
        return Sums(T, np.zeros((K, 0)), np.minimum(h, 0.0), Q)


@st.composite
def shares(draw: st.DrawFn) -> Shares:
    rng = np.random.default_rng(draw(seeds))
    n, K = draw(st.integers(1, 12)), draw(st.integers(1, 6))
    r = rng.dirichlet(np.full(K, draw(st.sampled_from([0.01, 0.3, 1.0, 30.0]))), n)
    hard = np.eye(K)[r.argmax(axis=1)]
    r = np.where(rng.random((n, 1)) < draw(st.sampled_from([0.0, 0.5, 1.0])), hard, r)
    w = np.ones(n) if draw(st.booleans()) else rng.gamma(0.5, 10.0, n) + 1e-6
    return Shares(r, w * draw(st.sampled_from([1.0, 1e-3, 1e6])))


@settings(max_examples=80, deadline=None)
@given(shares())
def test_bounds_hold_of_any_rows(drawn: Shares) -> None:
    sums = drawn.sums()
    T, h, Q, N = sums.T, sums.h, sums.Q, float(drawn.w.sum())
    dust = 1e-9 * N
    for k, m in combinations(range(len(T)), 2):
        both = T[k] + T[m]
        mixed = xlogy(both, both) - xlogy(T[k], T[k]) - xlogy(T[m], T[m])
        assert Q[k, m] <= mixed + dust
        assert Q[k, m] <= -h[k] - h[m] + dust
    for k in range(len(T)):
        assert T[k] == 0 or -h[k] <= T[k] * log(N / T[k]) + dust
        assert -h[k] <= Q[k].sum() + dust
    assert impossible_overlap(sums, unknown(sums, EXACT, complete=True)) is None


def test_bounds_are_reached_and_no_more() -> None:
    """Rows that are all alike reach the first two, and two clusters the third."""
    sums = Shares(np.tile([0.2, 0.3, 0.5], (50, 1)), np.ones(50)).sums()
    left = unknown(sums, EXACT, complete=True)
    assert impossible_overlap(sums, left) is None
    for part, words in (("h", "h is further below 0 than the rows"), ("Q", "an overlap is larger")):
        more = sums._replace(**{part: getattr(sums, part) * 1.0001})
        assert words in str(impossible_overlap(more, left))
    two = Shares(np.tile([0.5, 0.5], (50, 1)), np.ones(50)).sums()
    left = unknown(two, EXACT, complete=True)
    assert impossible_overlap(two, left) is None
    less = two._replace(h=two.h * 0.9999)
    assert "than h of its clusters" in str(
        impossible_overlap(less, unknown(two, EXACT, complete=True))
    )
    # Half of the overlap that there must be.
    none = two._replace(Q=two.Q * 0.49)
    assert "than the overlaps" in str(impossible_overlap(none, left))


@pytest.mark.parametrize("policy", ACTIVE, ids=str)
@settings(max_examples=6, deadline=None)
@given(data=st.data())
def test_no_release_of_rows_is_refused(policy: Any, data: st.DataObject) -> None:
    """As a fit and as a reply, of clusters some of which are too small to be told."""
    for site in data.draw(clusterings(policy)):
        released, mechanism = site.protect(policy).released.sums, mechanism_for(policy)
        silent = int((released.T == 0).sum())
        told = released.take(np.flatnonzero(released.T > 0))
        left = unknown(released, mechanism, complete=silent == 0)
        assert impossible_overlap(released, left) is None
        assert impossible_overlap(told, unknown(told, mechanism, complete=False)) is None


LIES: dict[str, Any] = {
    "h": lambda s: s._replace(h=np.full_like(s.h, -1e9)),
    "no overlap": lambda s: s._replace(Q=np.zeros_like(s.Q)),
    "overlap": lambda s: s._replace(Q=1e15 * (1 - np.eye(s.n_clusters))),
    "no h": lambda s: s._replace(h=np.zeros_like(s.h)),
}


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("policy", ["none", "opensafely", "ons"])
@pytest.mark.parametrize("untold", [0, 3])
def test_numbers_that_no_rows_have_are_refused(lie: str, policy: str, untold: int) -> None:
    """3,000 rows that clusters share: h and overlap are about 1,000 nats."""
    rng = np.random.default_rng(0)
    mechanism = mechanism_for(POLICIES[policy])
    sums = Shares(rng.dirichlet(np.ones(4), 3000), np.ones(3000)).sums()
    left = unknown(sums, mechanism, complete=untold == 0)
    assert impossible_overlap(sums, left) is None
    assert impossible_overlap(LIES[lie](sums), left) is not None


def test_overlaps_with_clusters_of_which_nothing_is_told_are_not_known() -> None:
    """So h may be further below 0 than the overlaps that are told explain, but not without end."""
    rng = np.random.default_rng(0)
    mechanism = mechanism_for(POLICIES["ons"])
    whole = Shares(rng.dirichlet(np.ones(4), 3000), np.ones(3000)).sums()
    T = np.array([whole.T[[0, 2, 3]].sum(), whole.T[1]])  # the others' rows are in the rest
    some = whole.take(np.array([0, 1]))._replace(T=T, Q=np.array([[0.0, 7.0], [7.0, 0.0]]))
    assert impossible_overlap(some, unknown(some, mechanism, complete=True)) is not None
    assert impossible_overlap(some, unknown(some, mechanism, complete=False)) is None


def test_all_is_told_where_nothing_is_too_small() -> None:
    sums = Shares(np.tile([0.5, 0.5], (50, 1)), np.ones(50)).sums()
    assert unknown(sums, EXACT, complete=False) == unknown(sums, EXACT, complete=True)


@settings(max_examples=40, deadline=None)
@given(shares(), seeds)
def test_costs_and_blurs_of_rows_are_possible(drawn: Shares, seed: int) -> None:
    (r, w), sums = drawn, drawn.sums()
    first = np.random.default_rng(seed).dirichlet([0.3, 0.3], r.shape)[..., 0]
    blur = w @ (r * -(xlogy(first, first) + xlogy(1 - first, 1 - first)))
    with np.errstate(divide="ignore"):
        cost = w @ np.maximum(np.log1p(-np.minimum(r, 1.0)), -700.0)
    halves = FirstHalves(w @ (r * first), np.zeros((len(sums.T), 0)), blur)
    assert impossible_moves(sums, MoveSums(halves, cost)) is None
    N = float(w.sum())
    for wrong in (np.zeros_like(cost), cost - 701 * N):
        assert impossible_moves(sums, MoveSums(halves, wrong)) is not None
    more = halves._replace(blur=blur + sums.T * log(2) + 1e-3 * N)
    assert "blur" in str(impossible_moves(sums, MoveSums(more, cost)))


@st.composite
def given_rows(draw: st.DrawFn) -> tuple[Sums, Expectations]:
    """Rows of some levels, given to clusters: sums, and the clusters."""
    rng = np.random.default_rng(draw(seeds))
    levels = np.array(draw(st.lists(st.integers(1, 4), min_size=1, max_size=5)))
    offsets = np.concatenate([[0], np.cumsum(levels)])
    n, K = draw(st.integers(1, 30)), draw(st.integers(1, 5))
    spread = draw(st.sampled_from([0.1, 1.0, 30.0]))
    theta = Expectations(rng.normal(-1, spread, K), rng.normal(-1, spread, (K, int(levels.sum()))))
    X = rng.integers(0, levels, (n, len(levels)))
    seen = rng.random(X.shape) > draw(st.sampled_from([0.0, 0.3, 1.0]))
    w = rng.gamma(1.0, 2.0, n) * draw(st.sampled_from([1.0, 1e5]))
    one_hot = np.zeros((n, int(levels.sum())))
    for j in range(len(levels)):
        one_hot[np.arange(n), offsets[j] + X[:, j]] = seen[:, j]
    log_rho = theta.log_weights + one_hot @ theta.log_levels.T
    r = np.exp(log_softmax(log_rho, axis=1))
    sums = Shares(r, w).sums()._replace(S=(r * w[:, None]).T @ one_hot)
    return sums, theta


@settings(max_examples=60, deadline=None)
@given(given_rows())
def test_counts_of_rows_fit_the_clusters_they_were_given_to(drawn: Any) -> None:
    sums, theta = drawn
    margin, scale = margins(sums, theta)
    T, S = sums.T, sums.S
    for k in range(len(T)):
        for m in range(len(T)):
            if k == m or T[k] == 0 or T[m] == 0:
                assert margin[k, m] == np.inf
                continue
            fits = T[k] * (theta.log_weights[k] - theta.log_weights[m])
            fits += sum(S[k] * (theta.log_levels[k] - theta.log_levels[m]))
            plain = fits - T[k] * log(T[k] / T[m])
            assert margin[k, m] == pytest.approx(plain, abs=1e-9 * scale[k, m] + 1e-300)
    assert not impossible_clusters(sums, theta, unknown(sums, EXACT, complete=True))


def test_rows_alike_reach_the_bound_and_no_more() -> None:
    """Shares that are the same in all rows: one row less in a cluster, and no rows have it."""
    theta = Expectations(np.log([0.2, 0.3, 0.5]), np.zeros((3, 2)))
    sums = Shares(np.tile([0.2, 0.3, 0.5], (50, 1)), np.ones(50)).sums()
    sums = sums._replace(S=np.outer(sums.T, [0.4, 0.6]))
    left = unknown(sums, EXACT, complete=True)
    margin, _ = margins(sums, theta)
    assert margin[~np.eye(3, dtype=bool)] == pytest.approx(0, abs=1e-12)
    assert not impossible_clusters(sums, theta, left)
    moved = sums._replace(T=sums.T + np.array([0.01, -0.01, 0.0]))
    assert impossible_clusters(moved, theta, left)
    changed = unknown(sums, mechanism_for(POLICIES["ons"]), complete=True)
    assert not impossible_clusters(moved, theta, changed)


@settings(max_examples=60, deadline=None)
@given(seeds, st.sampled_from([5, 10]))
def test_rounded_rows_that_are_all_alike_fit(seed: int, step: int) -> None:
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.ones(int(rng.integers(2, 6))))
    T = float(rng.integers(20, 2000)) * shares
    told = np.where(T < step, 0.0, np.round(T / step) * step)
    sums = Sums(told, told[:, None], np.zeros_like(T))
    theta = Expectations(np.log(shares), np.zeros((len(T), 1)))
    assert not misfits(sums, theta, step).any()
    if np.ptp(told[told > 0] / T[told > 0]) > 1e-3:  # a ratio has changed
        assert misfits(sums, theta).any()


@settings(max_examples=20, deadline=None)
@given(seeds)
def test_counts_told_of_the_next_cluster_are_refused(seed: int) -> None:
    """Rows of which half and more belong to their cluster surely."""
    rng = np.random.default_rng(seed)
    phi = np.log(rng.dirichlet([0.2, 0.2], (4, 20)) + 1e-3)
    theta = Expectations(np.full(4, -log(4)), phi.reshape(4, 40))
    X = (np.exp(phi[rng.integers(0, 4, 400), :, 1]) > rng.random((400, 20))).astype(int)
    one_hot = np.stack([1 - X, X], axis=2).reshape(400, 40)
    r = np.exp(log_softmax(theta.log_weights + one_hot @ theta.log_levels.T, axis=1))
    sums = Sums(r.sum(axis=0), r.T @ one_hot, np.zeros(4))
    left = Unknown(0.0, 0.0, 400.0, complete=True)
    assert not impossible_clusters(sums, theta, left)
    assert impossible_clusters(sums.take(np.roll(np.arange(4), 1)), theta, left)
