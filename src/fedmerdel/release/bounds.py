"""What h, Q and their like can be: bounds that follow from the rows of each cluster.

With shares r of rows that weigh w, ``f(x) = -x ln x`` and N the weight of all rows,

    -h_k = sum w f(r_k)        Q_kl = sum w [f(r_k) + f(r_l) - f(r_k + r_l)]

1. ``-h_k <= T_k ln(N / T_k)``: f is concave, so its mean is at most f of the mean, T_k / N.
2. ``Q_kl <= f(T_k) + f(T_l) - f(T_k + T_l)``: that of two shares is concave and homogeneous, so
   its sum is at most that of the sums.
3. ``Q_kl <= -h_k - h_l``: a share ``r_k + r_l`` is at most 1, where f is not negative.
4. ``-h_k <= sum_l Q_kl``: for each row Q_kl has ``r_k ln(1 + r_l / r_k)``, and the product of
   ``1 + r_l / r_k`` over all l is at least ``1 + (1 - r_k) / r_k = 1 / r_k``.

Counts of rows that were given to clusters also keep the bound of `inference.margins`.

The cost of a deletion is ``sum w ln(1 - r_k) <= N ln(1 - T_k / N)``, again by concavity, and the
blur of two halves is their Q. All that is generous here is what a policy leaves unknown.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import entr

from fedmerdel.inference.margins import misfits
from fedmerdel.release.cells import DUST
from fedmerdel.release.mechanism import Mechanism, MoveSums
from fedmerdel.sums.arrays import FloatArray
from fedmerdel.sums.expectations import Expectations
from fedmerdel.sums.sums import Sums

FLOOR = -700.0
"""Nats that a row's loss counts for at most where a cluster is deleted."""


class Unknown(NamedTuple):
    """What released sums leave open.

    Attributes
    ----------
    nats : float
        h and Q are told in steps of this; 0 is as they are.
    rows : float
        A cluster's rows are at most this far from what is told of them.
    total : float
        Weight of all rows of the site, at most.
    complete : bool
        Whether every row is in the cluster that it is told in, but for rounding.
    """

    nats: float
    rows: float
    total: float
    complete: bool


def unknown(sums: Sums, mechanism: Mechanism, complete: bool) -> Unknown:
    """Return what a release leaves open, by its mechanism.

    Rows of clusters that are not told are in the rest: the others don't have them, and the rest
    has no more than is told of it.

    Parameters
    ----------
    sums : Sums
        As released.
    mechanism : Mechanism
        How.
    complete : bool
        Whether it is known that all clusters are told.
    """
    told, silent = float(sums.T.sum()), int((sums.T == 0).sum())
    if mechanism.smallest == 0:  # as it is, and so nothing is too small to be told
        return Unknown(0.0, 0.0, told, complete=True)
    rows = float(mechanism.smallest * (sums.n_clusters + silent))
    return Unknown(mechanism.nats, rows, told + rows, complete=complete and not silent)


def most_overlap(a: FloatArray, b: FloatArray) -> FloatArray:
    """Return the most that clusters of so many rows can overlap (bound 2)."""
    return np.asarray(entr(a) + entr(b) - entr(a + b))


def impossible_overlap(sums: Sums, left: Unknown) -> str | None:
    """Return where h or Q can't be those of any rows, or None."""
    T, h, Q = sums.T, sums.h, sums.Q
    dust = DUST * max(left.total, 1.0)
    most = T + left.rows
    least = np.maximum(T - left.rows, 0.0) if left.complete else np.zeros_like(T)
    # T ln(N / T) is largest at N / e.
    at = np.clip(left.total / np.e, least, most)
    if np.any(-h > at * np.log(left.total / np.maximum(at, DUST)) + left.nats + dust):
        return "h is further below 0 than the rows of its cluster allow"
    nats = 3 * left.nats + dust  # Q is told up to one step higher, and each -h one lower
    apart = ~np.eye(len(T), dtype=bool)
    told = apart & (T > 0)[:, None] & (T > 0)[None, :]
    if np.any(told & (Q < (1 - DUST) * left.nats)):
        return "an overlap is under the least that is told of any"
    if np.any(apart & (Q > most_overlap(most[:, None], most[None, :]) + nats)):
        return "an overlap is larger than the rows of its clusters allow"
    if np.any(apart & (Q > -h[:, None] - h[None, :] + nats)):
        return "an overlap is larger than h of its clusters allows"
    rest = most_overlap(most, np.full_like(most, left.rows)) if left.rows else 0.0
    if left.complete and np.any(-h > Q.sum(axis=1) + rest + nats):
        return "h is further below 0 than the overlaps of its cluster allow"
    return None


def impossible_moves(sums: Sums, moves: MoveSums) -> str | None:
    """Return where cost or blur can't be those of any rows, or None; sums are as they are."""
    T, (halves, cost) = sums.T, moves
    total = float(T.sum())
    dust = DUST * max(total, 1.0)
    first = np.minimum(halves.T, T)
    if np.any(halves.blur > most_overlap(first, T - first) + dust):
        return "blur is larger than the rows of the halves allow"
    most = total * np.log(np.maximum(1.0 - T / total, DUST))
    if np.any(cost > most + dust) or np.any(cost < total * FLOOR - dust):
        return "cost is not what the rows of its cluster allow"
    return None


def impossible_clusters(sums: Sums, theta: Expectations, left: Unknown) -> bool:
    """Whether no rows, given to these clusters, have these counts in them.

    Nothing is impossible where counts were changed: many small changes may add up to much.
    """
    return left.rows == 0 and bool(misfits(sums, theta).any())
