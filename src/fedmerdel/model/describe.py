"""What a global model says, in the numbers that people in this field read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv

from fedmerdel.mixture.predictive import mean_levels, mean_weights
from fedmerdel.mixture.prior import FloatArray
from fedmerdel.model.global_model import GlobalModel

INTERVAL = 0.95
"""Posterior probability inside the interval of a rate."""


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
    """How often an outcome occurs in a cluster: share, and 95 % interval (Beta posterior)."""

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
        Mean number of yes/no variables that are yes; None if there are none.
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
    # A yes/no variable: its second level is the yes, as levels are sorted.
    yes = codebook.level_offsets[:-1][codebook.n_levels == 2] + 1
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


def _rates(model: GlobalModel) -> dict[str, list[Rate]]:
    """Return the rate of each outcome in each cluster, from the sums over sites."""
    found = {}
    for name in model.study.outcomes:
        positive, observed = np.zeros(model.n_clusters), np.zeros(model.n_clusters)
        at = 0
        for summary in model.summaries:
            counts = summary.outcomes[name]
            for own in range(summary.n_clusters):
                k = model.lineage[at].cluster
                positive[k] += counts.positive[own]
                observed[k] += counts.observed[own]
                at += 1
        found[name] = [_rate(p, n) for p, n in zip(positive, observed, strict=True)]
    return found


def _rate(positive: float, observed: float) -> Rate:
    a, b = positive + 0.5, observed - positive + 0.5
    ends: FloatArray = betaincinv(a, b, np.array([(1 - INTERVAL) / 2, (1 + INTERVAL) / 2]))
    share = positive / observed if observed > 0 else float("nan")
    return Rate(float(share), float(ends[0]), float(ends[1]))
