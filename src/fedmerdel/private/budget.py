"""The budget of a study under differential privacy: what noise costs, and what a cost allows.

Costs are those of zero-concentrated differential privacy (zCDP; Bun and Steinke 2016): they add up
over releases, also where later ones depend on what was released before. Noise is a sum of discrete
Gaussians, one of each honest site (Kairouz, Liu and Steinke 2021, theorem 11).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq, minimize_scalar

from fedmerdel.errors import OptionError

MOST_EPSILON = 100.0
"""Beyond, a budget promises nothing that anyone could mean."""

STILL = 1e-9
"""Share by which a cost is rounded up where it is solved for: never down."""


class Budget(NamedTuple):
    """What a study may tell of anyone, in all of its releases together.

    Attributes
    ----------
    epsilon, delta : float
        The promise: with or without a person, what is released is as likely to a factor
        ``exp(epsilon)``, but for a probability of ``delta``.
    honest : int
        Sites that are taken to add their noise and keep it to themselves: any so many of those
        that take part.
    unit : int
        Most rows that one person has at all sites together; 1 protects rows.
    """

    epsilon: float
    delta: float
    honest: int
    unit: int = 1

    @property
    def rho(self) -> float:
        """What all releases may cost together."""
        return rho_for(self.epsilon, self.delta)


def make_budget(
    epsilon: float, delta: float, n_sites: int, honest: int | None = None, unit: int = 1
) -> Budget:
    """Return a budget, or refuse what is none.

    Parameters
    ----------
    epsilon, delta : float
        The promise.
    n_sites : int
        Sites that take part.
    honest : int or None
        How many of them are honest at least; None is half of them, rounded up.
    unit : int
        Most rows of a person.
    """
    if not 0.0 < epsilon <= MOST_EPSILON:
        raise OptionError(f"epsilon: give a number above 0, at most {MOST_EPSILON:g}")
    if not 0.0 < delta <= 0.01:
        raise OptionError("delta: give a number above 0, at most 0.01; usual is one in a million")
    honest = -(-n_sites // 2) if honest is None else honest
    if not 1 <= honest <= n_sites:
        raise OptionError("honest: give a number of sites, from 1 to all that take part")
    if unit < 1:
        raise OptionError("unit: give the most rows that a person has, at least 1")
    return Budget(float(epsilon), float(delta), int(honest), int(unit))


def delta_of(rho: float, epsilon: float) -> float:
    """Return delta at this epsilon of what is rho-zCDP (Canonne, Kamath and Steinke 2020, 12).

    Any order of the divergence gives a bound; the least is looked for.
    """
    if rho <= 0.0:
        return 0.0

    def bound(log_excess: float) -> float:
        order = 1.0 + math.exp(log_excess)
        return float(
            (order - 1.0) * (order * rho - epsilon) - log_excess + order * math.log1p(-1.0 / order)
        )

    found = minimize_scalar(bound, bounds=(-20.0, 20.0), method="bounded")
    return min(1.0, math.exp(min(found.fun, 0.0)))


def cost(rhos: Iterable[float], delta: float) -> float:
    """Return epsilon, at this delta, of releases that cost so much each."""
    rho = math.fsum(rhos)
    if rho <= 0.0:
        return 0.0
    high = rho + 2.0 * math.sqrt(rho * math.log(1.0 / delta))  # Bun and Steinke 2016
    if delta_of(rho, 0.0) <= delta:
        return 0.0
    found = brentq(lambda epsilon: math.log(delta_of(rho, epsilon) / delta), 0.0, high)
    return float(found * (1.0 + STILL))


@cache
def rho_for(epsilon: float, delta: float) -> float:
    """Return the most that releases may cost together under (epsilon, delta)."""
    low, high = 0.0, epsilon  # pure epsilon costs epsilon^2 / 2, and delta only adds to what may be
    while delta_of(high, epsilon) <= delta:
        high *= 2.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if delta_of(middle, epsilon) <= delta else (low, middle)
    return low * (1.0 - 10.0 * STILL)


def release_cost(share: float, sensitivity: float, honest: int, size: int) -> float:
    """Return rho of a vector of whole numbers to which every honest site adds a share of noise.

    Parameters
    ----------
    share : float
        Scale of each site's discrete Gaussian.
    sensitivity : float
        Most that one person changes the vector by: its Euclidean norm.
    honest : int
        Sites whose noise nobody else knows.
    size : int
        Numbers in the vector.
    """
    if share < 0.5:
        return math.inf
    k = np.arange(1, honest)
    slack = 10.0 * float(np.exp(-2.0 * math.pi**2 * share**2 * k / (k + 1)).sum())
    return 0.5 * (sensitivity**2 / (honest * share**2) + 0.5 * slack * size)


def share_for(rho: float, sensitivity: float, honest: int, size: int) -> float:
    """Return the scale of each site's noise at which a vector costs rho, or hardly less."""
    share = max(sensitivity / math.sqrt(2.0 * rho * honest), 0.5)
    while release_cost(share, sensitivity, honest, size) > rho:
        share *= 1.0 + STILL if release_cost(share, sensitivity, honest, 0) > rho else 1.01
    return share
