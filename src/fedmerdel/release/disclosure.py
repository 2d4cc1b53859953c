"""Disclosure control: counts that may leave a site, made from those that may not.

Rows of one cluster, cut by one variable, fall into cells: a level each, and missing. A
released cell is 0 or at least the policy's smallest count, and the cells of each variable sum
to the cluster's released number of rows. So whatever a reader adds or subtracts within a
variable is again a sum of such cells, and none is small. What is left to learn from outside
knowledge is on the page "What leaves a site" of the documentation.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedmerdel.errors import DataError
from fedmerdel.release.cells import DUST, HardCounts, OutcomeCounts, all_cells, with_missing
from fedmerdel.release.report import Changes, DisclosureReport, bounded_cost, release_cost
from fedmerdel.study.policy import Policy
from fedmerdel.sums.arrays import FloatArray
from fedmerdel.sums.elbo import elbo
from fedmerdel.sums.prior import Prior
from fedmerdel.sums.sums import Sums


class Protected(NamedTuple):
    """What `protect` returns: all but `changes` may leave.

    Attributes
    ----------
    statistics : Sums
        Released T, S and h.
    overlap : float64 array (K, K)
        Upper bound of Q.
    outcomes : dict of str to OutcomeCounts
        Released outcome counts.
    report : DisclosureReport
        The account to release.
    changes : Changes
        The exact account, which stays at the site.
    """

    statistics: Sums
    overlap: FloatArray
    outcomes: dict[str, OutcomeCounts]
    report: DisclosureReport
    changes: Changes


def releases_exactly(policy: Policy) -> bool:
    """Whether numbers go out as they are."""
    return policy.threshold == 0 and policy.rounding <= 1


def too_small(T: FloatArray, T_hard: FloatArray, policy: Policy) -> NDArray[np.bool_]:
    """Return the clusters that must not be released, to be absorbed or withheld first.

    Parameters
    ----------
    T : float64 array (K,)
        Rows by responsibility.
    T_hard : float64 array (K,)
        Rows whose most probable cluster it is.
    policy : Policy
        The study's.
    """
    if releases_exactly(policy):
        return np.zeros(len(T), dtype=np.bool_)
    return np.asarray((T < policy.smallest - _dust(T)) | (T_hard < policy.smallest))


def protect(
    soft: Sums,
    hard: HardCounts,
    overlap: FloatArray,
    prior: Prior,
    policy: Policy,
    *,
    outcomes: Mapping[str, OutcomeCounts] | None = None,
    absorbed: int = 0,
    withheld: int = 0,
    cost_so_far: float = 0.0,
) -> Protected:
    """Return the numbers that may leave.

    Parameters
    ----------
    soft : Sums
        Sums of responsibilities.
    hard : HardCounts
        People behind the sums; its outcomes are those of `outcomes`.
    overlap : float64 array (K, K)
        Q, symmetric.
    prior : Prior
        Prior of the fit: cuts S into variables, and states the cost.
    policy : Policy
        The study's.
    outcomes : mapping of str to OutcomeCounts, optional
        Sums of responsibilities for each named outcome.
    absorbed, withheld : int
        Clusters that `too_small` named, and what became of them.
    cost_so_far : float
        Nats of ELBO that this cost.

    Raises
    ------
    DataError
        If there is no cluster, or one too small to be released.
    """
    named = dict(outcomes or {})
    if soft.n_clusters == 0:
        raise DataError(
            f"no cluster has {policy.smallest} rows, the least that policy {policy.name!r} "
            "releases: this site is too small to take part alone"
        )
    if too_small(soft.T, hard.T, policy).any():
        raise DataError(
            f"a cluster has fewer than {policy.smallest} rows, the least that policy "
            f"{policy.name!r} releases: absorb or withhold it first"
        )
    if releases_exactly(policy):
        released, bound, told = soft, overlap, named
    else:
        T = rounded(soft.T, policy)
        S = np.empty_like(soft.S)
        for start, end in pairwise(prior.offsets):
            at = slice(start, end)
            cells = _protect_cells(
                with_missing(soft.T, soft.S[:, at]), with_missing(hard.T, hard.S[:, at]), T, policy
            )
            S[:, at] = cells[:, :-1]
        told = {}
        for name, counts in named.items():
            cells = _protect_cells(
                counts.cells(soft.T), hard.outcomes[name].cells(hard.T), T, policy
            )
            told[name] = OutcomeCounts(cells[:, 1], T - cells[:, 2])
        bound = _overlap_bound(overlap, policy)
        released = Sums(T, S, _entropy_bound(soft.h, policy))
    cost = release_cost(soft, released, prior) + cost_so_far
    before, after = (
        all_cells(stats, prior.offsets, counts)
        for stats, counts in ((soft, named), (released, told))
    )
    return Protected(
        released,
        bound,
        told,
        _report(after, released, prior, policy, absorbed, withheld, cost),
        Changes(
            zeroed=int(((before > DUST) & (after == 0)).sum()),
            changed=int((np.abs(before - after) > DUST).sum()),
            largest_change=float(np.abs(before - after).max()),
            elbo=elbo(soft, prior),
            cost=cost,
            cost_per_row=cost / float(soft.T.sum()),
        ),
    )


def _dust(T: FloatArray) -> FloatArray:
    # Eleven sure rows, counted by subtraction, may be 10.999999.
    return np.asarray(DUST * np.maximum(T, 1.0))


def hidden_below(policy: Policy) -> int:
    """Return the count from which a cell is told; fewer rows are released as 0."""
    return max(policy.threshold, -(-_step(policy) // 2))


def _step(policy: Policy) -> int:
    # Soft counts to sixteen digits are equations with a known left side: whoever has the model
    # knows the responsibilities of every pattern of levels, and could solve for the numbers of
    # rows. So a policy without rounding releases whole numbers.
    return max(policy.rounding, 1)


def rounded(counts: FloatArray, policy: Policy) -> FloatArray:
    """Return counts to the nearest that may be told, but for the smallest."""
    step = _step(policy)
    return np.asarray(np.floor(counts / step + 0.5) * step)


def _protect_cells(soft: FloatArray, hard: FloatArray, T: FloatArray, policy: Policy) -> FloatArray:
    """Protect one variable's cells, (K, L + 1), so that they sum to the released T."""
    # A sum of dust is no group of rows, nor does dust hide one: either count may be too small.
    least = max(policy.threshold, _step(policy) / 2)  # a part of a row may round up
    small = (soft < least - _dust(T)[:, None]) | (hard < policy.threshold)
    cells = np.where(small, 0.0, np.maximum(rounded(soft, policy), policy.smallest))
    # The largest cell takes what the others lose, as one that is told if there is any.
    weighed = np.where(small & ~small.all(axis=1, keepdims=True), -1.0, soft)
    largest = weighed.argmax(axis=1)
    clusters = np.arange(len(T))
    cells[clusters, largest] = 0.0
    for k in np.flatnonzero(T - cells.sum(axis=1) < policy.smallest):
        _make_room(cells[k], soft[k], T[k] - policy.smallest, policy)
    cells[clusters, largest] = T - cells.sum(axis=1)
    return cells


def _make_room(cells: FloatArray, soft: FloatArray, most: float, policy: Policy) -> None:
    """Lower cells that rounding has raised, in place, until they sum to at most this.

    Cells are first rounded down instead of up. Only if all are as small as may be is one
    dropped; then they are more than fit, so the rarest of them has fewer rows than the
    smallest count, and a released 0 still says no more than that.
    """
    step = _step(policy)
    while cells.any() and cells.sum() > most:
        lower = cells - step
        # Huge survey weights make counts from which a step takes nothing.
        can_fall = (lower >= policy.smallest) & (lower < cells)
        if can_fall.any():
            cells[np.where(can_fall, cells - soft, -np.inf).argmax()] -= step
        else:
            cells[np.where(cells > 0, soft, np.inf).argmin()] = 0.0


def coarse(nats: FloatArray, policy: Policy, towards: np.ufunc) -> FloatArray:
    """Return sums over rows in whole steps, up (``np.ceil``) or down (``np.floor``).

    A row shared evenly by two clusters adds ln 2, so a step is as many rows as may be told.
    """
    unit = policy.smallest * np.log(2.0)
    steps = towards(nats / unit)
    # The quotient may have been rounded to a whole number, the wrong way.
    if towards is np.ceil:
        steps = np.where(steps * unit < nats, steps + 1.0, steps)
    else:
        steps = np.where(steps * unit > nats, steps - 1.0, steps)
    return np.asarray(steps * unit)


def _overlap_bound(overlap: FloatArray, policy: Policy) -> FloatArray:
    # No overlap and a little look the same: one step.
    bound = np.maximum(coarse(overlap, policy, np.ceil), policy.smallest * np.log(2.0))
    bound = np.maximum(bound, bound.T)
    np.fill_diagonal(bound, 0.0)
    return np.asarray(bound)


def _entropy_bound(h: FloatArray, policy: Policy) -> FloatArray:
    # -h adds to the ELBO, so a lower bound of it is never too good to be true.
    return np.asarray(0.0 - np.maximum(coarse(-h, policy, np.floor), 0.0))


def _report(
    cells: FloatArray,
    released: Sums,
    prior: Prior,
    policy: Policy,
    absorbed: int,
    withheld: int,
    cost: float,
) -> DisclosureReport:
    exactly = releases_exactly(policy)
    bound = cost if exactly else bounded_cost(cost, policy, prior)
    return DisclosureReport(
        policy=policy.name,
        threshold=policy.threshold,
        rounding=policy.rounding,
        smallest=0 if exactly else policy.smallest,
        n_cells=cells.size,
        n_zero=int((cells == 0).sum()),
        smallest_cell=float(cells[cells > 0].min()),
        absorbed=absorbed,
        withheld=withheld,
        cost_at_most=bound,
        cost_per_row_at_most=bound / float(released.T.sum()),
    )
