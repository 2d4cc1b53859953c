"""Halves of clusters under disclosure control: told with their clusters, so by subtraction too.

Each cell of a cluster is cut into one of the first half and one of the second, and both must
be 0 or large enough to be told. A cell that can't be cut so goes to one half as a whole. Where
the cells of a variable then can't sum to the half's rows, nothing is told of the halves: all
rows go to the second one, and the centre splits the cluster without this site.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from fedmerdel.mixture.cuts import FirstHalves, second_halves
from fedmerdel.mixture.prior import FloatArray, Prior
from fedmerdel.mixture.statistics import Statistics
from fedmerdel.release.cells import HardCounts, with_missing
from fedmerdel.release.disclosure import coarse, releases_exactly, rounded
from fedmerdel.study.policy import Policy


def protect_halves(
    first: FirstHalves,
    soft: Statistics,
    people: tuple[HardCounts, HardCounts],
    released: Statistics,
    prior: Prior,
    policy: Policy,
) -> FirstHalves:
    """Return the first halves that may leave.

    Parameters
    ----------
    first : FirstHalves
        Sums of responsibilities.
    soft : Statistics
        Of the clusters, before anything was protected.
    people : two HardCounts
        People behind the sums of the first and of the second halves.
    released : Statistics
        Of the clusters, as they leave.
    prior : Prior
        Cuts S into variables.
    policy : Policy
        The study's.
    """
    if releases_exactly(policy):
        return first
    T, S = np.zeros_like(first.T), np.zeros_like(first.S)
    soft_second = second_halves(soft, first)
    T_cut = rounded(first.T, policy)
    fits = (T_cut >= policy.smallest) & (released.T - T_cut >= policy.smallest)
    fits &= np.minimum(people[0].T, people[1].T) >= policy.threshold
    for k in np.flatnonzero(fits):
        parts = []
        for start, end in pairwise(prior.offsets):
            one, other, one_people, other_people, whole = (
                with_missing(rows[k : k + 1], levels[k : k + 1, start:end])[0]
                for rows, levels in (
                    (first.T, first.S),
                    soft_second,
                    people[0][:2],
                    people[1][:2],
                    released[:2],
                )
            )
            few = np.minimum(one_people, other_people) < policy.threshold
            few |= np.minimum(one, other) < policy.threshold
            cells = _cut_cells(whole, one, other, few, T_cut[k], policy)
            if cells is None:
                break
            parts.append(cells[:-1])
        else:
            T[k], S[k] = T_cut[k], np.concatenate(parts)
    # Rounded down: a split must not look better than it is.
    return FirstHalves(T, S, np.where(T > 0, coarse(first.blur, policy, np.floor), 0.0))


def _cut_cells(
    whole: FloatArray,
    one: FloatArray,
    other: FloatArray,
    few: np.ndarray[tuple[int, ...], np.dtype[np.bool_]],
    total: float,
    policy: Policy,
) -> FloatArray | None:
    """Cut one variable's cells in two, the first halves summing to the total; None if none do."""
    both = ~few & (whole >= 2 * policy.smallest)
    all_or_nothing = np.where(one > other, whole, 0.0)
    low = np.where(both, policy.smallest, all_or_nothing)
    high = np.where(both, whole - policy.smallest, all_or_nothing)
    cells = np.clip(rounded(one, policy), low, high)
    for at in np.argsort(low - high, kind="stable"):  # the one with the most room first
        rest = total - cells.sum()
        cells[at] += np.clip(rest, low[at] - cells[at], high[at] - cells[at])
    return cells if cells.sum() == total else None
