"""Learned strengths: derivatives, steps that never lose, the optimum, and what they mean."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import gammaln, psi

from fedmerdel.sums.elbo import cluster_evidence, elbo
from fedmerdel.sums.learning import settled, start_prior, while_searching
from fedmerdel.sums.prior import Prior, uniform_prior
from fedmerdel.sums.strengths import (
    HIGHEST,
    LEAST,
    LOWEST,
    MOST,
    Strengths,
    _slope,
    climb,
    common_strength,
    log_density,
)
from fedmerdel.sums.sums import Sums
from tests import reference
from tests.drawn import seeds

many = settings(max_examples=60, deadline=None)


class Counted(NamedTuple):
    """Counts of clusters, and the fixed prior."""

    stats: Sums
    prior: Prior

    @property
    def learning(self) -> Strengths:
        return Strengths.of(self.stats.S, self.prior)

    def at(self, ln_c: np.ndarray, floor: float = 1.0) -> Prior:
        """The prior with these strengths, and this floor."""
        return self.learning._prior(self.prior, np.exp(ln_c), floor)

    def value(self, ln_c: np.ndarray, ln_d: float = 0.0) -> float:
        return elbo(self.stats, self.at(ln_c, float(np.exp(ln_d))))


def drawn_counts(
    rng: np.random.Generator, n_levels: np.ndarray, K: int, rows: float, differ: np.ndarray
) -> Counted:
    """K clusters; variable j differs between them by ``differ[j]``, 0 for noise."""
    T = rng.uniform(0.5, 1.5, K) * rows
    S = []
    for L, strength in zip(n_levels, differ, strict=True):
        base = rng.dirichlet(np.full(L, 2.0))
        own = np.tile(base, (K, 1))
        if strength:
            own = rng.dirichlet(base * L / strength + 1e-3, K)
        S.append(np.stack([rng.multinomial(int(t), p) for t, p in zip(T, own, strict=True)]))
    T = np.floor(T)
    counts = np.concatenate(S, axis=1).astype(float)
    prior = uniform_prior(np.asarray(n_levels), 0.01, K + 2)
    return Counted(Sums(T, counts, np.zeros(K)), prior)


@st.composite
def counts(draw: st.DrawFn) -> Counted:
    n_levels = np.array(draw(st.lists(st.integers(1, 5), min_size=1, max_size=5)))
    K = draw(st.integers(1, 6))
    rows = draw(st.sampled_from([2.0, 30.0, 1000.0, 1e5]))
    rng = np.random.default_rng(draw(seeds))
    differ = rng.choice([0.0, 0.1, 1.0, 10.0], len(n_levels))
    counted = drawn_counts(rng, n_levels, K, rows, differ)
    if draw(st.booleans()):  # clusters without rows, or without entries of a variable
        keep = rng.random((K, len(n_levels))) < 0.7
        S = counted.stats.S * np.repeat(keep, n_levels, axis=1)
        counted = counted._replace(stats=counted.stats._replace(S=S))
    return counted


def oracle(counted: Counted, j: int, ln_c: float) -> tuple[float, float]:
    """One variable's ln B(eps + S) - ln B(eps), summed over clusters; and by ln c."""
    start, stop = counted.prior.offsets[j : j + 2]
    f, eps_0 = counted.learning.shares[start:stop], counted.prior.eps[start:stop]
    eps, value, first = eps_0 + np.exp(ln_c) * f, 0.0, 0.0
    for S in counted.stats.S[:, start:stop]:
        value += reference.ln_beta(eps + S) - reference.ln_beta(eps)
        first += np.sum(f * (psi(eps + S) - psi(eps)))
        first -= psi(np.sum(eps + S)) - psi(np.sum(eps))
    return float(value), float(np.exp(ln_c) * first)


def slope(counted: Counted, j: int, ln_c: float) -> tuple[float, float, float]:
    learning = counted.learning
    return _slope(
        counted.stats.S, learning.shares, learning.even, counted.prior.offsets[j : j + 2], ln_c
    )


@many
@given(counts(), st.floats(np.log(LEAST), np.log(MOST)))
def test_the_slope_is_the_derivative_of_the_evidence(counted: Counted, ln_c: float) -> None:
    step = 1e-4
    for j in range(len(counted.prior.n_levels)):
        value, first, second = slope(counted, j, ln_c)
        expected, expected_first = oracle(counted, j, ln_c)
        start, stop = counted.prior.offsets[j : j + 2]
        # Large terms cancel: what is left is measured against them.
        eps = counted.prior.eps[start:stop] + np.exp(ln_c) * counted.learning.shares[start:stop]
        size = np.abs(gammaln(np.sum(eps + counted.stats.S[:, start:stop], axis=1))).sum() + 1
        assert value == pytest.approx(expected, rel=1e-9, abs=1e-11 * size)
        large = (np.exp(ln_c) + 1) * len(counted.stats.S)
        assert first == pytest.approx(expected_first, rel=1e-9, abs=1e-9 * large)
        after, before = (oracle(counted, j, ln_c + by)[1] for by in (step, -step))
        numerical = (after - before) / (2 * step)
        assert second == pytest.approx(numerical, rel=1e-4, abs=1e-5 * (large + abs(first)))


@many
@given(counts(), seeds)
def test_a_climb_loses_nothing_and_stays_within_bounds(counted: Counted, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n_variables = len(counted.prior.n_levels)
    ln_c = rng.uniform(np.log(LEAST), np.log(MOST), n_variables)
    common, learning = common_strength(ln_c), counted.learning
    before = ln_c.copy()
    climb(counted.stats.S, learning.shares, learning.even, counted.prior.offsets, common, ln_c)
    assert np.all((ln_c >= np.log(LEAST) - 1e-12) & (ln_c <= np.log(MOST) + 1e-12))
    for j in range(n_variables):  # each variable by itself
        last, now = (
            slope(counted, j, float(at[j]))[0] - (at[j] - common) ** 2 / 18 for at in (before, ln_c)
        )
        assert now >= last - 1e-9 * (1 + abs(last))


@many
@given(counts(), seeds)
def test_learning_never_lowers_the_elbo(counted: Counted, seed: int) -> None:
    rng = np.random.default_rng(seed)
    ln_c = rng.uniform(np.log(LEAST), np.log(MOST), len(counted.prior.n_levels))
    prior = counted.at(ln_c, rng.uniform(LOWEST, HIGHEST))
    last = elbo(counted.stats, prior)
    for _ in range(4):
        prior = counted.learning.learn(counted.stats.S, prior)
        now = elbo(counted.stats, prior)
        assert now >= last - 1e-9 * (1 + abs(last))
        last = now
        assert prior.strength is not None
        assert prior.floor is not None
        assert LOWEST - 1e-12 <= prior.floor <= HIGHEST + 1e-12
        mixed = np.repeat(prior.strength, prior.n_levels) * counted.learning.shares
        eps = prior.floor * counted.prior.eps + mixed
        np.testing.assert_allclose(prior.eps, eps, rtol=1e-14)
        assert prior.constant == pytest.approx(reference.strength_density(prior.strength))


@pytest.mark.parametrize("L", [2, 3, 4, 5])
@pytest.mark.parametrize("rows", [40.0, 2000.0])
@pytest.mark.parametrize("seed", range(3))
def test_what_is_settled_is_the_optimum(L: int, rows: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    differ = np.array([0.0, 0.0, 0.05, 0.3, 1.0, 4.0])
    counted = drawn_counts(rng, np.full(6, L), 5, rows, differ)
    found = settled(counted.learning, counted.stats.S, counted.learning.start(counted.prior))
    bounds = [(np.log(LEAST), np.log(MOST))] * 6 + [(np.log(LOWEST), np.log(HIGHEST))]
    best = -np.inf
    for start in (-3.0, 0.0, 3.0, 8.0):
        tried = minimize(
            lambda at: -counted.value(at[:6], at[6]), np.append(np.full(6, start), -1.0),
            method="L-BFGS-B", bounds=bounds,
            options={"ftol": 1e-14, "gtol": 1e-8, "maxiter": 2000},
        )  # fmt: skip
        best = max(best, -float(tried.fun))
    assert elbo(counted.stats, found) == pytest.approx(best, abs=1e-4)


@many
@given(counts(), st.floats(np.log(LOWEST), np.log(HIGHEST)))
def test_the_slope_by_the_floor_is_that_of_all_variables(counted: Counted, ln_d: float) -> None:
    """Against differences of the evidence, written out variable by variable."""
    learning, offsets, step = counted.learning, counted.prior.offsets, 1e-4
    mixed = 2.0 * learning.shares

    def evidence(at: float) -> float:
        total = 0.0
        for start, stop in pairwise(offsets):
            eps = np.exp(at) * learning.even[start:stop] + mixed[start:stop]
            for S in counted.stats.S[:, start:stop]:
                total += reference.ln_beta(eps + S) - reference.ln_beta(eps)
        return total

    value, first, _ = _slope(counted.stats.S, learning.even, mixed, offsets, ln_d)
    size = np.abs(gammaln(counted.stats.S.sum(axis=1) + 1)).sum() + 1
    assert value == pytest.approx(evidence(ln_d), rel=1e-9, abs=1e-10 * size)
    numerical = (evidence(ln_d + step) - evidence(ln_d - step)) / (2 * step)
    assert first == pytest.approx(numerical, rel=1e-4, abs=1e-6 * size)


def test_the_floor_is_low_where_clusters_are_pure_and_high_where_they_are_mixed() -> None:
    rng = np.random.default_rng(3)
    pure = np.tile([[30.0, 0.0], [0.0, 30.0]], (4, 12))
    even = rng.binomial(30, 0.5, (8, 12)).astype(float)
    floors = []
    for ones in (pure[:, 1::2], even):
        S = np.stack([30.0 - ones, ones], axis=2).reshape(8, 24)
        prior = uniform_prior(np.full(12, 2), 0.01, 20)
        learning = Strengths.of(S, prior)
        floors.append(settled(learning, S, learning.start(prior)).floor)
    assert floors[0] == pytest.approx(LOWEST)
    assert floors[1] == pytest.approx(HIGHEST)


def test_a_held_floor_stays() -> None:
    counted = drawn_counts(np.random.default_rng(0), np.full(6, 2), 4, 50.0, np.ones(6))
    start = counted.learning.start(counted.prior)
    found = while_searching(counted.learning).learn(counted.stats.S, start)
    assert found.floor == start.floor
    assert counted.learning.learn(counted.stats.S, start).floor != start.floor


@pytest.mark.parametrize(("n_variables", "floor"), [(5, 1.0), (30, 2 / 3), (300, 0.5), (1500, 0.2)])
def test_where_the_floor_starts(n_variables: int, floor: float) -> None:
    prior = uniform_prior(np.full(n_variables, 2), 0.01, 20)
    learning = Strengths.of(np.ones((1, 2 * n_variables)), prior)
    assert learning.start(prior).floor == pytest.approx(floor)
    assert start_prior(learning, learning.start(prior), 1).floor == pytest.approx(floor / 4)
    assert start_prior(learning, learning.start(prior), 2).floor == pytest.approx(floor)


@pytest.mark.parametrize("seed", range(5))
def test_strengths_are_small_where_clusters_differ_and_large_for_noise(seed: int) -> None:
    differ = np.repeat([0.0, 1.0], 8)
    counted = drawn_counts(np.random.default_rng(seed), np.full(16, 3), 8, 500.0, differ)
    c = settled(counted.learning, counted.stats.S, counted.learning.start(counted.prior)).strength
    assert c is not None
    assert np.all(c[8:] < 15)
    assert np.all(c[:8] > 60)
    assert np.median(c[:8]) > 40 * np.median(c[8:])


@many
@given(counts())
def test_what_is_learned_contains_the_fixed_prior(counted: Counted) -> None:
    """The evidence is at least the fixed prior's, but for what the hyperprior takes."""
    learning = counted.learning._replace(floor_held=True)
    found = settled(learning, counted.stats.S, counted.at(np.zeros(len(counted.prior.n_levels))))
    least = counted.at(np.full(len(counted.prior.n_levels), np.log(LEAST)))
    assert elbo(counted.stats, found) >= elbo(counted.stats, least) - 1e-6
    evidence, least_evidence, fixed = (
        cluster_evidence(counted.stats.T, counted.stats.S, prior).sum()
        for prior in (found, least, counted.prior)
    )
    density = log_density(np.log(np.full(len(counted.prior.n_levels), LEAST)))
    assert evidence >= least_evidence + density - found.constant - 1e-6
    # A hundredth of a row is next to nothing.
    per_level = np.count_nonzero(counted.stats.S) + counted.stats.S.size
    assert abs(least_evidence - fixed) <= 0.06 * per_level + 1e-9 * abs(fixed)


def test_the_common_strength_is_the_most_probable() -> None:
    rng = np.random.default_rng(0)
    for size in (1, 3, 40):
        ln_c = rng.normal(1.0, 3.0, size)
        expected = reference.strength_density(np.exp(ln_c))
        assert log_density(ln_c) == pytest.approx(expected)
    assert common_strength(np.full(5, np.log(3.0))) == pytest.approx(np.log(3.0))
    assert log_density(np.full(5, np.log(3.0))) == pytest.approx(0.0)
