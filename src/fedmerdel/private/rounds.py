"""A study under differential privacy: pure functions from noised totals to the next question.

First the shares of all cells; then, where that many numbers can be told, products of pairs, which
say in what directions clusters differ; rounds of clusters from a random start along these; clusters
found among rows made up from them, which costs nothing; and rounds of the clusters found. What is
known of them is the mean of the rounds since they were much the same: no release is thrown away.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from fedmerdel.errors import OptionError
from fedmerdel.private.budget import STILL, Budget, release_cost, share_for
from fedmerdel.private.coding import coding_around, first_coding
from fedmerdel.private.estimate import (
    Mixture,
    Noised,
    around,
    denoised,
    drawn_levels,
    level_probabilities,
    mixture_of,
)
from fedmerdel.private.moments import no_signal, random_clusters, signal_of
from fedmerdel.private.question import (
    Question,
    answer_size,
    grid_for,
    read_clusters,
    read_moments,
    sensitivity,
)
from fedmerdel.private.state import State
from fedmerdel.study.study import Study
from fedmerdel.sums.arrays import BoolArray, IntArray
from fedmerdel.sums.sums import Sums

POWER = 0.25
"""Of a cell's share: how much more a rare level weighs, between not at all and its cost."""

ROW = 0.35
"""What stands for a row, in parts of the length at which its numbers are cut off."""

FIRST = 0.08
"""Share of the budget for the shares of all cells."""

LEAST_MOMENTS, MOST_MOMENTS = 0.1, 0.6
"""Share of the budget for products of pairs, ..."""

CLEAR = 0.003
"""... as little of it as shows a direction with this part of all squared length."""

MOST_WIDE = 600
"""Numbers of a row of which all pairs are told: 180,000 products, eight seconds of noise a site."""

SEARCHED, REFINED = 6, 4
"""Rounds before clusters are looked for, and with those found."""

STARTED = 30
"""Clusters of the random start."""

LONGEST = 6.0
"""Most that the squared length at which rows are cut off may be, in that of a mean row, ..."""

HIDDEN = 0.5
"""... and where noise would be more than this part of what chance makes of a cluster's sums, less:
down to a mean row's. Cutting off costs accuracy that no budget buys back; so does noise."""

USUAL = 12
"""Clusters that this is reckoned for, ..."""

KEPT = 0.3
"""... and the share of the budget that the last rounds have at least."""

LEAST_MADE, MOST_MADE = 2000, 50_000
"""Rows made up to look for clusters in."""

OUTCOMES = 0.1
"""Share of the last round's squared length that outcomes have."""

SURE = 3.0
"""Standard deviations of its noise by which missing entries must show to be a cell."""

TINY = 1e-4
"""Least share of a cell."""

Find = Callable[[IntArray, int], Sums]
"""What finds clusters: rows of level numbers, -1 where missing, and a seed, to sums."""


def start(study: Study, n_sites: int, budget: Budget, seed: int) -> State:
    """Return the state with the first question.

    Parameters
    ----------
    study : Study
        The study: its codebook, prior and outcomes.
    n_sites : int
        Sites that answer, each with its share of the noise.
    budget : Budget
        What may be spent.
    seed : int
        Of random starts and made-up rows: no noise comes from it, and it need not be secret.
    """
    if study.recipe != "default" or study.variable_selection or study.codebook.guides:
        raise OptionError(
            "promise dp: takes the default recipe, without variable_selection and guides"
        )
    coding = first_coding(study.codebook.n_levels)
    mixture = Mixture(np.ones(1), coding.centre[None])
    state = State(
        *(study, n_sites, budget, seed, "shares", 0, (), None, 0.0, coding),
        *(no_signal(coding), None, mixture, {}),
    )
    return _ask_clusters(state, FIRST * budget.rho)


def follow(state: State, totals: IntArray, find: Find) -> State:
    """Return the state that the sites' noised totals lead to.

    Parameters
    ----------
    state : State
        The state whose question was answered.
    totals : int64 array
        Sum of all sites' answers, each with its share of noise.
    find : callable
        Finds clusters in made-up rows.
    """
    question = state.question
    if question is None or totals.shape != (question.size,):
        raise OptionError("totals: give the sums that the last question asks for")
    noise = state.noise * question.grid
    if state.stage == "moments":
        signal = signal_of(read_moments(question, totals), noise, state.coding, state.rows)
        return _start_search(state._replace(signal=signal))
    answer = read_clusters(question, totals)
    told = Noised(answer.T, answer.numbers, noise / question.row, noise)
    if state.stage == "shares":
        return _after_shares(state, told)
    state = state._replace(asked=state.asked + 1)
    # The first half of a search is still on its way.
    counted = state.asked - (SEARCHED // 2 if state.stage == "search" else 0)
    known = told
    if state.known is not None and counted > 1:
        known = state.known.averaged(told, 1.0 / counted)
    if state.stage == "search" and state.asked < SEARCHED:
        filled = np.ones(len(known.T), dtype=bool)  # they may still fill
    else:
        filled = known.filled()
    known = known.take(filled)
    state = state._replace(known=known, mixture=denoised(known, state.coding, state.signal))
    if state.stage == "search":
        if state.asked < SEARCHED:
            return _ask_round(state)
        return _ask_round(_found(state, find))
    if state.asked < REFINED:
        return _ask_round(state)
    outcomes = {name: np.maximum(cells[filled], 0.0) for name, cells in answer.outcomes.items()}
    # Rows that were cut off count less in T, and in full where all rows were counted first.
    mixture = state.mixture._replace(T=state.mixture.T * state.rows / state.mixture.T.sum())
    return state._replace(stage="finished", question=None, outcomes=outcomes, mixture=mixture)


def _after_shares(state: State, told: Noised) -> State:
    """Write rows down around the shares that were told, and ask for moments or clusters."""
    first = state.coding
    rows = max(float(told.T[0]), 1.0)
    shares = first.centre + first.deviations(told.numbers)[0] / rows
    noise = told.noise / rows
    missing: BoolArray = shares[~first.levels] > SURE * noise
    cells = first.levels.copy()
    cells[~first.levels] = missing
    least = max(2.0 * noise, TINY)
    coding = coding_around(first.n_levels, missing, shares[cells], least, POWER)
    state = state._replace(
        stage="moments",
        rows=rows,
        coding=coding,
        signal=no_signal(coding),
        mixture=Mixture(np.array([rows]), coding.centre[None]),
    )
    if coding.size > MOST_WIDE:
        return _start_search(state._replace(stage="search"))
    # The longest direction of noise is 2 sd sqrt(size), and sd its deviation beside the diagonal.
    wanted = coding.size * state.n_sites / state.budget.honest
    wanted *= (_cut(state) * state.budget.unit / (CLEAR * rows)) ** 2
    share = min(max(wanted / state.budget.rho, LEAST_MOMENTS), MOST_MOMENTS)
    return _ask(state, "moments", share * state.budget.rho)


def _start_search(state: State) -> State:
    """Ask for random clusters; or, where nothing differs from noise, for one."""
    if state.stage == "moments" and not len(state.signal.variance):
        return _ask_round(state._replace(stage="refine", asked=0))
    rng = np.random.default_rng([state.seed, 0])
    numbers = random_clusters(state.coding, state.signal, STARTED, rng)
    mixture = around(state.coding, np.full(STARTED, state.rows / STARTED), numbers)
    return _ask_round(state._replace(stage="search", asked=0, mixture=mixture))


def _found(state: State, find: Find) -> State:
    """Look for clusters in rows that the mixture makes up.

    As many as tell of the clusters what noise has left: more would take noise for structure.
    """
    known, coding = state.known, state.coding
    assert known is not None
    spread = state.rows / len(known.T) * coding.expected_length() / coding.size
    share = spread / (spread + known.noise**2)
    n_made = round(min(max(share * state.rows, LEAST_MADE), MOST_MADE))
    made = drawn_levels(state.mixture, coding, n_made, np.random.default_rng([state.seed, 1]))
    sums = find(made, state.seed)
    per_row = state.rows / n_made
    mixture = mixture_of(sums.T * per_row, sums.S * per_row, coding)
    return state._replace(stage="refine", asked=0, known=None, mixture=mixture)


def _cut(state: State) -> float:
    """Return the squared length at which rows are cut off, in that of a mean row."""
    if state.stage == "shares":
        return 1.0  # there all rows are as long
    budget = state.budget
    one_row = 2.0 * KEPT * budget.rho * budget.honest / (state.n_sites * budget.unit**2)
    of_chance = HIDDEN * state.rows / USUAL
    return float(min(max(of_chance * one_row / state.coding.size, 1.0), LONGEST))


def _ask_round(state: State) -> State:
    """Ask for the clusters at hand: what is left of the budget, in equal parts."""
    left = SEARCHED + REFINED if state.stage == "search" else REFINED
    rho = (state.budget.rho * (1.0 - STILL) - sum(state.spent)) / (left - state.asked)
    return _ask_clusters(state, rho)


def _ask_clusters(state: State, rho: float) -> State:
    return _ask(state, "clusters", rho)


def _ask(state: State, what: Literal["clusters", "moments"], rho: float) -> State:
    """Return the state with this question, and noise by which it costs so much."""
    coding, mixture = state.coding, state.mixture
    axes = state.signal.axes if state.stage == "search" else np.empty((0, 0))
    width = axes.shape[1] if axes.size else coding.size
    # What rows have along the axes: the clusters' part, and the rest's as in any direction.
    length = coding.expected_length()
    if axes.size:
        length = float(state.signal.variance.sum()) + length * width / coding.size
    limit = np.sqrt(_cut(state) * length) * (1.0 + STILL)
    last = state.stage == "refine" and state.asked == REFINED - 1
    cells = {n: len(names) for n, names in state.study.tables.items()} if last else {}
    outcomes = tuple(cells.items())
    log_weights = np.log(mixture.T / mixture.T.sum())
    log_levels = np.log(level_probabilities(mixture, coding))
    if what == "moments":
        log_weights, log_levels = np.empty(0), np.empty((0, log_levels.shape[1]))
    size = answer_size(what, len(log_weights), width, outcomes)
    grid = grid_for(limit if what == "clusters" else limit**2, size)
    outcome = limit * np.sqrt(OUTCOMES / max(len(outcomes), 1))
    question = Question(
        *(what, log_weights, log_levels, coding, axes, float(limit), float(ROW * limit)),
        *(outcomes, float(outcome), float(grid), 0.0),
    )
    honest, most = state.budget.honest, sensitivity(question, state.budget.unit)
    share = share_for(rho, most, honest, size)
    spent = (*state.spent, release_cost(share, most, honest, size))
    return state._replace(question=question._replace(share=share), spent=spent)
