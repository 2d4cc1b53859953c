"""How much more probable rows are with clusters than without: sums that may be told.

A sum of logarithms counts single rows wherever clusters hold a level for all but impossible: each
row with it costs ten to a hundred nats. So under a policy what a row adds is cut at a limit that
depends on the study alone, and the steps are as large as the smallest count of rows can move a sum.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fedmerdel.sums.arrays import FloatArray

NAMES = ("site_weights", "model_weights", "own_clusters")
"""What gives a row its probability: the model's clusters with the site's weights of them, and with
the model's; clusters that the site has found itself."""

BETWEEN = (0, 2)
"""The two that are compared row by row."""

LEAST_LIMIT, VARIABLES_PER_NAT = 5.0, 4
"""Nats that a row may add, and how this grows with the variables of a wide study."""


class Scores(NamedTuple):
    """Gains over independence, summed over the rows of a site.

    Attributes
    ----------
    scored : float
        Rows.
    nats : float64 array (3,)
        Sum over the rows of the logarithm of a row's probability, less that under independence.
    spread : float64 array (4,)
        Standard deviation of what a row adds to each, and of the first less the third.
    limit : float or None
        Nats that a row may add or take; None if as many as it does.
    """

    scored: float
    nats: FloatArray
    spread: FloatArray
    limit: float | None


def limit_of(n_variables: int) -> float:
    """Return the nats that a row may add, for a study of so many variables."""
    return max(LEAST_LIMIT, n_variables / VARIABLES_PER_NAT)


def nats_step(limit: float | None, smallest: int) -> float:
    """Return the steps of sums: as far as so many rows can move one, each from end to end."""
    return 0.0 if limit is None else 2.0 * limit * smallest


def exact_scores(gains: FloatArray, weights: FloatArray) -> Scores:
    """Return the sums of rows' gains (3, N) as they are."""
    total = float(weights.sum())
    each = with_between(gains)
    off = weights * (each - (each @ weights / total)[:, None])
    return Scores(total, gains @ weights, np.sqrt((off * off).sum(axis=1) / total), None)


def coarse_scores(gains: FloatArray, scored: float, limit: float, smallest: int) -> Scores:
    """Return sums of rows' gains (3, N) that may be told.

    Every row counts once, whatever it weighs: else one with a large weight would stand out.

    Parameters
    ----------
    gains : float64 array (3, N)
        Nats that each row gains.
    scored : float
        The rows, as they may be told.
    limit : float
        Nats that a row may add or take.
    smallest : int
        Smallest count that may be told.
    """
    each = np.clip(with_between(gains), -limit, limit)
    step = nats_step(limit, smallest)
    nats = np.floor(each[: len(NAMES)].sum(axis=1) / step + 0.5) * step
    # A row adds up to the limit squared; none and a few look the same: one step. The spread
    # follows from three numbers that may be told.
    square_step = limit**2 * smallest
    steps = np.maximum(np.ceil((each * each).sum(axis=1) / square_step), 1.0)
    # The sum may be nearer to 0 by half a step, a difference by a whole one.
    nearer = step * np.array([0.5, 0.5, 0.5, 1.0])
    means = np.maximum(np.abs(with_between(nats)) - nearer, 0.0) / scored
    spread = np.sqrt(np.maximum(steps * square_step / scored - means**2, 0.0))
    return Scores(scored, nats, spread, limit)


def with_between(gains: FloatArray) -> FloatArray:
    """Return three numbers, or rows of them, and the difference of the two that are compared."""
    first, second = BETWEEN
    return np.concatenate([gains, [gains[first] - gains[second]]])
