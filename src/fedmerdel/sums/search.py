"""Which local clusters are one: four ways to search, all judged by the ELBO.

``exact`` is the default. ``greedy`` and ``random`` are the paper's (appendix D.1);
``tree`` is ``exact`` within groups of sites and then across them, for hundreds of sites.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from fedmerdel.sums.arrays import FloatArray, IntArray
from fedmerdel.sums.elbo import all_pairs, cluster_evidence
from fedmerdel.sums.learning import Learned, Learning, learning_of, settled
from fedmerdel.sums.merging import LocalClusters, Merging, merged_statistics
from fedmerdel.sums.prior import Prior
from fedmerdel.sums.similarity import CRITERIA, MIN_CORRELATION, MergeCriterion
from fedmerdel.sums.sums import Sums

Search = Literal["exact", "tree", "greedy", "random"]

N_CANDIDATES = 3
"""The paper's random search draws from this many most alike pairs."""

REJECTIONS = 10
"""It stops when this many proposals in a row were rejected."""

LEAST_GAIN = 1e-6
"""Nats that a change must gain: less is rounding."""

CLEAR = 0.02
"""Overlap, as a share of the gain, up to which clusters of one site may be merged."""

BRANCH = 8
"""Sites, or groups of sites, that the tree merges at a time."""


def search_groups(
    search: Search,
    local: LocalClusters,
    prior: Prior,
    learned: Learned,
    criterion: MergeCriterion,
    rng: np.random.Generator,
) -> list[IntArray]:
    """Return groups of local clusters, each to become one global cluster."""
    learning = learning_of(learned, local.stats.S, prior)
    if learning is not None:
        prior = settled(learning, local.stats.S, learning.start(prior))
    if search in ("exact", "tree"):
        return _best_groups(local, prior, learning, by_tree=search == "tree")
    merging = Merging(local, prior)
    if search == "greedy":
        _greedy(merging, criterion, rng)
    else:
        _random(merging, criterion, rng)
    return merging.groups


def _best_groups(
    local: LocalClusters, prior: Prior, learning: Learning | None, by_tree: bool
) -> list[IntArray]:
    """Merge best first, then let single clusters move and groups merge until nothing changes."""
    if by_tree:
        groups = _tree(local, prior)
    else:
        merging = Merging(local, prior)
        merge_best_first(merging)
        groups = merging.groups
    while True:  # it ends: each change raises the ELBO, and so does learning
        last = groups
        prior = settled(learning, merged_statistics(local, groups).S, prior)
        moved = move_singly(local, prior, groups)
        merging = Merging(local, prior, moved)
        merge_best_first(merging)
        groups = merging.groups
        # Without merges after them, moves have more to do only under another prior.
        if _same(groups, moved) and (learning is None or _same(groups, last)):
            break
    merging = Merging(local, prior, groups)
    merge_clear(merging)
    return merging.groups


def _same(groups: list[IntArray], others: list[IntArray]) -> bool:
    return {tuple(group) for group in groups} == {tuple(group) for group in others}


def merge_clear(merging: Merging) -> None:
    """Merge groups that share sites where the rows leave no doubt, the best first.

    A site that cut one cluster in two leaves a piece that finds its group taken. Where the
    site's own clusters hardly share a row, responsibilities that stay as they are tell the
    truth about a merge; where they overlap, they don't, and pieces stay apart.
    """
    n = len(merging.T)
    gains = np.full((n, n), -np.inf)
    for a in range(n):
        _note_clear(merging, gains, a, np.arange(a + 1, n))
    while gains.max(initial=-np.inf) > 0:
        a, b = (int(at) for at in np.unravel_index(gains.argmax(), gains.shape))
        merging.merge(a, b)
        gains[[a, b]] = -np.inf
        gains[:, [a, b]] = -np.inf
        others = np.flatnonzero(merging.alive)
        _note_clear(merging, gains, a, others[others != a])


def _note_clear(merging: Merging, gains: FloatArray, a: int, others: IntArray) -> None:
    """Note what merging group ``a`` with each of others gains, if they hardly overlap."""
    found = merging.gains_without_overlap(a, others)
    for b, gain in zip(others[found > 0].tolist(), found[found > 0].tolist(), strict=True):
        overlap = merging.overlap(a, b)
        if overlap <= CLEAR * (gain - overlap):
            gains[a, b] = gain - overlap


def merge_best_first(merging: Merging) -> None:
    """Merge the pair of groups with the greatest gain until none gains.

    Only groups that share no site: a site has already found that its own clusters differ,
    and where clusters overlap, frozen responsibilities make a merge look better than it is.
    Each row of the table of gains keeps its best; a merge changes the gains of one group.
    """
    n = len(merging.T)
    gains = np.full((n, n), -np.inf)
    for a in range(n):
        others = merging.apart(a)
        others = others[others > a]
        if len(others):
            gains[a, others] = gains[others, a] = merging.gains(a, others)
    best = gains.max(axis=1, initial=-np.inf)
    while n and best.max() > 0:
        a = int(best.argmax())
        b = int(gains[a].argmax())
        merging.merge(a, b)
        gains[[a, b]] = -np.inf
        gains[:, [a, b]] = -np.inf
        others = merging.apart(a)
        if len(others):
            gains[a, others] = gains[others, a] = merging.gains(a, others)
        best = gains.max(axis=1)


def move_singly(local: LocalClusters, prior: Prior, groups: list[IntArray]) -> list[IntArray]:
    """Let single local clusters change their group where that gains, until none does.

    Merging best first never takes back: a cluster that joined early may fit another group
    better once that has grown. As before, no group gets two clusters of one site; where a
    cluster would rather be alone, it is. In each sweep all changes are judged together, and
    those that promise a gain are made in turn, the best first, if they still gain.
    """
    stats, places = local.stats, _Places(local, groups)
    moved = True
    while moved:  # it ends: each change gains `LEAST_GAIN`, as things are when it is made
        places.add_empty()
        gains = places.gains(prior)
        best = gains.argmax(axis=1)
        promise = gains[np.arange(stats.n_clusters), best]
        moved = False
        for i in np.argsort(-promise, kind="stable"):
            if promise[i] <= LEAST_GAIN:
                break
            moved |= places.move(int(i), int(best[i]), prior)
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
        stats = self.local.stats
        sign = np.where(self.own[clusters] == g, -1.0, 1.0)
        T = np.maximum(self.T[g] + sign * stats.T[clusters], 0.0)
        S = np.maximum(self.S[g] + sign[:, None] * stats.S[clusters], 0.0)
        evidence = cluster_evidence(self.T[g : g + 1], self.S[g : g + 1], prior)[0]
        return np.asarray(sign * (cluster_evidence(T, S, prior) - evidence))


def _tree(local: LocalClusters, prior: Prior) -> list[IntArray]:
    """Merge within groups of a few sites, then across the groups, until one is left."""
    bundles = [
        [np.array([i]) for i in np.flatnonzero(local.site == site)] for site in range(local.n_sites)
    ]
    while True:
        joined = []
        for at in range(0, len(bundles), BRANCH):
            groups = [group for bundle in bundles[at : at + BRANCH] for group in bundle]
            merging = Merging(local, prior, groups)
            merge_best_first(merging)
            joined.append(merging.groups)
        if len(joined) == 1:
            return joined[0]
        bundles = joined


def _greedy(merging: Merging, criterion: MergeCriterion, rng: np.random.Generator) -> None:
    """Take the clusters in order; try each with the most alike one of every later site."""
    site = merging.local.site
    for a in range(len(site)):
        if not merging.alive[a]:
            continue
        for later in range(int(site[a]) + 1, merging.local.n_sites):
            # A cluster that was merged is no longer its site's: the group has its first's place.
            here = np.flatnonzero(merging.alive & (site == later))
            if len(here) == 0:
                continue
            alike = _likeness(merging, np.append(a, here), criterion, rng)[0, 1:]
            b = int(here[alike.argmax()])
            if criterion == "correlation" and alike.max() <= MIN_CORRELATION:
                continue
            if merging.gains(a, np.array([b]))[0] > 0:
                merging.merge(a, b)


def _random(merging: Merging, criterion: MergeCriterion, rng: np.random.Generator) -> None:
    """Draw a pair from the three most alike of all; stop after ten rejections in a row."""
    rejected = 0
    while rejected < REJECTIONS:
        alive = np.flatnonzero(merging.alive)
        pairs = all_pairs(len(alive))
        if len(pairs) == 0:
            return
        alike = _likeness(merging, alive, criterion, rng)[pairs[:, 0], pairs[:, 1]]
        top = np.argsort(-alike, kind="stable")[:N_CANDIDATES]
        if criterion == "correlation":
            top = top[alike[top] > MIN_CORRELATION]
        if len(top) == 0:
            return
        a, b = (int(alive[at]) for at in pairs[rng.choice(top)])
        if merging.gains(a, np.array([b]))[0] > 0:
            merging.merge(a, b)
            rejected = 0
        else:
            rejected += 1


def _likeness(
    merging: Merging, groups: IntArray, criterion: MergeCriterion, rng: np.random.Generator
) -> FloatArray:
    if criterion == "random":
        return rng.random((len(groups), len(groups)))
    stats = Sums(merging.T[groups], merging.S[groups], np.zeros(len(groups)))
    return CRITERIA[criterion](stats, merging.prior)
