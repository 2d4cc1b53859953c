"""How often outcomes occur in the clusters: from what sites released, corrected at the centre."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fedmerdel.inference.confusion import Confusion
from fedmerdel.inference.corrected import SiteSums, corrected, effective_rows
from fedmerdel.inference.equality import heterogeneity
from fedmerdel.model.rates import Rate, Rates, rate
from fedmerdel.release.mechanism import Released
from fedmerdel.release.summary import SiteSummary
from fedmerdel.sums.arrays import FloatArray, IntArray
from fedmerdel.sums.expectations import Expectations
from fedmerdel.sums.sums import Sums

CELLS = np.array([0, 3])
"""Of an outcome: rows without it, with it, and unknown."""

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
    """

    summary: SiteSummary
    home: IntArray
    place: IntArray
    confusion: Confusion


class Counting(NamedTuple):
    """How all sites counted.

    Attributes
    ----------
    sites : tuple of CountedSite
        Each of them.
    weights : float64 array (K,)
        Shares of the common clusters.
    """

    sites: tuple[CountedSite, ...]
    weights: FloatArray


def outcome_rates(counting: Counting) -> dict[str, Rates]:
    """Return the rate of each outcome in each cluster and among all, from all sites."""
    found = {}
    for name in counting.sites[0].summary.sums.outcomes:
        sites = site_sums(counting, name)
        estimate = corrected(sites, counting.weights)
        share, variance = estimate.mean[:, 0], np.diag(estimate.covariance)
        rates = _rates(share, variance, estimate.rows)
        found[name] = Rates(rates, _overall(sites), estimate.covariance)
    return found


def rates_at_sites(counting: Counting) -> dict[str, list[tuple[Rate, ...]]]:
    """Return the rate of each outcome at each site in each cluster; nan where none is known."""
    return {
        name: [_rates(*each) for each in _at_each(counting, name)]
        for name in counting.sites[0].summary.sums.outcomes
    }


def _rates(share: FloatArray, variance: FloatArray, rows: FloatArray) -> tuple[Rate, ...]:
    sure = effective_rows(share, variance, rows)
    return tuple(rate(float(each), float(of)) for each, of in zip(share, sure, strict=True))


def site_tests(counting: Counting, name: str) -> tuple[SiteTest, ...]:
    """Test in each cluster whether an outcome is as frequent at all sites."""
    means, variances, _ = (np.array(part) for part in zip(*_at_each(counting, name), strict=True))
    return tuple(
        SiteTest(k, *heterogeneity(means[:, k], variances[:, k])) for k in range(means.shape[1])
    )


def site_sums(counting: Counting, name: str) -> list[SiteSums]:
    """Return what each site counted of an outcome, with what its hidden counts stand for."""
    told = [site.summary.sums.outcomes[name].cells(site.summary.sums.T) for site in counting.sites]
    cells = told
    for _ in range(2):  # what is known of the clusters comes from the counts of all sites
        shares = _shares(counting, cells, told)
        cells = [
            _filled(site.summary, own, shares[site.home])
            for site, own in zip(counting.sites, told, strict=True)
        ]
    found = []
    for site, own, first in zip(counting.sites, cells, told, strict=True):
        blurred = site.summary.mechanism.variance(first, site.summary.rest)
        sums, variance = (np.zeros((len(site.confusion.mean), 2)) for _ in range(2))
        for into, part in ((sums, own), (variance, blurred)):
            np.add.at(into, site.place, np.column_stack([part[:, 1], part[:, :2].sum(axis=1)]))
        found.append(SiteSums(site.confusion, sums, variance))
    return found


def _filled(summary: SiteSummary, told: FloatArray, shares: FloatArray) -> FloatArray:
    """Return the cells with hidden ones filled in, where those of each cluster are known so."""
    T = summary.sums.T
    theta = Expectations(np.log(np.maximum(T, 0.5) / T.sum()), np.log(shares))
    released = Released(Sums(T, told, np.zeros_like(T)), summary.rest)
    return summary.mechanism.expected(released, theta, CELLS).S


def _shares(counting: Counting, cells: list[FloatArray], told: list[FloatArray]) -> FloatArray:
    """Return the share of each cell in each cluster (K, 3), never 0.

    At first a hidden cell is taken for half of the smallest count.
    """
    sums = np.full((len(counting.weights), told[0].shape[1]), 0.5)
    for site, own, first in zip(counting.sites, cells, told, strict=True):
        guess = site.summary.mechanism.smallest / 2 if own is first else 0.0
        known = (first > 0).any(axis=1, keepdims=True)
        np.add.at(sums, site.home, np.where((own == 0) & known, guess, own))
    return np.asarray(sums / sums.sum(axis=1, keepdims=True))


def _overall(sites: list[SiteSums]) -> Rate:
    with_it, total = np.sum([site.sums.sum(axis=0) for site in sites], axis=0)
    if not total > 0:
        return rate(float("nan"), 0.0)
    share = float(np.clip(with_it / total, 0.0, 1.0))
    # What is hidden in one cluster is told in another: over clusters, totals are rounded once.
    spread = np.sum([site.variance.min(axis=0) for site in sites], axis=0)
    blurred = max(spread[0] * (1 - 2 * share) + spread[1] * share**2, 0.0) / total**2
    variance = np.array(share * (1 - share) / total + blurred)
    return rate(share, float(effective_rows(np.array(share), variance, total)))


def _at_each(counting: Counting, name: str) -> list[tuple[FloatArray, FloatArray, FloatArray]]:
    """Return rates, variances and rows at each site; nan where it tells nothing of a cluster."""
    found = []
    for site in site_sums(counting, name):
        estimate = corrected([site], counting.weights)
        known = estimate.rows >= NO_ROWS
        share = np.where(known, estimate.mean[:, 0], np.nan)
        found.append((share, np.diag(estimate.covariance), estimate.rows))
    return found
