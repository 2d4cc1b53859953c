"""Selections of variables for the tests."""

from __future__ import annotations

import numpy as np
from scipy.special import xlogy

from fedmerdel.sums.levels import sum_levels
from fedmerdel.sums.prior import Prior
from fedmerdel.sums.selection import Selection


def with_inclusion(S: np.ndarray, prior: Prior, c: np.ndarray) -> tuple[Selection, Prior]:
    """Return a selection in which the variables are included by ``c``."""
    learning = Selection.of(S, prior)
    plain = sum_levels(xlogy(S.sum(axis=0), learning.background), prior.offsets)
    return learning, learning._prior(prior, c, plain)


def random_inclusion(rng: np.random.Generator, n_variables: int) -> np.ndarray:
    """Anything from 0 to 1, often one of both."""
    c = rng.random(n_variables)
    c[rng.random(n_variables) < 0.2] = 0.0
    c[rng.random(n_variables) < 0.2] = 1.0
    return c
