"""Every compiled kernel against the slow oracle on dense arrays."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

from fedmerdel.fitting.code_tables import build_table, decode_counts
from fedmerdel.fitting.kernels import exp_in_place
from fedmerdel.fitting.passes import (
    Workers,
    count_labels,
    delete_costs,
    expect_and_count,
    label_rows,
    log_evidence,
    overlaps,
    responsibilities,
)
from fedmerdel.sums.elbo import all_pairs
from fedmerdel.sums.expectations import Expectations, expectations
from fedmerdel.sums.prior import uniform_prior
from fedmerdel.sums.sums import Sums
from tests import reference
from tests.drawn import (
    dense_tables,
    largest,
    max_states,
    n_clusters,
    random_theta,
    seeds,
    tables_and_expectations,
)
from tests.reference import Dense, by_variable, packed

ONE = Workers(1)

many = settings(max_examples=60, deadline=None)
fewer = settings(max_examples=30, deadline=None)


def assert_statistics(found: Sums, expected: Sums, scale: float) -> None:
    """Equal to rounding: ln rho has relative errors, so a spread of thousands costs digits."""
    tolerance = {"rtol": 1e-9 * scale, "atol": 1e-10 * scale}
    np.testing.assert_allclose(found.T, expected.T, **tolerance)
    np.testing.assert_allclose(found.S, expected.S, **tolerance)
    np.testing.assert_allclose(found.h, expected.h, **tolerance)


@many
@given(tables_and_expectations(), max_states)
def test_expect_and_count(drawn: tuple[Dense, Expectations], states: int) -> None:
    table, theta = drawn
    stats = expect_and_count(packed(table, states), theta, ONE)
    expected = reference.m_step(table, reference.e_step(table, theta))
    assert_statistics(stats, reference.statistics_from(expected), largest(theta))
    assert np.all(stats.h <= 0)


@many
@given(dense_tables(), n_clusters, seeds, max_states)
def test_count_labels(table: Dense, K: int, seed: int, states: int) -> None:
    labels = np.random.default_rng(seed).integers(-1, K, len(table.X))
    stats = count_labels(packed(table, states), labels, K, ONE)
    expected = reference.m_step(table, reference.hard(labels, K))
    np.testing.assert_allclose(stats.T, expected.T, rtol=1e-13)
    np.testing.assert_allclose(stats.S, np.concatenate(expected.S, axis=1), rtol=1e-13)
    np.testing.assert_array_equal(stats.h, np.zeros(K))


@many
@given(tables_and_expectations(), max_states)
def test_responsibilities(drawn: tuple[Dense, Expectations], states: int) -> None:
    table, theta = drawn
    r = responsibilities(packed(table, states), theta, ONE)
    expected = np.exp(reference.e_step(table, theta))
    np.testing.assert_allclose(r, expected, rtol=1e-10 * largest(theta), atol=1e-300)
    np.testing.assert_allclose(r.sum(axis=1), 1.0, rtol=1e-14)


@many
@given(tables_and_expectations(), max_states)
def test_log_evidence(drawn: tuple[Dense, Expectations], states: int) -> None:
    table, theta = drawn
    found = log_evidence(packed(table, states), theta, ONE)
    levels = by_variable(theta.log_levels, table.n_levels)
    expected = logsumexp(reference.log_rho(table.X, theta.log_weights, levels), axis=1)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12 * largest(theta))


@many
@given(tables_and_expectations(), max_states)
def test_label_rows(drawn: tuple[Dense, Expectations], states: int) -> None:
    table, theta = drawn
    labels = label_rows(packed(table, states), theta, ONE)
    log_r = reference.e_step(table, theta)
    # Equal to rounding may be decided either way; anything worse is wrong.
    chosen = log_r[np.arange(len(labels)), labels]
    np.testing.assert_allclose(chosen, log_r.max(axis=1), rtol=1e-12, atol=1e-11 * largest(theta))


def test_the_first_of_equal_clusters_is_the_label() -> None:
    table = Dense(np.zeros((70, 2), dtype=int), np.ones(70), np.array([2, 3]))
    theta = Expectations(np.array([-1.0, 0.0, 0.0]), np.zeros((3, 5)))
    np.testing.assert_array_equal(label_rows(packed(table), theta, ONE), np.ones(70))


def test_a_cluster_of_weight_zero_is_no_label() -> None:
    rng = np.random.default_rng(1)
    table = Dense(rng.integers(0, 2, (200, 9)), np.ones(200), np.full(9, 2))
    theta = random_theta(rng, 4, table.n_levels, 1.0)
    theta.log_weights[[0, 2]] = -np.inf
    labels = label_rows(packed(table), theta, ONE)
    np.testing.assert_array_equal(np.unique(labels), [1, 3])
    np.testing.assert_array_equal(labels, reference.e_step(table, theta).argmax(axis=1))


@fewer
@given(tables_and_expectations(clusters=st.integers(2, 8)), max_states)
def test_overlaps(drawn: tuple[Dense, Expectations], states: int) -> None:
    table, theta = drawn
    pairs = all_pairs(theta.n_clusters)
    found = overlaps(packed(table, states), theta, pairs, ONE)
    expected = reference.overlap_matrix(reference.e_step(table, theta), table.weights)
    np.testing.assert_allclose(
        found, expected[pairs[:, 0], pairs[:, 1]], rtol=1e-9, atol=1e-11 * largest(theta)
    )
    assert np.all(found >= 0)


@fewer
@given(
    tables_and_expectations(spreads=(0.1, 1.0, 10.0), clusters=st.integers(2, 25)),
    max_states,
)
def test_delete_costs(drawn: tuple[Dense, Expectations], states: int) -> None:
    table, theta = drawn
    found = delete_costs(packed(table, states), theta, ONE)
    expected = reference.delete_cost(reference.e_step(table, theta), table.weights)
    # ln(1 - r) is taken as -r below 1e-4: wrong by 5e-9 a row at most.
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=5e-9 * table.weights.sum() + 1e-10)


@pytest.mark.parametrize("nats", [1e-3, 1.0, 9.0, 12.0, 15.0, 18.0, 20.0, 40.0, 650.0])
def test_delete_costs_do_not_cancel(nats: float) -> None:
    """With all but e^-nats of a row in one cluster, 1 - r would have no digits left."""
    table = Dense(np.zeros((1, 1), dtype=int), np.ones(1), np.array([1]))
    theta = Expectations(np.array([0.0, -nats]), np.zeros((2, 1)))
    own = -nats - np.log1p(np.exp(-nats))
    np.testing.assert_allclose(delete_costs(packed(table), theta, ONE)[0], own, rtol=1e-13)


def test_delete_costs_of_far_clusters_are_finite() -> None:
    table = Dense(np.array([[0], [1], [0]]), np.array([1.0, 1.0, 2.0]), np.array([2]))
    theta = Expectations(np.zeros(2), np.array([[0.0, -5000.0], [-5000.0, 0.0]]))
    costs = delete_costs(packed(table), theta, ONE)
    np.testing.assert_allclose(costs, [-2100.0, -700.0])  # cut off at -700 a row
    assert delete_costs(packed(table), Expectations(np.zeros(1), np.zeros((1, 2))), ONE) < -2000


@many
@given(tables_and_expectations(rows=st.just(3)), max_states)
def test_a_state_of_the_table_sums_its_levels(
    drawn: tuple[Dense, Expectations], states: int
) -> None:
    table, theta = drawn
    rows = packed(table, states)
    packing = rows.packing
    found = build_table(*theta, packing)
    assert found.shape == (packing.n_states.sum(), theta.n_clusters)
    for g, (start, stop) in enumerate(pairwise(packing.state_offsets)):
        for state in range(stop - start):
            digits = state // packing.stride % packing.radix
            digits[(packing.code != g) | (digits == packing.n_levels)] = -1
            weights = theta.log_weights if g == 0 else np.zeros(theta.n_clusters)
            levels = by_variable(theta.log_levels, table.n_levels)
            expected = reference.log_rho(digits[None], weights, levels)[0]
            np.testing.assert_allclose(
                found[start + state], expected, rtol=1e-11, atol=1e-12 * largest(theta)
            )


@many
@given(dense_tables(rows=st.integers(1, 40)), n_clusters, seeds, max_states)
def test_counts_decode_to_levels(table: Dense, K: int, seed: int, states: int) -> None:
    """Every state's count goes to the level of each of its digits, and missing nowhere."""
    packing = packed(table, states).packing
    counts = np.random.default_rng(seed).random((packing.state_offsets[-1], K))
    expected = np.zeros((K, packing.level_offsets[-1]))
    for j in range(len(packing.radix)):
        first = packing.state_offsets[packing.code[j]]
        for state in range(packing.n_states[packing.code[j]]):
            digit = state // packing.stride[j] % packing.radix[j]
            if digit < packing.n_levels[j]:
                expected[:, packing.level_offsets[j] + digit] += counts[first + state]
    np.testing.assert_allclose(decode_counts(counts.copy(), packing), expected, rtol=1e-12)


@pytest.mark.parametrize("size", [1, 7, 64, 10_000])
def test_exp_is_exact_to_four_units_in_the_last_place(size: int) -> None:
    rng = np.random.default_rng(size)
    x = np.append(rng.uniform(-750.0, 0.0, size - 1), 0.0)
    x[: size // 3] /= 1000  # near 0, where the digits matter
    found = np.append(x, 123.0)
    exp_in_place(found, np.empty(size + 1), size)
    assert found[-1] == 123.0  # no more than ``size`` are replaced
    expected = np.exp(x)
    in_range = x > -700
    error = np.abs(found[:-1] - expected)[in_range]
    assert np.all(error <= 4 * np.spacing(expected[in_range]))
    np.testing.assert_allclose(found[:-1][~in_range], np.exp(-700.0), rtol=1e-14)
    assert found[size - 1] == 1.0


def test_extreme_counts_give_finite_statistics() -> None:
    """Clusters of thousands of rows put rows of another kind thousands of nats away."""
    rng = np.random.default_rng(5)
    half = rng.integers(0, 200, (300, 10))
    table = Dense(half, np.full(300, 1e4), np.full(10, 200))
    prior = uniform_prior(table.n_levels, 0.01, 3)
    labels = (half[:, 0] < 100).astype(np.int64)
    rows = packed(table)
    stats = expect_and_count(rows, expectations(count_labels(rows, labels, 3, ONE), prior), ONE)
    assert all(np.all(np.isfinite(part)) for part in stats[:3])
    np.testing.assert_allclose(stats.T.sum(), 3e6)
