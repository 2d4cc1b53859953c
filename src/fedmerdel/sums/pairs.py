"""The best of all pairs, while pairs are merged."""

from __future__ import annotations

import numpy as np

from fedmerdel.sums.arrays import FloatArray, IntArray

NEVER = -np.inf
"""Gain of two that are not to be merged."""


class Pairs:
    """What merging each pair gains, and the best partner of each.

    A merge changes the gains of one. Those that lost their best partner by it look for another
    only when they might be the best of all: until then, what they had is a bound.

    Parameters
    ----------
    gains : float64 array (n, n)
        Symmetric, `NEVER` on the diagonal and for pairs that are not to be merged.
    """

    def __init__(self, gains: FloatArray) -> None:
        self._gains = gains
        self._partner = gains.argmax(axis=1)
        self._best = gains[np.arange(len(gains)), self._partner]
        self._lost = np.zeros(len(gains), dtype=bool)

    def best(self) -> tuple[int, int, float]:
        """Return the pair a < b with the greatest gain, and the gain; of equals the first."""
        while True:
            a = int(self._best.argmax())
            if self._lost[a]:
                self._look_again(a)
            else:
                return a, int(self._partner[a]), float(self._best[a])

    def with_both(self, a: int, b: int) -> IntArray:
        """Return those that may be merged with either of two."""
        return np.flatnonzero(np.minimum(self._gains[a], self._gains[b]) > NEVER)

    def merge(self, a: int, b: int, others: IntArray, gains: FloatArray) -> None:
        """Put the two together as ``a``, which gains this with each of others, no more with all."""
        self._gains[[a, b]] = NEVER
        self._gains[:, [a, b]] = NEVER
        self._gains[a, others] = self._gains[others, a] = gains
        fresh, first = self._gains[a], ~self._lost & (self._partner >= a)
        higher = (fresh > self._best) | ((fresh == self._best) & first)
        higher &= fresh > NEVER
        self._lost |= ((self._partner == a) | (self._partner == b)) & (self._best > NEVER)
        self._lost &= ~higher
        self._best[higher], self._partner[higher] = fresh[higher], a
        for each in (a, b):
            self._look_again(each)

    def _look_again(self, a: int) -> None:
        self._partner[a] = self._gains[a].argmax()
        self._best[a] = self._gains[a, self._partner[a]]
        self._lost[a] = False
