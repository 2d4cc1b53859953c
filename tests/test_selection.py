"""The paper's variable selection: its ELBO term by term, its updates, and what it finds."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

from fedmerdel import MerDel, simulate
from fedmerdel.fitting.moves import delete_bounds
from fedmerdel.fitting.passes import Workers, log_evidence
from fedmerdel.fitting.solution import em_step, make_problem
from fedmerdel.sums.elbo import elbo
from fedmerdel.sums.expectations import expectations
from fedmerdel.sums.learning import settled
from fedmerdel.sums.predictive import mean_levels, predictive
from fedmerdel.sums.prior import Prior, uniform_prior
from fedmerdel.sums.selection import Selection
from fedmerdel.sums.sums import Sums
from tests import reference
from tests.drawn import clusterings, seeds
from tests.reference import Dense, by_variable, packed, statistics_from
from tests.selections import random_inclusion, with_inclusion

ONE = Workers(1)
many = settings(max_examples=50, deadline=None)

Drawn = tuple[Dense, np.ndarray, Prior]


@many
@given(clusterings(rows=st.integers(1, 70)), seeds)
def test_the_elbo_is_the_papers_term_by_term(drawn: Drawn, seed: int) -> None:
    table, log_r, prior = drawn
    c = random_inclusion(np.random.default_rng(seed), len(table.n_levels))
    stats = statistics_from(reference.m_step(table, log_r))
    _, selected = with_inclusion(stats.S, prior, c)
    term = reference.selection_terms(table, log_r, c, prior)
    largest = max(abs(value) for value in term.values())
    expected = reference.selection_elbo(term)
    np.testing.assert_allclose(elbo(stats, selected), expected, rtol=1e-9, atol=1e-12 * largest)


@many
@given(clusterings())
def test_the_start_has_the_elbo_without_selection(drawn: Drawn) -> None:
    """But for delta: each variable is included, which has probability a half of old."""
    table, log_r, prior = drawn
    stats = statistics_from(reference.m_step(table, log_r))
    start = Selection.of(stats.S, prior).start(prior)
    np.testing.assert_array_equal(start.inclusion, 1.0)
    less = len(table.n_levels) * np.log(0.5)
    np.testing.assert_allclose(elbo(stats, start), elbo(stats, prior) + less, rtol=1e-10)
    for one, other in zip(expectations(stats, start), expectations(stats, prior), strict=True):
        np.testing.assert_array_equal(one, other)


@many
@given(clusterings(), seeds, st.integers(1, 5))
def test_learning_never_lowers_the_elbo(drawn: Drawn, seed: int, n_updates: int) -> None:
    table, log_r, prior = drawn
    stats = statistics_from(reference.m_step(table, log_r))
    c = random_inclusion(np.random.default_rng(seed), len(table.n_levels))
    learning, selected = with_inclusion(stats.S, prior, c)
    for _ in range(n_updates):
        last, selected = elbo(stats, selected), learning.learn(stats.S, selected)
        assert elbo(stats, selected) >= last - 1e-10 * (abs(last) + 1)
        assert selected.inclusion is not None
        assert np.all((selected.inclusion >= 0) & (selected.inclusion <= 1))


@many
@given(clusterings(), st.integers(2, 8))
def test_passes_never_lower_the_elbo(drawn: Drawn, n_passes: int) -> None:
    table, log_r, prior = drawn
    problem = make_problem(packed(table), prior, ONE, "selection")
    stats, last, found = statistics_from(reference.m_step(table, log_r)), -np.inf, problem.prior
    for _ in range(n_passes):
        solution = em_step(problem, stats, found)
        assert solution.elbo >= last - 1e-10 * (abs(last) + 1)
        stats, last, found = solution.stats, solution.elbo, solution.prior
        assert found.inclusion is not None
        log_r = reference.e_step(table, solution.theta)
        term = reference.selection_terms(table, log_r, found.inclusion, prior)
        largest = max(abs(value) for value in term.values())
        expected = reference.selection_elbo(term)
        np.testing.assert_allclose(last, expected, rtol=1e-9, atol=1e-9 * largest)


@settings(max_examples=25, deadline=None)
@given(clusterings(min_clusters=2, wide=False), seeds)
def test_bounds_of_deletions_hold_with_a_selection(drawn: Drawn, seed: int) -> None:
    table, log_r, prior = drawn
    problem = make_problem(packed(table), prior, ONE, "selection")
    problem = problem._replace(learning=None)  # c as it is
    stats = statistics_from(reference.m_step(table, log_r))
    c = random_inclusion(np.random.default_rng(seed), len(table.n_levels))
    _, selected = with_inclusion(stats.S, prior, c)
    stats = em_step(problem, stats, selected).stats
    before = elbo(stats, selected)
    slack = 1e-8 * (1 + abs(before) + table.weights.sum())
    for k, bound in enumerate(delete_bounds(problem, stats, selected)):
        after = em_step(problem, stats.without(k), selected).elbo
        assert after - before >= bound - slack


def test_weights_count_as_rows() -> None:
    rng = np.random.default_rng(0)
    levels = np.array([2, 3, 2])
    X, weights = rng.integers(0, levels, (80, 3)), rng.integers(1, 4, 80).astype(float)
    X[rng.random(X.shape) < 0.2] = -1
    log_r = reference.hard(rng.integers(0, 3, 80), 3)
    times = weights.astype(int)
    few = statistics_from(reference.m_step(Dense(X, weights, levels), log_r))
    table = Dense(X.repeat(times, axis=0), np.ones(times.sum()), levels)
    many_rows = statistics_from(reference.m_step(table, log_r.repeat(times, axis=0)))
    prior = uniform_prior(levels, 0.01, 5)
    one, other = (
        settled(Selection.of(s.S, prior), s.S, Selection.of(s.S, prior).start(prior))
        for s in (few, many_rows)
    )
    np.testing.assert_allclose(one.inclusion, other.inclusion, rtol=1e-9)
    assert elbo(few, one) == pytest.approx(elbo(many_rows, other), rel=1e-12)


@settings(max_examples=20, deadline=None)
@given(seed=seeds, K=st.integers(1, 3), n_empty=st.integers(0, 3))
def test_the_predictive_of_all_rows_sums_to_one(seed: int, K: int, n_empty: int) -> None:
    rng = np.random.default_rng(seed)
    levels = np.array([2, 3, 2])
    X = np.array(list(product(*(range(n) for n in levels))))
    table = Dense(X, np.ones(len(X)), levels)
    S = np.concatenate([rng.gamma(1.0, 5.0, (K, n)) for n in levels], axis=1)
    stats = Sums(rng.gamma(1.0, 10.0, K), S, np.zeros(K))
    prior = uniform_prior(levels, 0.5, K + n_empty)
    c = random_inclusion(rng, 3)
    _, selected = with_inclusion(S, prior, c)
    found = log_evidence(packed(table), predictive(stats, selected), ONE)
    assert logsumexp(found) == pytest.approx(0.0, abs=1e-12)
    for j, part in enumerate(by_variable(mean_levels(stats, selected), levels)):
        np.testing.assert_allclose(part.sum(axis=1), 1.0, rtol=1e-12)
        if c[j] == 0:  # left out: the same in all clusters
            np.testing.assert_array_equal(part, np.broadcast_to(part[0], part.shape))


SEEDS = range(5)


@pytest.mark.parametrize("recipe", ["default", "paper"])
def test_noise_is_left_out_and_the_rest_kept(recipe: str) -> None:
    """Over seeds: little noise stays, and hardly another variable goes.

    Not less: c = 1, where it starts, holds on to noise that agrees with the clusters by chance.
    """
    noise, kept = [], []
    for seed in SEEDS:
        table = simulate(1000, 40, 5, levels=(2, 3) * 20, beta=(1, 1), noisy=0.5,
                         random_state=seed)  # fmt: skip
        model = MerDel(recipe=recipe, variable_selection=True, random_state=seed)  # type: ignore[arg-type]
        model.fit(table.X)
        noise.append(model.selected_[~table.relevant].mean())
        kept.append(model.selected_[table.relevant].mean())
        assert model.strengths_ is None
        np.testing.assert_array_equal(model.selected_, model.selection_probability_ > 0.5)
    assert np.mean(noise) < 0.2
    assert np.mean(kept) > 0.97
