"""A release mechanism: how numbers leave a site, and what the centre makes of them.

One object has four sides. At the site it protects sums; at the centre it says what the numbers
that arrive stand for; anyone may check with it that numbers keep its promise; and it says all
this in words. Nobody else asks which mechanism it is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from math import log
from typing import NamedTuple

from fedmerdel.sums.arrays import BoolArray, FloatArray, IntArray
from fedmerdel.sums.expectations import Expectations
from fedmerdel.sums.halves import FirstHalves
from fedmerdel.sums.prior import Prior
from fedmerdel.sums.sums import Sums


class People(NamedTuple):
    """The people behind the sums of a site's clusters. They stay at the site.

    Attributes
    ----------
    behind : Sums
        Rows that belong to a cluster by more than dust, each counted whole and without its
        weight: one row may weigh hundreds. (Its h is 0.)
    own : float64 array (K,)
        Rows whose most probable cluster it is.
    """

    behind: Sums
    own: FloatArray

    def take(self, clusters: IntArray) -> People:
        """Return these clusters alone, in this order."""
        return People(self.behind.take(clusters), self.own[clusters])


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
        """Return the clusters that must not be released, to be absorbed or withheld first.

        Parameters
        ----------
        T : float64 array (K,)
            Rows of each cluster, by responsibility.
        people : callable
            Counts the people behind them, if that is asked for.
        """

    @abstractmethod
    def protect(self, sums: Sums, people: Callable[[], People], offsets: IntArray) -> Sums:
        """Return the sums that may leave, of clusters none of which is too small."""

    @abstractmethod
    def protect_evidence(self, nats: float) -> float:
        """Return a sum over all rows of a site, in nats, or a lower bound of it."""

    @abstractmethod
    def protect_moves(self, count: Callable[[], MoveSums]) -> MoveSums | None:
        """Return what may be told of moves, counted only if anything may."""

    @abstractmethod
    def cost_bound(self, cost: float, prior: Prior) -> float:
        """Return a bound of what protection costs that tells no more than the sums do."""

    # At the centre.

    @abstractmethod
    def expected(
        self, sums: Sums, theta: Expectations, offsets: IntArray, alive: BoolArray
    ) -> Sums:
        """Return what the sums that a site released stand for.

        Parameters
        ----------
        sums : Sums
            As released.
        theta : Expectations
            What is known of these clusters.
        offsets : int64 array (P + 1,)
            Where each variable's levels start.
        alive : bool array (K,)
            Clusters that some site has told of.
        """

    @abstractmethod
    def expected_alike(self, sums: Sums, offsets: IntArray) -> Sums:
        """Return the same where nothing is known of the clusters but that they are alike."""

    @abstractmethod
    def possible(self, cells: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the fewest and the most rows that may be behind each of a cluster's cells.

        Parameters
        ----------
        cells : float64 array (K, C)
            The cells that the rows of each cluster fall into, as released.
        """

    @abstractmethod
    def elbo(self, of_sums: float, of_rows: float | None) -> float | None:
        """Return which ELBO is the rows' own.

        Parameters
        ----------
        of_sums : float
            That of the sums that were released.
        of_rows : float or None
            What the sites told of how well their rows fit, less the divergence of what was sent
            from the prior; None where sites did not tell, or what was sent is no posterior.
        """

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
