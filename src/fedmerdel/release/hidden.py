"""Counts that disclosure control has hidden, filled with what is expected of them.

A released 0 stands for fewer than s rows, the smallest count that can be told. Taken for none, it
makes the next clusters sure that the level does not occur there; rows that have it leave, the
count falls further, and round by round the model drifts away from the rows. But where they are is
known: one cluster of the site, the rest, has what all others leave of the site's totals. So the R
rows that the rest has at a level are its own and those that the others hide there. With the
clusters that are known, a cell of T rows has about Poisson(lambda) of them, lambda = T phi; fewer
than t where it is hidden, the count from which a cell is told (`Policy.least`),

    E[X | X < t] = lambda P(X < t - 1) / P(X < t)

and given that all of these sum to R the means are those of theta lambda, with the theta that makes
them sum to R: the E step of EM for counts that were summed and cut off. Where R is 0 the sum was
itself too small to be told, fewer than s. A cluster that hides rows has told as many more in its
largest cell, which go to the rest in exchange. The rows of a cluster of which nothing is told are
taken from the rest too.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from fedmerdel.release.few import TINY, expected_below
from fedmerdel.release.released import Released
from fedmerdel.study.policy import Policy
from fedmerdel.sums.arrays import BoolArray, FloatArray, IntArray
from fedmerdel.sums.expectations import Expectations
from fedmerdel.sums.levels import level_means, level_totals, sum_levels
from fedmerdel.sums.sums import Sums

OPINIONS = 5
"""Steps of EM to how many rows a cluster has of which nothing is told."""

TILTS = 10
"""Steps to the tilt that makes expected rows sum to those that there are: they settle in fewer."""

SWEEPS = 20
"""Over lines and columns, until a filled table sums to both again: far more than it takes."""


def filled(stats: Sums, rest: int, theta: Expectations, offsets: IntArray, policy: Policy) -> Sums:
    """Return a site's counts with the hidden ones filled in.

    Parameters
    ----------
    stats : Sums
        As released.
    rest : int
        The cluster that has what the others leave.
    theta : Expectations
        What is known of these clusters.
    offsets : int64 array (P + 1,)
        Where each variable's levels start.
    policy : Policy
        What may be told.
    """
    phi = level_means(np.exp(theta.log_levels), offsets)
    T, S = _with_silent(stats, rest, theta, phi, offsets)
    told = stats.T > 0
    told[rest] = False
    hidden = told[:, None] & (stats.S == 0)
    mean = level_totals(S, offsets) * phi
    given = _shared(S[rest], mean[rest], np.where(hidden, mean, 0.0), policy.least)
    few = np.where(S[rest] > 0, 0.0, mean[rest] + np.where(hidden, mean, 0.0).sum(axis=0))
    lost = expected_below(few, policy.smallest) / np.maximum(few, TINY) * mean
    lost[~hidden & ~_row(rest, hidden)] = 0.0
    for start, end in pairwise(offsets):
        at = slice(start, end)
        _exchange(S[:, at], given[:, at], rest)
        _exchange(S[:, at], lost[:, at], None)
    return stats._replace(T=T, S=S)


def with_rows(released: Released, rows: FloatArray, offsets: IntArray) -> Released:
    """Return the same with some rows (M,) of the rest at other levels than it was told to have."""
    if released.rest is None or not rows.any():
        return released
    S = released.sums.S.copy()
    for start, end in pairwise(offsets):
        rest = slice(released.rest, released.rest + 1), slice(start, end)
        _exchange(S[rest], rows[None, start:end], None)
    return released._replace(sums=released.sums._replace(S=S))


def filled_table(
    cells: FloatArray, mean: FloatArray, policy: Policy
) -> tuple[FloatArray, FloatArray]:
    """Return a site's table with hidden cells as expected, and the variance of each cell.

    Parameters
    ----------
    cells : float64 array
        As released; all 0 if nothing was told, which is then as expected.
    mean : float64 array
        Rows that are expected in each.
    policy : Policy
        Under which it was released: steps and threshold.
    """
    if not cells.any():
        return mean, np.zeros_like(mean)
    hidden = cells == 0
    filling = np.where(hidden, expected_below(mean, policy.least), 0.0)
    found, largest = cells + filling, np.unravel_index(int(cells.argmax()), cells.shape)
    # Of a count that may be anywhere in a range: its width squared, over twelve. Over six where it
    # was rounded up or down as two sums need, and not to the nearest.
    width = np.where(hidden, np.minimum(2 * filling, policy.least), policy.step)
    if cells.ndim == 1:
        found[largest] = max(found[largest] - filling.sum(), found[largest] / 2)
    else:
        # Lines and columns are known, so what one cell hides has moved others as far.
        for _ in range(SWEEPS):
            for axis in (0, 1):
                sums = np.maximum(found.sum(axis=axis, keepdims=True), TINY)
                found *= cells.sum(axis=axis, keepdims=True) / sums
        width[:] = width.max()
    return found, np.asarray(width**2 / (12 if cells.ndim == 1 else 6))


def _shared(total: FloatArray, own: FloatArray, mean: FloatArray, limit: int) -> FloatArray:
    """Return the rows of each level, (K, M), that the clusters hide of those in the rest.

    Parameters
    ----------
    total, own : float64 arrays (M,)
        Rows at each level in the rest, and how many it should have of its own.
    mean : float64 array (K, M)
        How many the others should have where they hide them, 0 elsewhere.
    limit : int
        They hide fewer than this.
    """
    tilt = np.ones_like(total)
    for _ in range(TILTS):
        found = expected_below(tilt * mean, limit)
        expected = tilt * own + found.sum(axis=0)
        tilt = tilt * np.clip(total / np.maximum(expected, TINY), 0.1, 10.0)
    return np.asarray(found * np.minimum(total / np.maximum(expected, TINY), 1.0))


def _exchange(cells: FloatArray, rows: FloatArray, rest: int | None) -> None:
    """Add rows to cells of a variable, in place, and take as many from each one's largest cell.

    Of those that are in the rest, the rest gets the largest in exchange.
    """
    if not rows.any():
        return
    # The largest cell has lost nothing, and keeps half of what it was told to have.
    every, largest = np.arange(len(cells)), cells.argmax(axis=1)
    total = rows.sum(axis=1)
    part = np.minimum(total, cells[every, largest] / 2)
    amount = rows * (part / np.maximum(total, TINY))[:, None]
    cells += amount
    cells[every, largest] -= part
    if rest is not None:
        cells[rest] = np.maximum(cells[rest] - amount.sum(axis=0), 0.0)
        np.add.at(cells[rest], largest, part)


def _row(k: int, like: BoolArray) -> BoolArray:
    found = np.zeros_like(like)
    found[k] = True
    return found


def _with_silent(
    stats: Sums, rest: int, theta: Expectations, phi: FloatArray, offsets: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Return T and S with the rows that clusters have of which nothing is told.

    All of them are in the rest. How many they are is the mean of what each variable makes of it,
    by EM: the rest's rows at a level are shared out by what is expected of each cluster, T phi.
    Which levels they have is as it is known: sharing these out too would teach such a cluster
    whatever the others hide.
    """
    T, S = stats.T.copy(), stats.S.copy()
    silent = np.flatnonzero(T == 0)
    if not len(silent):
        return T, S
    group = np.append(silent, rest)
    weights = theta.log_weights[group]
    part = np.exp(weights - np.logaddexp.reduce(weights))
    observed = level_totals(S[rest], offsets)
    for _ in range(OPINIONS):
        mean = part[:, None] * phi[group]
        shared = level_means(S[rest], offsets) * mean / np.maximum(mean.sum(axis=0), TINY)
        part = sum_levels(shared, offsets).mean(axis=1)
    left = level_means(np.maximum(S[rest] - part[:-1] @ phi[silent] * observed, 0.0), offsets)
    T[silent], S[silent] = T[rest] * part[:-1], part[:-1, None] * phi[silent] * observed
    T[rest], S[rest] = T[rest] * part[-1], part[-1] * left * observed
    return T, S
