"""How often outcomes occur in the clusters, with what disclosure control leaves unknown."""

from __future__ import annotations

import numpy as np

from fedmerdel.model.rates import Rate, Rates, rate
from fedmerdel.release.summary import SiteSummary
from fedmerdel.sums.arrays import FloatArray, IntArray

Possible = tuple[FloatArray, FloatArray, FloatArray]
"""Rows without and with an outcome, (K, 2): as released, the fewest, the most."""


def outcome_rates(
    summaries: tuple[SiteSummary, ...], cluster: IntArray, n_clusters: int
) -> dict[str, Rates]:
    """Return the rate of each outcome in each cluster and among all, from the sums over sites.

    Parameters
    ----------
    summaries : tuple of SiteSummary
        What the sites sent.
    cluster : int64 array (C,)
        Where each local cluster, numbered through all sites, belongs.
    n_clusters : int
        Global clusters.
    """
    found = {}
    for name in summaries[0].sums.outcomes:
        parts = [_possible(summary, name) for summary in summaries]
        (overall,) = _of_groups(parts, np.zeros_like(cluster), 1)
        found[name] = Rates(tuple(_of_groups(parts, cluster, n_clusters)), overall)
    return found


def rates_at_sites(
    summaries: tuple[SiteSummary, ...], cluster: IntArray, n_clusters: int
) -> dict[str, list[list[Rate]]]:
    """Return the rate of each outcome at each site in each cluster; nan where none is known."""
    ends = np.cumsum([summary.n_clusters for summary in summaries])
    found: dict[str, list[list[Rate]]] = {name: [] for name in summaries[0].sums.outcomes}
    for summary, own in zip(summaries, np.split(cluster, ends[:-1]), strict=True):
        for name, sites in found.items():
            sites.append(_of_groups([_possible(summary, name)], own, n_clusters))
    return found


def possible_in_all(summary: SiteSummary, outcome: str) -> Possible:
    """Return what is possible of all rows of a site together, each array (1, 2)."""
    total = summary.sums.total()
    cells = total.outcomes[outcome].cells(total.T)
    least, most = summary.mechanism.possible(cells, None)
    return cells[:, :2], least[:, :2], most[:, :2]


def _of_groups(parts: list[Possible], cluster: IntArray, n_clusters: int) -> list[Rate]:
    told, least, most = (np.zeros((n_clusters, 2)) for _ in range(3))
    for total, cells in zip((told, least, most), zip(*parts, strict=True), strict=True):
        np.add.at(total, cluster, np.concatenate(cells))
    return [rate(*rows) for rows in zip(told, least, most, strict=True)]


def _possible(summary: SiteSummary, outcome: str) -> Possible:
    cells = summary.sums.outcomes[outcome].cells(summary.sums.T)
    least, most = summary.mechanism.possible(cells, summary.rest)
    return cells[:, :2], least[:, :2], most[:, :2]
