"""Single local clusters change their group."""

from __future__ import annotations

import numpy as np

from fedmerdel.sums.arrays import FloatArray, IntArray
from fedmerdel.sums.elbo import cluster_evidence, joined_evidence
from fedmerdel.sums.merging import LocalClusters
from fedmerdel.sums.prior import Prior

SWEEPS = 30
"""Most times that every local cluster may change its group."""

LEAST_GAIN = 1e-6
"""Nats that a change must gain: less is rounding."""


def move_singly(local: LocalClusters, prior: Prior, groups: list[IntArray]) -> list[IntArray]:
    """Let single local clusters change their group where that gains, until none does.

    Merging best first never takes back: a cluster that joined early may fit another group
    better once that has grown. As before, no group gets two clusters of one site; where a
    cluster would rather be alone, it is. In each sweep all changes are judged together, and
    those that promise a gain are made in turn, the best first, if they still gain.
    """
    stats, places = local.stats, _Places(local, groups)
    for _ in range(SWEEPS):
        places.add_empty()
        gains = places.gains(prior)
        best = gains.argmax(axis=1)
        promise = gains[np.arange(stats.n_clusters), best]
        moved = False
        for i in np.argsort(-promise, kind="stable"):
            if promise[i] <= LEAST_GAIN:
                break
            moved |= places.move(int(i), int(best[i]), prior)
        if not moved:
            break
    return [np.flatnonzero(places.own == g) for g in np.unique(places.own)]


class _Places:
    """Which group each local cluster is in, and the groups' sums."""

    def __init__(self, local: LocalClusters, groups: list[IntArray]) -> None:
        self.local = local
        self.own = np.empty(local.stats.n_clusters, dtype=np.int64)
        for g, members in enumerate(groups):
            self.own[members] = g
        self.T, self.S = np.zeros(len(groups)), np.zeros((len(groups), local.stats.S.shape[1]))
        np.add.at(self.T, self.own, local.stats.T)
        np.add.at(self.S, self.own, local.stats.S)
        # What each cluster adds to each group, known for the groups that stayed as they were.
        self.joining = np.zeros((len(self.own), len(groups)))
        self.changed = set(range(len(groups)))

    def add_empty(self) -> None:
        """Make a group without a cluster: a place to be alone."""
        self.T = np.append(self.T, 0.0)
        self.S = np.vstack([self.S, np.zeros(self.S.shape[1])])
        self.joining = np.column_stack([self.joining, np.zeros(len(self.own))])
        self.changed.add(len(self.T) - 1)

    def gains(self, prior: Prior) -> FloatArray:
        """Return what each change of group would gain: (C, groups)."""
        everyone = np.arange(len(self.own))
        for g in self.changed:
            self.joining[:, g] = self._joining(everyone, g, prior)
        self.changed.clear()
        gains = self.joining - self.joining[everyone, self.own][:, None]
        taken = np.zeros((self.local.n_sites, len(self.T)), dtype=bool)
        taken[self.local.site, self.own] = True
        gains[taken[self.local.site]] = -np.inf
        return np.asarray(gains)

    def move(self, i: int, g: int, prior: Prior) -> bool:
        """Let a cluster change its group if that gains as things are now."""
        left, one = int(self.own[i]), np.array([i])
        if np.any(self.local.site[self.own == g] == self.local.site[i]):
            return False
        gain = self._joining(one, g, prior)[0] - self._joining(one, left, prior)[0]
        if gain <= LEAST_GAIN:
            return False
        stats = self.local.stats
        self.own[i] = g
        self.changed |= {left, g}
        self.T[g] += stats.T[i]
        self.S[g] += stats.S[i]
        # Summed anew, not subtracted: nothing is left by rounding where nobody is.
        self.T[left] = stats.T[self.own == left].sum()
        self.S[left] = stats.S[self.own == left].sum(axis=0)
        return True

    def _joining(self, clusters: IntArray, g: int, prior: Prior) -> FloatArray:
        """Return what each of these clusters adds to the ELBO by being in a group."""
        stats, T, S = self.local.stats, self.T[g], self.S[g]
        sign = np.where(self.own[clusters] == g, -1.0, 1.0)
        joined = joined_evidence(T, S, stats, clusters, sign, prior)
        evidence = cluster_evidence(self.T[g : g + 1], self.S[g : g + 1], prior)[0]
        return np.asarray(sign * (joined - evidence))
