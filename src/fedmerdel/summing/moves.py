"""Moves that pay although all counts have noise: what noise alone would gain is taken off.

Noise makes two halves of a cluster look different, so that a split seems to gain; and two clusters
that are alike, so that their merge seems to lose. How much, and how surely, is found by drawing:
the halves, or clusters, are made alike, noise is put on them, and the gain is computed as ever.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from fedmerdel.summing.cells import Cells
from fedmerdel.sums.arrays import FloatArray, IntArray
from fedmerdel.sums.cuts import split_gains
from fedmerdel.sums.elbo import all_pairs, cluster_evidence, merge_gains
from fedmerdel.sums.halves import FirstHalves
from fedmerdel.sums.prior import Prior
from fedmerdel.sums.sums import Sums

DRAWS = 10
"""Of noise, for each gain: its mean and spread need be known roughly."""

SURELY = 3.0
"""Standard deviations by which the gain of a split must be above what noise gains."""

LIKELY = 60
"""Pairs of clusters that are looked at, those that seem to gain most."""

LEAST_GAIN = 0.1
"""Nats that a move must gain: less is nothing to anyone."""


class Noise(NamedTuple):
    """How counts of clusters are moved by noise, at random.

    Attributes
    ----------
    cells : Cells
        What was told of each cluster.
    scale : float
        Standard deviation of each number that was told, in rows.
    rng : Generator
        Only to find out how much noise does; the noise itself nobody here knows.
    """

    cells: Cells
    scale: float
    rng: np.random.Generator

    def on(self, T: FloatArray, S: FloatArray, share: float = 1.0) -> tuple[FloatArray, FloatArray]:
        """Return the counts with noise of a share of the scale."""
        numbers = self.cells.numbers(T, S)
        return self.cells.possible(
            numbers + self.rng.normal(0.0, share * self.scale, numbers.shape)
        )


def splits(
    stats: Sums, halves: FirstHalves, prior: Prior, noise: Noise, share: float
) -> FloatArray:
    """Return what splitting each cluster surely gains: (K,).

    Parameters
    ----------
    stats, halves
        The clusters, and the first half of each.
    prior : Prior
        Their prior.
    noise : Noise
        Of the halves.
    share : float
        Noise of the clusters, as a share of that: they are means over rounds.
    """
    gains = split_gains(stats, halves, prior)
    if not np.any(gains > 0):
        return gains
    part = halves.T / np.maximum(stats.T, 1.0)
    unblurred = np.zeros(len(part))
    alike = FirstHalves(stats.T * part, stats.S * part[:, None], unblurred)

    def drawn() -> FloatArray:
        T, S = noise.on(alike.T, alike.S)
        whole = Sums(*noise.on(stats.T, stats.S, share), stats.h)
        first = FirstHalves(np.minimum(T, whole.T), np.minimum(S, whole.S), unblurred)
        return split_gains(whole, first, prior)

    mean, spread = _of_noise(drawn, split_gains(stats, alike, prior))
    return np.asarray(gains - mean - SURELY * spread)


def merges(stats: Sums, Q: FloatArray, prior: Prior, noise: Noise, share: float) -> list[IntArray]:
    """Return the clusters that each new one is made of, where merging pairs gains.

    Parameters
    ----------
    stats, Q
        The clusters, and the overlap of each two.
    prior, noise, share
        As of `splits`; the share is that of the clusters' noise.
    """
    everyone = [np.array([k]) for k in range(stats.n_clusters)]
    pairs = all_pairs(stats.n_clusters)
    if len(pairs) == 0:
        return everyone
    gains = merge_gains(stats, prior, pairs, Q[pairs[:, 0], pairs[:, 1]])
    likely = np.argsort(-gains, kind="stable")[:LIKELY]
    pairs, gains = pairs[likely], gains[likely]
    a, b = pairs.T
    T, S = stats.T[a] + stats.T[b], stats.S[a] + stats.S[b]
    part = stats.T[a] / np.maximum(T, 1.0)
    one = T * part, S * part[:, None]
    other = T - one[0], S - one[1]

    def gained(
        one: tuple[FloatArray, FloatArray], other: tuple[FloatArray, FloatArray]
    ) -> FloatArray:
        both = cluster_evidence(one[0] + other[0], one[1] + other[1], prior)
        return both - cluster_evidence(*one, prior) - cluster_evidence(*other, prior)

    mean, spread = _of_noise(
        lambda: gained(noise.on(*one, share), noise.on(*other, share)), gained(one, other)
    )
    gains = gains - mean - spread
    free = np.ones(stats.n_clusters, dtype=bool)
    for at in np.argsort(-gains, kind="stable"):
        if gains[at] > LEAST_GAIN and free[pairs[at]].all():
            free[pairs[at]] = False
            everyone[int(pairs[at, 0])] = pairs[at]
            everyone[int(pairs[at, 1])] = np.empty(0, dtype=np.int64)
    return [parts for parts in everyone if len(parts)]


def _of_noise(
    drawn: Callable[[], FloatArray], without: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return mean and standard deviation of what noise adds to gains."""
    more = np.array([drawn() for _ in range(DRAWS)]) - without
    return more.mean(axis=0), more.std(axis=0)
