"""The learned prior: how closely the clusters keep to the whole population, variable by variable.

    eps_jl = d / L_j + c_j f_jl

with f_j the shares of the levels among all rows, strengths c_j and a floor d, common to all
variables, that maximise the ELBO, given the statistics: c_j rows' worth of the population are
mixed into each cluster, and d of an even row. A variable that differs between clusters asks for
a small c_j, noise for a large one. Small, pure clusters ask for a small d; d = 1 with c_j = 0 is
the fixed prior, so that what is learned contains it. The floor also keeps every eps_jl away from
0, where E[ln phi] of a level not yet seen in a cluster would be so low that no row with it could
ever enter: so it has a least value, and is held while clusters are searched. A log-normal
hyperprior around a common strength, itself learned, holds variables back about which the
clusters say little.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import xlogy

from fedmerdel.compiled import kernel
from fedmerdel.sums.arrays import FloatArray
from fedmerdel.sums.levels import level_shares, sum_levels
from fedmerdel.sums.prior import Prior
from fedmerdel.sums.special import ln_beta_by_variable, ln_gamma_slopes

COMMON = 3.0
"""Where the common strength is expected, ..."""

COMMON_SPREAD = 1.0
"""... up to a factor of e^this, ..."""

SPREAD = 3.0
"""... and each variable's around it, up to a factor of e^this."""

WIDE = 10.0
"""Start: a tenth of a row for each variable, 1 at least, this many at most.

In a wide table a cluster is told by many variables together while each is known from few
rows; in a narrow one there is little to borrow, and shrinking only blurs the first cuts."""

LEAST, MOST = 1e-2, 1e5
"""Strengths outside differ from these in nothing that counts."""


LOWEST, HIGHEST = 0.02, 1.0
"""Least and greatest floor. Lower ones freeze clusters: E[ln phi] of a level that a cluster has
not seen is already -100."""

HALF, FEW, MANY = 0.5, 20, 300
"""Start of the floor: 1 up to this few variables, less for more down to a half, and less
again beyond: this many over their number. Wide tables have small clusters, each known from few
rows; but a low floor keeps rows out of clusters that are still on their way."""

STEPS = 3
"""Newton steps for each M step, from where the last one ended."""

LONGEST = 1.5
"""Longest Newton step in ln c."""

STILL = 0.01
"""A step in ln c that is shorter need not be followed by another, for now."""

DOUBT = 3.0
"""Nats by which the evidence that clusters differ in a variable must win: 20 to 1."""

HALVINGS = 5
"""A step that lowers the ELBO is halved so often before it is given up."""


class Strengths(NamedTuple):
    """What learning strengths needs to know of the rows.

    Attributes
    ----------
    even : float64 array (M,)
        The fixed prior: ``1 / L_j``.
    shares : float64 array (M,)
        ``f_jl``: the share of each level among all rows.
    floor_held : bool
        Whether the floor stays as it is.
    """

    even: FloatArray
    shares: FloatArray
    floor_held: bool = False

    @classmethod
    def of(cls, S: FloatArray, prior: Prior) -> Strengths:
        """Return what is needed for rows with these counts, in whatever clusters."""
        return cls(prior.eps, level_shares(S, prior.offsets))

    def start(self, prior: Prior, share: float = 1.0) -> Prior:
        """Return the prior to begin with, its floor lowered to a share of the usual one."""
        n_variables = len(prior.n_levels)
        strength = np.full(n_variables, min(max(n_variables / 10, 1.0), WIDE))
        floor = min(HIGHEST, max(FEW / n_variables, HALF), MANY / n_variables)
        return self._prior(prior, strength, share * floor)

    def learn(self, S: FloatArray, prior: Prior) -> Prior:
        """Return the prior with better strengths and a better floor for these counts (K, M).

        Never lowers the ELBO of the counts under the prior.
        """
        assert prior.strength is not None
        assert prior.floor is not None
        S, ln_c = np.ascontiguousarray(prior.explained(S)), np.log(prior.strength)
        common = common_strength(ln_c)
        climb(S, self.shares, prior.floor * self.even, prior.offsets, common, ln_c)
        strength = np.exp(ln_c)
        if self.floor_held:
            return self._prior(prior, strength, prior.floor)
        mixed = np.repeat(strength, prior.n_levels) * self.shares
        floor = climb_floor(S, self.even, mixed, prior.offsets, math.log(prior.floor))
        return self._prior(prior, strength, math.exp(floor))

    def _prior(self, prior: Prior, strength: FloatArray, floor: float) -> Prior:
        return prior._replace(
            eps=floor * self.even + np.repeat(strength, prior.n_levels) * self.shares,
            strength=strength,
            floor=floor,
            constant=log_density(np.log(strength)),
        )


def common_strength(ln_c: FloatArray) -> float:
    """Return ln of the most probable common strength, given each variable's."""
    weights = 1.0 / SPREAD**2, 1.0 / COMMON_SPREAD**2
    total = ln_c.sum() * weights[0] + math.log(COMMON) * weights[1]
    return float(total / (len(ln_c) * weights[0] + weights[1]))


def log_density(ln_c: FloatArray) -> float:
    """Return the log density of the strengths at the common one, but for constants."""
    common = common_strength(ln_c)
    apart = np.sum((ln_c - common) ** 2) / SPREAD**2
    return float(-0.5 * apart - 0.5 * ((common - math.log(COMMON)) / COMMON_SPREAD) ** 2)


def log_odds(S: FloatArray, prior: Prior) -> FloatArray:
    """Return for each variable the log odds that the clusters differ in it: (P,).

    The evidence of its counts under the prior against that of one distribution for all
    clusters, which is what an infinite strength would mean. It must be strong: clusters were
    found from the same rows, and noise that agrees with them by chance has helped.
    """
    offsets, S = prior.offsets, prior.explained(S)
    apart = ln_beta_by_variable(prior.eps + S, offsets) - ln_beta_by_variable(prior.eps, offsets)
    same = sum_levels(xlogy(S.sum(axis=0), level_shares(S, offsets)), offsets)
    return np.asarray(apart.sum(axis=0) - same - DOUBT)


@kernel
def climb(
    S: np.ndarray[tuple[int, int], np.dtype[np.float64]],
    shares: np.ndarray[tuple[int], np.dtype[np.float64]],
    floor: np.ndarray[tuple[int], np.dtype[np.float64]],
    offsets: np.ndarray[tuple[int], np.dtype[np.int64]],
    common: float,
    ln_c: np.ndarray[tuple[int], np.dtype[np.float64]],
) -> None:
    """Climb in ln c_j of each variable by itself, in place."""
    around, low, high = (common, 1.0 / SPREAD**2), math.log(LEAST), math.log(MOST)
    for j in range(len(ln_c)):
        ln_c[j] = _newton(S, shares, floor, offsets[j : j + 2], around, low, high, ln_c[j])


@kernel
def climb_floor(
    S: np.ndarray[tuple[int, int], np.dtype[np.float64]],
    even: np.ndarray[tuple[int], np.dtype[np.float64]],
    mixed: np.ndarray[tuple[int], np.dtype[np.float64]],
    offsets: np.ndarray[tuple[int], np.dtype[np.int64]],
    ln_d: float,
) -> float:
    """Climb in ln d, of all variables together; no hyperprior holds it."""
    low, high = math.log(LOWEST), math.log(HIGHEST)
    return _newton(S, even, mixed, offsets, (0.0, 0.0), low, high, ln_d)


@kernel
def _newton(
    S: np.ndarray[tuple[int, int], np.dtype[np.float64]],
    direction: np.ndarray[tuple[int], np.dtype[np.float64]],
    rest: np.ndarray[tuple[int], np.dtype[np.float64]],
    offsets: np.ndarray[tuple[int], np.dtype[np.int64]],
    around: tuple[float, float],
    low: float,
    high: float,
    at: float,
) -> float:
    """Return ``at`` after some Newton steps on the ELBO along ln c; none that lowers it.

    ``around`` has the mean and the precision of a normal hyperprior of ln c.
    """
    mean, precision = around
    for _ in range(STEPS):
        value, first, second = _slope(S, direction, rest, offsets, at)
        value -= 0.5 * precision * (at - mean) ** 2
        first -= precision * (at - mean)
        second -= precision
        step = -first / second if second < 0.0 else math.copysign(LONGEST, first)
        step, last = min(max(step, -LONGEST), LONGEST), at
        for _ in range(HALVINGS):
            tried = min(max(last + step, low), high)
            reached = _slope(S, direction, rest, offsets, tried)[0]
            if reached - 0.5 * precision * (tried - mean) ** 2 >= value:
                at = tried
                break
            step *= 0.5
        if abs(at - last) < STILL:
            break
    return at


@kernel
def _slope(
    S: np.ndarray[tuple[int, int], np.dtype[np.float64]],
    direction: np.ndarray[tuple[int], np.dtype[np.float64]],
    rest: np.ndarray[tuple[int], np.dtype[np.float64]],
    offsets: np.ndarray[tuple[int], np.dtype[np.int64]],
    ln_c: float,
) -> tuple[float, float, float]:
    """Return the ELBO of some variables at ``eps = rest + c direction``; derivatives by ln c."""
    c = math.exp(ln_c)
    value, first, second = 0.0, 0.0, 0.0
    for j in range(len(offsets) - 1):
        start, stop = offsets[j], offsets[j + 1]
        whole, grows = 0.0, 0.0
        for m in range(start, stop):
            whole += rest[m] + c * direction[m]
            grows += direction[m]
        empty, empty_first, empty_second = _terms(whole, grows)
        empty, empty_first, empty_second = -empty, -empty_first, -empty_second
        for m in range(start, stop):
            term, d, dd = _terms(rest[m] + c * direction[m], direction[m])
            empty += term
            empty_first += d
            empty_second += dd
        for k in range(len(S)):
            total = 0.0
            for m in range(start, stop):
                total += S[k, m]
            if total <= 0.0:
                continue
            for m in range(start, stop):
                term, d, dd = _terms(rest[m] + c * direction[m] + S[k, m], direction[m])
                value += term
                first += d
                second += dd
            term, d, dd = _terms(whole + total, grows)
            value -= term + empty
            first -= d + empty_first
            second -= dd + empty_second
    return value, c * first, c * first + c * c * second


@kernel
def _terms(x: float, share: float) -> tuple[float, float, float]:
    """Return ln Gamma(x) and its two derivatives by c, if x grows by ``share`` with c."""
    value, d, t = ln_gamma_slopes(x)
    return value, share * d, share * share * t
