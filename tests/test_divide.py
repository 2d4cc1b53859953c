"""How a sample is first divided where there are few rows for many clusters."""

from __future__ import annotations

import numpy as np
import pytest

from fedmerdel.fitting.adaptive import _divide, _one_cluster
from fedmerdel.fitting.passes import Workers
from fedmerdel.fitting.solution import Problem
from fedmerdel.sums.prior import uniform_prior
from tests.reference import Dense, packed


@pytest.mark.parametrize("seed", range(6))
def test_parts_of_few_rows_are_not_cut_off(seed: int) -> None:
    """Forty rows make six or seven clusters, not twenty of a row or two each, nor two or three."""
    rng = np.random.default_rng(seed)
    X = (rng.random((40, 20)) < 0.4).astype(int)
    prior = uniform_prior(np.full(20, 2), 0.01, 20)
    problem = Problem(packed(Dense(X, np.ones(40), np.full(20, 2))), prior, Workers(1))
    found = _divide(problem, _one_cluster(problem), 20, rng)
    assert 5 <= found.n_clusters <= 9
    assert found.stats.T.min() > 2.0
