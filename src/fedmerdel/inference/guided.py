"""Rates of an outcome that helped to find the clusters, corrected for rows in the wrong one.

Of rows with level l of the outcome, ``a_gl = sum_n r_ng`` are counted in cluster g. As a row's own
level has a say in its shares r, rows of one cluster are confused in another way at each level:

    E[a_gl] = sum_k D^l_gk N_kl        D^l_gk = E[r_g | z = k, y = l]

with N_kl the true rows. So each level is taken back by itself, and the rates are shares of N_kl.
With rows drawn as from a Poisson distribution,

    Cov(a_l) = sum_k N_kl E[r r' | k, l]        Cov(N_l) = D^-1 Cov(a_l) D^-T

A weight of next to nothing makes all D^l alike, and this that of Bolck, Croon and Hagenaars (2004).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import nnls

from fedmerdel.inference.confusion import Confusion, MadeUp, confusion_of
from fedmerdel.sums.arrays import FloatArray
from fedmerdel.sums.expectations import Expectations

MOST_STEPS = 100
"""For each cluster, of least squares within bounds: far more than it takes."""


class GuidedRates(NamedTuple):
    """Shares of the levels of an outcome in each cluster.

    Attributes
    ----------
    share : float64 array (K, L)
        Of each level in each cluster; nan where there are no rows.
    variance : float64 array (K, L)
        Of each.
    rows : float64 array (K,)
        True rows of each cluster of which the outcome is known.
    """

    share: FloatArray
    variance: FloatArray
    rows: FloatArray


def confusions(made: MadeUp, theta: Expectations, levels: slice) -> list[Confusion]:
    """Return how rows with each level of a variable are counted in the clusters.

    Parameters
    ----------
    made : MadeUp
        Rows drawn from the clusters; what they say of this variable is not looked at.
    theta : Expectations
        By which rows are given to clusters.
    levels : slice
        Where the variable's levels are.
    """
    others = theta.log_levels.copy()
    others[:, levels] = 0.0
    said = made.said_of(others)
    return [confusion_of(said, theta.log_weights + own) for own in theta.log_levels.T[levels]]


def guided_rates(confused: list[Confusion], counts: FloatArray, changed: FloatArray) -> GuidedRates:
    """Return the shares of an outcome's levels in each cluster, corrected.

    Parameters
    ----------
    confused : list of Confusion
        Of rows with each level.
    counts : float64 array (K, L)
        Rows with each level, as counted in each cluster.
    changed : float64 array (K, L)
        What disclosure control has added to the variance of each.
    """
    rows, variance = np.zeros_like(counts), np.zeros_like(counts)
    for at, (mean, products) in enumerate(confused):
        rows[:, at] = nnls(mean, counts[:, at], maxiter=MOST_STEPS * len(mean))[0]
        back = np.linalg.pinv(mean)
        spread = np.einsum("k,kgh->gh", rows[:, at], products) + np.diag(changed[:, at])
        variance[:, at] = np.einsum("ag,gh,ah->a", back, spread, back)
    total = rows.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = rows / total
        others = variance.sum(axis=1, keepdims=True) - variance
        of_share = ((1 - share) ** 2 * variance + share**2 * others) / total**2
    return GuidedRates(share, of_share, total[:, 0])
