"""A release mechanism: how numbers leave a site, and what the centre makes of them.

One object has four sides. At the site it protects sums; at the centre it says what the numbers
that arrive stand for; anyone may check with it that numbers keep its promise; and it says all
this in words. Nobody else asks which mechanism it is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from math import log
from typing import NamedTuple

from fedmerdel.release.known_sums import Known
from fedmerdel.release.released import Released
from fedmerdel.release.scores import Scores
from fedmerdel.sums.arrays import BoolArray, FloatArray, IntArray
from fedmerdel.sums.expectations import Expectations
from fedmerdel.sums.halves import FirstHalves
from fedmerdel.sums.sums import Sums


class People(NamedTuple):
    """The people behind the sums of a site's clusters. They stay at the site.

    Attributes
    ----------
    behind : Sums
        Rows that belong to a cluster by more than dust, each counted whole and without its
        weight: one row may weigh hundreds. (Its h is 0.) Of an outcome each cell, and last the
        rows of which it is not known: a row may stand behind several cells, so that these don't
        sum to the rows.
    own : float64 array (K,)
        Rows whose most probable cluster it is.
    rows, everyone : Sums
        All of the site as one cluster: with weights, and with each row counted whole, as in
        `behind`. They depend on the table alone.
    parts : frozenset of str
        Outcomes of which a row is in several cells, by parts: numbers.
    """

    behind: Sums
    own: FloatArray
    rows: Sums
    everyone: Sums
    parts: frozenset[str] = frozenset()


class MoveSums(NamedTuple):
    """What splits and deletions of clusters would bring, of the rows of one site.

    Attributes
    ----------
    halves : FirstHalves
        Of each cluster: along the cut that was sent with it, or as the site proposes.
    cost : float64 array (K,)
        ``sum_n w_n ln(1 - r_nk)``, what the site's rows would lose without the cluster.
    """

    halves: FirstHalves
    cost: FloatArray


class Mechanism(ABC):
    """How numbers leave a site, and what the centre makes of them."""

    # At the site.

    @abstractmethod
    def too_small(self, T: FloatArray, people: Callable[[], People]) -> BoolArray:
        """Return the clusters of which nothing may be told alone.

        Parameters
        ----------
        T : float64 array (K,)
            Rows of each cluster, by responsibility.
        people : callable
            Counts the people behind them, if that is asked for.
        """

    @abstractmethod
    def protect(self, sums: Sums, people: Callable[[], People], offsets: IntArray) -> Released:
        """Return the sums that may leave; one cluster at least is not too small."""

    @abstractmethod
    def protect_scores(self, gains: FloatArray, weights: FloatArray, limit: float) -> Scores:
        """Return sums of rows' gains over independence that may leave.

        Parameters
        ----------
        gains : float64 array (3, N)
            Nats that each row gains.
        weights : float64 array (N,)
            Weight of each row.
        limit : float
            Nats that a row may add where single rows must not be seen.
        """

    @abstractmethod
    def protect_moves(self, count: Callable[[], MoveSums]) -> MoveSums | None:
        """Return what may be told of moves, counted only if anything may."""

    @abstractmethod
    def protect_histogram(
        self, soft: FloatArray, hard: FloatArray, total: float, known: Sequence[Known] = ()
    ) -> FloatArray:
        """Return the cells of all rows of a site that may leave, or zeros if none may.

        Parameters
        ----------
        soft, hard : float64 arrays
            Rows in each cell, with their weights, and each counted whole.
        total : float
            Released rows of the site.
        known : sequence of Known
            Sums over the cells that follow from other counts.
        """

    @abstractmethod
    def protect_pair(
        self, soft: FloatArray, hard: FloatArray, lines: FloatArray, columns: FloatArray
    ) -> FloatArray:
        """Return the table of two variables that may leave, or zeros if it can't be made.

        Parameters
        ----------
        soft, hard : float64 arrays (C, D)
            Rows of a site in each cell, with their weights, and each counted whole.
        lines, columns : float64 arrays (C,) and (D,)
            Released totals of the two variables.
        """

    @abstractmethod
    def known_sum(self, weights: FloatArray, told: FloatArray) -> Known:
        """Return what counts that were told sum to, as a reader knows it.

        Parameters
        ----------
        weights : float64 array
            What a row in each cell of a histogram adds to the same sum.
        told : float64 array
            The counts, as released.
        """

    # At the centre.

    @abstractmethod
    def with_totals(self, released: Sequence[Released], offsets: IntArray) -> list[Released]:
        """Return what all sites released, with hidden totals as those of all of them suggest.

        Parameters
        ----------
        released : sequence of Released
            One of each site, as they came.
        offsets : int64 array (P + 1,)
            Where each variable's levels start.
        """

    @abstractmethod
    def expected(self, released: Released, theta: Expectations, offsets: IntArray) -> Sums:
        """Return what the sums that a site released stand for.

        Parameters
        ----------
        released : Released
            As they came; the same object is returned where it is what it stands for.
        theta : Expectations
            What is known of these clusters.
        offsets : int64 array (P + 1,)
            Where each variable's levels start.
        """

    @abstractmethod
    def possible(self, cells: FloatArray, rest: int | None) -> tuple[FloatArray, FloatArray]:
        """Return the fewest and the most rows that may be behind each of a cluster's cells.

        Parameters
        ----------
        cells : float64 array (K, C)
            The cells that the rows of each cluster fall into, as released.
        rest : int or None
            The cluster that is what the others leave.
        """

    @abstractmethod
    def expected_cells(
        self, cells: FloatArray, mean: FloatArray, *, coarse: bool
    ) -> tuple[FloatArray, FloatArray]:
        """Return what a table of a whole site stands for, and the variance of that.

        Parameters
        ----------
        cells : float64 array
            As released.
        mean : float64 array
            Rows that are expected in each cell.
        coarse : bool
            Whether it is a histogram.
        """

    @abstractmethod
    def variance(self, cells: FloatArray, rest: int | None, *, parts: bool = False) -> FloatArray:
        """Return the variance that protection adds to each of the clusters' cells, as a rule.

        Parameters
        ----------
        cells, rest
            As of `possible`, which says how far it may be at worst.
        parts : bool
            Whether rows are in several cells, by parts.
        """

    @abstractmethod
    def elbo(self, of_sums: float) -> float | None:
        """Return the ELBO of the rows, where the sums that were released tell it."""

    @abstractmethod
    def is_worse(self, gain: float, elbo: float) -> bool:
        """Whether a round has surely lost, so that the guess that led there is taken back."""

    # For everyone.

    @abstractmethod
    def broken(self, cells: FloatArray, moves: MoveSums | None) -> str | None:
        """Return where released numbers break the promise, or None.

        Parameters
        ----------
        cells : float64 array
            Every count that is told or implied.
        moves : MoveSums or None
            What is told of moves.
        """

    @property
    @abstractmethod
    def smallest(self) -> int:
        """The smallest count but zero that can be met, which a 0 is under; 0 is no rule."""

    @property
    def nats(self) -> float:
        """Steps in which sums of logarithms are told, in nats: as many rows shared by two."""
        return self.smallest * log(2.0)

    @property
    @abstractmethod
    def rule(self) -> str:
        """What holds of every count, in a few words."""

    @property
    @abstractmethod
    def done(self) -> str:
        """What was done to the counts, for an output checker."""

    @property
    def zero(self) -> str:
        """What a released 0 stands for."""
        return f"0 to {self.smallest - 1} rows" if self.smallest > 1 else "no rows"
