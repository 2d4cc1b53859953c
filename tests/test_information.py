"""Information of mixtures against second differences, all rows there are, and plain loops."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedmerdel.inference.information import (
    Mixture,
    Rows,
    _less,
    block_worth,
    level_squares,
    observed_information,
    outer_products,
    prior_information,
    steadied,
    worth,
)

N_LEVELS = (2, 3, 2)


def a_mixture(seed: int, K: int = 3, n_levels: tuple[int, ...] = N_LEVELS) -> Mixture:
    rng = np.random.default_rng(seed)
    levels = [rng.dirichlet(np.full(n, 2.0), K) for n in n_levels]
    offsets = np.concatenate(([0], np.cumsum(n_levels)))
    return Mixture(rng.dirichlet(np.full(K, 4.0)), np.concatenate(levels, axis=1), offsets)


def joint(x: np.ndarray, mixture: Mixture) -> np.ndarray:
    """The probability of a row in each cluster, by the formula."""
    found = mixture.weights.copy()
    for j, level in enumerate(x):
        if level >= 0:
            found *= mixture.levels[:, mixture.offsets[j] + level]
    return found


def given_to(X: np.ndarray, mixture: Mixture, w: np.ndarray) -> Rows:
    together = np.array([joint(x, mixture) for x in X])
    return Rows(X, together / together.sum(axis=1, keepdims=True), w)


def some_rows(mixture: Mixture, n: int, seed: int) -> Rows:
    """Rows of any levels, some entries missing, weights unlike."""
    rng = np.random.default_rng(seed)
    X = np.stack([rng.integers(-1, n_levels, n) for n_levels in np.diff(mixture.offsets)], axis=1)
    return given_to(X, mixture, rng.uniform(0.2, 2.0, n))


def logits(mixture: Mixture) -> np.ndarray:
    parts = [np.log(mixture.weights[:-1] / mixture.weights[-1])]
    for line in mixture.levels:
        for start, end in zip(mixture.offsets, mixture.offsets[1:], strict=False):
            parts.append(np.log(line[start : end - 1] / line[end - 1]))
    return np.concatenate(parts)


def at(theta: np.ndarray, like: Mixture) -> Mixture:
    def softmax(part: np.ndarray) -> np.ndarray:
        p = np.exp(np.append(part, 0.0))
        return p / p.sum()

    K, levels, place = len(like.weights), [], len(like.weights) - 1
    for _ in range(K):
        for n in np.diff(like.offsets):
            levels.append(softmax(theta[place : place + n - 1]))
            place += n - 1
    return Mixture(softmax(theta[: K - 1]), np.concatenate(levels).reshape(K, -1), like.offsets)


def log_likelihood(theta: np.ndarray, rows: Rows, like: Mixture) -> float:
    mixture = at(theta, like)
    return sum(w * np.log(joint(x, mixture).sum()) for x, w in zip(rows.X, rows.w, strict=True))


def second_differences(rows: Rows, mixture: Mixture, h: float = 1e-4) -> np.ndarray:
    theta = logits(mixture)
    steps = h * np.eye(len(theta))

    def f(move: np.ndarray) -> float:
        return log_likelihood(theta + move, rows, mixture)

    found = np.empty((len(theta),) * 2)
    for a, b in product(range(len(theta)), repeat=2):
        if a <= b:
            d = f(steps[a] + steps[b]) - f(steps[a] - steps[b])
            d += f(-steps[a] - steps[b]) - f(-steps[a] + steps[b])
            found[a, b] = found[b, a] = d / (4 * h * h)
    return found


@pytest.mark.parametrize("seed", range(2))
def test_observed_information_is_minus_the_second_derivatives(seed: int) -> None:
    """At any point, not only where the likelihood is greatest; in one part or two."""
    mixture = a_mixture(seed, K=2 + seed)
    rows = some_rows(mixture, 12, seed)
    parts = [Rows(*(part[:5] for part in rows)), Rows(*(part[5:] for part in rows))]
    found = observed_information(parts, mixture)
    np.testing.assert_allclose(found, -second_differences(rows, mixture), atol=2e-5)


def all_rows(mixture: Mixture) -> Rows:
    """Every row that there is, by its probability: a table as the model expects it."""
    X = np.array(list(product(*(range(n) for n in np.diff(mixture.offsets)))))
    w = np.array([joint(x, mixture).sum() for x in X])
    return given_to(X, mixture, w)


def test_both_are_the_same_for_rows_as_the_model_expects_them() -> None:
    mixture = a_mixture(3)
    rows = all_rows(mixture)
    assert rows.w.sum() == pytest.approx(1.0)
    expected = outer_products([rows], mixture)
    np.testing.assert_allclose(expected, observed_information([rows], mixture), atol=1e-12)
    np.testing.assert_allclose(expected, -second_differences(rows, mixture), atol=1e-6)


def slow_outer_products(rows: Rows, mixture: Mixture) -> np.ndarray:
    """By the formula of a score, entry by entry."""
    K = len(mixture.weights)
    total = np.zeros((mixture.n_parameters,) * 2)
    for x, r, w in zip(rows.X, rows.r, rows.w, strict=True):
        score = [r[k] - mixture.weights[k] for k in range(K - 1)]
        for k in range(K):
            for j, n in enumerate(np.diff(mixture.offsets)):
                for level in range(n - 1):
                    phi = mixture.levels[k, mixture.offsets[j] + level]
                    score.append(0.0 if x[j] < 0 else r[k] * ((x[j] == level) - phi))
        total += w * np.outer(score, score)
    return total


@given(
    st.integers(0, 10_000),
    st.integers(1, 4),
    st.lists(st.integers(1, 4), min_size=1, max_size=4),
    st.integers(1, 12),
)
def test_outer_products_against_loops(seed: int, K: int, n_levels: list[int], n: int) -> None:
    mixture = a_mixture(seed, K, tuple(n_levels))
    rows = some_rows(mixture, n, seed)
    found = outer_products([rows], mixture)
    np.testing.assert_allclose(found, slow_outer_products(rows, mixture), atol=1e-10)


def test_sure_rows_are_worth_themselves() -> None:
    """A share is known from all rows, a level from its cluster's, and from the prior's one."""
    mixture = a_mixture(1)
    T = 1000.0 * mixture.weights
    rows = all_rows(mixture)
    parts = [
        Rows(rows.X, np.tile(np.eye(3)[k], (len(rows.X), 1)), T[k] * weights)
        for k, weights in enumerate((rows.r * rows.w[:, None] / mixture.weights).T)
    ]
    whole = worth(observed_information(parts, mixture) + prior_information(mixture), mixture)
    for found in (whole, block_worth(parts, mixture)):
        np.testing.assert_allclose(found.shares, 1000.0)
        np.testing.assert_allclose(found.levels, np.tile(T[:, None], (1, 7)))


def test_worth_of_a_logit_is_by_its_own_variance() -> None:
    """Against derivatives of each logit by all parameters, by differences."""
    mixture = a_mixture(5)
    rows = some_rows(mixture, 200, 5)
    information = outer_products([rows], mixture) + prior_information(mixture)
    covariance, theta, h = np.linalg.inv(information), logits(mixture), 1e-5

    def all_logits(move: np.ndarray) -> np.ndarray:
        p = np.concatenate([(m := at(theta + move, mixture)).weights, m.levels.ravel()])
        return np.log(p / (1.0 - p))

    steps = h * np.eye(len(theta))
    J = np.array([(all_logits(step) - all_logits(-step)) / (2 * h) for step in steps]).T
    p = np.concatenate([mixture.weights, mixture.levels.ravel()])
    expected = 1.0 / (np.diag(J @ covariance @ J.T) * p * (1.0 - p))
    expected -= 1.0  # the prior's row
    found = worth(information, mixture)
    np.testing.assert_allclose(np.append(found.shares, found.levels), expected, rtol=1e-6)


def slow_level_squares(rows: Rows, mixture: Mixture) -> np.ndarray:
    """Each entry in turn is forgotten, and may be any level."""
    total = np.zeros_like(mixture.levels)
    for x, w in zip(rows.X, rows.w, strict=True):
        for j, n in enumerate(np.diff(mixture.offsets)):
            without, level = x.copy(), mixture.offsets[j]
            without[j] = -1
            for own in range(n if x[j] >= 0 else 0):
                instead = x.copy()
                instead[j] = own
                together = joint(instead, mixture)
                chance = together.sum() / joint(without, mixture).sum()
                total[:, level + own] += w * chance * (together / together.sum()) ** 2
    return total


@given(st.integers(0, 10_000), st.integers(1, 4), st.integers(1, 8))
def test_level_squares_against_loops(seed: int, K: int, n: int) -> None:
    mixture = a_mixture(seed, K)
    rows = some_rows(mixture, n, seed)
    found = level_squares([rows], mixture)
    np.testing.assert_allclose(found, slow_level_squares(rows, mixture), atol=1e-10)


def test_chance_is_taken_out_of_rare_levels() -> None:
    """All rows as expected stay as they are; too many are made fewer, too few are made up for."""
    mixture = a_mixture(3)
    rows = all_rows(mixture)
    exact = outer_products([rows], mixture)
    squares = level_squares([rows], mixture)
    np.testing.assert_allclose(steadied(exact, squares, mixture), exact, atol=1e-12)
    for times in (0.25, 4.0):
        w = rows.w * np.where(rows.X[:, 1] == 0, times, 1.0)
        drawn = outer_products([rows._replace(w=w)], mixture)
        found = steadied(drawn, squares, mixture)
        np.testing.assert_allclose(np.diag(found)[2:], np.diag(exact)[2:])
        assert np.linalg.eigvalsh(found).min() > -1e-12


def test_blocks_take_other_levels_for_known() -> None:
    """Binary levels alone: the inverse of the matrix with nothing between different levels."""
    high = np.kron(np.eye(3), np.ones(2)) * 0.8 + 0.1  # two variables mark each cluster
    levels = np.stack([1.0 - high, high], axis=2).reshape(3, 12)
    mixture = Mixture(np.array([0.5, 0.3, 0.2]), levels, np.arange(0, 13, 2))
    rows = all_rows(mixture)
    rows = rows._replace(w=rows.w * np.random.default_rng(0).uniform(90.0, 110.0, len(rows.w)))
    alone = outer_products([rows], mixture)
    alone = steadied(alone, level_squares([rows], mixture), mixture) + prior_information(mixture)
    exact = observed_information([rows], mixture)
    levels = np.diag(np.diag(alone)[2:])
    crossed = exact[:2, 2:]
    shares = alone[:2, :2] - crossed @ np.linalg.inv(levels) @ crossed.T
    whole = np.block([[shares, np.zeros((2, 18))], [np.zeros((18, 2)), levels]])
    expected, found = worth(whole, mixture), block_worth([rows], mixture)
    np.testing.assert_allclose(found.levels, expected.levels)
    np.testing.assert_allclose(found.shares, expected.shares, rtol=1e-6)


def test_one_cluster_and_one_level_are_sure() -> None:
    mixture = a_mixture(2, 1, (1, 2))
    rows = some_rows(mixture, 20, 2)
    whole = worth(outer_products([rows], mixture) + prior_information(mixture), mixture)
    for found in (whole, block_worth([rows], mixture)):
        assert np.isinf(found.shares).all()
        assert np.isinf(found.levels).tolist() == [[True, False, False]]


def test_more_is_never_lost_of_shares_than_there_is() -> None:
    """In one direction half is lost, in the other all and more: a hundredth is left."""
    found = _less(np.diag([2.0, 3.0]), np.diag([1.0, 5.0]))
    np.testing.assert_allclose(found, np.diag([1.0, 0.03]), atol=1e-12)
