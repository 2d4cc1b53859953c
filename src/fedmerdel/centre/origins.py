"""How the clusters came to be: each merge with its gain, and the ELBO on the way."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fedmerdel.centre.lineage import Ancestor, Round
from fedmerdel.sums.arrays import FloatArray, IntArray
from fedmerdel.sums.merging import LocalClusters, Merging
from fedmerdel.sums.pairs import NEVER, Pairs
from fedmerdel.sums.prior import Prior

MOST_BLOCKS = 150
"""Local clusters in a diagram; with more, the sites are its blocks."""


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


def joins(local: LocalClusters, groups: tuple[IntArray, ...], prior: Prior) -> list[Join]:
    """Return the merges that make each cluster of its local ones, in an order to make them in.

    Inside a cluster the pair that gains most is joined, and so on: whatever the search was, these
    are gains of the same sum, which leads from all apart to the model's ELBO. The greatest gain
    comes first, but for one that needs a lesser before it.

    Parameters
    ----------
    local : LocalClusters
        What the sites released.
    groups : tuple of int64 arrays
        The local clusters of each global one.
    prior : Prior
        Learned from the same.
    """
    found = list[tuple[float, Join]]()
    for k, group in enumerate(groups):
        merging = Merging(local, prior, [np.array([i]) for i in group])
        h, least = local.stats.h[group], np.inf
        gains = np.full((len(group), len(group)), NEVER)
        for a in range(1, len(group)):
            gains[a, :a] = gains[:a, a] = merging.gains(a, np.arange(a))
        pairs = Pairs(gains)
        for _ in range(len(group) - 1):
            a, b, gain = pairs.best()
            first, second = (tuple(sorted(merging.members[i].tolist())) for i in (a, b))
            # Bounds of Q may add up to more than there can be: h is at most 0, as in the model.
            joined = h[a] + h[b] + merging.overlap(a, b)
            spared = max(joined, 0.0) - max(h[a], 0.0) - max(h[b], 0.0)
            join = Join(k, first, second, gain + float(spared))
            least = min(least, join.gain)
            found.append((least, join))
            h[a] = joined
            others = pairs.with_both(a, b)
            merging.merge(a, b)
            pairs.merge(a, b, others, merging.gains(a, others))
    return [join for _, join in sorted(found, key=lambda each: -each[0])]


def rows_from(
    lineage: tuple[Ancestor, ...], site_rows: FloatArray, after_rounds: bool
) -> tuple[bool, FloatArray]:
    """Return the rows that came to each cluster from each local one, (C, K), in lineage's order.

    From each site instead, (sites, K), if there are too many to draw, and after rounds, whose
    clusters are counted and not merged; whether it is so comes first.
    """
    if after_rounds or len(lineage) > MOST_BLOCKS:
        return True, site_rows
    flow = np.zeros((len(lineage), site_rows.shape[1]))
    for at, ancestor in enumerate(lineage):
        flow[at, ancestor.cluster] = ancestor.rows
    return False, flow


def elbo_over_rounds(record: tuple[Round, ...]) -> tuple[list[int], list[float]]:
    """Return the ELBO after each round: numbers, and nats.

    Rounds whose replies were taken back, or after which it is not known, are left out.
    """
    known = [each for each in record if each.move != "taken back"]
    told = {each.number: each.elbo for each in known if each.elbo is not None}
    return list(told), list(told.values())


def elbo_over_merges(lower_bound: float, found: list[Join]) -> tuple[list[int], list[float]]:
    """Return the ELBO after each merge, up to that of the model: numbers, and nats."""
    gains = [join.gain for join in found]
    trace = lower_bound - sum(gains) + np.cumsum([0.0, *gains])
    return list(range(len(trace))), trace.tolist()
