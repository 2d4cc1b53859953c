"""Latent class regression on tables: the best coefficients, and how sure they are."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax

from fedmerdel.inference.regression import (
    OPEN_SPREAD,
    SPREAD,
    Cells,
    dummies,
    fit_coefficients,
    information,
    log_evidence,
    log_shares,
    objective,
    prior_precision,
    regress,
    taken_back,
)
from fedmerdel.study.codebook import Variable
from fedmerdel.study.outcome import patterns
from tests.drawn import seeds


def plain_objective(tables: list[Cells], beta: np.ndarray, precision: np.ndarray) -> float:
    """Written out count by count."""
    total = -sum(precision[i] * beta[i, k] ** 2 / 2 for i, k in np.ndindex(*beta.shape))
    for design, counts, confusion, *_ in tables:
        for v, g in np.ndindex(*counts.shape):
            p = softmax([0.0, *(design[v] @ beta)])
            total += counts[v, g] * np.log(confusion[g] @ p)
    return float(total)


def drawn_cells(rng: np.random.Generator, K: int, V: int = 6, n: int = 3000) -> Cells:
    """Of rows of three kinds a cluster, each kind with shares of its own."""
    shares = rng.dirichlet(np.full(K, 0.3), (K, 3)) * 0.4
    shares[np.arange(K), :, np.arange(K)] += 0.6
    products = np.einsum("kng,knh->kgh", shares, shares) / 3
    design = dummies([3, 2])
    counts = rng.dirichlet(np.full(K, 3.0), V) * rng.uniform(0.2, 1, (V, 1)) * n
    confusion = shares.mean(axis=1).T
    return Cells(design, counts @ confusion.T, confusion, products, np.zeros((V, K, K)))


def test_dummies_follow_the_patterns_of_a_study() -> None:
    """A line for each pattern; a number for each level but the first."""
    variables = [Variable("a", ("x", "y", "z"), "text"), Variable("b", ("p", "q"), "text")]
    found = dummies([3, 2])
    for line, pattern in zip(found, patterns(variables), strict=True):
        a, b = pattern.split(", ")
        assert line.tolist() == [1.0, a == "y", a == "z", b == "q"]


@given(seed=seeds, K=st.integers(2, 5), confused=st.booleans(), flat=st.booleans())
@settings(max_examples=20, deadline=None)
def test_no_other_coefficients_are_better(seed: int, K: int, confused: bool, flat: bool) -> None:
    rng = np.random.default_rng(seed)
    tables = [drawn_cells(rng, K), drawn_cells(rng, K)]
    if not confused:
        tables = [Cells.of_sure(each.design, each.counts) for each in tables]
    precision = np.zeros(4) if flat else prior_precision(4)
    beta = fit_coefficients(tables, precision)
    best = objective(tables, beta, precision)
    assert best == pytest.approx(plain_objective(tables, beta, precision), rel=1e-12)
    for _ in range(10):
        size = 10.0 ** rng.uniform(-4, 0)
        other = beta + size * rng.normal(0, 1, beta.shape)
        assert plain_objective(tables, other, precision) <= best + 1e-9 * abs(best)


@given(seed=seeds, K=st.integers(2, 4))
@settings(max_examples=15, deadline=None)
def test_of_sure_rows_information_is_minus_the_second_derivatives(seed: int, K: int) -> None:
    """And where nothing is expected before, the sandwich is its inverse."""
    rng = np.random.default_rng(seed)
    cells = drawn_cells(rng, K)
    tables = [Cells.of_sure(cells.design, cells.counts)]
    beta, flat, step = rng.normal(0, 0.5, (4, K - 1)), np.zeros(4), 1e-4
    found = information(tables, beta, flat)
    size = beta.size
    for i, j in [(0, 0), (size - 1, 0), (size - 1, size - 1), (1, size // 2)]:
        total = 0.0
        for a, b in product((1, -1), (1, -1)):
            moved = beta.T.ravel().copy()
            moved[i] += a * step
            moved[j] += b * step
            total += a * b * objective(tables, moved.reshape(K - 1, 4).T, flat)
        assert -total / (4 * step**2) == pytest.approx(found[i, j], rel=1e-3, abs=1e-2)
    fitted = regress(tables, flat)
    np.testing.assert_allclose(
        fitted.covariance @ information(tables, fitted.coefficients, flat), np.eye(size), atol=1e-6
    )


@given(seed=seeds, K=st.integers(2, 4))
@settings(max_examples=15, deadline=None)
def test_counts_that_are_as_expected_give_the_truth_back(seed: int, K: int) -> None:
    """By maximum likelihood and by Bolck, Croon and Hagenaars, whatever the confusion."""
    rng = np.random.default_rng(seed)
    true = rng.normal(0, 0.7, (4, K - 1))
    cells = drawn_cells(rng, K)
    N = rng.uniform(100, 900, (6, 1))
    counts = N * np.exp(log_shares(cells.design, true)) @ cells.confusion.T
    cells = cells._replace(counts=counts)
    for each in (cells, taken_back(cells)):
        found = regress([each], np.zeros(4))
        np.testing.assert_allclose(found.coefficients, true, atol=1e-4)
    # Noise makes them less sure.
    noisy = cells._replace(noise=np.full((6, 1, 1), 40.0) * np.eye(K))
    told = [np.diag(regress([each], np.zeros(4)).covariance) for each in (cells, noisy)]
    assert np.all(told[1] > told[0])


def test_the_sandwich_is_the_spread_of_counts_drawn_again() -> None:
    rng = np.random.default_rng(5)
    K, N = 3, np.array([800, 300, 500, 400, 200, 300])
    kinds = rng.dirichlet(np.full(K, 0.3), (K, 3)) * 0.4
    kinds[np.arange(K), :, np.arange(K)] += 0.6
    design, true = dummies([3, 2]), rng.normal(0, 0.5, (4, K - 1))
    confusion, p = kinds.mean(axis=1).T, np.exp(log_shares(design, true))
    products = np.einsum("kng,knh->kgh", kinds, kinds) / 3
    found = []
    for _ in range(300):
        counts = np.zeros((6, K))
        for v in range(6):
            drawn = rng.multinomial(N[v], np.repeat(p[v] / 3, 3)).reshape(K, 3)
            counts[v] = np.einsum("kn,kng->g", drawn, kinds)
        cells = Cells(design, counts, confusion, products, np.zeros((6, K, K)))
        found.append(regress([cells], np.zeros(4)))
    spread = np.std([each.coefficients.T.ravel() for each in found], axis=0)
    told = np.sqrt(np.mean([np.diag(each.covariance) for each in found], axis=0))
    np.testing.assert_allclose(told, spread, rtol=0.15)  # of 300 draws, 4 % is one deviation


def test_patterns_that_tell_clusters_apart_leave_finite_effects() -> None:
    """No row of the second level is in the second cluster: the prior says how much that is."""
    design = dummies([2])
    counts = np.array([[50.0, 50.0], [100.0, 0.0]])
    found = regress([Cells.of_sure(design, counts)], prior_precision(2))
    assert -2 * SPREAD < found.coefficients[1, 0] < -SPREAD
    assert 0.5 < np.sqrt(found.covariance[1, 1]) < SPREAD
    flat = regress([Cells.of_sure(design, counts)], np.zeros(2))
    assert np.isfinite(flat.coefficients).all()
    assert flat.coefficients[1, 0] < -10
    # One cluster has no odds.
    assert regress([Cells.of_sure(design, counts[:, :1])], np.zeros(2)).coefficients.size == 0


def test_evidence_integrates_the_coefficients_out() -> None:
    """Laplace's approximation against sums over a grid, and of none."""
    design, counts = dummies([2]), np.array([[60.0, 40.0], [35.0, 45.0]])
    beta = fit_coefficients([Cells.of_sure(design, counts)], prior_precision(2))
    grid = np.linspace(-4, 4, 401)
    a, b = np.meshgrid(grid, grid, indexing="ij")
    logs = -(a**2) / (2 * OPEN_SPREAD**2) - b**2 / (2 * SPREAD**2)
    logs -= np.log(2 * np.pi * OPEN_SPREAD * SPREAD)
    for u, (stay, go) in zip(design, counts, strict=True):
        eta = a * u[0] + b * u[1]
        logs += go * eta - (stay + go) * np.logaddexp(0.0, eta)
    expected = np.log(np.exp(logs - logs.max()).sum() * (grid[1] - grid[0]) ** 2) + logs.max()
    assert log_evidence(counts, design, beta) == pytest.approx(expected, abs=0.02)
    assert log_evidence(counts[:, :1], design, np.zeros((2, 0))) == 0.0
