"""What a global model says, in the numbers that people in this field read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedmerdel.model.global_model import GlobalModel
from fedmerdel.model.outcomes import Rate, rates
from fedmerdel.study.conditions import condition_levels
from fedmerdel.sums.profile import profile


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
class Cluster:
    """One global cluster.

    Attributes
    ----------
    number : int
        Its number; 0 is the largest.
    name : str
        What it is called; "cluster 3" if it has no name.
    rows, share : float
        Its rows as the sites told them, and its share of all rows.
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
    name: str
    rows: float
    share: float
    mean_conditions: float | None
    conditions: tuple[Condition, ...]
    outcomes: dict[str, Rate]
    sites: dict[str, float]


def describe(model: GlobalModel) -> tuple[Cluster, ...]:
    """Describe every cluster of a model."""
    codebook = model.study.codebook
    found = profile(model.statistics, model.prior)
    weights, prevalence = found.weights, found.prevalence
    ratios, exclusivity = found.ratio, found.exclusivity
    names = [(v.name, level) for v in codebook.variables for level in v.levels]
    yes = condition_levels(codebook)
    shares = model.site_rows / model.site_rows.sum(axis=1, keepdims=True)
    told = model.site_rows.sum(axis=0)
    outcomes = rates(model)
    clusters = []
    for k in range(model.n_clusters):
        ratio = ratios[k]
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
                name=model.name(k),
                rows=float(told[k]),
                share=float(weights[k]),
                mean_conditions=float(prevalence[k, yes].sum()) if len(yes) else None,
                conditions=conditions,
                outcomes={name: rate[k] for name, rate in outcomes.items()},
                sites=dict(zip(model.sites, shares[:, k].tolist(), strict=True)),
            )
        )
    return tuple(clusters)
