"""How sure rows are of their cluster, without a row: asked of rows that the model makes up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from fedmerdel.model.made_up import made_up
from fedmerdel.sums.arrays import FloatArray
from fedmerdel.sums.prior import Prior
from fedmerdel.sums.sums import Sums

SURE = 0.8
"""A row with a cluster more probable than this is surely in it."""

N_DRAWN = 20_000
N_BINS = 20

AT_ONCE = 2**22
"""Numbers that are held of drawn rows, by clusters or by variables: memory alone."""


class Certainty(NamedTuple):
    """Of rows drawn from the model and given to clusters anew.

    Attributes
    ----------
    sure : float
        Share of them whose cluster is more probable than `SURE`.
    sure_of : float64 array (K,)
        The same for the rows given to each cluster; nan where there are none.
    given : float64 array (K, K)
        Of the rows drawn from a cluster (a line), the share given to each.
    histogram : float64 array (N_BINS,)
        Share of the rows by the probability of their cluster, from 0 to 1.
    """

    sure: float
    sure_of: FloatArray
    given: FloatArray
    histogram: FloatArray


def expected_certainty(
    stats: Sums, prior: Prior, row_prior: Prior, site_rows: FloatArray
) -> Certainty:
    """Draw rows from the clusters, the same every time, and give them to clusters.

    As at the sites: each has its own shares of the clusters, which count where rows are given, and
    entries are missing as often as there.

    Parameters
    ----------
    stats : Sums
        The clusters.
    prior, row_prior : Prior
        Under which they are described, and under which rows are given to them.
    site_rows : float64 array (sites, K)
        Rows of each site in each cluster.
    """
    rng = np.random.default_rng(0)
    n_clusters = stats.n_clusters
    given_to, size, sure = np.zeros((n_clusters, n_clusters)), np.zeros(n_clusters), 0.0
    surely, histogram = np.zeros(n_clusters), np.zeros(N_BINS)
    for rows, n_drawn in _parts(site_rows, max(AT_ONCE // max(stats.S.shape[1], 1), 1)):
        _, drawn, r = made_up(stats, prior, row_prior, rows, n_drawn, rng)
        given, most = r.argmax(axis=1), r.max(axis=1)
        np.add.at(given_to, (drawn, given), 1.0)
        size += np.bincount(given, minlength=n_clusters)
        surely += np.bincount(given, most > SURE, minlength=n_clusters)
        sure += float((most > SURE).sum())
        histogram += np.histogram(most, bins=N_BINS, range=(0.0, 1.0))[0]
    with np.errstate(invalid="ignore"):
        sure_of = surely / size
    lines = given_to / np.maximum(given_to.sum(axis=1, keepdims=True), 1.0)
    total = histogram.sum()
    return Certainty(sure / total, sure_of, lines, histogram / total)


def _parts(site_rows: FloatArray, at_once: int) -> Iterator[tuple[FloatArray, int]]:
    """Yield, for each site, its rows and how many to draw of it: so many at once and no more."""
    for rows, n_drawn in zip(site_rows, _shared_out(site_rows.sum(axis=1)), strict=True):
        for begin in range(0, n_drawn, at_once):
            yield rows, min(at_once, n_drawn - begin)


def _shared_out(rows: FloatArray) -> list[int]:
    """Return how many rows to draw of each site: in all about `N_DRAWN`, one at least."""
    return [max(round(float(share)), 1) for share in N_DRAWN * rows / rows.sum()]
