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
from scipy.special import entr, logsumexp

from fedmerdel.inference.margins import misfits
from fedmerdel.release.cells import DUST
from fedmerdel.release.mechanism import Mechanism, MoveSums
from fedmerdel.sums.arrays import FloatArray, IntArray
from fedmerdel.sums.expectations import Expectations
from fedmerdel.sums.sums import Sums

FLOOR = -700.0
"""Nats that a row's loss counts for at most where a cluster is deleted."""


class Unknown(NamedTuple):
    """What released sums leave open.

    Attributes
    ----------
    nats : float
        h, Q and evidence are told in steps of this; 0 is as they are.
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


def unknown(sums: Sums, mechanism: Mechanism, untold: int) -> Unknown:
    """Return what a release leaves open, by its mechanism and the clusters that it left out."""
    told, K = float(sums.T.sum()), sums.n_clusters
    if mechanism.smallest == 0:  # as it is, and so nothing is too small to be told
        return Unknown(0.0, 0.0, told, complete=True)
    rows = float(mechanism.smallest * (K + untold))
    return Unknown(mechanism.nats, rows, told + rows, complete=untold == 0)


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


def impossible_evidence(
    sums: Sums, evidence: float, theta: Expectations, offsets: IntArray, left: Unknown
) -> bool:
    """Whether clusters that were sent out can't explain any rows with these sums so well, or badly.

    ``ln rho_nk = ln r_nk + ln sum_k rho_nk``, so where all is told the evidence is known:
    ``sum_k T_k E[ln pi_k] + S_k . E[ln phi_k] - h_k``. Else each row's is at least that of the
    rarest levels in its best cluster, and at most that of the most frequent in all.

    Parameters
    ----------
    sums : Sums
        Of the clusters that were sent out, as a site told them.
    evidence : float
        What it told with them.
    theta : Expectations
        The clusters.
    offsets : int64 array (P + 1,)
        Where each variable's levels start.
    left : Unknown
        What the sums leave open.
    """
    if left.rows == 0:
        parts = sums.T * theta.log_weights, sums.S * theta.log_levels, -sums.h
        known = sum(float(part.sum()) for part in parts)
        scale = sum(float(np.abs(part).sum()) for part in parts)
        return abs(evidence - known) > DUST * max(scale, 1.0)
    # A missing entry adds nothing.
    rarest = np.minimum(np.minimum.reduceat(theta.log_levels, offsets[:-1], axis=1), 0.0)
    commonest = np.maximum(np.maximum.reduceat(theta.log_levels, offsets[:-1], axis=1), 0.0)
    lowest = float((theta.log_weights + rarest.sum(axis=1)).max())
    highest = float(logsumexp(theta.log_weights + commonest.sum(axis=1)))
    slack = left.nats + DUST * max(left.total, 1.0)
    return (
        not left.total * min(lowest, 0.0) - slack
        <= evidence
        <= (left.total * max(highest, 0.0) + slack)
    )


def impossible_clusters(sums: Sums, theta: Expectations, left: Unknown) -> bool:
    """Whether no rows, given to these clusters, have these counts in them.

    Nothing is impossible where counts were changed: many small changes may add up to much.
    """
    return left.rows == 0 and bool(misfits(sums, theta).any())
