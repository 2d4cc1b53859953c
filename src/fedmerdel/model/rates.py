"""How often an outcome occurs in a cluster, or its mean there."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isnan, nan, sqrt
from typing import Any, NamedTuple

import numpy as np
from scipy.special import betaincinv

from fedmerdel.study.outcome import MOST_CELLS
from fedmerdel.sums.arrays import FloatArray, plain_number, plain_numbers, plain_whole

INTERVAL = 0.95
"""Posterior probability inside the interval of a rate."""

BAD_FIT = 3.0
"""Misfit from which rates are said not to fit: in 27 of 28 simulated federations whose sites do
not differ it was below."""

UNEXPLAINED = (
    "sites differ in it by more than chance, with corrected rates that are the same at all. Either "
    "they do differ, or rows are not confused as the model says, and the correction may go too "
    "far: compare with the counted rates."
)
"""What is said of an outcome whose rates do not fit."""

WIDTH = 1.959964
"""Standard deviations from the middle to an end of a normal interval of as much."""


@dataclass(frozen=True)
class Rate:
    """How often an outcome occurs in a cluster, or its mean if a number: with 95 % interval.

    Rows whose cluster is not sure are counted in several, which pulls the shares of clusters to
    their mean. The share is corrected for this, from how the model takes made-up rows of each
    cluster for rows of others. The interval is that of as many rows, surely assigned, as would
    leave the rate as open as it is: for the number of rows, their clusters, levels of clusters that
    are estimates, and what disclosure control has hidden or rounded.

    Attributes
    ----------
    share : float
        Rows with the outcome, of those of which it is known; nan if of none. Of a number the
        mean.
    low, high : float
        The interval.
    range : (float, float) or None
        Of a number: where it lies. None is a share.
    counted : float
        The same before it is corrected, pulled to the mean of all; nan where it is not told.
    """

    share: float
    low: float
    high: float
    range: tuple[float, float] | None = None
    counted: float = nan

    def text(self, value: float) -> str:
        """Return what people read: a share in percent, or a number."""
        if isnan(value):
            return "–"
        return f"{100 * value:.1f} %" if self.range is None else f"{value:.4g}"

    @property
    def on_axis(self) -> tuple[float, float, float]:
        """Share and interval on an axis from 0 to 1, which are the ends of the range."""
        low, high = self.range or (0.0, 1.0)
        at = [(part - low) / (high - low) for part in (self.share, self.low, self.high)]
        return at[0], at[1], at[2]

    def tick(self, at: float) -> str:
        """Return what people read at a place of that axis."""
        value = self._value(at)
        return f"{100 * value:.3g} %" if self.range is None else f"{value:.3g}"

    def said(self, at: float) -> str:
        """Return the same to more digits."""
        return self.text(self._value(at))

    def _value(self, at: float) -> float:
        low, high = self.range or (0.0, 1.0)
        return low + at * (high - low)


class Rates(NamedTuple):
    """One measure of an outcome in all clusters: a rate, or a mean.

    Attributes
    ----------
    clusters : tuple of Rate
        In each cluster.
    overall : Rate
        Among all rows.
    covariance : float64 array (K, M * K)
        Of the shares of the clusters with those of all M measures of the same outcome.
    at : int
        Which of these measures it is.
    misfit : float
        How badly these rates fit what each site counted: chi-squared over its degrees of freedom,
        about 1 if sites differ by chance alone. It does not see that an outcome depends on the
        variables within clusters in the same way everywhere.
    """

    clusters: tuple[Rate, ...]
    overall: Rate
    covariance: FloatArray
    at: int = 0
    misfit: float = 1.0

    @property
    def fits(self) -> bool:
        """Whether sites differ in the outcome by little more than chance."""
        return self.misfit < BAD_FIT

    @property
    def means(self) -> FloatArray:
        """The share in each cluster."""
        return np.array([each.share for each in self.clusters])

    @property
    def own_covariance(self) -> FloatArray:
        """Of the shares of the clusters among each other: (K, K)."""
        K = len(self.clusters)
        return self.covariance[:, self.at * K : (self.at + 1) * K]

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists of numbers, None where nothing is known."""
        return {
            "clusters": [_listed(rate) for rate in self.clusters],
            "all": _listed(self.overall),
            "covariance": self.covariance.tolist(),
            "at": self.at,
            "misfit": self.misfit,
            "range": None if self.overall.range is None else list(self.overall.range),
        }

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Rates:
        """Read what `to_dict` wrote."""
        covariance = plain_numbers(content["covariance"])
        at, told = plain_whole(content["at"]), content["range"]
        misfit = plain_number(content["misfit"])
        if not 0.0 <= misfit < inf:
            raise ValueError("no measure of fit")
        low_high = None
        if told is not None:
            low, high = map(plain_number, told)
            if not -inf < low < high < inf:
                raise ValueError("no range")
            low_high = low, high
        clusters = tuple(_rate(each, low_high) for each in content["clusters"])
        K = len(clusters)
        shaped = covariance.ndim == 2 and len(covariance) == K and 0 <= at < MOST_CELLS
        if not shaped or covariance.shape[1] % K or covariance.shape[1] < (at + 1) * K:
            raise ValueError("no covariance")
        found = cls(clusters, _rate(content["all"], low_high), covariance, at, misfit)
        if np.any(np.diag(found.own_covariance) < 0):
            raise ValueError("no covariance")
        return found


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


def mean(value: float, variance: float, within: tuple[float, float]) -> Rate:
    """Return the mean of a number with its interval, no wider than where the number lies."""
    if isnan(value):
        return Rate(value, *within, within)
    half = WIDTH * sqrt(max(variance, 0.0))
    value = min(max(value, within[0]), within[1])
    return Rate(value, max(value - half, within[0]), min(value + half, within[1]), within)


def _listed(rate: Rate) -> list[float | None]:
    parts = (rate.share, rate.low, rate.high, rate.counted)
    return [None if isnan(part) else part for part in parts]


def _rate(listed: list[float | None], within: tuple[float, float] | None) -> Rate:
    share, low, high, counted = (nan if part is None else plain_number(part) for part in listed)
    least, most = within or (0.0, 1.0)
    if not np.all((np.array([low, high]) >= least) & (np.array([low, high]) <= most)):
        raise ValueError("no interval of a share")
    if not all(isnan(part) or least <= part <= most for part in (share, counted)):
        raise ValueError("no share")
    return Rate(share, low, high, within, counted)
