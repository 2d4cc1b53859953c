"""Where a study under differential privacy is, between a question and its answer."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from fedmerdel.private.budget import Budget, cost
from fedmerdel.private.coding import Coding
from fedmerdel.private.estimate import Mixture, Noised, Signal, sums_of
from fedmerdel.private.question import Question
from fedmerdel.study.priors import centre_learns, study_prior
from fedmerdel.study.study import Study
from fedmerdel.sums.arrays import FloatArray
from fedmerdel.sums.learning import learning_of, settled
from fedmerdel.sums.prior import Prior
from fedmerdel.sums.sums import Sums

Stage = Literal["shares", "moments", "search", "refine", "finished"]


class State(NamedTuple):
    """Where a study is. All of it may be known: it follows from the study and noised totals.

    Attributes
    ----------
    study, n_sites, budget, seed
        As they were given.
    stage, asked : str, int
        What is asked for, and how many rounds of this stage there were.
    spent : tuple of float
        What each question so far costs, that which is open included.
    question : Question or None
        What sites are asked for; None once it is finished.
    rows : float
        Rows of all sites, as far as they are known.
    coding : Coding
        How rows are written down.
    signal : Signal
        Directions in which clusters differ.
    known : Noised or None
        Mean of the rounds that count.
    mixture : Mixture
        The clusters, as far as they are known.
    outcomes : dict of str to float64 array (K, C)
        Rows in each cell, once they are counted.
    """

    study: Study
    n_sites: int
    budget: Budget
    seed: int
    stage: Stage
    asked: int
    spent: tuple[float, ...]
    question: Question | None
    rows: float
    coding: Coding
    signal: Signal
    known: Noised | None
    mixture: Mixture
    outcomes: dict[str, FloatArray]

    @property
    def finished(self) -> bool:
        """Whether there is nothing left to ask."""
        return self.question is None

    @property
    def noise(self) -> float:
        """Scale of the noise in all sites' total, in steps of the grid."""
        return 0.0 if self.question is None else self.question.share * float(np.sqrt(self.n_sites))

    @property
    def epsilon(self) -> float:
        """What all questions so far cost together, at the budget's delta."""
        return cost(self.spent, self.budget.delta)

    @property
    def sums(self) -> Sums:
        """The clusters' rows and levels as they are expected, the largest first."""
        T, S = sums_of(self.mixture, self.coding)
        found = Sums(T, S, np.zeros(len(T)), outcomes=self.outcomes)
        return found.take(np.argsort(-T, kind="stable"))

    @property
    def prior(self) -> Prior:
        """The study's prior, with what sums teach of it."""
        S, prior = self.sums.S, study_prior(self.study, self.study.n_components)
        learning = learning_of(centre_learns(self.study), S.sum(axis=0, keepdims=True), prior)
        return prior if learning is None else settled(learning, S, learning.start(prior))
