"""A guide's formulas: against the slow one, and at both ends of its weight."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import digamma

from fedmerdel import MerDel
from fedmerdel.fitting.moves import delete_bounds
from fedmerdel.fitting.passes import Workers, overlaps
from fedmerdel.fitting.solution import em_step, make_problem
from fedmerdel.sums.cuts import split_gains
from fedmerdel.sums.elbo import all_pairs, cluster_evidence, elbo, joined_evidence, merge_gains
from fedmerdel.sums.expectations import expectations
from fedmerdel.sums.halves import FirstHalves
from fedmerdel.sums.learning import learning_of
from fedmerdel.sums.predictive import mean_levels
from fedmerdel.sums.prior import Prior, uniform_prior
from fedmerdel.sums.sums import Sums
from tests import reference
from tests.drawn import clusterings, mixed_table, random_log_r, seeds
from tests.guides import GUIDE, alike_but_for_the_outcome, guided_elbo
from tests.reference import Dense, by_variable, packed, statistics_from

ONE = Workers(1)
many = settings(max_examples=40, deadline=None)
small = st.integers(1, 70)

Drawn = tuple[Dense, np.ndarray, Prior]


def random_weights(seed: int, n_variables: int) -> np.ndarray:
    """Any weights; some variables are no guides."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random(n_variables) < 0.4, 1.0, 1.0 - rng.random(n_variables))


def guided(prior: Prior, seed: int) -> Prior:
    return prior._replace(guide=random_weights(seed, len(prior.n_levels)))


@many
@given(clusterings(rows=small), seeds)
def test_the_elbo_is_the_slow_one(drawn: Drawn, seed: int) -> None:
    table, log_r, prior = drawn
    prior = guided(prior, seed)
    assert prior.guide is not None
    stats = statistics_from(reference.m_step(table, log_r))
    expected = guided_elbo(table, log_r, prior, prior.guide)
    np.testing.assert_allclose(elbo(stats, prior), expected, rtol=1e-9, atol=1e-8)


@many
@given(clusterings(rows=small), seeds)
def test_an_e_step_weighs_what_a_row_says(drawn: Drawn, seed: int) -> None:
    """r ~ exp(E ln pi + sum_j weight_j E ln phi_j x_j), entries that are missing left out."""
    table, log_r, prior = drawn
    prior = guided(prior, seed)
    assert prior.guide is not None
    sums = reference.m_step(table, log_r)
    stats = statistics_from(sums)
    problem = make_problem(packed(table), prior, ONE)
    found = em_step(problem, stats, prior)
    rho = np.tile(expectations(stats, prior).log_weights, (len(table.X), 1))
    for j, eps in enumerate(by_variable(prior.eps, prior.n_levels)):
        star = eps + prior.guide[j] * sums.S[j]
        ln_phi = digamma(star) - digamma(star.sum(axis=1, keepdims=True))
        for n in np.flatnonzero(table.X[:, j] >= 0):
            rho[n] += prior.guide[j] * ln_phi[:, table.X[n, j]]
    after = reference.m_step(table, rho - np.logaddexp.reduce(rho, axis=1, keepdims=True))
    np.testing.assert_allclose(found.stats.T, after.T, atol=1e-6 * (1 + table.weights.sum()))
    S = np.concatenate(after.S, axis=1)
    np.testing.assert_allclose(found.stats.S, S, atol=1e-6 * (1 + table.weights.sum()))


@many
@given(clusterings(), seeds, st.sampled_from([None, "strengths"]), st.integers(2, 8))
def test_passes_never_lower_the_elbo(
    drawn: Drawn, seed: int, learned: str | None, n_passes: int
) -> None:
    table, log_r, prior = drawn
    if learned and table.weights.sum() == 0:
        return
    problem = make_problem(packed(table), guided(prior, seed), ONE, learned)  # type: ignore[arg-type]
    stats = statistics_from(reference.m_step(table, log_r))
    solution = em_step(problem, stats, problem.prior)
    for _ in range(n_passes):
        last, solution = solution, em_step(problem, solution.stats, solution.prior)
        assert solution.elbo >= last.elbo - 1e-9 * (abs(last.elbo) + 1)


@many
@given(clusterings(), seeds)
def test_learning_never_lowers_the_elbo(drawn: Drawn, seed: int) -> None:
    table, log_r, prior = drawn
    stats = statistics_from(reference.m_step(table, log_r))
    learning = learning_of("strengths", stats.S, prior)
    assert learning is not None
    prior = learning.start(guided(prior, seed))
    for _ in range(4):
        last, prior = elbo(stats, prior), learning.learn(stats.S, prior)
        assert elbo(stats, prior) >= last - 1e-9 * (abs(last) + 1)


@many
@given(clusterings(min_clusters=2, rows=small), seeds)
def test_gains_of_merges_are_differences_of_the_elbo(drawn: Drawn, seed: int) -> None:
    table, log_r, prior = drawn
    prior = guided(prior, seed)
    stats = statistics_from(reference.m_step(table, log_r))
    pairs = all_pairs(stats.n_clusters)
    Q = reference.overlap_matrix(log_r, table.weights)[pairs[:, 0], pairs[:, 1]]
    gains = merge_gains(stats, prior, pairs, Q)
    before = elbo(stats, prior)
    for (a, b), gain in zip(pairs.tolist(), gains.tolist(), strict=True):
        joined = np.logaddexp(log_r[:, a], log_r[:, b])
        rest = np.delete(log_r, [a, b], axis=1)
        merged = statistics_from(reference.m_step(table, np.column_stack([rest, joined])))
        assert gain == pytest.approx(elbo(merged, prior) - before, rel=1e-7, abs=1e-6)
        both = joined_evidence(
            float(stats.T[a]), stats.S[a], stats, np.array([b]), np.ones(1), prior
        )
        alone = cluster_evidence(stats.T[[a]] + stats.T[b], stats.S[[a]] + stats.S[b], prior)
        np.testing.assert_allclose(both, alone, rtol=1e-9, atol=1e-8)


@many
@given(clusterings(rows=small), seeds)
def test_gains_of_splits_are_differences_of_the_elbo(drawn: Drawn, seed: int) -> None:
    table, log_r, prior = drawn
    prior = guided(prior, seed)._replace(n_components=2 * prior.n_components)
    u = np.random.default_rng(seed).standard_normal(log_r.shape)
    stats = statistics_from(reference.m_step(table, log_r))
    one, other = reference.cut_in_two(log_r, u)
    first = statistics_from(reference.m_step(table, one))
    halves = FirstHalves(first.T, first.S, reference.blur(log_r, u, table.weights))
    gains, before = split_gains(stats, halves, prior), elbo(stats, prior)
    for k in range(stats.n_clusters):
        parts = np.column_stack([np.delete(log_r, k, axis=1), one[:, k], other[:, k]])
        after = elbo(statistics_from(reference.m_step(table, parts)), prior)
        assert gains[k] == pytest.approx(after - before, rel=1e-7, abs=1e-6)


@settings(max_examples=25, deadline=None)
@given(clusterings(min_clusters=2, wide=False), seeds)
def test_bounds_of_deletions_hold(drawn: Drawn, seed: int) -> None:
    table, log_r, prior = drawn
    prior = guided(prior, seed)
    problem = make_problem(packed(table), prior, ONE)
    stats = em_step(problem, statistics_from(reference.m_step(table, log_r)), prior).stats
    before = elbo(stats, prior)
    slack = 1e-8 * (1 + abs(before) + table.weights.sum())
    for k, bound in enumerate(delete_bounds(problem, stats, prior)):
        after = em_step(problem, stats.without(k), prior).elbo
        assert after - before >= bound - slack


def test_a_weight_of_one_is_a_variable() -> None:
    """To the last bit: a guide is nothing else."""
    frame, _ = alike_but_for_the_outcome(1, n_rows=600)
    for recipe in ("default", "paper"):
        plain = MerDel(random_state=1, recipe=recipe).fit(frame)
        heavy = MerDel(random_state=1, recipe=recipe, guide={GUIDE: 1}).fit(frame)
        np.testing.assert_array_equal(heavy.labels_, plain.labels_)
        np.testing.assert_array_equal(heavy._stats.S, plain._stats.S)
        assert heavy.lower_bound_ == plain.lower_bound_
        np.testing.assert_array_equal(heavy.selection_probability_, plain.selection_probability_)
        np.testing.assert_array_equal(heavy.predict_proba(frame), plain.predict_proba(frame))


def test_a_weight_of_next_to_nothing_leaves_it_out() -> None:
    """Passes from one start: the sums of all else, and the ELBO, are those without the column."""
    table = mixed_table(400)
    without = Dense(table.X[:, :-1], table.weights, table.n_levels[:-1])
    weights = np.append(np.ones(len(table.n_levels) - 1), 1e-10)
    prior = uniform_prior(table.n_levels, 0.5, 6)._replace(guide=weights)
    plain = uniform_prior(without.n_levels, 0.5, 6)
    log_r = random_log_r(np.random.default_rng(1), 400, 4, 2.0)
    stats = [statistics_from(reference.m_step(each, log_r)) for each in (table, without)]
    problems = [make_problem(packed(table), prior, ONE), make_problem(packed(without), plain, ONE)]
    for _ in range(5):
        first, second = (
            em_step(problem, each, problem.prior)
            for problem, each in zip(problems, stats, strict=True)
        )
        np.testing.assert_allclose(first.stats.T, second.stats.T, rtol=1e-6)
        M = second.stats.S.shape[1]
        np.testing.assert_allclose(first.stats.S[:, :M], second.stats.S, rtol=1e-6, atol=1e-6)
        assert first.elbo == pytest.approx(second.elbo, abs=1e-5)
        stats = [first.stats, second.stats]
    gains = merge_gains(first.stats, prior, all_pairs(4), np.zeros(6))
    np.testing.assert_allclose(
        gains, merge_gains(second.stats, plain, all_pairs(4), np.zeros(6)), atol=1e-5
    )
    Q = overlaps(problems[0].rows, first.theta, all_pairs(4), ONE)
    np.testing.assert_allclose(
        Q, overlaps(problems[1].rows, second.theta, all_pairs(4), ONE), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize(("weight", "pays"), [(0.5, False), (1.0, False), (1.1, True)])
def test_why_a_weight_is_one_at_most(weight: float, pays: bool) -> None:
    """Above, two clusters of an outcome that has nothing to do with anything gain."""
    rng = np.random.default_rng(1)
    X = rng.integers(0, 2, (2000, 6))
    table = Dense(X, np.ones(2000), np.full(6, 2))
    guide = np.append(np.ones(5), weight)
    prior = uniform_prior(table.n_levels, 0.01, 20)._replace(guide=guide)
    one, two = (
        statistics_from(reference.m_step(table, reference.hard(labels, n)))
        for labels, n in ((np.zeros(2000, int), 1), (X[:, 5], 2))
    )
    assert (elbo(two, prior) > elbo(one, prior)) == pays


def test_levels_are_described_by_all_their_counts() -> None:
    """However little a guide weighs, its rates are those of the rows."""
    S = np.array([[90.0, 10.0, 80.0, 20.0], [10.0, 90.0, 10.0, 90.0]])
    prior = uniform_prior(np.array([2, 2]), 0.5, 3)
    stats = Sums(np.array([100.0, 100.0]), S, np.zeros(2))
    for weight in (0.01, 0.5, 1.0):
        weighed = prior._replace(guide=np.array([1.0, weight]))
        np.testing.assert_array_equal(mean_levels(stats, weighed), mean_levels(stats, prior))
