"""Rounds from sums over all sites alone: each leads from a question and its totals to the next.

Everything here is a function of the study and of totals that all have seen. So a site that has the
totals finds out by itself what is to be asked next, and replies to nothing else.

Round 0 counts all rows as one cluster. The clusters of round 1 are drawn around it; then each
round is an E step at the sites and an M step here, with moves. Totals have noise that is new in
each round, and clusters hardly change in the later ones: so the M step takes a mean over rounds,
with steps that become shorter (stochastic approximation; Delyon, Lavielle and Moulines 1999).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from fedmerdel.summing.cells import Cells
from fedmerdel.summing.moves import LEAST_GAIN, Noise, merges, splits
from fedmerdel.summing.question import Question
from fedmerdel.summing.tally import Tally
from fedmerdel.sums.arrays import BoolArray, FloatArray, IntArray
from fedmerdel.sums.cuts import Cuts, cuts_between
from fedmerdel.sums.expectations import Expectations, expectations
from fedmerdel.sums.halves import FirstHalves
from fedmerdel.sums.learning import Learned, learning_of, settled
from fedmerdel.sums.levels import level_means
from fedmerdel.sums.prior import Prior
from fedmerdel.sums.sums import Sums

CLUSTERS = 20
"""Clusters of the first round, or as many as the study allows: moves make them more or fewer."""

SPREAD = 1.0
"""Standard deviation of their log levels around those of all rows."""

RAREST = 1e-4
"""Share of a level below which it is taken for so rare there."""

FIRST_MERGE = 4
"""Round from which clusters may merge: before, they are what was drawn, more than what rows are."""

WHOLE_STEPS = 3
"""Rounds after a move, or after clusters have last changed by more than noise, in which the M step
takes the last totals only, ..."""

MOVING = 1.5
"""Mean square of changes, against that of noise, above which clusters are still on their way."""

DECAY = 0.6
"""... and the power by which its steps become shorter then."""

FAINT = 3.0
"""Standard deviations of noise: a cluster of no more rows is none."""

PATIENCE = 12
"""Rounds that a cut may take until its split pays; then the sites propose another."""

QUIET = 10
"""Rounds without a move after which more hardly pay."""

UNCUT = -1
"""Age of a cut that is not there."""


class Scheme(NamedTuple):
    """What all know before the first round.

    Attributes
    ----------
    prior : Prior
        Of the levels, before anything is learned of it.
    learned : Learned
        What is learned of it.
    missing : bool
        Whether variables may have missing entries.
    tables : mapping of str to int
        Cells of each outcome, by its name; a row is in none of them where it is not known.
    noise : float
        Standard deviation of the noise on each total, in rows.
    rounds : int
        Most rounds after round 0.
    patient : bool
        Whether all of them are made, also where they hardly pay any more.
    """

    prior: Prior
    learned: Learned
    missing: bool
    tables: Mapping[str, int]
    noise: float
    rounds: int
    patient: bool = False

    @property
    def cells(self) -> Cells:
        """The cells of variables, then outcomes, as round 0 tells them."""
        sizes = np.array([*self.prior.n_levels, *self.tables.values()], dtype=np.int64)
        missing = np.full(len(sizes), True)
        missing[: len(self.prior.n_levels)] = self.missing
        return Cells.first(np.concatenate(([0], np.cumsum(sizes))), missing)


class Brought(NamedTuple):
    """What one round has brought.

    Attributes
    ----------
    number : int
        Its number, from 1.
    n_clusters : int
        Clusters that it has left.
    move : {"", "split", "merge"}
        What was done to them then.
    """

    number: int
    n_clusters: int
    move: str


class State(NamedTuple):
    """How far the rounds are.

    Attributes
    ----------
    question : Question or None
        What to ask next; None at the end.
    cells : Cells
        What is told of variables and outcomes.
    sums : Sums
        The clusters as far as they are known, with Q; outcomes at the end.
    prior : Prior
        What they teach.
    numbers : float64 array (K, width)
        Mean of what was told of each cluster since the last move; of no size after one.
    since : int
        Rounds since then.
    age : int64 array (K,)
        Rounds in which the cut through each cluster was counted; `UNCUT` where there is none.
    record : tuple of Brought
        What each round has brought.
    """

    question: Question | None
    cells: Cells
    sums: Sums
    prior: Prior
    numbers: FloatArray
    since: int
    age: IntArray
    record: tuple[Brought, ...] = ()


NOTHING: FloatArray = np.empty((0, 0))


def start(scheme: Scheme) -> State:
    """Return the state before round 0."""
    n_levels, cells = len(scheme.prior.eps), scheme.cells
    one = Expectations(np.zeros(1), np.zeros((1, n_levels)))
    question = _last(0, one, scheme.prior, cells)
    sums = Sums(np.zeros(1), np.zeros((1, n_levels)), np.zeros(1))
    return State(question, cells, sums, scheme.prior, NOTHING, 0, np.zeros(1, dtype=np.int64))


def follow(scheme: Scheme, state: State, totals: IntArray, seed: int) -> State:
    """Return the state after a round.

    Parameters
    ----------
    scheme : Scheme
        What all know.
    state : State
        Before it.
    totals : int64 array
        Of all sites, in the order of `Tally.to_vector`.
    seed : int
        Of the run: first clusters are drawn from it, and what noise may do to gains.
    """
    asked = state.question
    assert asked is not None
    tally = Tally.from_vector(totals, asked.clusters.n_clusters, asked.cells, asked.halves)
    rng = np.random.default_rng([seed, asked.number])
    if asked.number == 0:
        return _drawn(scheme, state, tally, rng)
    state, tally = _counted(scheme, state, tally)
    if asked.is_last:
        return _ended(scheme, state, asked, tally)
    return _moved(scheme, state, tally, asked, rng)


def _drawn(scheme: Scheme, state: State, tally: Tally, rng: np.random.Generator) -> State:
    """Draw the first clusters around all rows."""
    T, S = state.cells.possible(tally.clusters)
    cells = state.cells.after(float(T[0]), S[0], scheme.noise)
    M, offsets = len(scheme.prior.eps), scheme.prior.offsets
    K = min(CLUSTERS, scheme.prior.n_components)
    shares = np.maximum(level_means(S[0, :M], offsets), RAREST)
    levels = level_means(shares * np.exp(SPREAD * rng.standard_normal((K, M))), offsets)
    clusters = Expectations(np.full(K, -np.log(K)), np.log(levels))
    uncut = np.full(K, True)
    none = Cuts(np.zeros(K), np.zeros((K, M)))
    question = Question(
        1, clusters, none, uncut, scheme.prior.eps, cells.variables(len(offsets) - 1)
    )
    if scheme.rounds == 1:
        question = _last(1, clusters, scheme.prior, cells)
    return state._replace(question=question, cells=cells, age=np.full(K, UNCUT))


def _step(since: int) -> float:
    """Return the share of the last totals in the mean over rounds."""
    return float(max(since - WHOLE_STEPS + 1, 1) ** -DECAY)


def _share(since: int) -> float:
    """Return the noise of that mean, as a share of that of one round."""
    step = _step(since)
    return float(np.sqrt(step / (2.0 - step)))


def _is_moving(change: FloatArray, noise: float, share: float) -> bool:
    """Whether clusters have changed by more than noise of this round and of the mean before."""
    of_noise = noise**2 * (1.0 + share**2)
    return float(np.mean(change**2)) > MOVING * of_noise


def _counted(scheme: Scheme, state: State, tally: Tally) -> tuple[State, Tally]:
    """Take new totals into the mean over rounds; leave out clusters that are but noise."""
    told = state.cells.variables(len(scheme.prior.n_levels))
    last = tally.clusters[:, : told.width]
    if state.question is not None and state.question.is_last:
        last = told.numbers(*_of_variables(state.cells, tally.clusters, len(scheme.prior.eps)))
    since = state.since + 1
    mean = last
    if state.numbers.size and _is_moving(last - state.numbers, scheme.noise, _share(state.since)):
        since = min(since, WHOLE_STEPS)
    if state.numbers.size:
        mean = state.numbers + _step(since) * (last - state.numbers)
    T, S = told.possible(mean)
    seen = np.flatnonzero(T > max(FAINT * scheme.noise * _share(since), 1e-6))
    if len(seen) == 0:
        seen = np.array([int(T.argmax())])
    sums = Sums(T[seen], S[seen], tally.h[seen], tally.Q[np.ix_(seen, seen)])
    tally = Tally(
        tally.clusters[seen],
        tally.halves[seen] if len(tally.halves) else tally.halves,
        tally.h[seen],
        tally.blur[seen] if len(tally.blur) else tally.blur,
        sums.Q,
    )
    learning = learning_of(scheme.learned, sums.S, scheme.prior)
    prior = scheme.prior
    if learning is not None:
        begin = learning.start(prior) if state.prior.strength is None else state.prior
        prior = begin if len(seen) == 1 else settled(learning, sums.S, begin)
    state = state._replace(
        sums=sums, prior=prior, numbers=mean[seen], since=since, age=state.age[seen]
    )
    question = state.question
    if question is not None and not question.is_last:
        state = state._replace(question=question._replace(cuts=question.cuts.take(seen)))
    return state, tally


def _of_variables(cells: Cells, numbers: FloatArray, M: int) -> tuple[FloatArray, FloatArray]:
    T, S = cells.counts(numbers)
    return T, S[:, :M]


def _ended(scheme: Scheme, state: State, asked: Question, tally: Tally) -> State:
    """Return the end: the outcomes were counted too."""
    M = len(scheme.prior.eps)
    T, S = asked.cells.possible(tally.clusters)
    outcomes, at = {}, M
    for name, size in scheme.tables.items():
        # Within the rows as they are known from all rounds.
        scale = np.minimum(1.0, state.sums.T / np.maximum(T, 1e-300))
        outcomes[name] = S[:, at : at + size] * scale[:, None]
        at += size
    sums = state.sums._replace(outcomes=outcomes)
    brought = Brought(asked.number, sums.n_clusters, "")
    return state._replace(question=None, sums=sums, record=(*state.record, brought))


def _moved(
    scheme: Scheme, state: State, tally: Tally, asked: Question, rng: np.random.Generator
) -> State:
    """Make the moves that surely pay, and say what to ask next."""
    sums, prior = state.sums, state.prior
    share, told = _share(state.since), asked.cells
    T, S = told.possible(tally.halves)
    halves = FirstHalves(np.minimum(T, sums.T), np.minimum(S, sums.S), tally.blur)
    noise = Noise(told, scheme.noise, rng)
    gains = splits(sums, halves, prior, noise, share)
    gains[state.age == UNCUT] = -np.inf  # as proposed, not yet as one cut for all sites
    room = max(scheme.prior.n_components - sums.n_clusters, 0)
    best = np.argsort(-gains, kind="stable")[:room]
    split = np.sort(best[gains[best] > LEAST_GAIN])
    cuts, age = cuts_between(sums, halves, prior), state.age + 1
    age[(age > PATIENCE) & (gains <= 0)] = UNCUT
    move, everyone = "", np.arange(sums.n_clusters)
    following, parents, fresh = sums, everyone, np.zeros(len(everyone), dtype=bool)
    if len(split):
        move, following = "split", halves.divide(sums, split)
        parents = np.concatenate([np.setdiff1d(everyone, split), np.repeat(split, 2)])
        fresh = np.isin(parents, split)
    elif asked.number >= FIRST_MERGE:
        groups = merges(sums, sums.Q, prior, noise, share)
        if len(groups) < sums.n_clusters:
            move = "merge"
            parents = np.array([parts[0] for parts in groups])
            fresh = np.array([len(parts) > 1 for parts in groups])
            following = Sums(
                np.array([sums.T[parts].sum() for parts in groups]),
                np.array([sums.S[parts].sum(axis=0) for parts in groups]),
                np.zeros(len(groups)),
            )
    brought = Brought(asked.number, following.n_clusters, move)
    record = (*state.record, brought)
    age = np.where(fresh, UNCUT, age[parents])
    clusters = expectations(following, prior)
    question = _next(scheme, record, clusters, cuts.take(parents), age == UNCUT, prior, told)
    if question.is_last:
        question = question._replace(cells=state.cells)
    return state._replace(
        question=question,
        sums=following,
        numbers=NOTHING if move else state.numbers,
        since=0 if move else state.since,
        age=age,
        record=record,
    )


def _next(
    scheme: Scheme,
    record: tuple[Brought, ...],
    clusters: Expectations,
    cuts: Cuts,
    uncut: BoolArray,
    prior: Prior,
    told: Cells,
) -> Question:
    number = len(record) + 1
    quiet = len(record) >= QUIET and not any(each.move for each in record[-QUIET:])
    if number >= scheme.rounds or (quiet and not scheme.patient):
        return _last(number, clusters, prior, told)
    return Question(number, clusters, cuts, uncut, prior.eps, told)


def _last(number: int, clusters: Expectations, prior: Prior, cells: Cells) -> Question:
    """Return a question that asks for no halves."""
    nothing = Cuts(np.zeros(0), np.zeros((0, len(prior.eps))))
    return Question(number, clusters, nothing, np.zeros(0, dtype=bool), prior.eps, cells)
