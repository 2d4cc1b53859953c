"""What a global model says, in the numbers that people in this field read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv

from fedmerdel.mixture.predictive import mean_levels, mean_weights
from fedmerdel.mixture.prior import FloatArray
from fedmerdel.model.global_model import GlobalModel
from fedmerdel.release.summary import SiteSummary
from fedmerdel.study.codebook import Codebook

INTERVAL = 0.95
"""Posterior probability inside the interval of a rate."""

CONDITIONS = (("0", "1"), ("no", "yes"), ("n", "y"), ("false", "true"), ("absent", "present"))
"""Levels of a variable that says whether a row has a condition, in any case: without, with."""


@dataclass(frozen=True)
class Condition:
    """One level of one variable in one cluster.

    Attributes
    ----------
    variable, level : str
        Which.
    prevalence : float
        Share of the cluster's rows at the level.
    ratio : float
        Observed over expected: prevalence over that of all rows.
    exclusivity : float
        Share of all rows at the level that are in the cluster.
    """

    variable: str
    level: str
    prevalence: float
    ratio: float
    exclusivity: float


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


@dataclass(frozen=True)
class Cluster:
    """One global cluster.

    Attributes
    ----------
    number : int
        Its number; 0 is the largest.
    rows, share : float
        Its rows, and their share of all.
    mean_conditions : float or None
        Mean number of conditions of a row: variables whose two levels are 0 and 1, no and
        yes, n and y, false and true, or absent and present, in any case and order. Others
        with two levels, such as sex, don't count. None if there are no such variables.
    conditions : tuple of Condition
        Every level, the most over-represented first.
    outcomes : dict of str to Rate
        Rates of the study's outcomes.
    sites : dict of str to float
        Share of each site's rows in the cluster.
    """

    number: int
    rows: float
    share: float
    mean_conditions: float | None
    conditions: tuple[Condition, ...]
    outcomes: dict[str, Rate]
    sites: dict[str, float]


def describe(model: GlobalModel) -> tuple[Cluster, ...]:
    """Describe every cluster of a model."""
    stats, prior, codebook = model.statistics, model.prior, model.study.codebook
    prevalence = mean_levels(stats, prior)
    weights = mean_weights(stats, prior)
    overall = weights @ prevalence
    exclusivity = weights[:, None] * prevalence / overall
    names = [(v.name, level) for v in codebook.variables for level in v.levels]
    yes = _condition_levels(codebook)
    shares = model.site_rows / model.site_rows.sum(axis=1, keepdims=True)
    rates = _rates(model)
    clusters = []
    for k in range(model.n_clusters):
        ratio = prevalence[k] / overall
        conditions = tuple(
            Condition(
                variable=names[m][0],
                level=names[m][1],
                prevalence=float(prevalence[k, m]),
                ratio=float(ratio[m]),
                exclusivity=float(exclusivity[k, m]),
            )
            for m in np.argsort(-ratio, kind="stable")
        )
        clusters.append(
            Cluster(
                number=k,
                rows=float(stats.T[k]),
                share=float(weights[k]),
                mean_conditions=float(prevalence[k, yes].sum()) if len(yes) else None,
                conditions=conditions,
                outcomes={name: rate[k] for name, rate in rates.items()},
                sites=dict(zip(model.sites, shares[:, k].tolist(), strict=True)),
            )
        )
    return tuple(clusters)


def _condition_levels(codebook: Codebook) -> list[int]:
    """Return the positions, among all levels, of those that say that a condition is there."""
    found = []
    for variable, start in zip(codebook.variables, codebook.level_offsets[:-1], strict=True):
        levels = [level.lower() for level in variable.observed]
        found += [
            int(start) + levels.index(present)
            for absent, present in CONDITIONS
            if sorted(levels) == sorted((absent, present))
        ]
    return found


def _rates(model: GlobalModel) -> dict[str, list[Rate]]:
    """Return the rate of each outcome in each cluster, from the sums over sites."""
    cluster = [ancestor.cluster for ancestor in model.lineage]
    found = {}
    for name in model.study.outcomes:
        told, least, most = (np.zeros((model.n_clusters, 2)) for _ in range(3))
        parts = [_possible(summary, name) for summary in model.summaries]
        for total, cells in zip((told, least, most), zip(*parts, strict=True), strict=True):
            np.add.at(total, cluster, np.concatenate(cells))
        found[name] = [_rate(*rows) for rows in zip(told, least, most, strict=True)]
    return found


def _possible(summary: SiteSummary, outcome: str) -> tuple[FloatArray, FloatArray, FloatArray]:
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
