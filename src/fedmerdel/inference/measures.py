"""What shares of cells say of an outcome: rates of levels, a mean, a life table; standardised.

An outcome is told as rows by cell and cluster; `corrected` gives the shares p_kc of the cells in
each cluster, with their covariance. A measure is a function of one cluster's shares, so that its
covariance between clusters k and l is ``J_k Cov(p_k, p_l) J_l'`` (the delta method), J_k being the
derivatives, which differences give.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from fedmerdel.inference.corrected import Estimate
from fedmerdel.sums.arrays import FloatArray

STEP = 1e-5
"""Of the differences that stand for derivatives."""

THIN = 1e-3
"""Share of a cluster that is taken to be in a stratum, as all rows are there, where fewer are."""

Measure = Callable[[FloatArray], FloatArray]
"""From shares of cells (..., C) to numbers (..., M)."""


class Measures(NamedTuple):
    """Numbers of each cluster, with their covariance.

    Attributes
    ----------
    values : float64 array (M, K)
        Each number in each cluster.
    covariance : float64 array (M * K, M * K)
        Of these, number by number.
    """

    values: FloatArray
    covariance: FloatArray

    @property
    def variance(self) -> FloatArray:
        """Of each number in each cluster: (M, K)."""
        return np.diag(self.covariance).reshape(self.values.shape)


def level_shares(cells: FloatArray) -> FloatArray:
    """Return the share of each level: they are the cells."""
    return cells


def with_it(cells: FloatArray) -> FloatArray:
    """Return the share of rows with the outcome: the second of two cells."""
    return cells[..., 1:]


def mean_number(cells: FloatArray) -> FloatArray:
    """Return the mean of y, of which the cells hold (1 - y)², 2 y (1 - y) and y²."""
    return np.asarray(cells[..., 1:2] / 2 + cells[..., 2:])


def by_each_end(cells: FloatArray) -> FloatArray:
    """Return the share with the event by the end of each interval, from a life table.

    The cells are: neither event nor lost; event in each interval; lost in each. Within an
    interval both come at constant rates (piecewise exponential). Of the share s/n that is left at
    its end without either, d/(d + c) of the logarithm is the event's, where d have had it and c
    were lost: so ``(s/n) ** (d / (d + c))`` would be without it if nobody were lost.
    """
    n = (cells.shape[-1] - 1) // 2
    event, lost = cells[..., 1 : 1 + n], cells[..., 1 + n :]
    gone = np.maximum(event + lost, 1e-12)
    at_risk = cells.sum(axis=-1, keepdims=True) - np.cumsum(event + lost, axis=-1) + event + lost
    left = np.clip(1.0 - gone / np.maximum(at_risk, 1e-9), 1e-9, 1.0)
    without = np.cumprod(left ** np.clip(event / gone, 0.0, 1.0), axis=-1)
    # Where all were lost before, nobody was there to have the event or not.
    before = np.concatenate([np.ones_like(without[..., :1]), without[..., :-1]], axis=-1)
    unseen = (at_risk < STEP) & (before > STEP)
    return np.asarray(1.0 - np.where(np.cumsum(unseen, axis=-1) > 0, np.nan, without))


def standardised(measure: Measure, all_rows: FloatArray) -> Measure:
    """Return the measure that a cluster would have with the strata of all rows.

    Parameters
    ----------
    measure : callable
        Of the cells of one stratum.
    all_rows : float64 array (G, C)
        Shares of the cells in all rows, stratum by stratum.
    """
    weights = all_rows.sum(axis=1)

    def found(cells: FloatArray) -> FloatArray:
        strata = cells.reshape(*cells.shape[:-1], *all_rows.shape)
        lack = np.maximum(THIN * weights - strata.sum(axis=-1), 0.0)
        usual = all_rows / np.maximum(weights, 1e-300)[:, None]
        strata = strata + lack[..., None] * usual
        each = measure(strata / np.maximum(strata.sum(axis=-1, keepdims=True), 1e-300))
        each = np.where(weights[:, None] > 0, each, 0.0)
        return np.asarray(np.einsum("g,...gm->...m", weights, each) / weights.sum())

    return found


def measured(estimate: Estimate, measure: Measure) -> Measures:
    """Return a measure of each cluster.

    Parameters
    ----------
    estimate : Estimate
        Shares of the cells but for the first.
    measure : callable
        What to make of the shares of all cells.
    """
    mean, (K, Q) = estimate.mean, estimate.mean.shape
    values = measure(_whole(mean))
    J = np.empty((K, values.shape[1], Q))
    for q in range(Q):
        apart = STEP * np.eye(Q)[q]
        above = (measure(_whole(mean + apart)) - values) / STEP
        below = (values - measure(_whole(mean - apart))) / STEP
        # Of an empty cell a measure may not change with still fewer rows: the other side does.
        J[:, :, q] = np.where(np.abs(above) > np.abs(below), above, below)
    covariance = estimate.covariance.reshape(Q, K, Q, K)
    J = np.where(np.isfinite(J), J, 0.0)  # where nothing is known
    found = np.einsum("kmq,qkrl,lnr->mknl", J, covariance, J, optimize=True)
    size = values.size
    return Measures(values.T, found.reshape(size, size))


def _whole(rest: FloatArray) -> FloatArray:
    """Return the shares of all cells, the first being what the others leave."""
    return np.column_stack([1.0 - rest.sum(axis=1), rest])


def of_numbers(n_strata: int) -> Callable[[FloatArray], FloatArray]:
    """Return the second moments of a number's cells, as `corrected` takes them.

    Between 0 and 1 a number is taken to have a Beta distribution in each cluster and stratum,
    with the mean and spread that its cells tell.
    """

    def moments(mean: FloatArray) -> FloatArray:
        cells = _whole(mean).clip(min=1e-9).reshape(len(mean), n_strata, 3)
        rows = cells.sum(axis=2)
        y = (cells[:, :, 1] / 2 + cells[:, :, 2]) / rows
        square = cells[:, :, 2] / rows
        spread = np.clip(square - y**2, 1e-6 * y * (1 - y), 0.999 * y * (1 - y))
        size = y * (1 - y) / spread - 1.0
        a = y * size
        raw = [np.ones_like(y)]
        for step in range(4):
            raw.append(raw[-1] * (a + step) / (size + step))
        # (1 - y)^2, 2 y (1 - y), y^2 as polynomials of y.
        parts = np.array([[1.0, -2.0, 1.0], [0.0, 2.0, -2.0], [0.0, 0.0, 1.0]])
        within = np.zeros((*y.shape, 3, 3))
        for i in range(3):
            for j in range(3):
                within += np.multiply.outer(raw[i + j], np.outer(parts[:, i], parts[:, j]))
        first = np.einsum("cp,pkg->kgc", parts, np.array(raw[:3])) * rows[:, :, None]
        C = 3 * n_strata
        whole = np.zeros((len(mean), C, C))
        for g in range(n_strata):
            at = slice(3 * g, 3 * g + 3)
            whole[:, at, at] = rows[:, g, None, None] * within[:, g]
        found = np.ones((len(mean), C, C))
        found[:, :-1, :-1] = whole[:, 1:, 1:]
        # Of the same Beta distribution, or these were no moments of anything.
        found[:, :-1, -1] = found[:, -1, :-1] = first.reshape(len(mean), C)[:, 1:]
        return found

    return moments
