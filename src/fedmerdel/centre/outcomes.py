"""How often outcomes occur in the clusters: from what sites released, corrected at the centre."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from fedmerdel.inference.cluster_errors import Counter, LevelErrors, error_covariance
from fedmerdel.inference.confusion import Confusion, MadeUp
from fedmerdel.inference.corrected import (
    Estimate,
    Moments,
    SiteSums,
    corrected,
    effective_rows,
    of_cells,
    told_together,
)
from fedmerdel.inference.equality import heterogeneity
from fedmerdel.inference.measures import (
    Measure,
    Measures,
    by_each_end,
    level_shares,
    mean_number,
    measured,
    of_numbers,
    standardised,
    with_it,
)
from fedmerdel.model.rates import Rate, Rates, mean, rate
from fedmerdel.release.cells import with_missing
from fedmerdel.release.released import Released
from fedmerdel.release.summary import SiteSummary
from fedmerdel.study.outcome import Outcome
from fedmerdel.study.study import Study
from fedmerdel.sums.arrays import FloatArray, IntArray
from fedmerdel.sums.expectations import Expectations
from fedmerdel.sums.sums import Sums

NO_ROWS = 0.5
"""A site with fewer true rows in a cluster than this tells nothing of its rate."""


class SiteTest(NamedTuple):
    """Whether an outcome is as frequent at all sites, within one cluster.

    Attributes
    ----------
    cluster : int
        The cluster.
    statistic : float
        Cochran's Q.
    df : int
        Its degrees of freedom: sites that tell of the cluster, less one.
    p_value : float
        Of no difference between sites.
    """

    cluster: int
    statistic: float
    df: int
    p_value: float


class CountedSite(NamedTuple):
    """How one site counted its rows in clusters.

    Attributes
    ----------
    summary : SiteSummary
        What it sent.
    home : int64 array (C,)
        The common cluster of each of those that it sent.
    place : int64 array (C,)
        In which of the clusters of the confusion each of them is counted.
    confusion : Confusion
        How rows of the common clusters are counted there.
    counter : Counter
        How made-up rows were given to clusters to find that.
    """

    summary: SiteSummary
    home: IntArray
    place: IntArray
    confusion: Confusion
    counter: Counter


class Counting(NamedTuple):
    """How all sites counted.

    Attributes
    ----------
    sites : tuple of CountedSite
        Each of them.
    weights : float64 array (K,)
        Shares of the common clusters.
    rows : MadeUp
        The rows that confusions were asked of.
    errors : LevelErrors
        How surely the levels of the common clusters are known.
    own_clusters : bool
        Whether sites have counted in clusters of their own: before any round.
    """

    sites: tuple[CountedSite, ...]
    weights: FloatArray
    rows: MadeUp
    errors: LevelErrors
    own_clusters: bool


def outcome_rates(counting: Counting, study: Study) -> dict[str, Rates]:
    """Return each measure of each outcome in each cluster and among all, from all sites."""
    found: dict[str, Rates] = {}
    for outcome in study.outcomes:
        sites = site_sums(counting, outcome.name, parts=outcome.name in study.parts)
        how = _How.of(outcome, len(study.tables[outcome.name]), sites)
        estimate = common_means(counting, sites, how.moments)
        of_clusters = measured(estimate, how.measure)
        of_all = measured(_together(sites, how.moments), how.measure)
        K, known = len(estimate.rows), np.array([sum(site.sums[:, -1].sum() for site in sites)])
        covariance = of_clusters.covariance * how.width**2
        counted = how.measure(_counted(counting, outcome.name)).T
        for m, name in enumerate(outcome.measures):
            found[name] = Rates(
                how.rates(of_clusters, m, estimate.rows, counted[m]),
                how.rates(of_all, m, known)[0],
                covariance[m * K : (m + 1) * K],
                m,
                estimate.misfit,
            )
    return found


def _counted(counting: Counting, name: str) -> FloatArray:
    """Return the shares of cells (K, C) as counted, without a correction; nan of no rows."""
    each = [cells[:, :-1] for cells, _ in site_cells(counting, name)]
    sums = np.zeros((len(counting.weights), each[0].shape[1]))
    for site, cells in zip(counting.sites, each, strict=True):
        np.add.at(sums, site.home, cells)
    total = sums.sum(axis=1, keepdims=True)
    return np.asarray(np.where(total > 0, sums / np.maximum(total, 1e-300), np.nan))


def common_means(counting: Counting, sites: list[SiteSums], moments: Moments) -> Estimate:
    """Return the means that all sites share, as surely as clusters and confusions are known.

    Parameters
    ----------
    counting : Counting
        How sites counted.
    sites : list of SiteSums
        What they counted.
    moments : callable
        Second moments of the numbers, see `corrected`.
    """
    found = corrected(sites, counting.weights, moments)
    if not found.slopes:
        return found
    counters = [site.counter for site in counting.sites]
    errors = error_covariance(found.slopes, counters, counting.rows, counting.errors)
    # A site's own clusters are not quite the common ones. Sites then differ by more than chance.
    more = max(found.misfit, 1.0) if counting.own_clusters else 1.0
    return found._replace(covariance=found.covariance * more + errors)


def rates_at_sites(counting: Counting, study: Study) -> dict[str, list[tuple[Rate, ...]]]:
    """Return each measure at each site in each cluster; nan where none is known."""
    return {
        name: [
            how.rates(found, outcome.measures.index(name), rows)
            for how, found, rows in _at_each(counting, study, outcome)
        ]
        for name, outcome in study.measures.items()
    }


def site_tests(counting: Counting, study: Study, name: str) -> tuple[SiteTest, ...]:
    """Test in each cluster whether a measure is the same at all sites."""
    outcome = study.measures[name]
    at, each = outcome.measures.index(name), _at_each(counting, study, outcome)
    means = np.array([found.values[at] for _, found, _ in each])
    variances = np.array([found.variance[at] for _, found, _ in each])
    return tuple(
        SiteTest(k, *heterogeneity(means[:, k], variances[:, k])) for k in range(means.shape[1])
    )


def site_sums(counting: Counting, name: str, *, parts: bool = False) -> list[SiteSums]:
    """Return what each site counted of an outcome, with what its hidden counts stand for.

    Of each cell but the first; last the rows of which it is known.
    """
    found = []
    tables = site_cells(counting, name, parts=parts)
    for site, (cells, variance) in zip(counting.sites, tables, strict=True):
        G, Q = len(site.confusion.mean), cells.shape[1] - 2
        sums, noise = np.zeros((G, Q + 1)), np.zeros((G, Q + 1, Q + 1))
        known = cells[:, :-1].sum(axis=1)
        np.add.at(sums, site.place, np.column_stack([cells[:, 1:-1], known]))
        if variance.any():
            summary = site.summary
            of_rows = summary.mechanism.variance(summary.sums.T[:, None], summary.rest)[:, 0]
            np.add.at(noise, site.place, told_together(cells, variance, of_rows))
        found.append(SiteSums(site.confusion, sums, noise))
    return found


def site_cells(
    counting: Counting, name: str, *, parts: bool = False
) -> list[tuple[FloatArray, FloatArray]]:
    """Return the rows in each cell, hidden ones filled in, and the variance that this leaves.

    In each cluster that a site sent; the last cell is of rows of which nothing is known. A site
    that tells of no other rows counts for nothing: else guesses at what it hides would be a rate.
    """
    told = [
        with_missing(site.summary.sums.T, site.summary.sums.outcomes[name])
        for site in counting.sites
    ]
    cells = told
    for _ in range(2):  # what is known of the clusters comes from the counts of all sites
        shares = _shares(counting, cells, told)
        cells = [
            _filled(site.summary, own, shares[site.home]) if _tells(own) else own
            for site, own in zip(counting.sites, told, strict=True)
        ]
    return [
        (
            own,
            site.summary.mechanism.variance(first, site.summary.rest, parts=parts) * _tells(first),
        )
        for site, own, first in zip(counting.sites, cells, told, strict=True)
    ]


def _tells(told: FloatArray) -> bool:
    """Whether a site tells of any row of which something is known."""
    return bool(told[:, :-1].any())


class _How(NamedTuple):
    """How an outcome's cells are read."""

    measure: Measure
    moments: Moments
    range: tuple[float, float] | None

    @classmethod
    def of(cls, outcome: Outcome, n_cells: int, sites: list[SiteSums]) -> _How:
        measure = MEASURES[outcome.kind]
        n_strata = n_cells // len(outcome.cells)
        if n_strata > 1:
            sums = np.sum([site.sums.sum(axis=0) for site in sites], axis=0)
            first = max(sums[-1] - sums[:-1].sum(), 0.0)
            cells = np.concatenate([[first], sums[:-1]]) / max(sums[-1], 1e-300)
            measure = standardised(measure, cells.reshape(n_strata, -1))
        moments = of_numbers(n_strata) if outcome.kind == "number" else of_cells
        return cls(measure, moments, outcome.range)

    @property
    def width(self) -> float:
        """What a measure of 1 stands for."""
        return 1.0 if self.range is None else self.range[1] - self.range[0]

    def rates(
        self, found: Measures, m: int, rows: FloatArray, counted: FloatArray | None = None
    ) -> tuple[Rate, ...]:
        """Return a measure of each cluster with its interval, and as it was counted if known."""
        each = self._corrected(found, m, rows)
        if counted is None:
            return each
        low = 0.0 if self.range is None else self.range[0]
        shown = low + np.clip(counted, 0.0, 1.0) * self.width
        return tuple(replace(r, counted=c) for r, c in zip(each, shown.tolist(), strict=True))

    def _corrected(self, found: Measures, m: int, rows: FloatArray) -> tuple[Rate, ...]:
        value, variance = found.values[m], found.variance[m]
        if self.range is None:
            share = np.clip(value, 0.0, 1.0)
            sure = effective_rows(share, variance, rows)
            return tuple(rate(float(each), float(of)) for each, of in zip(share, sure, strict=True))
        low = self.range[0]
        pairs = zip(low + value * self.width, variance * self.width**2, strict=True)
        return tuple(mean(float(each), float(var), self.range) for each, var in pairs)


MEASURES: dict[str, Measure] = {
    "yes/no": with_it,
    "levels": level_shares,
    "number": mean_number,
    "time": by_each_end,
}
"""What is told of each kind of outcome."""


def _filled(summary: SiteSummary, told: FloatArray, shares: FloatArray) -> FloatArray:
    """Return the cells with hidden ones filled in, where those of each cluster are known so."""
    T = summary.sums.T
    theta = Expectations(np.log(np.maximum(T, 0.5) / T.sum()), np.log(shares))
    released = Released(Sums(T, told, np.zeros_like(T)), summary.rest)
    return summary.mechanism.expected(released, theta, np.array([0, told.shape[1]])).S


def _shares(counting: Counting, cells: list[FloatArray], told: list[FloatArray]) -> FloatArray:
    """Return the share of each cell in each cluster (K, C + 1), never 0.

    At first a hidden cell is taken for half of the smallest count.
    """
    sums = np.full((len(counting.weights), told[0].shape[1]), 0.5)
    for site, own, first in zip(counting.sites, cells, told, strict=True):
        guess = site.summary.mechanism.smallest / 2 if own is first else 0.0
        known = (first > 0).any(axis=1, keepdims=True)
        np.add.at(sums, site.home, np.where((own == 0) & known, guess, own))
    return np.asarray(sums / sums.sum(axis=1, keepdims=True))


def _together(sites: list[SiteSums], moments: Moments) -> Estimate:
    """Return the shares of the cells among all rows, as of one cluster."""
    sums = np.sum([site.sums.sum(axis=0) for site in sites], axis=0)
    total, Q = sums[-1], len(sums) - 1
    if not total > 0:
        return Estimate(np.full((1, Q), np.nan), np.zeros((Q, Q)), np.zeros(1))
    share = np.clip(sums[:-1] / total, 0.0, 1.0)
    # What is hidden in one cluster is told in another: over clusters, totals are rounded once.
    least = [np.trace(site.noise, axis1=1, axis2=2).argmin() for site in sites]
    spread = np.sum([site.noise[k] for site, k in zip(sites, least, strict=True)], axis=0)
    # A cell that nobody is in, or everyone, varies as if it were one row: few may be at risk there.
    near = np.clip(share, min(1 / total, 0.5), max(1 - 1 / total, 0.5))
    second = moments(near[None])[0, :Q, :Q]
    covariance = (second - np.outer(near, near)) / total
    by_sums = np.column_stack([np.eye(Q), -share])
    rounded = by_sums @ spread @ by_sums.T
    return Estimate(share[None], covariance + rounded / total**2, np.array([total]))


def _at_each(
    counting: Counting, study: Study, outcome: Outcome
) -> list[tuple[_How, Measures, FloatArray]]:
    """Return the measures at each site, and its rows in each cluster."""
    sites = site_sums(counting, outcome.name, parts=outcome.name in study.parts)
    how = _How.of(outcome, len(study.tables[outcome.name]), sites)
    found = []
    for site in sites:
        estimate = corrected([site], counting.weights, how.moments)
        of_clusters = measured(estimate, how.measure)
        known = np.where(estimate.rows >= NO_ROWS, of_clusters.values, np.nan)
        found.append((how, of_clusters._replace(values=known), estimate.rows))
    return found
