"""What is learned of the prior from the statistics: strengths, a selection, or nothing."""

from __future__ import annotations

from typing import Literal

import numpy as np

from fedmerdel.sums.arrays import FloatArray
from fedmerdel.sums.prior import Expected, Prior
from fedmerdel.sums.selection import Selection
from fedmerdel.sums.strengths import Strengths

Learned = Literal["strengths", "selection", "paper's selection"] | None
Learning = Strengths | Selection

MOST_UPDATES = 100
"""Updates of a prior on the same statistics; a few do where it was near."""

LOWER = 0.25
"""Share of the first floor that every other start of a fit begins with."""

STILL = 1e-6
"""Change of ln eps below which a prior has settled."""


def what_is_learned(expected: Expected, variable_selection: bool, recipe: str) -> Learned:
    """Return which part of the prior is learned, by the options."""
    if variable_selection:
        return "paper's selection" if recipe == "paper" else "selection"
    return "strengths" if expected == "learned" else None


def learning_of(learned: Learned, S: FloatArray, prior: Prior) -> Learning | None:
    """Return how that part is learned for rows with these counts, in whatever clusters."""
    if learned is None:
        return None
    if learned == "strengths":
        return Strengths.of(S, prior)
    return Selection.of(S, prior, jumps=learned == "selection")


def start_prior(learning: Learning | None, prior: Prior, number: int) -> Prior:
    """Return the prior that a fit's start of this number, from 0, begins with.

    Every other one begins with a lower floor: which leads further is known in the end alone.
    """
    if isinstance(learning, Strengths) and number % 2:
        return learning.start(prior, LOWER)
    return prior


def while_searching(learning: Learning | None) -> Learning | None:
    """Return what is learned while clusters are still searched: not the floor.

    With a low one, a level that a cluster has not seen keeps all rows with it out.
    """
    return learning._replace(floor_held=True) if isinstance(learning, Strengths) else learning


def settled(learning: Learning | None, S: FloatArray, prior: Prior) -> Prior:
    """Return the best prior for these counts (K, M): learned until it stays."""
    if learning is None:
        return prior
    for _ in range(MOST_UPDATES):
        last, prior = prior, learning.learn(S, prior)
        if np.abs(np.log(prior.eps / last.eps)).max() < STILL:
            break
    return prior
