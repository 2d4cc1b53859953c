"""Where the coming passes would lead, from where the last ones did (Anderson acceleration).

Near a maximum every pass takes about the same step again, a little shorter, so the last few
tell where they end. Each pass reads expectations u and leads to g(u); what they moved,
f = g(u) - u, would be 0 at the end. The next u is the combination of the last ones whose f is
smallest, each level weighed by the rows that it has. An E step may read any numbers: what it
leads to is a clustering with an exact ELBO, so a guess that went too far is found out, and
taken back.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fedmerdel.sums.arrays import FloatArray, IntArray
from fedmerdel.sums.expectations import Expectations
from fedmerdel.sums.sums import Sums

MEMORY = 2
"""Steps before the last that are looked at: more gain nothing."""

CAUTION = 1e-3
"""Share of the mean square by which the combination is held back where steps are alike."""


ALIKE = 1e-12
"""Steps whose squared differences are this share of their own squares differ by rounding."""


class Past(NamedTuple):
    """The last few steps, the oldest first: what was read, and what it led to.

    Attributes
    ----------
    read, reached : tuple of Expectations
        The same number of each; none after a move.
    """

    read: tuple[Expectations, ...] = ()
    reached: tuple[Expectations, ...] = ()

    def then(self, read: Expectations, reached: Expectations) -> Past:
        """Return the past with one more step, the oldest forgotten."""
        return Past(
            (*self.read, read)[-MEMORY - 1 :],
            (*self.reached, reached)[-MEMORY - 1 :],
        )

    def take(self, clusters: IntArray) -> Past:
        """Return the past of these clusters, in this order."""
        return Past(*(tuple(theta.take(clusters) for theta in part) for part in self))


def extrapolate(past: Past, stats: Sums) -> Expectations:
    """Return what to read next, after the steps of the past, the last of which led to stats."""
    u = np.stack([_flat(theta) for theta in past.read])
    g = np.stack([_flat(theta) for theta in past.reached])
    if len(u) < 2:
        return past.reached[-1]
    f = g - u
    weight = np.sqrt(np.concatenate([stats.T, stats.S.ravel()]))
    steps = np.diff(f, axis=0) * weight
    gram, last = steps @ steps.T, f[-1] * weight
    if np.trace(gram) <= ALIKE * (last @ last):  # nothing to tell where steps would end
        return past.reached[-1]
    held = gram + CAUTION * np.trace(gram) / len(gram) * np.eye(len(gram))
    shares = np.linalg.solve(held, steps @ last)
    guess = g[-1] - shares @ np.diff(g, axis=0)
    n_clusters = len(stats.T)
    return Expectations(guess[:n_clusters], guess[n_clusters:].reshape(n_clusters, -1))


def _flat(theta: Expectations) -> FloatArray:
    return np.concatenate([theta.log_weights, theta.log_levels.ravel()])
