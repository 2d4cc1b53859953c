"""Fits by either recipe, straight from a table of level numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedmerdel import simulate
from fedmerdel.fitting.fit import Fit, Options, fit_mixture
from fedmerdel.fitting.passes import Workers
from fedmerdel.fitting.solution import Problem
from fedmerdel.sums.prior import Prior, uniform_prior
from tests.reference import Dense, packed

STARTS: dict[str, Any] = {"default": "divide", "paper": "kmodes"}


def fit_of(
    table: Dense, prior: Prior, recipe: Any, seed: int = 0, watch: Any = None, **changed: Any
) -> Fit:
    how: dict[str, Any] = {
        "recipe": recipe,
        "init": STARTS[recipe],
        "laps": 5,
        "merge_criterion": "correlation",
        "tol": 1e-6,
        "max_iter": 3000,
        "n_init": 1,
    }
    problem = Problem(packed(table), prior, Workers(1))
    return fit_mixture(problem, Options(**{**how, **changed}), np.random.SeedSequence(seed), watch)


def small_simulation(seed: int = 0) -> tuple[Dense, Prior]:
    X = simulate(400, 30, 4, random_state=seed).X.astype(int)
    return Dense(X, np.ones(400), np.full(30, 2)), uniform_prior(np.full(30, 2), 0.01, 10)
