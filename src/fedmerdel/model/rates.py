"""How often an outcome occurs in a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan, nan
from typing import Any, NamedTuple

import numpy as np
from scipy.special import betaincinv

from fedmerdel.sums.arrays import FloatArray, plain_number

INTERVAL = 0.95
"""Posterior probability inside the interval of a rate."""


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
    """

    clusters: tuple[Rate, ...]
    overall: Rate

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists of numbers, None where nothing is known."""
        return {"clusters": [_listed(rate) for rate in self.clusters], "all": _listed(self.overall)}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Rates:
        """Read what `to_dict` wrote."""
        return cls(tuple(_rate(each) for each in content["clusters"]), _rate(content["all"]))


def rate(told: FloatArray, least: FloatArray, most: FloatArray) -> Rate:
    """Return the rate from rows without and with the outcome.

    Parameters
    ----------
    told, least, most : float64 arrays (2,)
        As they were told, and the fewest and the most that there may be.
    """
    low = betaincinv(least[1] + 0.5, most[0] + 0.5, (1 - INTERVAL) / 2)
    high = betaincinv(most[1] + 0.5, least[0] + 0.5, (1 + INTERVAL) / 2)
    share = told[1] / told.sum() if told.sum() > 0 else nan
    return Rate(float(share), float(low), float(high))


def _listed(rate: Rate) -> list[float | None]:
    return [None if isnan(part) else part for part in (rate.share, rate.low, rate.high)]


def _rate(listed: list[float | None]) -> Rate:
    share, low, high = (nan if part is None else plain_number(part) for part in listed)
    if not np.all((np.array([low, high]) >= 0) & (np.array([low, high]) <= 1)):
        raise ValueError("no interval of a share")
    if not (isnan(share) or 0 <= share <= 1):
        raise ValueError("no share")
    return Rate(share, low, high)
