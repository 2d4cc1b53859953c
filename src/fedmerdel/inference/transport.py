"""How well clusters found elsewhere fit a site's rows, from sums over these rows."""

from __future__ import annotations

from math import inf, sqrt
from typing import NamedTuple

import numpy as np
from scipy.stats import chi2

from fedmerdel.sums.arrays import FloatArray

LEAST_EXPECTED = 5.0
"""Rows that a chi-squared test expects in a cell at least; rarer clusters are taken together."""


class Measured(NamedTuple):
    """A number and how far it may be off.

    Attributes
    ----------
    value : float
        The number.
    standard_error : float
        Its standard error, with what rounding leaves open.
    """

    value: float
    standard_error: float


class Shift(NamedTuple):
    """Whether a site's shares of the clusters are other than the model's.

    Attributes
    ----------
    statistic : float
        Pearson's chi-squared.
    df : int
        Its degrees of freedom; 0 where too few clusters are large enough for a test.
    p_value : float
        The chance of as much if the shares were the same; at most this, for rows that are shared
        between clusters vary less than rows that are not.
    """

    statistic: float
    df: int
    p_value: float


def mean_score(
    nats: float, spread: float, n_rows: float, nats_step: float, row_step: float
) -> Measured:
    """Return the mean of a row's logarithm from its sum, with what rounding leaves open.

    Parameters
    ----------
    nats : float
        Sum over the rows.
    spread : float
        Standard deviation of a row.
    n_rows : float
        Rows.
    nats_step, row_step : float
        Steps in which the sum and the rows are told, 0 if exactly: each is off by something
        between, whose variance is a twelfth of the step squared.
    """
    value = nats / n_rows
    told = nats_step**2 / 12 + (value * row_step) ** 2 / 12
    return Measured(value, sqrt(spread**2 / n_rows + told / n_rows**2))


def carried_share(gain: Measured, own_gain: Measured, between: Measured) -> Measured | None:
    """Return the share of what own clusters gain that others' clusters gain too.

    Parameters
    ----------
    gain, own_gain : Measured
        Nats a row over independence, of others' clusters and of own ones.
    between : Measured
        The first less the second: how they vary together follows from the three.

    Returns
    -------
    Measured or None
        The ratio, its error by the delta method; None where own clusters gain less than two
        standard errors, and there is nothing to share.
    """
    if own_gain.value <= 2 * own_gain.standard_error:
        return None
    share = gain.value / own_gain.value
    squares = [each.standard_error**2 for each in (gain, own_gain, between)]
    together = (squares[0] + squares[1] - squares[2]) / 2
    variance = squares[0] - 2 * share * together + share**2 * squares[1]
    return Measured(share, sqrt(max(variance, 0.0)) / own_gain.value)


def share_shift(
    counts: FloatArray, shares: FloatArray, model_rows: float, smallest: int, step: float
) -> Shift:
    """Test whether rows have a model's shares of its clusters.

    At a model's own rows, sums of responsibilities under its weights are its shares times the rows:
    so each weight was found, also where rows are not as the model says. What they vary by elsewhere
    is at most multinomial, as r r' is at most diag(r).

    Parameters
    ----------
    counts : float64 array (K,)
        Sums of responsibilities under the model's weights, as told.
    shares : float64 array (K,)
        The model's weights.
    model_rows : float
        Rows that these were found from: they vary too.
    smallest : int
        Smallest count that is told: a 0 is under it, and its rows are in the largest count.
    step : float
        What counts are rounded to, or 0.
    """
    n_rows = float(counts.sum())
    expected = n_rows * shares
    rare = (expected < max(LEAST_EXPECTED, smallest)) | ((counts == 0) & (smallest > 1))
    largest = int(np.argmax(np.where(rare, -inf, counts)))
    rare[largest] = False
    kept = ~rare
    seen, due = counts.copy(), expected.copy()
    seen[largest] += counts[rare].sum()
    due[largest] += expected[rare].sum()
    seen, due = seen[kept], due[kept]
    df = int(kept.sum()) - 1
    if df == 0:
        return Shift(0.0, 0, 1.0)
    varies = due * (1.0 + n_rows / model_rows) + step**2 / 12
    statistic = float(((seen - due) ** 2 / varies).sum())
    return Shift(statistic, df, float(chi2.sf(statistic, df)))
