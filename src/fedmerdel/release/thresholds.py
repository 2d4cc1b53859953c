"""Thresholds and rounding: counts that may leave a site, made from those that may not.

Rows of one cluster, cut by one variable, fall into cells: a level each, and missing. A released
cell is 0 or at least the policy's smallest count; the cells of each variable sum to the cluster's
released number of rows, and over clusters to the site's totals (`tables`). So whatever a reader
adds or subtracts within a variable is again a sum of such cells, and none is small. What is left
to learn from outside knowledge is on the page "What leaves a site" of the documentation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from fedmerdel.release.cells import with_missing
from fedmerdel.release.hidden import filled, filled_table, with_rows
from fedmerdel.release.known_sums import Known, known_sum, may_be_empty
from fedmerdel.release.mechanism import Mechanism, MoveSums, People
from fedmerdel.release.nats import entropy_bound, overlap_bound
from fedmerdel.release.released import Released
from fedmerdel.release.scores import Scores, coarse_scores
from fedmerdel.release.tables import (
    cluster_rows,
    dust,
    furthest,
    protect_cells,
    protect_table,
    site_rows,
)
from fedmerdel.release.totals import expected_totals
from fedmerdel.study.policy import CUSTOM, Policy
from fedmerdel.sums.arrays import BoolArray, FloatArray, IntArray
from fedmerdel.sums.expectations import Expectations
from fedmerdel.sums.sums import Sums

DOUBLINGS = 5
"""Of the step of a histogram, before nothing of it is told."""


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
        return np.asarray((T < self.smallest - dust(T)) | (in_people < self.smallest))

    def protect(self, sums: Sums, people: Callable[[], People], offsets: IntArray) -> Released:
        """Return sums whose cells are 0 or at least the smallest, and add up to the totals.

        Clusters that are too small are counted in the rest, the largest cluster. So is, the
        smallest first, what can't be told so that all adds up.
        """
        told = ~self.too_small(sums.T, people)
        rest = int(np.where(told, sums.T, -1.0).argmax())
        told[rest] = False
        while True:
            found = self._added_up(sums, people(), offsets, told, rest)
            if found is not None:
                return Released(found, rest)
            told[np.where(told, sums.T, np.inf).argmin()] = False

    def _added_up(
        self, sums: Sums, people: People, offsets: IntArray, told: BoolArray, rest: int
    ) -> Sums | None:
        policy, behind = self.policy, people.behind
        total = site_rows(people.rows.T, policy)
        T = cluster_rows(sums.T, told, rest, float(total[0]), policy)

        def table(
            part: Callable[[Sums], FloatArray],
            in_people: Callable[[Sums], FloatArray],
            policy: Policy = policy,
        ) -> FloatArray | None:
            totals = protect_cells(part(people.rows), in_people(people.everyone), total, policy)[0]
            return protect_table(part(sums), in_people(behind), T, totals, rest, policy)

        S = np.empty_like(sums.S)
        for start, end in pairwise(offsets):

            def levels(each: Sums, at: slice = slice(start, end)) -> FloatArray:
                return with_missing(each.T, each.S[:, at])

            cells = table(levels, levels)
            if cells is None:
                return None
            S[:, start:end] = cells[:, :-1]
        outcomes = {}
        for name in sums.outcomes:

            def told_of(each: Sums, name: str = name) -> FloatArray:
                return with_missing(each.T, each.outcomes[name])

            def in_people(each: Sums, name: str = name) -> FloatArray:
                hard = each.outcomes[name]
                return np.where(hard < policy.least, 0.0, hard)

            cells = table(told_of, in_people, self._of_parts if name in people.parts else policy)
            if cells is None:
                return None
            outcomes[name] = cells[:, :-1]
        silent = T == 0
        Q, h = overlap_bound(sums.Q, policy), entropy_bound(sums.h, policy)
        Q[silent], Q[:, silent], h[silent] = 0.0, 0.0, 0.0
        return Sums(T, S, h, Q, outcomes)

    def protect_scores(self, gains: FloatArray, weights: FloatArray, limit: float) -> Scores:
        """Return sums of rows that are cut at the limit, in steps of as many as may be told."""
        rows = site_rows(np.array([float(gains.shape[1])]), self.policy)
        return coarse_scores(gains, float(rows[0]), limit, self.smallest)

    def protect_moves(self, count: Callable[[], MoveSums]) -> MoveSums | None:
        """Return nothing.

        Halves have smaller cells than their clusters, and a gain computed from changed counts
        would be another table's.
        """
        return None

    def protect_histogram(
        self, soft: FloatArray, hard: FloatArray, total: float, known: Sequence[Known] = ()
    ) -> FloatArray:
        """Return cells in steps of the smallest count, or so large that hidden ones stay hidden."""
        policy = self._coarse
        for _ in range(DOUBLINGS + 1):
            told = protect_cells(soft[None], hard[None], np.array([total]), policy)[0]
            if not known or may_be_empty(told, policy, known):
                return np.asarray(told)
            policy = replace(policy, rounding=2 * policy.rounding)
        return np.zeros_like(soft)

    def protect_pair(
        self, soft: FloatArray, hard: FloatArray, lines: FloatArray, columns: FloatArray
    ) -> FloatArray:
        """Return cells that are 0 or at least the smallest, and sum to the totals both ways."""
        policy = self.policy
        table = protect_table(soft, hard, lines, columns, int(lines.argmax()), policy)
        if table is None:
            turned = protect_table(soft.T, hard.T, columns, lines, int(columns.argmax()), policy)
            table = np.zeros_like(soft) if turned is None else turned.T
        return table

    def known_sum(self, weights: FloatArray, told: FloatArray) -> Known:
        """Return the sum, as far as rounding and hiding leave it known."""
        return known_sum(weights, told, self.policy)

    @property
    def _coarse(self) -> Policy:
        """The policy of histograms: the same, in steps of its smallest count."""
        policy = self.policy
        return Policy(CUSTOM, policy.threshold, policy.smallest, policy.source)

    @property
    def _of_parts(self) -> Policy:
        """The policy of cells that rows are in by parts: the nearest step, of as many as are told.

        Whoever knows the few values that a number has can solve its cells for the people at each.
        Each cell is then known to a step, so that none of them is known to be a small group. A
        cell of few people is hidden as any other, but one of few parts is not: it would be known
        to half a step where it is told.
        """
        return Policy(CUSTOM, 0, self.policy.smallest, self.policy.source)

    def with_totals(self, released: Sequence[Released], offsets: IntArray) -> list[Released]:
        """Return the same with hidden totals filled in, as rows of the rest."""
        told = np.array([each.sums.S.sum(axis=0) for each in released])
        expected = expected_totals(told, offsets, self.policy)
        return [
            with_rows(each, rows, offsets)
            for each, rows in zip(released, expected - told, strict=True)
        ]

    def expected(self, released: Released, theta: Expectations, offsets: IntArray) -> Sums:
        """Return the sums with hidden counts filled with what is expected of them."""
        assert released.rest is not None
        return filled(released.sums, released.rest, theta, offsets, self.policy)

    def possible(self, cells: FloatArray, rest: int | None) -> tuple[FloatArray, FloatArray]:
        """Return what rounding, raising, hiding and adding up leave possible.

        Sums of responsibilities may lie between whole numbers, and here they are taken as rows:
        a hidden cell may hold a part of a row more.
        """
        totals = cells.sum(axis=0, keepdims=True)
        below, above = self._slack(cells, furthest(self.policy))
        total_below, total_above = self._slack(totals, self._raised)
        others = np.arange(len(cells)) != rest
        least, most = cells - below, cells + above
        if rest is not None:
            least[rest] = cells[rest] - total_below[0] - above[others].sum(axis=0)
            most[rest] = cells[rest] + total_above[0] + below[others].sum(axis=0)
        return least.clip(min=0.0), np.maximum(most, 0.0)

    @property
    def _raised(self) -> float:
        # A count just over the threshold is raised to the smallest one.
        return max(self.policy.step / 2, float(self.smallest - self.policy.threshold))

    def _slack(self, cells: FloatArray, moved: float) -> tuple[FloatArray, FloatArray]:
        """Return how many rows fewer and more may be behind cells that were moved by so many."""
        hidden = cells == 0
        above = np.where(hidden, max(self.smallest - 1.0, moved), moved)
        below = np.where(hidden, 0.0, moved)
        # One cell is what the others leave of the rounded rows: the largest, or one so near to it
        # that rounding of all others may have put another before it.
        largest = cells.max(axis=1, keepdims=True)
        leaves = ~hidden & (cells >= largest - 2 * moved - below.sum(axis=1, keepdims=True))
        more = above.sum(axis=1, keepdims=True) - above + moved
        fewer = below.sum(axis=1, keepdims=True) - below + moved
        return np.where(leaves, more, below), np.where(leaves, fewer, above)

    def expected_cells(
        self, cells: FloatArray, mean: FloatArray, *, coarse: bool
    ) -> tuple[FloatArray, FloatArray]:
        """Return the cells with hidden ones as expected; rounding makes them vary."""
        policy = self._coarse if coarse else self.policy
        for _ in range(DOUBLINGS if coarse else 0):
            others = np.delete(cells, int(cells.argmax()))
            if not others.any() or np.any(others % (2 * policy.step)):
                break
            policy = replace(policy, rounding=2 * policy.step)  # as it must have been told
        return filled_table(cells, mean, policy)

    def variance(self, cells: FloatArray, rest: int | None, *, parts: bool = False) -> FloatArray:
        """Return that of rounding, and of counts under the smallest where a cell is hidden.

        A rounded count is taken to be anywhere within a step, a hidden one anywhere from 0 to the
        smallest; the rest has what the others lose and gain. (That all must add up moves some
        counts further.)
        """
        step = self.smallest if parts else self.policy.step
        width = np.where(cells == 0, float(self.smallest), float(step))
        found = width**2 / 12.0
        if rest is not None:
            found[rest] = found.sum(axis=0)
        return np.asarray(found)

    def elbo(self, of_sums: float) -> float | None:
        """Return that it is not known: changed counts tell little of it.

        Sites could tell how well clusters explain their rows, a sum of logarithms. But where all
        have hidden a level, clusters hold it for all but impossible, and a single row with it
        costs a hundred nats: that sum would count the rows that were hidden.
        """
        return None

    def is_worse(self, gain: float, elbo: float) -> bool:
        """Return that nothing is sure: with changed counts a guess would not be found out."""
        return False

    def broken(self, cells: FloatArray, moves: MoveSums | None) -> str | None:
        """Return the first rule that does not hold, or None."""
        if moves is not None:
            return f"it tells of halves, which policy {self.policy.name!r} does not protect"
        if np.any((cells > 0) & (cells < self.smallest)):
            return f"a count is under {self.smallest}, the least of policy {self.policy.name!r}"
        if np.any(cells % self.policy.step):
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
            "a variable, and what it leaves of the cluster's rows or of the site's. Counts below "
            f"{max(self.policy.threshold, 1)} were set to 0 and their rows added to the "
            "variable's largest count in the same cluster; a count had to pass twice, as a sum of "
            "parts and with each row counted whole that belongs to the cluster by a tenth at "
            f"least. Counts are {step}. One cluster, the largest, is not counted but is what the "
            "others leave of the site's rows at each level; these were rounded once, and are the "
            "same in every release. Clusters too small to be told are in it. So that all adds up, "
            f"a count may be told by up to {furthest(self.policy):.0f} rows more or fewer than it "
            "is, and as the smallest where there are fewer, or none. Overlaps are rounded up, and "
            "column h towards 0, in steps that stand for as many rows as the smallest count. So "
            "are the cells of an outcome that is a number: low, middle and high."
        )
