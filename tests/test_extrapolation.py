"""Where passes lead: never worse informed than the last one, and there in fewer of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedmerdel.fitting.passes import Workers, count_labels, expect_and_count
from fedmerdel.sums.elbo import elbo
from fedmerdel.sums.expectations import Expectations, expectations
from fedmerdel.sums.extrapolation import CAUTION, MEMORY, Past, extrapolate
from fedmerdel.sums.prior import uniform_prior
from fedmerdel.sums.sums import Sums
from tests.drawn import random_theta, seeds
from tests.reference import Dense, packed

ONE = Workers(1)
many = settings(max_examples=60, deadline=None)

shapes = st.tuples(st.integers(1, 6), st.lists(st.integers(1, 5), min_size=1, max_size=5))
Shape = tuple[int, list[int]]


def random_statistics(rng: np.random.Generator, K: int, M: int) -> Sums:
    return Sums(rng.gamma(2.0, 50.0, K), rng.gamma(1.0, 30.0, (K, M)), -rng.random(K))


def random_past(seed: int, shape: Shape, n_steps: int) -> tuple[Past, Sums]:
    rng = np.random.default_rng(seed)
    K, n_levels = shape[0], np.array(shape[1])
    past = Past()
    for _ in range(n_steps):
        past = past.then(*(random_theta(rng, K, n_levels, 1.0) for _ in "ab"))
    return past, random_statistics(rng, K, int(n_levels.sum()))


def flat(theta: Expectations) -> np.ndarray:
    return np.concatenate([theta.log_weights, theta.log_levels.ravel()])


def assert_same(
    found: Expectations, expected: Expectations, rtol: float = 0.0, atol: float = 0.0
) -> None:
    assert found.log_levels.shape == expected.log_levels.shape
    np.testing.assert_allclose(flat(found), flat(expected), rtol=rtol, atol=atol)


@many
@given(seeds, shapes)
def test_one_step_leads_where_it_led(seed: int, shape: Shape) -> None:
    past, stats = random_past(seed, shape, 1)
    assert_same(extrapolate(past, stats), past.reached[0])


def test_the_oldest_step_is_forgotten() -> None:
    past, _ = random_past(0, (2, [2, 3]), 0)
    steps = [random_theta(np.random.default_rng(i), 2, np.array([2, 3]), 1.0) for i in range(12)]
    for n, (read, reached) in enumerate(zip(steps[0::2], steps[1::2], strict=True), 1):
        past = past.then(read, reached)
        assert len(past.read) == len(past.reached) == min(n, MEMORY + 1)
        assert past.read[-1] is read
        assert past.reached[-1] is reached
    assert past.read[0] is steps[-2 * (MEMORY + 1)]


@many
@given(seeds, shapes, st.integers(2, MEMORY + 1))
def test_it_is_the_combination_that_moves_least(seed: int, shape: Shape, n_steps: int) -> None:
    """Least squares by another way: the caution is rows of their own under the steps."""
    past, stats = random_past(seed, shape, n_steps)
    u, g = (np.stack([flat(theta) for theta in part]) for part in past)
    f, root = g - u, np.sqrt(np.concatenate([stats.T, stats.S.ravel()]))
    back = np.stack([(f[i + 1] - f[i]) * root for i in range(n_steps - 1)], axis=1)
    held = np.sqrt(CAUTION * np.mean(np.sum(back**2, axis=0))) * np.eye(n_steps - 1)
    rows, goal = np.vstack([back, held]), np.append(f[-1] * root, np.zeros(n_steps - 1))
    shares = np.linalg.lstsq(rows, goal, rcond=None)[0]
    guess = g[-1] - sum(x * (g[i + 1] - g[i]) for i, x in enumerate(shares))
    np.testing.assert_allclose(flat(extrapolate(past, stats)), guess, rtol=1e-7, atol=1e-7)


@many
@given(seeds, shapes, st.integers(1, MEMORY + 2))
def test_the_order_of_clusters_does_not_matter(seed: int, shape: Shape, n_steps: int) -> None:
    past, stats = random_past(seed, shape, n_steps)
    order = np.random.default_rng(seed).permutation(shape[0])
    found = extrapolate(past.take(order), stats.take(order))
    assert_same(found, extrapolate(past, stats).take(order), rtol=1e-8, atol=1e-8)


@many
@given(seeds, shapes)
def test_clusters_without_rows_have_no_say(seed: int, shape: Shape) -> None:
    past, stats = random_past(seed, shape, 3)
    alone = extrapolate(past, stats)
    rng = np.random.default_rng(seed)
    wild = Past()
    for read, reached in zip(*past, strict=True):
        both = (random_theta(rng, 2, np.array(shape[1]), 1e3) for _ in "ab")
        pairs = zip((read, reached), both, strict=True)
        wild = wild.then(*(Expectations(*map(np.concatenate, zip(*p, strict=True))) for p in pairs))
    empty = Sums(np.zeros(2), np.zeros((2, stats.S.shape[1])), np.zeros(2))
    found = extrapolate(wild, stats.joined(empty))
    assert_same(found.take(np.arange(shape[0])), alone, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("n_steps", [1, 2, 3, 4])
@pytest.mark.parametrize("moved", [0.0, 1e-9, 1e-17])
def test_it_is_finite_where_nothing_moves(n_steps: int, moved: float) -> None:
    """At the end every step is the same, or 0, and there is nothing to solve for."""
    rng = np.random.default_rng(0)
    n_levels = np.array([2, 3])
    here, stats = random_theta(rng, 3, n_levels, 1.0), random_statistics(rng, 3, 5)
    past = Past()
    for _ in range(n_steps):
        noise = random_theta(rng, 3, n_levels, moved)
        past = past.then(here, Expectations(*(a + b for a, b in zip(here, noise, strict=True))))
    found = extrapolate(past, stats)
    assert np.all(np.isfinite(flat(found)))
    assert_same(found, here, atol=1e2 * moved)
    none = Sums(*(np.zeros_like(part) for part in stats[:3]))
    assert_same(extrapolate(past, none), past.reached[-1])


def followed(steps: list[tuple[float, float]]) -> tuple[np.ndarray, np.ndarray]:
    """Where plain steps of these lengths lead, and where they are guessed to lead; from 0."""
    u, past = np.zeros(2), Past()
    one = Sums(np.ones(1), np.ones((1, 1)), np.zeros(1))
    for step in steps:
        both = u, u + np.array(step)
        past = past.then(*(Expectations(v[:1], v[None, 1:]) for v in both))
        u = both[1]
    return u, flat(extrapolate(past, one))


def test_steps_of_one_rate_tell_where_they_end() -> None:
    """The caution leaves a thousandth of the way, its own share."""
    for rate in (0.5, 0.9, 0.99, 0.9999):  # the last differ by 1e-8 of their squares
        here, guess = followed([(1.0, 0.0), (rate, 0.0)])
        left = 1 / (1 - rate)
        assert abs(guess[0] - left) < 2e-3 * (left - here[0])


def test_noise_in_steps_that_are_alike_is_held_back() -> None:
    """Without caution noise of 2 % would lead back seven times as far as the last step went."""
    here, guess = followed([(3.0, 1.0), (2.0, 1.0224), (1.0, 1.0)])
    assert np.linalg.norm(guess - here) < 12  # 9.7; 16.4 with a quarter of the caution


def test_steps_that_differ_by_rounding_lead_where_the_last_led() -> None:
    for noise in (0.0, 1e-16, 1e-12, 1e-9):
        here, guess = followed([(1.0, 0.5), (1.0, 0.5 + noise), (1.0 - noise, 0.5)])
        np.testing.assert_array_equal(guess, here)


def steps_to_the_end(
    step: Callable[[np.ndarray], np.ndarray],
    left: Callable[[np.ndarray], float],
    stats: Sums,
    guess: bool,
) -> int:
    """Steps from 0 until a millionth is left of the way."""
    K, size = stats.n_clusters, stats.T.size + stats.S.size
    u, past = np.zeros(size), Past()
    whole = left(u)
    for n in range(5000):
        if left(u) < 1e-6 * whole:
            return n
        both = (Expectations(v[:K], v[K:].reshape(K, -1)) for v in (u, step(u)))
        past = past.then(*both) if guess else Past().then(*both)
        u = flat(extrapolate(past, stats))
    return 5000


@pytest.mark.parametrize("rates", [(0.97, 0.9, 0.5), (0.98, 0.97, 0.3), (0.95, 0.95, 0.95)])
def test_a_linear_map_ends_in_a_third_of_the_steps(rates: tuple[float, float, float]) -> None:
    """Each direction of the way shrinks at its own rate, as an E and M step does at its end."""
    ratios = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        stats = random_statistics(rng, 3, 7)
        root = np.sqrt(np.concatenate([stats.T, stats.S.ravel()]))
        size = len(root)
        axes = np.linalg.qr(rng.standard_normal((size, size)))[0]
        shrink = np.append(rates[:2], rng.uniform(0.0, rates[2], size - 2))
        A = (axes * shrink) @ axes.T * root / root[:, None]
        end = rng.standard_normal(size)

        def step(u: np.ndarray, A: np.ndarray = A, end: np.ndarray = end) -> np.ndarray:
            return np.asarray(end + A @ (u - end))

        def left(u: np.ndarray, end: np.ndarray = end, root: np.ndarray = root) -> float:
            return float(np.linalg.norm((u - end) * root))

        plain, guessed = (steps_to_the_end(step, left, stats, guess) for guess in (False, True))
        assert plain < 5000
        ratios.append(guessed / plain)
    assert max(ratios) < 0.5  # measured: 0.11 to 0.32
    assert np.mean(ratios) < 1 / 3  # 0.16, 0.09, 0.26


def passes_needed(seed: int) -> tuple[int, int]:
    """Passes until an ELBO that plain ones come to, with plain ones and with guesses."""
    rng = np.random.default_rng(seed)
    z = rng.integers(0, 3, 500)
    X = (rng.random((500, 12)) < rng.beta(2, 2, (3, 12))[z]).astype(int)
    rows = packed(Dense(X, np.ones(500), np.full(12, 2)))
    prior = uniform_prior(np.full(12, 2), 0.01, 3)
    start = stats = count_labels(rows, z, 3, ONE)
    elbos = [-np.inf, elbo(stats, prior)]
    while len(elbos) < 400 and elbos[-1] - elbos[-2] > 1e-6:
        stats = expect_and_count(rows, expectations(stats, prior), ONE)
        elbos.append(elbo(stats, prior))
    goal = elbos[-1] - 1e-3
    plain = int(np.argmax(np.array(elbos) >= goal)) - 1
    sent = safe = expectations(start, prior)
    past, last = Past(), -np.inf
    for n in range(1, 401):
        stats = expect_and_count(rows, sent, ONE)
        found = elbo(stats, prior)
        if found >= goal:
            return plain, n
        if found < last:  # too far: back to where a plain pass leads
            sent, past = safe, Past()
            continue
        last, safe = found, expectations(stats, prior)
        past = past.then(sent, safe)
        sent = extrapolate(past, stats)
    return plain, 400


def test_passes_over_rows_end_in_half_of_them() -> None:
    """Three clusters that overlap, for which plain passes take dozens or hundreds."""
    needed = np.array([passes_needed(seed) for seed in range(10)])
    ratios = needed[:, 1] / needed[:, 0]
    assert np.median(needed[:, 0]) > 40  # measured: 79
    assert np.median(ratios) < 0.55  # 0.29
    assert np.sum(ratios < 0.75) >= 7  # 9
