"""What a global model says, in the numbers that people in this field read."""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan, nan

import numpy as np

from fedmerdel.inference.cluster_worth import ClusterWorth, cluster_worth
from fedmerdel.inference.intervals import Intervals
from fedmerdel.model.intervals import model_intervals
from fedmerdel.model.membership import Effect
from fedmerdel.model.rates import Rate
from fedmerdel.model.state import ModelState
from fedmerdel.study.conditions import condition_levels


@dataclass(frozen=True)
class ClusterLevel:
    """One level of one variable in one cluster.

    Its numbers are nan where the variable was not measured: no row of the cluster has an entry
    that was told, as when all of them are of sites that never recorded it.

    Attributes
    ----------
    variable, level : str
        Which.
    prevalence : float
        Share of the cluster's rows at the level.
    low, high : float
        Its 95 % interval, see `GlobalModel.intervals`; nan where it was not measured.
    ratio : float
        Observed over expected: prevalence over that of all rows where it was measured.
    exclusivity : float
        Share of all rows at the level that are in the cluster.
    guide : bool
        Whether the variable is an outcome that helped to find the clusters: then that they differ
        in it is no validation of them.
    """

    variable: str
    level: str
    prevalence: float
    low: float
    high: float
    ratio: float
    exclusivity: float
    guide: bool = False


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
    low, high : float
        The 95 % interval of its share; see `GlobalModel.intervals`.
    mean_conditions : float or None
        Mean number of conditions of a row: variables whose two levels are 0 and 1, no and
        yes, n and y, false and true, or absent and present, in any case and order. Others
        with two levels, such as sex, don't count. None if there are no such variables, nan
        if one of them was not measured in the cluster.
    levels : tuple of ClusterLevel
        Every level, the most over-represented first, those not measured last.
    outcomes : dict of str to Rate
        Rates of the study's outcomes.
    sites : dict of str to float
        Share of each site's rows in the cluster; empty where the study keeps that back.
    effects : tuple of Effect
        Of the study's covariates, against cluster 0; see `GlobalModel.covariate_effects`.
    worth, worth_error : float or None
        About how many nats the ELBO would fall without it, and the standard error of that; see
        `GlobalModel.worth`.
    partner : int or None
        The cluster that its rows would go to. None, as those two, where there is no other.
    """

    number: int
    name: str
    rows: float
    share: float
    low: float
    high: float
    mean_conditions: float | None
    levels: tuple[ClusterLevel, ...]
    outcomes: dict[str, Rate]
    sites: dict[str, float]
    effects: tuple[Effect, ...] = ()
    worth: float | None = None
    worth_error: float | None = None
    partner: int | None = None

    @property
    def not_measured(self) -> tuple[str, ...]:
        """Variables that were not measured in the cluster, in the order of the study."""
        return tuple(dict.fromkeys(c.variable for c in self.levels if isnan(c.prevalence)))


def intervals_of(model: ModelState) -> Intervals:
    """Return the intervals of a model's shares and levels; see `GlobalModel.intervals`."""
    policy = model.study.policy
    return model_intervals(model.sums, model.prior, model.row_prior, policy, model.n_released)


def worth_of(model: ModelState) -> ClusterWorth | None:
    """Return what a model's clusters are worth; see `GlobalModel.worth`."""
    return cluster_worth(model.sums, model.row_prior)


def describe(model: ModelState) -> tuple[Cluster, ...]:
    """Describe every cluster of a model."""
    codebook = model.study.codebook
    found = model.profile
    sure, worth = intervals_of(model), worth_of(model)
    names = [(v.name, level) for v in codebook.variables for level in v.levels]
    guides = {v.name for v in codebook.guides}
    yes = condition_levels(codebook)
    effects = () if model.membership is None else model.membership.effects()
    clusters = []
    for k in range(model.n_clusters):
        prevalence, ratio, exclusivity = found.prevalence[k], found.ratio[k], found.exclusivity[k]
        measured = ~np.isnan(prevalence)
        levels = tuple(
            ClusterLevel(
                variable=names[m][0],
                level=names[m][1],
                prevalence=float(prevalence[m]),
                low=float(sure.level_low[k, m]) if measured[m] else nan,
                high=float(sure.level_high[k, m]) if measured[m] else nan,
                ratio=float(ratio[m]),
                exclusivity=float(exclusivity[m]),
                guide=names[m][0] in guides,
            )
            for m in np.argsort(-ratio, kind="stable")
        )
        clusters.append(
            Cluster(
                number=k,
                name=model.name(k),
                rows=float(model.rows[k]),
                share=float(found.weights[k]),
                low=float(sure.share_low[k]),
                high=float(sure.share_high[k]),
                mean_conditions=float(prevalence[yes].sum()) if len(yes) else None,
                levels=levels,
                outcomes={name: rates.clusters[k] for name, rates in model.outcomes.items()},
                sites={site: float(shares[k]) for site, shares in model.site_shares.items()},
                effects=tuple(effect for effect in effects if effect.cluster == k),
                worth=None if worth is None else float(worth.nats[k]),
                worth_error=None if worth is None else float(worth.error[k]),
                partner=None if worth is None else int(worth.partner[k]),
            )
        )
    return tuple(clusters)
