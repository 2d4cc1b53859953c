"""Thresholds and rounding: counts that may leave a site, made from those that may not.

Rows of one cluster, cut by one variable, fall into cells: a level each, and missing. A
released cell is 0 or at least the policy's smallest count, and the cells of each variable sum
to the cluster's released number of rows. So whatever a reader adds or subtracts within a
variable is again a sum of such cells, and none is small. What is left to learn from outside
knowledge is on the page "What leaves a site" of the documentation.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from math import ceil, log

import numpy as np
from scipy.special import digamma

from fedmerdel.release.cells import DUST, with_missing
from fedmerdel.release.hidden import filled, filled_alike
from fedmerdel.release.mechanism import Mechanism, MoveSums, People
from fedmerdel.study.policy import Policy
from fedmerdel.sums.arrays import BoolArray, FloatArray, IntArray
from fedmerdel.sums.expectations import Expectations
from fedmerdel.sums.prior import Prior
from fedmerdel.sums.sums import OutcomeCounts, Sums


class Thresholds(Mechanism):
    """No small counts, and all of them rounded.

    Parameters
    ----------
    policy : Policy
        The smallest count, and what counts are multiples of.
    """

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    def too_small(self, T: FloatArray, people: Callable[[], People]) -> BoolArray:
        """Return the clusters with too few rows, as a sum of parts or in people."""
        found = people()
        in_people = np.minimum(found.behind.T, found.own)
        return np.asarray((T < self.smallest - _dust(T)) | (in_people < self.smallest))

    def protect(self, sums: Sums, people: Callable[[], People], offsets: IntArray) -> Sums:
        """Return sums whose cells are 0 or at least the smallest, and multiples of a step."""
        behind = people().behind
        T = rounded(sums.T, self.policy)
        S = np.empty_like(sums.S)
        for start, end in pairwise(offsets):
            at = slice(start, end)
            soft, hard = (with_missing(each.T, each.S[:, at]) for each in (sums, behind))
            S[:, at] = _protect_cells(soft, hard, T, self.policy)[:, :-1]
        outcomes = {}
        for name, counts in sums.outcomes.items():
            hard = behind.outcomes[name].cells(behind.T)
            cells = _protect_cells(counts.cells(sums.T), hard, T, self.policy)
            outcomes[name] = OutcomeCounts(cells[:, 1], T - cells[:, 2])
        Q, h = _overlap_bound(sums.Q, self.policy), _entropy_bound(sums.h, self.policy)
        return Sums(T, S, h, Q, outcomes)

    def protect_evidence(self, nats: float) -> float:
        """Return it rounded down in the steps of other sums of this kind."""
        return float(coarse(np.array(nats), self.policy, np.floor))

    def protect_moves(self, count: Callable[[], MoveSums]) -> MoveSums | None:
        """Return nothing.

        Halves have smaller cells than their clusters, and a gain computed from changed counts
        would be another table's.
        """
        return None

    def cost_bound(self, cost: float, prior: Prior) -> float:
        """Round a cost up to whole steps, one at least.

        A step is more than the loss of one cell under the smallest releasable size costs, so a
        single hidden cell can't be told from none or from another. Of the prior it takes the
        smallest parameter, which weighs a lost cell most, to a power of two: a prior learned at
        the site would tell of its rarest level otherwise.
        """
        rarest = 2.0 ** np.floor(np.log2(prior.eps.min()))
        each = max(-float(digamma(rarest)), 0.0) + log(self.smallest) + 2.0
        step = ceil(self.smallest * each)
        return float(max(ceil(cost / step), 1) * step)

    def expected(
        self, sums: Sums, theta: Expectations, offsets: IntArray, alive: BoolArray
    ) -> Sums:
        """Return the sums with hidden counts filled with what is expected of them."""
        return filled(sums, theta, offsets, alive, hidden_below(self.policy), self.smallest)

    def expected_alike(self, sums: Sums, offsets: IntArray) -> Sums:
        """Return them filled so that variables differ between clusters as little as may be."""
        return filled_alike(sums, offsets, hidden_below(self.policy), self.smallest)

    def possible(self, cells: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return what rounding, raising and hiding leave possible.

        Sums of responsibilities may lie between whole numbers, and here they are taken as rows:
        a hidden cell may hold a part of a row more.
        """
        step = _step(self.policy)
        hidden = cells == 0
        above = np.where(hidden, self.smallest - 1.0, step / 2)
        # A count just over the threshold is raised to the smallest one.
        below = np.where(hidden, 0.0, max(step / 2, self.smallest - self.policy.threshold))
        # One cell is what the others leave of the rounded rows: the largest, or one so near to it
        # that rounding of all others may have put another before it.
        largest = cells.max(axis=1, keepdims=True)
        rest = ~hidden & (cells >= largest - below.sum(axis=1, keepdims=True) - step)
        others_above = above.sum(axis=1, keepdims=True) - above
        others_below = below.sum(axis=1, keepdims=True) - below
        least = cells - np.where(rest, others_above + step / 2, below)
        most = cells + np.where(rest, others_below + step / 2, above)
        return least.clip(min=0.0), most

    def elbo(self, of_sums: float, of_rows: float | None) -> float | None:
        """Return what the rows told: changed counts tell little of it."""
        return of_rows

    def is_worse(self, gain: float, elbo: float) -> bool:
        """Return that nothing is sure: with changed counts a guess would not be found out."""
        return False

    def broken(self, cells: FloatArray, moves: MoveSums | None) -> str | None:
        """Return the first rule that does not hold, or None."""
        if moves is not None:
            return f"it tells of halves, which policy {self.policy.name!r} does not protect"
        if np.any((cells > 0) & (cells < self.smallest)):
            return f"a count is under {self.smallest}, the least of policy {self.policy.name!r}"
        if np.any(cells % _step(self.policy)):
            return f"a count is not rounded as policy {self.policy.name!r} asks"
        return None

    @property
    def smallest(self) -> int:
        """That of the policy."""
        return self.policy.smallest

    @property
    def rule(self) -> str:
        """Smallest count and rounding."""
        rounding = self.policy.rounding
        step = f"rounded to {rounding}" if rounding > 1 else "whole numbers"
        return f"no count from 1 to {self.smallest - 1}, {step}" if self.smallest > 1 else step

    @property
    def done(self) -> str:
        """What became of small cells, and of all others."""
        rounding = self.policy.rounding
        step = f"multiples of {rounding}" if rounding > 1 else "whole numbers"
        return (
            f"Every count is 0 or at least {self.smallest}, and so is every sum of counts within "
            "a variable, and what it leaves of the cluster's rows. Counts below "
            f"{max(self.policy.threshold, 1)} were set to 0 and their rows added to the "
            "variable's largest count in the same cluster; a count had to pass twice, as a sum of "
            "parts and with each row counted whole that belongs to the cluster by a tenth at "
            f"least. Counts are {step}. Overlaps are rounded up, and column h towards 0, in steps "
            "that stand for as many rows as the smallest count."
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
