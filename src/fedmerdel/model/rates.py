"""How often an outcome occurs in a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan, nan
from typing import Any, NamedTuple

import numpy as np
from scipy.special import betaincinv

from fedmerdel.sums.arrays import FloatArray, plain_number, plain_numbers

INTERVAL = 0.95
"""Posterior probability inside the interval of a rate."""


@dataclass(frozen=True)
class Rate:
    """How often an outcome occurs in a cluster: share, and 95 % interval.

    Rows whose cluster is not sure are counted in several, which pulls the shares of clusters to
    their mean. The share is corrected for this, from how the model takes made-up rows of each
    cluster for rows of others. The interval is that of as many rows, surely assigned, as would
    leave the rate as open as it is: for the number of rows, their clusters, and what disclosure
    control has hidden or rounded. It leaves out that the clusters themselves are estimates.

    Attributes
    ----------
    share : float
        Rows with the outcome, of those of which it is known; nan if of none.
    low, high : float
        The interval.
    """

    share: float
    low: float
    high: float


class Rates(NamedTuple):
    """An outcome in all clusters.

    Attributes
    ----------
    clusters : tuple of Rate
        In each cluster.
    overall : Rate
        Among all rows.
    covariance : float64 array (K, K)
        Of the shares of the clusters.
    """

    clusters: tuple[Rate, ...]
    overall: Rate
    covariance: FloatArray

    @property
    def means(self) -> FloatArray:
        """The share in each cluster."""
        return np.array([each.share for each in self.clusters])

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists of numbers, None where nothing is known."""
        return {
            "clusters": [_listed(rate) for rate in self.clusters],
            "all": _listed(self.overall),
            "covariance": self.covariance.tolist(),
        }

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Rates:
        """Read what `to_dict` wrote."""
        clusters = tuple(_rate(each) for each in content["clusters"])
        covariance = plain_numbers(content["covariance"])
        if covariance.shape != (len(clusters), len(clusters)) or np.any(np.diag(covariance) < 0):
            raise ValueError("no covariance")
        return cls(clusters, _rate(content["all"]), covariance)


def rate(share: float, rows: float) -> Rate:
    """Return a rate with the interval that so many rows leave, surely assigned (Beta posterior).

    Near 0 and 1 the posterior's interval leaves out the share itself; it is widened to hold it.

    Parameters
    ----------
    share : float
        The rate; nan is not known.
    rows : float
        As many as would leave the rate as open as it is.
    """
    if isnan(share):
        return Rate(share, 0.0, 1.0)
    without, with_it = (1 - share) * rows + 0.5, share * rows + 0.5
    low, high = betaincinv(with_it, without, [(1 - INTERVAL) / 2, (1 + INTERVAL) / 2])
    return Rate(share, min(float(low), share), max(float(high), share))


def _listed(rate: Rate) -> list[float | None]:
    return [None if isnan(part) else part for part in (rate.share, rate.low, rate.high)]


def _rate(listed: list[float | None]) -> Rate:
    share, low, high = (nan if part is None else plain_number(part) for part in listed)
    if not np.all((np.array([low, high]) >= 0) & (np.array([low, high]) <= 1)):
        raise ValueError("no interval of a share")
    if not (isnan(share) or 0 <= share <= 1):
        raise ValueError("no share")
    return Rate(share, low, high)
