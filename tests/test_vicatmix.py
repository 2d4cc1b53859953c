"""Plain passes against plain variational inference written from scratch.

VICatMix, the R package that the paper builds on, starts in the same way: its first E step
takes phi from the start labels and knows nothing of the weights. It can't be a dependency
of the tests, so the numbers to agree with come from `reference.plain_variational`.
"""

from __future__ import annotations

import numpy as np
import pytest

from fedmerdel import simulate
from fedmerdel.fitting.passes import Workers, count_labels, expect_and_count
from fedmerdel.fitting.solution import Problem, em_step
from fedmerdel.sums.elbo import elbo
from fedmerdel.sums.expectations import Expectations, expectations
from fedmerdel.sums.prior import uniform_prior
from tests.reference import Dense, packed, plain_variational

N_PASSES = 60
K = 15


@pytest.mark.parametrize("levels", [2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_traces_agree(seed: int, levels: int) -> None:
    X = simulate(800, 60, 5, levels=levels, random_state=seed).X.astype(int)
    table = Dense(X, np.ones(800), np.full(60, levels))
    prior = uniform_prior(table.n_levels, 0.01, K)
    labels = np.random.default_rng(seed).integers(0, K, 800)
    expected = plain_variational(table, labels, prior, N_PASSES)

    problem = Problem(packed(table), prior, Workers(1))
    start = expectations(count_labels(problem.rows, labels, K, problem.workers), prior)
    even = Expectations(np.zeros(K), start.log_levels)
    stats = expect_and_count(problem.rows, even, problem.workers)
    found = [elbo(stats, prior)]
    while len(found) < N_PASSES:
        solution = em_step(problem, stats, prior)
        stats = solution.stats
        found.append(solution.elbo)

    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)
    assert np.all(np.diff(found) >= -1e-8)
    assert found[-1] > found[0] + 100  # the passes had something to do
