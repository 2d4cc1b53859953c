"""Halves that sites propose, put together: whoever comes first, and whichever is called first."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedmerdel.fitting.halving import count_halves, propose_halves
from fedmerdel.fitting.passes import Workers, count_together, expect_and_count
from fedmerdel.records.packing import PackedRows
from fedmerdel.sums.cuts import cuts_between, split_gains
from fedmerdel.sums.elbo import cluster_evidence
from fedmerdel.sums.expectations import expectations
from fedmerdel.sums.halves import FirstHalves, second_halves
from fedmerdel.sums.prior import Prior, uniform_prior
from fedmerdel.sums.proposals import agreed_halves
from fedmerdel.sums.sums import Sums
from tests.drawn import seeds
from tests.reference import Dense, packed

ONE = Workers(1)
many = settings(max_examples=60, deadline=None)

Proposals = list[tuple[Sums, FirstHalves]]


def random_sites(rng: np.random.Generator, n_sites: int, K: int) -> tuple[Proposals, Prior]:
    """Sites of different sizes with any halves at all, as fractions so that none are alike."""
    n_levels = np.array([2, 3, 4])
    proposals = []
    for _ in range(n_sites):
        T = rng.gamma(2.0, 20.0, K)
        levels = [rng.dirichlet(np.full(L, 0.8), K) * T[:, None] * 0.9 for L in n_levels]
        S = np.concatenate(levels, axis=1)
        share = rng.beta(0.7, 0.7, S.shape)
        first = FirstHalves(T * rng.uniform(0.2, 0.8, K), S * share, rng.gamma(1.0, 5.0, K))
        proposals.append((Sums(T, S, np.zeros(K)), first))
    return proposals, uniform_prior(n_levels, 0.5, 2 * K)


def flipped(stats: Sums, first: FirstHalves, turn: np.ndarray) -> FirstHalves:
    """The same halves with the second called first in some clusters; the blur is of both."""
    T, S = second_halves(stats, first)
    return FirstHalves(T, S, first.blur).where(turn, first)


def pooled(proposals: Proposals) -> Sums:
    stats = [own[:3] for own, _ in proposals]  # T, S and h
    return Sums(*(np.sum(parts, axis=0) for parts in zip(*stats, strict=True)))


def assert_same_split(proposals: Proposals, found: FirstHalves, expected: FirstHalves) -> None:
    """Cluster by cluster the same halves, or the one for the other."""
    whole = pooled(proposals)
    other = flipped(whole, found, np.full(len(found.T), True))
    turn = np.abs(found.T - expected.T) > np.abs(other.T - expected.T)
    same = other.where(turn, found)
    np.testing.assert_allclose(same.T, expected.T, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(same.S, expected.S, rtol=1e-9, atol=1e-9)


@many
@given(st.integers(1, 6), st.integers(1, 5), seeds)
def test_order_and_names_do_not_matter(n_sites: int, K: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    proposals, prior = random_sites(rng, n_sites, K)
    agreed = agreed_halves(proposals, prior)
    shuffled = [proposals[i] for i in rng.permutation(n_sites)]
    assert_same_split(proposals, agreed_halves(shuffled, prior), agreed)
    turned = [(own, flipped(own, first, rng.random(K) < 0.5)) for own, first in shuffled]
    assert_same_split(proposals, agreed_halves(turned, prior), agreed)


def orientations(proposals: Proposals, k: int, prior: Prior) -> list[tuple[float, np.ndarray]]:
    """Every way to put the halves of a cluster together: evidence of both halves, and T, S."""
    ways = []
    halves = [
        np.stack([np.append(first.T[k], first.S[k]), np.append(own.T[k], own.S[k])])
        for own, first in proposals
    ]
    for turns in product([False, True], repeat=len(halves)):
        one = sum(w - f if turn else f for turn, (f, w) in zip(turns, halves, strict=True))
        other = sum(w for _, w in halves) - one
        both = np.stack([one, other])
        evidence = cluster_evidence(both[:, 0], both[:, 1:], prior).sum()
        ways.append((float(evidence), one))
    return ways


@many
@given(st.integers(1, 5), st.integers(1, 4), seeds)
def test_each_site_gives_one_of_its_halves(n_sites: int, K: int, seed: int) -> None:
    """Two sites the better way round; of more, the last to be added the better way round."""
    proposals, prior = random_sites(np.random.default_rng(seed), n_sites, K)
    agreed = agreed_halves(proposals, prior)
    for k in range(K):
        ways = orientations(proposals, k, prior)
        found = np.append(agreed.T[k], agreed.S[k])
        away = [np.abs(one - found).max() for _, one in ways]
        own = int(np.argmin(away))
        assert away[own] < 1e-9
        if n_sites <= 2:
            assert ways[own][0] >= max(evidence for evidence, _ in ways) - 1e-9
        gains = [split_gains(stats, first, prior)[k] for stats, first in proposals]
        last = int(np.argmin(gains))
        turned = own ^ (1 << (n_sites - 1 - last))  # in the order of `product`
        assert ways[own][0] >= ways[turned][0] - 1e-9
    np.testing.assert_array_equal(agreed.blur, np.zeros(K))


def test_the_surest_site_goes_first() -> None:
    """Two sites see one thing clearly, the third hardly anything: it follows, wherever it is."""
    prior = uniform_prior(np.array([2, 2]), 0.5, 4)

    def site(rows: float, clear: float) -> tuple[Sums, FirstHalves]:
        S = np.full((1, 4), rows / 2)
        half = rows / 2 * np.array([[clear, 1 - clear, clear, 1 - clear]])
        return Sums(np.array([rows]), S, np.zeros(1)), FirstHalves(
            np.array([rows / 2]), half, np.zeros(1)
        )

    sure, alike, faint = site(100.0, 0.95), site(80.0, 0.05), site(20.0, 0.4)
    for order in ([faint, sure, alike], [alike, faint, sure], [sure, alike, faint]):
        agreed = agreed_halves(order, prior)
        # 50 0.95 + 40 0.95 + 10 0.6, or what that leaves of 100
        assert agreed.S[0, 0] == pytest.approx(91.5) or agreed.S[0, 0] == pytest.approx(8.5)


def test_a_site_without_rows_changes_nothing() -> None:
    proposals, prior = random_sites(np.random.default_rng(1), 3, 4)
    zero = np.zeros((4, proposals[0][0].S.shape[1]))
    nobody = (
        Sums(np.zeros(4), zero, np.zeros(4)),
        FirstHalves(np.zeros(4), zero, np.zeros(4)),
    )
    agreed = agreed_halves([nobody, *proposals], prior)
    for part, same in zip(agreed, agreed_halves(proposals, prior), strict=True):
        np.testing.assert_array_equal(part, same)


N_SITES, N_ROWS, N_VARIABLES = 14, 24, 10


def added(parts: list[FirstHalves]) -> FirstHalves:
    return FirstHalves(*(np.sum(part, axis=0) for part in zip(*parts, strict=True)))


def gains_of_a_weak_split(seed: int) -> tuple[float, float, float, float]:
    """Two groups in one cluster of 14 sites: gain of the best site alone, of the agreed halves
    and of halves just added, both counted once along their cut, and of the pooled rows."""
    rng = np.random.default_rng(seed)
    n_levels = np.full(N_VARIABLES, 2)
    group = rng.integers(0, 2, (N_SITES, N_ROWS, 1))
    more = (group == 1) ^ (rng.random(N_VARIABLES) < 0.5)
    X = (rng.random(more.shape) < np.where(more, 0.7, 0.3)).astype(int)
    sites = [packed(Dense(rows, np.ones(N_ROWS), n_levels)) for rows in X]
    whole = packed(Dense(X.reshape(-1, N_VARIABLES), np.ones(X[..., 0].size), n_levels))
    prior = uniform_prior(n_levels, 0.01, 8)
    stats = count_together(whole, ONE)
    theta = expectations(stats, prior)

    def proposed(rows: PackedRows) -> tuple[Sums, FirstHalves]:
        own = expect_and_count(rows, theta, ONE)
        return own, propose_halves(rows, theta, own, prior, ONE, rng)

    proposals = [proposed(rows) for rows in sites]

    def after_one_round(first: FirstHalves) -> float:
        cuts = cuts_between(stats, first, prior)
        counted = added([count_halves(rows, theta, cuts, ONE) for rows in sites])
        return float(split_gains(stats, counted, prior)[0])

    return (
        max(float(split_gains(own, first, prior)[0]) for own, first in proposals),
        after_one_round(agreed_halves(proposals, prior)),
        after_one_round(added([first for _, first in proposals])),
        float(split_gains(stats, proposed(whole)[1], prior)[0]),
    )


def test_a_split_that_every_site_sees_weakly_is_found() -> None:
    alone, agreed, unturned, best = np.array([gains_of_a_weak_split(seed) for seed in range(15)]).T
    # Measured: 63 and more; 0.11 of it and less; 0.92 of it and more; on average -5 and 84.
    assert best.min() > 40
    assert np.all(alone < 0.3 * best)
    assert np.all(agreed > 0.8 * best)
    # Added as they come, halves of different sites cancel: turning them is what finds it.
    assert unturned.mean() < 0.5 * agreed.mean()
