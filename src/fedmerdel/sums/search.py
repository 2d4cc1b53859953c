"""Which local clusters are one: four ways to search, all judged by the ELBO.

``exact`` looks at all pairs; ``tree`` is ``exact`` within groups of sites and then across them,
for hundreds of sites; ``auto``, the default, is one of the two. ``greedy`` and ``random`` are
the paper's (appendix D.1).
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from fedmerdel.sums.arrays import FloatArray, IntArray
from fedmerdel.sums.elbo import all_pairs
from fedmerdel.sums.learning import Learned, Learning, learning_of, settled
from fedmerdel.sums.merging import LocalClusters, Merging, merged_sums
from fedmerdel.sums.moving import move_singly
from fedmerdel.sums.pairs import NEVER, Pairs
from fedmerdel.sums.prior import Prior
from fedmerdel.sums.similarity import LIKENESS, MIN_CORRELATION, MergeCriterion
from fedmerdel.sums.sums import Sums

Search = Literal["auto", "exact", "tree", "greedy", "random"]

MOST_EXACT = 2000
"""Local clusters up to which "auto" looks at all pairs: a few seconds."""

N_CANDIDATES = 3
"""The paper's random search draws from this many most alike pairs."""

REJECTIONS = 10
"""It stops when this many proposals in a row were rejected."""

PRIOR_UPDATES = 5
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
    if search == "auto":
        search = "exact" if local.stats.n_clusters <= MOST_EXACT else "tree"
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
    for _ in range(PRIOR_UPDATES):
        last = groups
        prior = settled(learning, merged_sums(local, groups).S, prior)
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
    """
    n, apart = len(merging.T), merging.apart()
    if n == 0:
        return
    gains = np.full((n, n), NEVER)
    for a in range(1, n):
        others = np.flatnonzero(apart[a, :a])
        gains[a, others] = gains[others, a] = merging.gains_without_overlap(a, others)
    pairs = Pairs(gains)
    a, b, gain = pairs.best()
    while gain > 0:
        others = pairs.with_both(a, b)
        merging.merge(a, b)
        pairs.merge(a, b, others, merging.gains_without_overlap(a, others))
        a, b, gain = pairs.best()


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
    return LIKENESS[criterion](stats, merging.prior)
