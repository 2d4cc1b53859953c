"""What the posterior says of new rows and of its own parameters."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as distributions

from fedmerdel.fitting.passes import Workers, count_labels, log_evidence
from fedmerdel.sums.predictive import (
    draw,
    level_intervals,
    mean_levels,
    mean_weights,
    predictive,
)
from fedmerdel.sums.prior import Prior, uniform_prior
from fedmerdel.sums.sums import Sums
from tests.drawn import seeds
from tests.reference import Dense, by_variable, log_joint, packed

ONE = Workers(1)


def some_statistics(n_levels: np.ndarray, K: int, seed: int, n_rows: int = 40) -> Sums:
    rng = np.random.default_rng(seed)
    X = rng.integers(0, n_levels, size=(n_rows, len(n_levels)))
    table = Dense(X, rng.gamma(1.0, 1.0, n_rows), n_levels)
    return count_labels(packed(table), rng.integers(0, K, n_rows), K, ONE)


def every_row(n_levels: np.ndarray) -> Dense:
    X = np.array(list(product(*(range(levels) for levels in n_levels))))
    return Dense(X, np.ones(len(X)), n_levels)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=4),
    st.integers(1, 4),
    st.integers(0, 3),
    seeds,
)
def test_probabilities_of_all_rows_sum_to_1(
    levels: list[int], K: int, n_zombies: int, seed: int
) -> None:
    n_levels = np.array(levels)
    stats = some_statistics(n_levels, K, seed)
    prior = uniform_prior(n_levels, 0.5, K + n_zombies)
    log_p = log_evidence(packed(every_row(n_levels)), predictive(stats, prior), ONE)
    assert np.exp(log_p).sum() == pytest.approx(1.0, rel=1e-12)


def test_a_row_has_the_probability_that_bayes_gives_it() -> None:
    """With the labels of the others known, p(x | X, z) is a ratio of exact joints."""
    rng = np.random.default_rng(2)
    n_levels = np.array([2, 3])
    X = rng.integers(0, n_levels, size=(12, 2))
    z = rng.integers(0, 2, 12)
    prior = Prior(0.3, 4, np.array([0.5, 1.5, 0.2, 0.4, 0.7]), np.array([0, 2, 5]))
    table = Dense(X, np.ones(12), n_levels)
    theta = predictive(count_labels(packed(table), z, 2, ONE), prior)
    new = every_row(n_levels)
    found = np.exp(log_evidence(packed(new), theta, ONE))
    known = log_joint(X, z, prior)
    for row, p in zip(new.X, found, strict=True):
        longer = np.vstack([X, row])
        joints = [log_joint(longer, np.append(z, k), prior) for k in range(4)]
        assert p == pytest.approx(np.sum(np.exp(np.array(joints) - known)), rel=1e-11)


def test_means() -> None:
    n_levels = np.array([2, 3])
    prior = uniform_prior(n_levels, 1.0, 5)
    S = np.array([[3.0, 1.0, 0.0, 4.0, 0.0], [0.0, 0.0, 0.0, 0.0, 0.0]])
    stats = Sums(np.array([4.0, 0.0]), S, np.zeros(2))
    np.testing.assert_allclose(mean_weights(stats, prior), [5 / 6, 1 / 6])
    first, second = by_variable(mean_levels(stats, prior), n_levels)
    np.testing.assert_allclose(first, [[3.5 / 5, 1.5 / 5], [1 / 2, 1 / 2]])
    np.testing.assert_allclose(second[0], np.array([1 / 3, 13 / 3, 1 / 3]) / 5)


@pytest.mark.parametrize("level", [0.5, 0.95])
def test_intervals_are_those_of_a_beta_and_of_dirichlet_draws(level: float) -> None:
    n_levels = np.array([2, 3, 1])
    stats = some_statistics(n_levels, 3, seed=4)
    prior = uniform_prior(n_levels, 0.01, 3)
    found = by_variable(level_intervals(stats, prior, level).swapaxes(1, 2), n_levels)
    eps = by_variable(prior.eps + stats.S, n_levels)
    tails = [(1 - level) / 2, (1 + level) / 2]
    rng = np.random.default_rng(0)
    for j in (0, 1):
        for k in range(3):
            a = eps[j][k]
            expected = distributions.beta(a, a.sum() - a).ppf(np.array(tails)[:, None])
            np.testing.assert_allclose(found[j][k], expected, rtol=1e-9)
            draws = rng.dirichlet(a, size=40_000)
            np.testing.assert_allclose(
                found[j][k], np.quantile(draws, tails, axis=0), atol=0.012, rtol=0.02
            )
    np.testing.assert_array_equal(found[2], 1.0)  # one level: certain


def test_drawn_rows_follow_the_means() -> None:
    n_levels = np.array([2, 4, 1])
    stats = some_statistics(n_levels, 3, seed=7, n_rows=300)
    prior = uniform_prior(n_levels, 0.01, 6)
    N = 60_000
    X, labels = draw(stats, prior, N, np.random.default_rng(1))
    weights = mean_weights(stats, prior)
    np.testing.assert_allclose(np.bincount(labels, minlength=3) / N, weights, atol=0.01)
    for j, means in enumerate(by_variable(mean_levels(stats, prior), n_levels)):
        for k in range(3):
            seen = np.bincount(X[labels == k, j], minlength=n_levels[j]) / np.sum(labels == k)
            np.testing.assert_allclose(seen, means[k], atol=0.025)
