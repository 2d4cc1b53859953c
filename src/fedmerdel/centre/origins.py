"""How the clusters came to be: each merge with its gain, and what each site has to do with it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fedmerdel.centre.summaries import side_by_side
from fedmerdel.model.global_model import GlobalModel
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
        Local clusters of the two, by their place in `GlobalModel.lineage`.
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


def joins(model: GlobalModel) -> list[Join]:
    """Return the merges that make each cluster of its local ones, in an order to make them in.

    Inside a cluster the pair that gains most is joined, and so on: whatever the search was, these
    are gains of the same sum, which leads from all apart to the model's ELBO. The greatest gain
    comes first, but for one that needs a lesser before it. Empty after exchanges, whose clusters
    are counted and not merged.
    """
    if model.record:
        return []
    local, found = side_by_side(model.summaries), list[tuple[float, Join]]()
    for k, group in enumerate(model.groups):
        merging = Merging(local, model.told_prior, [np.array([i]) for i in group])
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


def rows_from(model: GlobalModel) -> tuple[bool, FloatArray]:
    """Return the rows that came to each cluster from each local one, (C, K), in lineage's order.

    From each site instead, (sites, K), if there are too many to draw, and after exchanges, whose
    clusters are counted and not merged; whether it is so comes first.
    """
    if model.record or len(model.lineage) > MOST_BLOCKS:
        return True, model.site_rows
    flow = np.zeros((len(model.lineage), model.n_clusters))
    for at, ancestor in enumerate(model.lineage):
        flow[at, ancestor.cluster] = ancestor.rows
    return False, flow


def elbo_course(model: GlobalModel, found: list[Join]) -> tuple[list[int], list[float]]:
    """Return the ELBO after each exchange or, before any, after each merge: numbers, and nats.

    Exchanges whose replies were taken back, or after which it is not known, are left out.

    Parameters
    ----------
    model : GlobalModel
        The model.
    found : list of Join
        Its merges, as `joins` returns them.
    """
    if model.record:
        known = [step for step in model.record if step.move != "taken back"]
        told = {step.number: step.elbo for step in known if step.elbo is not None}
        return list(told), list(told.values())
    gains = [join.gain for join in found]
    course = model.lower_bound - sum(gains) + np.cumsum([0.0, *gains])
    return list(range(len(course))), course.tolist()


def leave_out(model: GlobalModel) -> list[LeftOut]:
    """Find the clusters anew without each site in turn, from the summaries alone.

    Empty after exchanges, which only rows could repeat, for two sites or one, and for more than
    `MOST_SITES`.
    """
    if model.record or not 2 < len(model.sites) <= MOST_SITES:
        return []
    rows = np.array([ancestor.rows for ancestor in model.lineage])
    site = np.array([ancestor.site for ancestor in model.lineage])
    own = _labels(model)
    found = []
    for name in model.sites:
        others = model.remove(name)
        stay = site != name
        labels = own[stay]
        present = np.bincount(labels, minlength=model.n_clusters) > 0
        # Every cluster needs a place in the table, also one of this site alone.
        alike = best_jaccard(labels, _labels(others)[None, :], rows[stay])[0]
        likeness = np.full(model.n_clusters, np.nan)
        likeness[: len(alike)] = alike
        likeness[~present] = np.nan
        found.append(LeftOut(name, others.n_clusters, likeness))
    return found


def _labels(model: GlobalModel) -> IntArray:
    return np.array([ancestor.cluster for ancestor in model.lineage], dtype=np.int64)
