"""Passes that learn a prior: never down, the same for any threads, weights and missing entries."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedmerdel.fitting import passes
from fedmerdel.fitting.passes import Workers
from fedmerdel.fitting.solution import em_step, make_problem
from fedmerdel.sums.elbo import elbo
from fedmerdel.sums.learning import settled
from fedmerdel.sums.prior import Prior, uniform_prior
from fedmerdel.sums.strengths import Strengths, common_strength
from fedmerdel.sums.sums import Sums
from tests import reference
from tests.drawn import clusterings
from tests.reference import Dense, packed, statistics_from

ONE = Workers(1)


@settings(max_examples=40, deadline=None)
@given(clusterings(), st.integers(2, 8))
def test_passes_that_learn_never_lower_the_elbo(
    drawn: tuple[Dense, np.ndarray, Prior], n_passes: int
) -> None:
    table, log_r, prior = drawn
    problem = make_problem(packed(table), prior, ONE, "strengths")
    stats, found = statistics_from(reference.m_step(table, log_r)), problem.prior
    last = elbo(stats, found)
    for _ in range(n_passes):
        solution = em_step(problem, stats, found)
        assert solution.elbo >= last - 1e-9 * (abs(last) + 1)
        stats, last, found = solution.stats, solution.elbo, solution.prior
        assert found.strength is not None
        plain = reference.seven_term_elbo(reference.sums_of(stats, table.n_levels), found)
        expected = plain + reference.strength_density(found.strength)
        assert last == pytest.approx(expected, rel=1e-9, abs=1e-7 * (1 + table.weights.sum()))


def passes_from(table: Dense, prior: Prior, n_threads: int = 1) -> tuple[Sums, Prior]:
    """Some passes that learn, from labels that a row's number gives."""
    with Workers(n_threads) as workers:
        problem = make_problem(packed(table), prior, workers, "strengths")
        labels = table.X[:, 0].clip(0) % 3
        log_r = reference.hard(labels, 3)
        stats, found = statistics_from(reference.m_step(table, log_r)), problem.prior
        for _ in range(4):
            _, stats, _, found = em_step(problem, stats, found)
    return stats, found


def missing_table(n_rows: int, seed: int) -> tuple[Dense, Prior]:
    rng = np.random.default_rng(seed)
    levels = np.array([3, 2, 4, 2, 5])
    X = rng.integers(0, levels, (n_rows, 5))
    X[:, 1:] = np.where(rng.random((n_rows, 4)) < 0.5, X[:, :1] % levels[1:], X[:, 1:])
    X[rng.random(X.shape) < 0.15] = -1
    return Dense(X, rng.integers(1, 4, n_rows).astype(float), levels), uniform_prior(levels, 0.1, 6)


def test_threads_do_not_change_a_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "MIN_CHUNK", 23)
    table, prior = missing_table(500, 0)
    (one, learned), (three, same) = (passes_from(table, prior, n) for n in (1, 3))
    for part, other in zip((*one[:3], learned.eps), (*three[:3], same.eps), strict=True):
        assert part.tobytes() == other.tobytes()
    assert learned.strength is not None
    assert same.strength is not None
    assert learned.strength.tobytes() == same.strength.tobytes()


@pytest.mark.parametrize("seed", range(3))
def test_a_row_of_weight_three_is_three_rows(seed: int) -> None:
    table, prior = missing_table(120, seed)
    times = table.weights.astype(int)
    rows = Dense(table.X.repeat(times, axis=0), np.ones(times.sum()), table.n_levels)
    (few, learned), (several, same) = passes_from(table, prior), passes_from(rows, prior)
    np.testing.assert_allclose(few.S, several.S, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(learned.strength, same.strength, rtol=1e-7)
    assert elbo(few, learned) == pytest.approx(elbo(several, same), rel=1e-10)


def test_shares_are_of_the_entries_that_are_there() -> None:
    """Rows without an entry have no say; a variable that no row has is even, and stays."""
    table, prior = missing_table(200, 1)
    X = table.X.copy()
    X[:, 2] = -1
    problem = make_problem(packed(table._replace(X=X)), prior, ONE, "strengths")
    assert isinstance(problem.learning, Strengths)
    shares = reference.by_variable(problem.learning.shares, table.n_levels)
    np.testing.assert_array_equal(shares[2], 0.25)
    here = X[:, 1] >= 0
    expected = np.bincount(X[here, 1], table.weights[here]) / table.weights[here].sum()
    np.testing.assert_allclose(shares[1], expected, rtol=1e-12)
    stats, found = passes_from(table._replace(X=X), prior)
    assert np.all(np.isfinite(found.eps))
    assert found.strength is not None
    # Nothing is known of it but the others: it goes to the common strength.
    limit = settled(problem.learning, stats.S, found).strength
    assert limit is not None
    assert np.log(limit[2]) == pytest.approx(common_strength(np.log(limit)), abs=1e-3)
