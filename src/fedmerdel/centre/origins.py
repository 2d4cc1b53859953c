"""How the clusters came to be: each merge with its gain, and what each site has to do with it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fedmerdel.centre.merge import merge_groups
from fedmerdel.centre.state import FederationState
from fedmerdel.centre.summaries import side_by_side
from fedmerdel.sums.agreement import best_jaccard
from fedmerdel.sums.arrays import FloatArray, IntArray
from fedmerdel.sums.merging import Merging

MOST_BLOCKS = 150
"""Local clusters in a diagram; with more, the sites are its blocks."""

MOST_SITES = 30
"""Leaving out each of more sites than this would take long."""


class Join(NamedTuple):
    """Two groups of local clusters become one.

    Attributes
    ----------
    cluster : int
        The global cluster that they are part of.
    first, second : tuple of int
        Local clusters of the two, by their place in `Federation.lineage`.
    gain : float
        Nats that it adds to the ELBO, under the model's prior.
    """

    cluster: int
    first: tuple[int, ...]
    second: tuple[int, ...]
    gain: float


class LeftOut(NamedTuple):
    """The clusters without one site, found anew.

    Attributes
    ----------
    site : str
        The site that is left out.
    n_clusters : int
        Clusters of the others.
    likeness : float64 array (K,)
        How alike each cluster of the model is to the most alike one of these, by rows of the
        other sites (Jaccard); nan for a cluster of this site alone.
    """

    site: str
    n_clusters: int
    likeness: FloatArray


def joins(federation: FederationState) -> list[Join]:
    """Return the merges that make each cluster of its local ones, in an order to make them in.

    Inside a cluster the pair that gains most is joined, and so on: whatever the search was, these
    are gains of the same sum, which leads from all apart to the model's ELBO. The greatest gain
    comes first, but for one that needs a lesser before it. Empty after rounds, whose clusters
    are counted and not merged.
    """
    if federation.record:
        return []
    local, found = side_by_side(federation.summaries), list[tuple[float, Join]]()
    for k, group in enumerate(federation.groups):
        merging = Merging(local, federation.released_prior, [np.array([i]) for i in group])
        n_left, least = len(group), np.inf
        h = local.stats.h[group]
        gains = np.full((n_left, n_left), -np.inf)
        for a in range(n_left - 1):
            gains[a, a + 1 :] = merging.gains(a, np.arange(a + 1, n_left))
        while n_left > 1:
            a, b = (int(i) for i in np.unravel_index(gains.argmax(), gains.shape))
            first, second = (tuple(sorted(merging.members[i].tolist())) for i in (a, b))
            # Bounds of Q may add up to more than there can be: h is at most 0, as in the model.
            joined = h[a] + h[b] + merging.overlap(a, b)
            spared = max(joined, 0.0) - max(h[a], 0.0) - max(h[b], 0.0)
            join = Join(k, first, second, float(gains[a, b] + spared))
            least = min(least, join.gain)
            found.append((least, join))
            h[a] = joined
            merging.merge(a, b)
            gains[b, :] = gains[:, b] = -np.inf
            others = np.flatnonzero(merging.alive)
            others = others[others != a]
            fresh = merging.gains(a, others)
            for other, gain in zip(others.tolist(), fresh, strict=True):
                gains[min(a, other), max(a, other)] = gain
            n_left -= 1
    return [join for _, join in sorted(found, key=lambda each: -each[0])]


def rows_from(federation: FederationState) -> tuple[bool, FloatArray]:
    """Return the rows that came to each cluster from each local one, (C, K), in lineage's order.

    From each site instead, (sites, K), if there are too many to draw, and after rounds, whose
    clusters are counted and not merged; whether it is so comes first.
    """
    if federation.record or len(federation.lineage) > MOST_BLOCKS:
        return True, federation.site_rows
    flow = np.zeros((len(federation.lineage), federation.n_clusters))
    for at, ancestor in enumerate(federation.lineage):
        flow[at, ancestor.cluster] = ancestor.rows
    return False, flow


def elbo_trace(federation: FederationState, found: list[Join]) -> tuple[list[int], list[float]]:
    """Return the ELBO after each round or, before any, after each merge: numbers, and nats.

    Rounds whose replies were taken back, or after which it is not known, are left out.

    Parameters
    ----------
    federation : FederationState
        The federation.
    found : list of Join
        Its merges, as `joins` returns them.
    """
    if federation.record:
        known = [step for step in federation.record if step.move != "taken back"]
        told = {step.number: step.elbo for step in known if step.elbo is not None}
        return list(told), list(told.values())
    gains = [join.gain for join in found]
    course = federation.lower_bound - sum(gains) + np.cumsum([0.0, *gains])
    return list(range(len(course))), course.tolist()


def leave_out(federation: FederationState) -> list[LeftOut]:
    """Find the clusters anew without each site in turn, from the summaries alone.

    Empty after rounds, which only rows could repeat, for two sites or one, and for more than
    `MOST_SITES`.
    """
    if federation.record or not 2 < len(federation.sites) <= MOST_SITES:
        return []
    rows = np.array([ancestor.rows for ancestor in federation.lineage])
    site = np.array([ancestor.site for ancestor in federation.lineage])
    own = _labels(federation)
    found = []
    for name in federation.sites:
        others = tuple(summary for summary in federation.summaries if summary.site != name)
        groups = merge_groups(federation.study, others, federation.search, federation.criterion)
        stay = site != name
        labels = own[stay]
        anew = np.empty(len(labels), dtype=np.int64)
        for k, group in enumerate(groups):
            anew[group] = k
        present = np.bincount(labels, minlength=federation.n_clusters) > 0
        # Every cluster needs a place in the table, also one of this site alone.
        alike = best_jaccard(labels, anew[None, :], rows[stay])[0]
        likeness = np.full(federation.n_clusters, np.nan)
        likeness[: len(alike)] = alike
        likeness[~present] = np.nan
        found.append(LeftOut(name, len(groups), likeness))
    return found


def _labels(federation: FederationState) -> IntArray:
    return np.array([ancestor.cluster for ancestor in federation.lineage], dtype=np.int64)
