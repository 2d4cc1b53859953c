"""Numbers go out as they are: for simulated and public tables, and within one organisation."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fedmerdel.release.known_sums import Known
from fedmerdel.release.mechanism import Mechanism, MoveSums, People
from fedmerdel.release.released import Released
from fedmerdel.release.scores import Scores, exact_scores
from fedmerdel.sums.arrays import BoolArray, FloatArray, IntArray
from fedmerdel.sums.expectations import Expectations
from fedmerdel.sums.sums import Sums

ROUNDING = 1e-12
"""Share of the ELBO by which it may differ where only the order of sums has changed."""


class Exact(Mechanism):
    """No protection: what arrives is what there is."""

    def too_small(self, T: FloatArray, people: Callable[[], People]) -> BoolArray:
        """Return that no cluster is."""
        return np.zeros(len(T), dtype=np.bool_)

    def protect(self, sums: Sums, people: Callable[[], People], offsets: IntArray) -> Released:
        """Return the sums."""
        return Released(sums, None)

    def protect_scores(self, gains: FloatArray, weights: FloatArray, limit: float) -> Scores:
        """Return the sums as they are."""
        return exact_scores(gains, weights)

    def protect_moves(self, count: Callable[[], MoveSums]) -> MoveSums | None:
        """Return all that there is to tell of moves."""
        return count()

    def protect_histogram(
        self, soft: FloatArray, hard: FloatArray, total: float, known: Sequence[Known] = ()
    ) -> FloatArray:
        """Return the cells."""
        return soft

    def protect_pair(
        self, soft: FloatArray, hard: FloatArray, lines: FloatArray, columns: FloatArray
    ) -> FloatArray:
        """Return the table."""
        return soft

    def known_sum(self, weights: FloatArray, told: FloatArray) -> Known:
        """Return the sum."""
        return Known(weights, float(told.sum()), float(told.sum()))

    def with_totals(self, released: Sequence[Released], offsets: IntArray) -> list[Released]:
        """Return what they released: no total is hidden."""
        return list(released)

    def expected(self, released: Released, theta: Expectations, offsets: IntArray) -> Sums:
        """Return the sums."""
        return released.sums

    def possible(self, cells: FloatArray, rest: int | None) -> tuple[FloatArray, FloatArray]:
        """Return the cells, as the fewest and as the most."""
        return cells, cells

    def expected_cells(
        self, cells: FloatArray, mean: FloatArray, *, coarse: bool
    ) -> tuple[FloatArray, FloatArray]:
        """Return the cells, of which all is known."""
        return cells, np.zeros_like(cells)

    def variance(self, cells: FloatArray, rest: int | None, *, parts: bool = False) -> FloatArray:
        """Return that there is none."""
        return np.zeros_like(cells)

    def elbo(self, of_sums: float) -> float | None:
        """Return the ELBO of the sums, which are those of the rows."""
        return of_sums

    def is_worse(self, gain: float, elbo: float) -> bool:
        """Whether the ELBO has fallen by more than rounding."""
        return gain < -ROUNDING * abs(elbo)

    def broken(self, cells: FloatArray, moves: MoveSums | None) -> str | None:
        """Return None: nothing was promised."""
        return None

    @property
    def smallest(self) -> int:
        """No rule."""
        return 0

    @property
    def rule(self) -> str:
        """There is none."""
        return "no rule, counts as they are"

    @property
    def done(self) -> str:
        """Nothing."""
        return (
            "None: the study sets no rule, and the numbers are as they are, with their decimals. "
            "This is meant for simulated and public tables only."
        )
