"""Rounds after the first merge: from one shot to the quality of pooled rows.

The centre sends clusters out; each site gives its rows to them and returns T, S, h and Q,
which add up over sites: the ELBO of all rows is known exactly, though the centre sees none.
So it can run MerDel across sites. Every move has a gain that is known before it is made: a
merge by Q, a split by the halves of each cluster, counted along a cut that was sent out
with it, a deletion by what the rows would lose. A move is made when it gains more than
the last round did: first things first. Otherwise the next round starts from where the
last few lead (`extrapolation`).

Where cuts come from: for a cluster that has none, every site proposes halves of its own rows;
the centre puts them together, sends the cut between them out, and lets every round improve
it, until the split pays or there is no hope.

What was sent out with a guess in it (a split, a deletion, an extrapolation) is taken back if
the ELBO of the replies is lower than it was. Where disclosure control has changed the counts,
gains would be those of another table, and a guess would not be found out: then there are
neither, and rounds improve the clusters that there are.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedmerdel.sums.arrays import FloatArray, IntArray
from fedmerdel.sums.cuts import Cuts, cuts_between, split_gains
from fedmerdel.sums.divergence import delete_gains
from fedmerdel.sums.elbo import cluster_evidence
from fedmerdel.sums.expectations import Expectations, expectations
from fedmerdel.sums.extrapolation import Past, extrapolate
from fedmerdel.sums.halves import FirstHalves
from fedmerdel.sums.merging import LocalClusters, Merging
from fedmerdel.sums.prior import Prior
from fedmerdel.sums.proposals import agreed_halves
from fedmerdel.sums.sums import Sums

LEAST_GAIN = 0.1
"""Nats that a move must gain whatever rounds do: less is rounding, or nothing to anyone."""

PATIENCE = 12
"""Rounds that a cut may take until its split pays; then the sites propose another."""

CentreMove = Literal["", "split", "merge", "delete"]

UNCUT = -1
"""Age of a cut that is not there: the sites are to propose one."""


class RoundState(NamedTuple):
    """What the centre sends out next, and how it came to it.

    Attributes
    ----------
    number : int
        Rounds so far; 0 after the first merge.
    clusters : Expectations
        The clusters that sites are to give their rows to.
    cuts : Cuts
        A cut through each of them.
    age : int64 array (K,)
        Rounds in which each cut was counted; `UNCUT` where the sites are to propose one.
    parents : int64 array (K,)
        The cluster of the model that each was made from.
    past : Past
        What the last rounds have read and reached, without a move between them.
    """

    number: int
    clusters: Expectations
    cuts: Cuts
    age: IntArray
    parents: IntArray
    past: Past

    def take(self, clusters: IntArray) -> RoundState:
        """Return the state of these clusters, in this order."""
        return self._replace(
            clusters=self.clusters.take(clusters),
            cuts=self.cuts.take(clusters),
            age=self.age[clusters],
            parents=self.parents[clusters],
            past=self.past.take(clusters),
        )


class SummedMoves(NamedTuple):
    """What the replies tell of moves, summed or site by site.

    Attributes
    ----------
    halves : FirstHalves
        Along the cuts that were sent, summed over the sites that replied. (The rows of others
        stay in the second halves.)
    proposals : list of (Sums, FirstHalves)
        Of each site that replied: its clusters, and the halves that it proposes where no cut
        was sent.
    cost : float64 array (K,) or None
        ``sum_n w_n ln(1 - r_nk)``; None where a site did not reply, since its rows are needed.
    """

    halves: FirstHalves
    proposals: list[tuple[Sums, FirstHalves]]
    cost: FloatArray | None


class Plan(NamedTuple):
    """The moves that pay: some of one kind, or none.

    Attributes
    ----------
    move : {"", "split", "merge", "delete"}
        Which kind.
    clusters : list of int64 arrays
        The clusters that each new one is made of, in order. Where one is split, it is
        there twice, at the end.
    """

    move: CentreMove
    clusters: list[IntArray]

    @property
    def parents(self) -> IntArray:
        """The first cluster that each new one is made of."""
        return np.array([parts[0] for parts in self.clusters], dtype=np.int64)

    @property
    def twice(self) -> NDArray[np.bool_]:
        """Which of the new clusters are halves of one."""
        return np.asarray(np.bincount(self.parents)[self.parents] > 1)


def first_state(stats: Sums, prior: Prior, number: int = 0) -> RoundState:
    """Return what to send out first, or after the sites have changed: these clusters."""
    K, M = stats.S.shape
    return RoundState(
        number,
        expectations(stats, prior),
        Cuts(np.zeros(K), np.zeros((K, M))),
        np.full(K, UNCUT),
        np.arange(K),
        Past(),
    )


def plan_moves(
    local: LocalClusters,
    groups: list[IntArray],
    stats: Sums,
    prior: Prior,
    age: IntArray,
    moves: SummedMoves,
    *,
    gained: float,
    most_clusters: int,
) -> Plan:
    """Choose the moves that gain more than the last round has ``gained``.

    Parameters
    ----------
    local : LocalClusters
        The clusters of all sites.
    groups : list of int64 arrays
        Those that are each global cluster.
    stats, prior
        Of the global clusters.
    age : int64 array (K,)
        Of their cuts.
    moves : SummedMoves
        What splits and deletions would bring.
    gained : float
        Nats that the last round has added.
    most_clusters : int
        Splits don't make more clusters than this.
    """
    least = max(gained, LEAST_GAIN)
    everyone = np.arange(stats.n_clusters)
    gains = np.where(age == UNCUT, -np.inf, split_gains(stats, moves.halves, prior))
    best = np.argsort(-gains, kind="stable")[: max(most_clusters - stats.n_clusters, 0)]
    split = np.sort(best[gains[best] > least])
    if len(split):
        parents = np.concatenate([np.setdiff1d(everyone, split), np.repeat(split, 2)])
        return Plan("split", [np.array([k]) for k in parents])
    merging = Merging(local, prior, [group.copy() for group in groups])
    if _merge_all(merging, least):
        owner = np.empty(local.stats.n_clusters, dtype=np.int64)
        for k, group in enumerate(groups):
            owner[group] = k
        return Plan("merge", [np.unique(owner[group]) for group in merging.groups])
    if moves.cost is not None and stats.n_clusters > 1:
        gains = delete_gains(stats, prior, moves.cost)
        if gains.max() > least:
            return Plan("delete", [np.array([k]) for k in np.delete(everyone, gains.argmax())])
    return Plan("", [np.array([k]) for k in everyone])


def _merge_all(merging: Merging, least: float) -> bool:
    """Merge the pair that gains most, and so on, while it gains enough; say if any did."""
    merged = False
    while True:
        alive = np.flatnonzero(merging.alive)
        found, best = least, None
        for a in alive.tolist():
            others = alive[alive > a]
            gains = merging.gains_without_overlap(a, others)
            # An overlap takes time to sum, and never adds to the gain.
            for b, gain in zip(others.tolist(), gains.tolist(), strict=True):
                if gain > found and gain - merging.overlap(a, b) > found:
                    found, best = gain - merging.overlap(a, b), (a, b)
        if best is None:
            return merged
        merging.merge(*best)
        merged = True


def next_state(
    state: RoundState, stats: Sums, prior: Prior, moves: SummedMoves, plan: Plan
) -> RoundState:
    """Return what to send out next: the clusters that came back, with the plan's moves made.

    Parameters
    ----------
    state : RoundState
        What was sent out.
    stats, prior
        Of the clusters that came back.
    moves : SummedMoves
        What came with them.
    plan : Plan
        The moves.
    """
    parents, number = plan.parents, state.number + 1
    cuts, age = next_cuts(state, stats, prior, moves)
    fresh = plan.twice | np.array([len(parts) > 1 for parts in plan.clusters])
    following = first_state(_moved(stats, moves, plan), prior, number)._replace(
        cuts=cuts.take(parents), age=np.where(fresh, UNCUT, age[parents]), parents=parents
    )
    if plan.move:
        return following
    past = state.past.then(state.clusters, following.clusters)
    if len(past.read) == 1:
        return following._replace(past=past)
    return following._replace(clusters=extrapolate(past, stats), past=past)


def _moved(stats: Sums, moves: SummedMoves, plan: Plan) -> Sums:
    """Return the clusters after the plan's moves; h is not needed any more."""
    if plan.move == "split":
        return moves.halves.divide(stats, np.unique(plan.parents[plan.twice]))
    T = np.array([stats.T[parts].sum() for parts in plan.clusters])
    S = np.array([stats.S[parts].sum(axis=0) for parts in plan.clusters])
    return Sums(T, S, np.zeros(len(T)))


def next_cuts(
    state: RoundState, stats: Sums, prior: Prior, moves: SummedMoves
) -> tuple[Cuts, IntArray]:
    """Return cuts between the halves that came back or were agreed on, and their ages."""
    uncut = state.age == UNCUT
    halves = moves.halves
    if uncut.any():
        halves = agreed_halves(moves.proposals, prior).where(uncut, halves)
    gains = split_gains(stats, halves, prior)
    age = state.age + 1
    hopeless = (age > PATIENCE) & (gains <= 0)
    return cuts_between(stats, halves, prior), np.where(hopeless, UNCUT, age)


def best_clusters(stats: Sums, prior: Prior, clusters: Sums) -> IntArray:
    """Return for each of some clusters that sites sent earlier where it gains most."""
    if clusters.n_clusters == 0:
        return np.empty(0, dtype=np.int64)
    own = cluster_evidence(stats.T, stats.S, prior)
    joined = np.stack(
        [
            cluster_evidence(stats.T[k] + clusters.T, stats.S[k] + clusters.S, prior) - own[k]
            for k in range(stats.n_clusters)
        ]
    )
    return np.asarray(joined.argmax(axis=0))
