"""Do counts fit the clusters that rows were given to? A bound that any rows keep.

A row's shares of two clusters are as their densities, ``r_nk / r_nl = rho_nk / rho_nl``. So with
``ln rho_nk = E[ln pi_k] + sum_j E[ln phi_kj x_nj]`` and rows that weigh w

    T_k (E[ln pi_k] - E[ln pi_l]) + S_k . (E[ln phi_k] - E[ln phi_l])
        = sum_n w_n r_nk ln(r_nk / r_nl) >= T_k ln(T_k / T_l)

by the log-sum inequality. Counts that are told of another cluster than their own break it.
"""

from __future__ import annotations

import numpy as np

from fedmerdel.sums.arrays import BoolArray, FloatArray
from fedmerdel.sums.expectations import Expectations
from fedmerdel.sums.sums import Sums

DUST = 1e-8
"""Of all terms: what sums of floats in another order may differ by."""


def misfits(sums: Sums, theta: Expectations, rows: float = 0.0) -> BoolArray:
    """Return which pairs of clusters, (K, K), no rows that were given to them fit.

    Parameters
    ----------
    sums, theta
        Those of `margins`.
    rows : float
        How far T may be told from what it is. The right side then is off by up to about
        ``rows (1 + T_k / T_l)`` nats, as much as there is where all rows are alike.
    """
    margin, scale = margins(sums, theta)
    ratio = sums.T[:, None] / np.where(sums.T > 0, sums.T, 1.0)
    return np.asarray(margin < -DUST * np.maximum(scale, 1.0) - rows * (1.0 + ratio))


def margins(sums: Sums, theta: Expectations) -> tuple[FloatArray, FloatArray]:
    """Return by how much counts in clusters keep the bound, for each pair of clusters.

    Parameters
    ----------
    sums : Sums
        T and S of rows that were given to the clusters.
    theta : Expectations
        The clusters.

    Returns
    -------
    margin : float64 array (K, K)
        Left side less right side in nats, of rows of cluster k that could be in l; not negative
        for any rows. Infinite where k is l or one of them has no rows.
    scale : float64 array (K, K)
        The sum of the absolute values of all terms: rounding is a tiny part of it.
    """
    T, S = sums.T, sums.S
    told = T > 0
    log_T = np.log(np.where(told, T, 1.0))
    weights, levels = theta
    own = T * weights + (S * levels).sum(axis=1)
    other = T[:, None] * weights + S @ levels.T
    margin = own[:, None] - other - T[:, None] * (log_T[:, None] - log_T)
    apart = told[:, None] & told & ~np.eye(len(T), dtype=bool)
    sizes = T[:, None] * (np.abs(weights) + np.abs(log_T)) + S @ np.abs(levels).T
    scale = np.diag(sizes)[:, None] + sizes
    return np.where(apart, margin, np.inf), scale
