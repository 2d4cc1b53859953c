"""Which local clusters are one: four ways to search, all judged by the ELBO.

``exact`` is the default. ``greedy`` and ``random`` are the paper's (appendix D.1);
``tree`` is ``exact`` within groups of sites and then across them, for hundreds of sites.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from fedmerdel.federation.merging import LocalClusters, Merging, merged_statistics
from fedmerdel.mixture.elbo import all_pairs, cluster_evidence
from fedmerdel.mixture.learning import Learned, Learning, learning_of, settled
from fedmerdel.mixture.prior import FloatArray, IntArray, Prior
from fedmerdel.mixture.similarity import CRITERIA, MIN_CORRELATION, MergeCriterion
from fedmerdel.mixture.statistics import Statistics

Search = Literal["exact", "tree", "greedy", "random"]

N_CANDIDATES = 3
"""The paper's random search draws from this many most alike pairs."""

REJECTIONS = 10
"""It stops when this many proposals in a row were rejected."""

SWEEPS = 20
"""Most rounds in which every local cluster may change its group."""

LEAST_GAIN = 1e-6
"""Nats that a change must gain: less is rounding."""

ROUNDS = 5
"""Most times that the prior is learned anew and the groups are gone over."""

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
    merging = Merging(local, prior)
    if by_tree:
        groups = _tree(local, prior)
    else:
        merge_best_first(merging)
        groups = merging.groups
    for _ in range(ROUNDS):
        last = groups
        prior = settled(learning, merged_statistics(local, groups).S, prior)
        merging = Merging(local, prior, move_singly(local, prior, groups))
        merge_best_first(merging)
        groups = merging.groups
        if _same(groups, last):
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
    while True:
        best, pair = 0.0, None
        alive = np.flatnonzero(merging.alive)
        for at, a in enumerate(alive[:-1].tolist()):
            others = alive[at + 1 :]
            gains = merging.gains(a, others)
            for b, gain in zip(others.tolist(), gains.tolist(), strict=True):
                if gain > best and merging.overlap(a, b) <= CLEAR * gain:
                    best, pair = gain, (a, b)
        if pair is None:
            return
        merging.merge(*pair)


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
    """Let each local cluster change to the group where the ELBO is highest, until none does.

    Merging best first never takes back: a cluster that joined early may fit another group
    better once that has grown. As before, no group gets two clusters of one site; where a
    cluster would rather be alone, it is.
    """
    stats = local.stats
    group = np.empty(stats.n_clusters, dtype=np.int64)
    for k, members in enumerate(groups):
        group[members] = k
    n_groups = len(groups) + 1  # the last one is empty: a place to be alone
    T, S = np.zeros(n_groups), np.zeros((n_groups, stats.S.shape[1]))
    np.add.at(T, group, stats.T)
    np.add.at(S, group, stats.S)
    evidence = cluster_evidence(T, S, prior)
    for _ in range(SWEEPS):
        moved = False
        for i in range(stats.n_clusters):
            own = int(group[i])
            # Rounding may leave a little below 0 where nothing is left.
            left = max(T[own] - stats.T[i], 0.0), np.maximum(S[own] - stats.S[i], 0.0)
            without = cluster_evidence(np.array([left[0]]), left[1][None], prior)[0]
            gain = cluster_evidence(T + stats.T[i], S + stats.S[i], prior) - evidence
            gain[own] = evidence[own] - without
            taken = group[(local.site == local.site[i]) & (np.arange(len(group)) != i)]
            gain[taken] = -np.inf
            best = int(gain.argmax())
            if gain[best] <= gain[own] + LEAST_GAIN:
                continue
            T[own], S[own], evidence[own] = *left, without
            T[best] += stats.T[i]
            S[best] += stats.S[i]
            evidence[best] = cluster_evidence(T[best : best + 1], S[best : best + 1], prior)[0]
            group[i], moved = best, True
            if best == n_groups - 1:
                n_groups += 1
                T, S = np.append(T, 0.0), np.vstack([S, np.zeros(S.shape[1])])
                evidence = np.append(evidence, 0.0)
        if not moved:
            break
    return [np.flatnonzero(group == k) for k in np.unique(group)]


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
    stats = Statistics(merging.T[groups], merging.S[groups], np.zeros(len(groups)))
    return CRITERIA[criterion](stats, merging.prior)
