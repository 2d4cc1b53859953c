"""Formulas of the checks, against slow ones; and how often they are wrong."""

from __future__ import annotations

from itertools import combinations, product
from math import log

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import chi2

from fedmerdel import Checks, MerDel, simulate
from fedmerdel.inference.conditions import conditions_test, expected_conditions
from fedmerdel.inference.residuals import expected_pairs, pair_residuals
from fedmerdel.inference.separation import mean_posterior, relative_entropy
from tests.seeds import Record


def severity(seed: int) -> np.ndarray:
    """Rows of one continuous scale and no classes: item response, two parameters."""
    rng = np.random.default_rng(seed)
    N, P = int(rng.integers(2000, 5001)), int(rng.integers(10, 31))
    slope, place = 1.3 * rng.lognormal(0, 0.4, P), rng.normal(1.0, 1.0, P)
    scale = rng.standard_normal((N, 1))
    return (rng.random((N, P)) < expit(slope * (scale - place))).astype(np.int64)


def classes(seed: int) -> np.ndarray:
    """Rows of the model."""
    rng = np.random.default_rng(seed)
    N, P, K = int(rng.integers(2000, 5001)), int(rng.integers(10, 31)), int(rng.integers(2, 9))
    return simulate(N, n_variables=P, n_clusters=K, random_state=seed).X.astype(np.int64)


def checks_of(X: np.ndarray, seed: int) -> Checks:
    return MerDel(random_state=seed).fit(X).checks(X)


def test_expected_conditions_are_those_of_all_patterns() -> None:
    rng = np.random.default_rng(0)
    weights, present = rng.dirichlet(np.ones(3)), rng.random((3, 5))
    slow = np.zeros(6)
    for w, p in zip(weights, present, strict=True):
        for row in product((0, 1), repeat=5):
            slow[sum(row)] += w * np.prod([q if x else 1 - q for q, x in zip(p, row, strict=True)])
    np.testing.assert_allclose(expected_conditions(weights, present), slow, atol=1e-14)


def test_residuals_are_those_of_loops() -> None:
    rng = np.random.default_rng(1)
    sizes, T = [3, 4, 3], np.array([40.0, 60.0, 100.0])  # with a cell for missing entries
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    cells = np.concatenate([rng.dirichlet(np.ones(n), 3) for n in sizes], axis=1)
    E = expected_pairs(T, cells)
    O = rng.poisson(E).astype(float)  # noqa: E741
    noise = rng.random(E.shape)
    found = {(each.first, each.second): each for each in pair_residuals(O, E, noise, offsets)}
    assert len(found) == 3
    for a, b in combinations(range(3), 2):
        lines = range(offsets[a], offsets[a + 1] - 1)
        columns = range(offsets[b], offsets[b + 1] - 1)
        slow = {
            (i, j): sum(T[k] * cells[k, i] * cells[k, j] for k in range(3))
            for i in lines
            for j in columns
        }
        scale = sum(O[at] for at in slow) / sum(slow.values())
        parts = {at: (O[at] - e * scale) ** 2 / (e * scale + noise[at]) for at, e in slow.items()}
        df = (len(lines) - 1) * (len(columns) - 1)
        one, most = found[a, b], max(parts, key=lambda at: parts[at])
        assert one.degrees == df
        assert one.residual == pytest.approx(sum(parts.values()) / df)
        assert one.p_value == pytest.approx(chi2.sf(sum(parts.values()), df))
        assert one.cell == (most[0] - offsets[a], most[1] - offsets[b])
        assert (one.observed, one.expected) == (O[most], pytest.approx(slow[most] * scale))
    order = [each.residual for each in pair_residuals(O, E, noise, offsets)]
    assert order == sorted(order, reverse=True)


def test_levels_that_nobody_has_and_pairs_that_were_not_told_do_not_count() -> None:
    offsets = np.array([0, 4, 7])
    E = np.zeros((7, 7))
    E[:2, 4:6] = [[10, 20], [30, 40]]  # the third level of the first never occurs
    O = E.copy()  # noqa: E741
    (found,) = pair_residuals(O, E, np.zeros_like(E), offsets)
    assert (found.degrees, found.residual) == (1, 0.0)
    assert pair_residuals(np.zeros_like(E), E, np.zeros_like(E), offsets) == []


def test_separation() -> None:
    T, h = np.array([30.0, 70.0]), np.array([-10.0, -5.0])
    assert relative_entropy(T, h) == pytest.approx(1 - 15 / (100 * log(2)))
    assert relative_entropy(T[:1], h[:1]) is None
    found = mean_posterior(np.array([4.0, 0.0]), np.array([3.0, 0.0]))
    assert found[0] == 0.75
    assert np.isnan(found[1])


def test_the_histogram_of_the_model_itself_fits_and_another_does_not() -> None:
    rng = np.random.default_rng(2)
    weights, present = np.array([0.4, 0.6]), rng.random((2, 8))
    z = rng.choice(2, 20_000, p=weights)
    X = rng.random((20_000, 8)) < present[z]
    rho = weights * np.prod(np.where(X[:, None], present, 1 - present), axis=2)
    r, number = rho / rho.sum(axis=1, keepdims=True), X.sum(axis=1)
    shares, none = expected_conditions(weights, present), np.zeros(9)
    exact = conditions_test(3000 * shares, shares, none, number, r)
    assert (exact.p_value, exact.distance) == (pytest.approx(1.0), pytest.approx(0.0))
    wide = np.full(9, 3000 / 9)
    far = conditions_test(wide, shares, none, number, r)
    assert far.p_value < 1e-6
    assert far.distance == pytest.approx(np.abs(wide / 3000 - shares).sum() / 2)
    # What disclosure control may have done excuses it.
    assert conditions_test(wide, shares, none + 1e8, number, r).p_value > 0.9


def test_rows_with_two_conditions_tell_what_a_histogram_hides() -> None:
    rng = np.random.default_rng(3)
    X = rng.random((20_000, 8)) < rng.random(8)
    shares = expected_conditions(np.ones(1), X.mean(axis=0)[None])
    number, r, n = X.sum(axis=1), np.ones((20_000, 1)), np.arange(9)
    expected, none = 3000 * shares, np.zeros(9)
    pairs = n * (n - 1) / 2
    # A histogram with the mean that is expected has the same second moment, counted both ways.
    other = expected + np.convolve([20.0, 30.0, 10.0], [1, -2, 1, 0, 0, 0, 0])
    once = conditions_test(other, shares, none, number, r)
    twice = conditions_test(other, shares, none, number, r, (float(other @ pairs), 0.0))
    assert 1e-12 < once.p_value < 0.5
    assert twice.p_value == pytest.approx(once.p_value)
    # With what is hidden taken as expected, only these rows tell.
    more = 1.1 * float(expected @ pairs)
    assert conditions_test(expected, shares, none, number, r, (more, 0.0)).p_value < 0.01
    assert conditions_test(expected, shares, none, number, r, (more, 1e8)).p_value > 0.9


@pytest.mark.parametrize("seed", [1, 2])
def test_a_scale_is_told_from_classes(seed: int) -> None:
    found = checks_of(severity(seed), seed)
    assert found.fits is False
    assert "severity" in found.verdict
    assert checks_of(classes(seed), seed).fits is True


@pytest.mark.statistics
def test_error_rates_over_many_tables(record_property: Record) -> None:
    seeds = range(5000, 5150)  # the constants were chosen on seeds below 1,200
    alarms = [not checks_of(classes(seed), seed).fits for seed in seeds]
    found = [not checks_of(severity(seed), seed).fits for seed in seeds]
    record_property("false alarms, tables of the model", f"{np.mean(alarms):.3f}, at most 0.05")
    record_property("a scale without classes is found", f"{np.mean(found):.3f}, at least 0.9")
    assert np.mean(alarms) <= 0.05
    assert np.mean(found) >= 0.9
