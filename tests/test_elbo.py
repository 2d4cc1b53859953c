"""The ELBO from sums: against the paper's seven terms, and against brute force."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedmerdel.fitting.halving import propose_halves
from fedmerdel.fitting.moves import Splits, delete_bounds, propose_splits
from fedmerdel.fitting.passes import Workers, count_labels
from fedmerdel.fitting.solution import Problem, Solution, em_step
from fedmerdel.sums.cuts import split_gains
from fedmerdel.sums.elbo import all_pairs, cluster_evidence, elbo, joined_evidence, merge_gains
from fedmerdel.sums.expectations import expectations
from fedmerdel.sums.prior import Prior, uniform_prior
from tests import reference
from tests.drawn import clusterings, dense_tables, priors, random_log_r, seeds
from tests.reference import Dense, PlainSums, by_variable, packed, statistics_from, sums_of

ONE = Workers(1)

many = settings(max_examples=60, deadline=None)
fewer = settings(max_examples=30, deadline=None)


@many
@given(clusterings())
def test_the_seven_terms_collapse(drawn: tuple[Dense, np.ndarray, Prior]) -> None:
    table, log_r, prior = drawn
    sums = reference.m_step(table, log_r)
    expected = reference.seven_term_elbo(sums, prior)
    # The seven terms are larger than their sum, and cancel.
    largest = max(abs(term) for term in reference.seven_terms(sums, prior).values())
    found = elbo(statistics_from(sums), prior)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12 * largest)


@many
@given(clusterings(), st.integers(1, 4))
def test_an_empty_cluster_adds_nothing(
    drawn: tuple[Dense, np.ndarray, Prior], n_empty: int
) -> None:
    table, log_r, prior = drawn
    prior = prior._replace(n_components=prior.n_components + n_empty)
    stats = statistics_from(reference.m_step(table, log_r))
    K = stats.n_clusters
    empty = count_labels(packed(table), np.full(len(table.X), -1), n_empty, ONE)
    with_empty = stats.joined(empty)
    np.testing.assert_allclose(elbo(with_empty, prior), elbo(stats, prior), rtol=1e-12)
    assert elbo(with_empty.take(np.arange(K)), prior) == elbo(stats, prior)


@many
@given(
    dense_tables(rows=st.integers(1, 30), wide=False, weights=("ones",)),
    st.integers(1, 5),
    seeds,
    st.data(),
)
def test_of_hard_labels_it_is_the_exact_joint(
    table: Dense, K: int, seed: int, data: st.DataObject
) -> None:
    prior = data.draw(priors(table.n_levels, K + 2))
    z = np.random.default_rng(seed).integers(0, K, len(table.X))
    stats = count_labels(packed(table), z, K, ONE)
    np.testing.assert_allclose(
        elbo(stats, prior), reference.log_joint(table.X, z, prior), rtol=1e-10, atol=1e-10
    )


tiny = dense_tables(rows=st.integers(1, 5), max_variables=3, wide=False, weights=("ones",))


@fewer
@given(tiny, st.integers(1, 3), seeds, st.data())
def test_it_is_a_lower_bound_of_the_evidence(
    table: Dense, K: int, seed: int, data: st.DataObject
) -> None:
    prior = data.draw(priors(table.n_levels, K))
    evidence = reference.log_marginal(table.X, prior)
    rng = np.random.default_rng(seed)
    for sharpness in (0.1, 1.0, 50.0):
        log_r = random_log_r(rng, len(table.X), K, sharpness)
        found = elbo(statistics_from(reference.m_step(table, log_r)), prior)
        assert found <= evidence + 1e-9
    problem = Problem(packed(table), prior, ONE)
    solution = em_step(problem, statistics_from(reference.m_step(table, log_r)), prior)
    assert solution.elbo <= evidence + 1e-9
    if K == 1:
        assert solution.elbo == pytest.approx(evidence)


@fewer
@given(clusterings(), st.integers(2, 10))
def test_passes_never_lower_it(drawn: tuple[Dense, np.ndarray, Prior], n_passes: int) -> None:
    table, log_r, prior = drawn
    problem = Problem(packed(table), prior, ONE)
    stats = statistics_from(reference.m_step(table, log_r))
    last = elbo(stats, prior)
    for _ in range(n_passes):
        solution = em_step(problem, stats, prior)
        assert solution.elbo >= last - 1e-10 * (abs(last) + 1)
        stats, last = solution.stats, solution.elbo


def summed_over(log_r: np.ndarray, groups: list[list[int]]) -> np.ndarray:
    """Responsibilities of clusters poured together."""
    return np.stack([np.logaddexp.reduce(log_r[:, group], axis=1) for group in groups], axis=1)


@many
@given(clusterings(min_clusters=2))
def test_merge_gains_are_differences_of_elbos(drawn: tuple[Dense, np.ndarray, Prior]) -> None:
    table, log_r, prior = drawn
    sums = reference.m_step(table, log_r)
    stats = statistics_from(sums)
    Q = reference.overlap_matrix(log_r, table.weights)
    before = reference.seven_term_elbo(sums, prior)
    size = max(abs(term) for term in reference.seven_terms(sums, prior).values())
    pairs = all_pairs(stats.n_clusters)
    gains = merge_gains(stats, prior, pairs, Q[pairs[:, 0], pairs[:, 1]])
    for (a, b), gain in zip(pairs, gains, strict=True):
        kept = [[k] for k in range(stats.n_clusters) if k not in (a, b)]
        together = reference.m_step(table, summed_over(log_r, [*kept, [a, b]]))
        after = reference.seven_term_elbo(together, prior)
        np.testing.assert_allclose(gain, after - before, rtol=1e-9, atol=1e-12 * size + 1e-9)
        poured = stats.merged(a, b, Q[a, b])
        np.testing.assert_allclose(elbo(poured, prior), after, rtol=1e-9, atol=1e-12 * size)


@many
@given(clusterings(), seeds, st.booleans())
def test_evidence_of_joined_clusters_is_that_of_their_sums(
    drawn: tuple[Dense, np.ndarray, Prior], seed: int, selected: bool
) -> None:
    """Added to one that is not there, or taken out of one that has them all."""
    table, log_r, prior = drawn
    stats, rng = statistics_from(reference.m_step(table, log_r)), np.random.default_rng(seed)
    if selected:
        prior = prior._replace(inclusion=rng.random(len(prior.n_levels)))
    K = stats.n_clusters
    rows = rng.permutation(np.append(np.arange(K), rng.integers(0, K)))
    sign = rng.choice([-1.0, 1.0], len(rows))
    one, all_of_them = rng.gamma(1.0, 9.0), stats.T.sum()
    for T, S in ((one, one * stats.S[0]), (all_of_them, stats.S.sum(axis=0))):
        found = joined_evidence(T, S, stats, rows, sign, prior)
        sums = np.maximum(S + sign[:, None] * stats.S[rows], 0.0)
        slow = cluster_evidence(np.maximum(T + sign * stats.T[rows], 0.0), sums, prior)
        np.testing.assert_allclose(found, slow, rtol=1e-10, atol=1e-12 * (1 + S.sum()))


def test_all_pairs_are_all_pairs() -> None:
    np.testing.assert_array_equal(all_pairs(3), [[0, 1], [0, 2], [1, 2]])
    assert all_pairs(1).shape == (0, 2)


@many
@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 60), seeds)
def test_overlaps_of_parts_bound_the_overlap_of_unions(a: int, b: int, N: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    weights = rng.gamma(1.0, 1.0, N)
    log_r = random_log_r(rng, N, a + b + 1, sharpness=rng.choice([0.3, 3.0, 30.0]))
    groups = [list(range(a)), list(range(a, a + b))]
    parts = reference.overlap_matrix(log_r, weights)[:a, a : a + b]
    union = reference.overlap_matrix(summed_over(log_r, groups), weights)[0, 1]
    assert parts.sum() >= union - 1e-10 * weights.sum()


def elbo_after_e_step(table: Dense, sums: PlainSums, prior: Prior) -> float:
    """The ELBO with q(pi), q(phi) of these sums and the responsibilities that suit them best."""
    theta = expectations(statistics_from(sums), prior)
    levels = by_variable(theta.log_levels, table.n_levels)
    rho = reference.log_rho(table.X, theta.log_weights, levels)
    term = reference.seven_terms(sums, prior)
    fixed = term["pi"] + term["phi"] - term["q(pi)"] - term["q(phi)"]
    return float(np.sum(table.weights * np.logaddexp.reduce(rho, axis=1)) + fixed)


@fewer
@given(clusterings(min_clusters=2, wide=False), st.integers(0, 4))
def test_delete_bounds_are_lower_bounds(
    drawn: tuple[Dense, np.ndarray, Prior], n_before: int
) -> None:
    """A bound is the change with q of the other clusters kept; a pass can only add to it."""
    table, log_r, prior = drawn
    problem = Problem(packed(table), prior, ONE)
    stats = statistics_from(reference.m_step(table, log_r))
    for _ in range(n_before):
        stats = em_step(problem, stats, prior).stats
    before = elbo_after_e_step(table, sums_of(stats, table.n_levels), prior)
    assert before >= elbo(stats, prior) - 1e-9 * (1 + abs(before))
    slack = 1e-8 * table.weights.sum() + 1e-9 * (1 + abs(before))
    for k, bound in enumerate(delete_bounds(problem, stats, prior)):
        without = stats.without(k)
        kept = elbo_after_e_step(table, sums_of(without, table.n_levels), prior)
        np.testing.assert_allclose(bound, kept - before, atol=slack)
        assert em_step(problem, without, prior).elbo - elbo(stats, prior) >= bound - slack


@fewer
@given(dense_tables(max_variables=6), st.integers(1, 4), st.integers(1, 4), seeds, st.data())
def test_gains_of_splits_are_differences_of_elbos(
    table: Dense, K: int, steps: int, seed: int, data: st.DataObject
) -> None:
    prior = data.draw(priors(table.n_levels, K + 3))
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, K, len(table.X))
    rows = packed(table)
    whole = count_labels(rows, labels, K, ONE)
    first = propose_halves(rows, labels, whole, prior, ONE, rng, steps=steps, give_up=True)
    splits = Splits(whole, first, split_gains(whole, first, prior))
    before = elbo(whole, prior)
    for k in range(K):
        split = splits.made(whole, np.array([k]))
        np.testing.assert_allclose(
            splits.gain[k], elbo(split, prior) - before, rtol=1e-8, atol=1e-10 * (1 + abs(before))
        )
        np.testing.assert_allclose(split.T[-2:].sum(), whole.T[k], rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(split.S[-2:].sum(axis=0), whole.S[k], rtol=1e-9, atol=1e-9)


def test_gains_of_splits_are_under_the_prior_that_was_learned() -> None:
    rng = np.random.default_rng(0)
    table = Dense(rng.integers(0, 2, (200, 6)), np.ones(200), np.full(6, 2))
    start = uniform_prior(table.n_levels, 0.01, 4)
    learned = start._replace(eps=start.eps + 20.0)
    problem = Problem(packed(table), start, ONE)
    whole = count_labels(problem.rows, np.zeros(200, dtype=np.int64), 1, ONE)
    before = Solution(expectations(whole, learned), whole, elbo(whole, learned), learned)
    splits = propose_splits(problem, before, 3, rng)
    after = elbo(splits.made(whole, np.array([0])), learned)
    assert splits.gain[0] == pytest.approx(after - before.elbo, rel=1e-8)


def test_expectations_count_the_zombies() -> None:
    """E[ln pi] is over all components of the prior (equation Epi)."""
    table = Dense(np.array([[0], [1], [1]]), np.ones(3), np.array([2]))
    stats = count_labels(packed(table), np.array([0, 1, 1]), 2, ONE)
    few = expectations(stats, uniform_prior(table.n_levels, 1.0, 2))
    many_components = expectations(stats, uniform_prior(table.n_levels, 1.0, 10))
    # psi(2) - psi(5) = -(1/2 + 1/3 + 1/4), psi(13) - psi(5) = 1/5 + ... + 1/12
    assert few.log_weights[0] == pytest.approx(-(1 / 2 + 1 / 3 + 1 / 4))
    more = sum(1 / i for i in range(5, 13))
    np.testing.assert_allclose(many_components.log_weights, few.log_weights - more)
    np.testing.assert_array_equal(many_components.log_levels, few.log_levels)
