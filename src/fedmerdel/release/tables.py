"""Counts that may be told, made from those that may not; and releases of one site fit together.

The rows of a group, cut by one variable, fall into cells. A released cell is 0 or at least the
policy's smallest count, and the cells sum to the group's released number of rows.

The rows of the whole site, those at each level and with each outcome, are protected so once: they
depend on the table alone, not on any clusters. In every release one cluster, the *rest*, is not
counted but is what the other clusters leave of these totals: its own rows, the rows of clusters
too small to be told, and what the others' cells have lost. So a release tells of a small group
only within the largest one, and two releases can't be subtracted to find it.
"""

from __future__ import annotations

import numpy as np

from fedmerdel.release.cells import DUST
from fedmerdel.study.policy import Policy
from fedmerdel.sums.arrays import BoolArray, FloatArray, IntArray

# Soft counts to sixteen digits are equations with a known left side: whoever has the model knows
# the responsibilities of every pattern of levels, and could solve for the numbers of rows. So a
# policy without rounding releases whole numbers: its step is 1.


def dust(T: FloatArray) -> FloatArray:
    """Return what sums over so many rows may lack: eleven sure rows may be 10.999999."""
    return np.asarray(DUST * np.maximum(T, 1.0))


def rounded(counts: FloatArray, policy: Policy) -> FloatArray:
    """Return counts to the nearest that may be told, but for the smallest."""
    return np.asarray(np.floor(counts / policy.step + 0.5) * policy.step)


def may_be_told(counts: FloatArray, policy: Policy) -> BoolArray:
    """Whether each is 0 or at least the smallest count."""
    return np.asarray((counts == 0) | (counts >= policy.smallest))


def protect_cells(soft: FloatArray, hard: FloatArray, T: FloatArray, policy: Policy) -> FloatArray:
    """Protect the cells (K, C) of each of some groups, so that they sum to the released T.

    Parameters
    ----------
    soft, hard : float64 arrays (K, C)
        Rows in each cell, as sums of parts and in people.
    T : float64 array (K,)
        Rows of each group as released.
    policy : Policy
        What may be told.
    """
    # A sum of dust is no group of rows, nor does dust hide one: either count may be too small.
    least = max(policy.threshold, policy.step / 2)  # a part of a row may round up
    small = (soft < least - dust(T)[:, None]) | (hard < policy.least)
    cells = np.where(small, 0.0, np.maximum(rounded(soft, policy), policy.smallest))
    # The largest cell takes what the others lose, as one that is told if there is any.
    weighed = np.where(small & ~small.all(axis=1, keepdims=True), -1.0, soft)
    largest = weighed.argmax(axis=1)
    groups = np.arange(len(T))
    cells[groups, largest] = 0.0
    for k in np.flatnonzero(T - cells.sum(axis=1) < policy.smallest):
        make_room(cells[k], soft[k], T[k] - policy.smallest, policy)
    cells[groups, largest] = T - cells.sum(axis=1)
    return cells


def make_room(cells: FloatArray, soft: FloatArray, most: float, policy: Policy) -> None:
    """Lower cells that rounding has raised, in place, until they sum to at most this.

    Cells are first rounded down instead of up. Only if all are as small as may be is one
    dropped; then they are more than fit, so the rarest of them has fewer rows than the
    smallest count, and a released 0 still says no more than that.
    """
    while cells.any() and cells.sum() > most:
        lower = cells - policy.step
        # Huge survey weights make counts from which a step takes nothing.
        can_fall = (lower >= policy.smallest) & (lower < cells)
        if can_fall.any():
            cells[np.where(can_fall, cells - soft, -np.inf).argmax()] -= policy.step
        else:
            cells[np.where(cells > 0, soft, np.inf).argmin()] = 0.0


def site_rows(soft: FloatArray, policy: Policy) -> FloatArray:
    """Return the released rows (1,) of a whole site."""
    return np.maximum(rounded(soft, policy), policy.smallest)


def cluster_rows(
    soft: FloatArray, told: BoolArray, rest: int, total: float, policy: Policy
) -> FloatArray:
    """Return the released rows of each cluster: they sum to the total, and the rest has most.

    Parameters
    ----------
    soft : float64 array (K,)
        Rows of each cluster.
    told : bool array (K,)
        Clusters that are counted. The rest is none of them; of others nothing is told.
    rest : int
        The cluster that is what these leave.
    total : float
        Released rows of the site.
    policy : Policy
        What may be told.
    """
    T = np.where(told, np.maximum(rounded(soft, policy), policy.smallest), 0.0)
    while told.any() and total - T.sum() < max(T.max(), policy.smallest):
        can_fall = T - policy.step >= policy.smallest
        if not can_fall.any():
            break
        T[np.where(can_fall, T - soft, -np.inf).argmax()] -= policy.step
    T[rest] = total - T.sum()
    return T


def protect_table(
    soft: FloatArray,
    hard: FloatArray,
    T: FloatArray,
    totals: FloatArray,
    rest: int,
    policy: Policy,
) -> FloatArray | None:
    """Protect one variable's cells (K, C): they sum to T over cells, and to totals over clusters.

    Parameters
    ----------
    soft, hard : float64 arrays (K, C)
        Rows in each cell, as sums of parts and in people.
    T : float64 array (K,)
        Released rows; 0 where nothing is told.
    totals : float64 array (C,)
        Released rows of the site in each cell; 0 or at least the smallest count.
    rest : int
        The cluster that is what the others leave.
    policy : Policy
        What may be told.

    Returns
    -------
    float64 array (K, C) or None
        None if the others would have to be told further from what they are than by about half
        of the smallest count.
    """
    others = np.flatnonzero(T > 0)
    others = others[others != rest]
    cells = protect_cells(soft[others], hard[others], T[others], policy)
    left = totals - cells.sum(axis=0)
    if not may_be_told(left, policy).all() and not _mended(cells, soft[others], left, policy):
        return None
    table = np.zeros_like(soft)
    table[others] = cells
    table[rest] = left
    return table


def furthest(policy: Policy) -> float:
    """Return how far a cell may be told from what it is, but for the largest ones."""
    return float(policy.smallest + policy.step)


def _mended(cells: FloatArray, soft: FloatArray, left: FloatArray, policy: Policy) -> bool:
    """Move rows between the cells of a cluster, in place, until what is left may be told.

    Say whether that could be done.
    """
    largest = cells.argmax(axis=1)
    for _ in range(4 * cells.size + 1):  # far more than it takes
        wrong = np.flatnonzero(~may_be_told(left, policy))
        if not len(wrong):
            return True
        move = _best_move(cells, soft, left, int(wrong[left[wrong].argmin()]), largest, policy)
        if move is None:
            return False
        k, column, to, amount = move
        cells[k, column] -= amount
        cells[k, to] += amount
        left[column] += amount
        left[to] -= amount
    return False


def _best_move(
    cells: FloatArray,
    soft: FloatArray,
    left: FloatArray,
    column: int,
    largest: IntArray,
    policy: Policy,
) -> tuple[int, int, int, float] | None:
    """Return the move of rows out of a column (or, below 0, into it) that costs least.

    Its cluster, the column, the other column, and how many rows.
    """
    most, smallest, whole = furthest(policy), policy.smallest, np.ones(len(cells))
    to_zero, to_smallest = -left[column], smallest - left[column]
    # What a cell can spare helps, where no one move is enough.
    spare = cells[:, column] - np.maximum(smallest, soft[:, column] - most)
    spare = np.floor(np.clip(spare, 0.0, max(to_zero, 0.0)) / policy.step) * policy.step
    best, found = np.inf, None
    for amount in (to_zero * whole, to_smallest * whole, smallest * whole, spare):
        ends = may_be_told(left[column] + amount, policy)
        for to in range(cells.shape[1]):
            new = cells[:, column] - amount, cells[:, to] + amount
            fits = (amount != 0) & (new[0] >= 0) & (new[1] >= 0) & (to != column)
            for after, at in zip(new, (column, to), strict=True):
                near = np.abs(after - soft[:, at]) <= most
                fits &= may_be_told(after, policy) & (near | ((largest == at) & (after > 0)))
            after = left[to] - amount
            fits &= may_be_told(after, policy) | (
                ~may_be_told(left[to], policy) & (after > left[to])
            )
            further = sum(
                ((then - soft[:, at]) ** 2 - (cells[:, at] - soft[:, at]) ** 2)
                / (soft[:, at] + smallest)
                for then, at in zip(new, (column, to), strict=True)
            )
            cost = np.where(fits, further + np.where(ends, 0.0, smallest), np.inf)
            k = int(cost.argmin())
            if cost[k] < best:
                best, found = float(cost[k]), (k, column, to, float(amount[k]))
    return found
