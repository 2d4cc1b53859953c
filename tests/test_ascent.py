"""Passes up to a maximum: quicker than plain ones where these are slow, and never down."""

from __future__ import annotations

import numpy as np
import pytest

from fedmerdel.fitting.ascent import LEAST_PASSES, MOST_WORK, climb, most_passes, settle
from fedmerdel.fitting.history import History
from fedmerdel.fitting.passes import Workers, count_labels
from fedmerdel.fitting.solution import Problem, Solution, em_step, make_problem
from fedmerdel.records.collapse import collapse
from fedmerdel.records.packing import PackedRows, repack
from fedmerdel.sums.prior import uniform_prior
from tests.reference import Dense, packed

P, N, K = 7, 3000, 6


def narrow(seed: int, learned: bool = True) -> tuple[Problem, Solution]:
    """Few binary columns that differ by degrees, and more clusters than they can tell apart."""
    rng = np.random.default_rng(seed)
    trait = rng.standard_normal((N, 1))
    odds = trait @ rng.uniform(0.5, 1.5, (1, P)) + rng.normal(0.0, 1.0, P)
    X = (rng.random((N, P)) < 1 / (1 + np.exp(-odds))).astype(int)
    rows, _ = collapse(packed(Dense(X, np.ones(N), np.full(P, 2))))
    prior = uniform_prior(np.full(P, 2), 0.01, K)
    problem = make_problem(repack(rows), prior, Workers(1), "strengths" if learned else None)
    start = count_labels(problem.rows, rng.integers(0, K, problem.rows.n_rows), K, problem.workers)
    return problem, em_step(problem, start, problem.prior)


def plain(problem: Problem, solution: Solution, n_passes: int) -> float:
    for _ in range(n_passes):
        solution = em_step(problem, solution.stats, solution.prior)
    return solution.elbo


@pytest.mark.parametrize("learned", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_settling_goes_as_far_as_many_plain_passes(seed: int, learned: bool) -> None:
    problem, start = narrow(seed, learned)
    history = History(problem.rows.n_rows)
    found, converged = settle(problem, start, 0.01, 100_000, history)
    assert converged
    assert np.all(np.diff(history.elbos) >= -1e-9 * abs(found.elbo))
    # From the same start, though perhaps to another maximum: a nat is nothing here.
    assert found.elbo >= plain(problem, start, 4 * history.n_iter) - 1.0


def test_settling_takes_fewer_passes_than_plain_ones() -> None:
    """Measured over these: 2.5 to 12 times fewer, in all 4."""
    ours = theirs = 0
    for seed in range(4):
        problem, start = narrow(seed)
        history = History(problem.rows.n_rows)
        found, _ = settle(problem, start, 0.01, 100_000, history)
        solution, n_passes = start, 0
        while solution.elbo < found.elbo - 0.5 and n_passes < 5000:
            solution, n_passes = em_step(problem, solution.stats, solution.prior), n_passes + 1
        ours, theirs = ours + history.n_iter, theirs + n_passes
    assert theirs > 1.5 * ours


def test_quick_passes_are_left_alone() -> None:
    """Clear clusters: passes end by themselves before any is stretched, one by one as ever."""
    rng = np.random.default_rng(0)
    modes = rng.integers(0, 2, (3, 30))
    group = rng.integers(0, 3, 400)
    X = modes[group] ^ (rng.random((400, 30)) < 0.05)
    prior = uniform_prior(np.full(30, 2), 0.01, 3)
    problem = Problem(packed(Dense(X, np.ones(400), np.full(30, 2))), prior, Workers(1))
    start = em_step(problem, count_labels(problem.rows, group, 3, problem.workers), prior)
    history = History(400)
    found, converged = settle(problem, start, 1e-4, 1000, history)
    assert converged
    assert history.n_iter < 8
    assert found.elbo == pytest.approx(plain(problem, start, history.n_iter), abs=1e-9)


def test_a_cap_is_kept_and_said() -> None:
    problem, start = narrow(0)
    for most in (1, 2, 7, 20):
        history = History(problem.rows.n_rows)
        _, converged = settle(problem, start, 1e-12, most, history)
        assert converged is False
        assert most <= history.n_iter <= most + 2  # a stretch under way is finished


def test_a_climb_ends_with_a_pass_that_adds_little() -> None:
    problem, start = narrow(1)
    history = History(problem.rows.n_rows)
    climb(problem, start, 2.0, 1000, history)
    gains = np.diff([start.elbo, *history.elbos])
    assert gains[-1] < 2.0
    assert np.all(gains[:-1] >= 2.0)


def test_the_work_is_bounded_and_not_the_passes() -> None:
    rows = packed(Dense(np.zeros((50, 4), dtype=int), np.ones(50), np.full(4, 2)))
    assert most_passes(rows) == MOST_WORK / 200
    many = PackedRows(np.zeros((10**6, 1), dtype=np.uint8), np.ones(10**6), rows.packing)
    assert most_passes(many) == LEAST_PASSES
