"""How often outcomes occur in the clusters, with what disclosure control leaves unknown."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv

from fedmerdel.model.global_model import GlobalModel
from fedmerdel.release.summary import SiteSummary
from fedmerdel.sums.arrays import FloatArray, IntArray
from fedmerdel.sums.profile import INTERVAL


@dataclass(frozen=True)
class Rate:
    """How often an outcome occurs in a cluster: share, and 95 % interval (Beta posterior).

    The share is that of the released counts. The interval allows for what disclosure control
    may have done to them: its upper end is that of the most rows with the outcome, and the
    fewest without it, that the released counts leave possible, and its lower end the other
    way round. A cell that a site released as 0 may hold all but one of the policy's smallest
    count, in each of its clusters; any other may be off by half a step of rounding; the
    largest cell may hold fewer rows by all that the others may hold more. Without a policy
    the two ends are those of one posterior. (Rows with survey weights can hide more: a cell
    of few people is hidden whatever they weigh.)
    """

    share: float
    low: float
    high: float


def rates(model: GlobalModel) -> dict[str, list[Rate]]:
    """Return the rate of each outcome in each cluster, from the sums over sites."""
    cluster = np.array([ancestor.cluster for ancestor in model.lineage])
    return {
        name: _of_groups([_possible(s, name) for s in model.summaries], cluster, model.n_clusters)
        for name in model.study.outcomes
    }


def rates_of_all(model: GlobalModel) -> dict[str, Rate]:
    """Return the rate of each outcome among all rows."""
    all_one = np.zeros(len(model.lineage), dtype=np.int64)
    return {
        name: _of_groups([_possible(s, name) for s in model.summaries], all_one, 1)[0]
        for name in model.study.outcomes
    }


def rates_at_sites(model: GlobalModel) -> dict[str, list[list[Rate]]]:
    """Return the rate of each outcome at each site in each cluster; nan where none is known."""
    found: dict[str, list[list[Rate]]] = {name: [] for name in model.study.outcomes}
    for summary in model.summaries:
        own = [a.cluster for a in model.lineage if a.site == summary.site]
        for name, sites in found.items():
            sites.append(_of_groups([_possible(summary, name)], np.array(own), model.n_clusters))
    return found


Possible = tuple[FloatArray, FloatArray, FloatArray]


def _of_groups(parts: list[Possible], cluster: IntArray, n_clusters: int) -> list[Rate]:
    told, least, most = (np.zeros((n_clusters, 2)) for _ in range(3))
    for total, cells in zip((told, least, most), zip(*parts, strict=True), strict=True):
        np.add.at(total, cluster, np.concatenate(cells))
    return [_rate(*rows) for rows in zip(told, least, most, strict=True)]


def _possible(summary: SiteSummary, outcome: str) -> Possible:
    """Return rows without and with an outcome, (K, 2): as released, the fewest, the most.

    Sums of responsibilities may lie between whole numbers, and here they are taken as rows:
    a hidden cell may hold a part of a row more.
    """
    report = summary.report
    cells = summary.outcomes[outcome].cells(summary.statistics.T)
    if report.smallest == 0:
        return cells[:, :2], cells[:, :2], cells[:, :2]
    step = max(report.rounding, 1)
    hidden = cells == 0
    above = np.where(hidden, report.smallest - 1.0, step / 2)
    # A count just over the threshold is raised to the smallest one.
    below = np.where(hidden, 0.0, max(step / 2, report.smallest - report.threshold))
    # One cell is what the others leave of the rounded rows: the largest, or one so near to it
    # that rounding may have put another before it.
    rest = ~hidden & (cells >= cells.max(axis=1, keepdims=True) - 2 * step)
    others_above = above.sum(axis=1, keepdims=True) - above
    others_below = below.sum(axis=1, keepdims=True) - below
    least = cells - np.where(rest, others_above + step / 2, below)
    most = cells + np.where(rest, others_below + step / 2, above)
    return cells[:, :2], least[:, :2].clip(min=0.0), most[:, :2]


def _rate(told: FloatArray, least: FloatArray, most: FloatArray) -> Rate:
    """Return the rate from rows without and with the outcome: as told, the fewest, the most."""
    low = betaincinv(least[1] + 0.5, most[0] + 0.5, (1 - INTERVAL) / 2)
    high = betaincinv(most[1] + 0.5, least[0] + 0.5, (1 + INTERVAL) / 2)
    share = told[1] / told.sum() if told.sum() > 0 else float("nan")
    return Rate(float(share), float(low), float(high))
