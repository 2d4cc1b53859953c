"""What noised products of pairs say: the directions in which clusters differ.

Within a cluster variables are independent, so what two of them have in common comes from clusters:
the matrix of products, apart from the products within a variable, has as many directions as there
are clusters less one. Noise alone makes directions too, up to a length that is known.
"""

from __future__ import annotations

import numpy as np

from fedmerdel.private.coding import Coding
from fedmerdel.private.estimate import Signal
from fedmerdel.sums.arrays import FloatArray

ABOVE = 1.025
"""Length of a direction that counts, in the longest that noise makes of itself."""

FILLED = 8
"""Times that products within a variable are filled in from the directions found."""

SPREAD = 0.3
"""Deviations of random clusters, in a row's, where no directions are known."""


def no_signal(coding: Coding) -> Signal:
    """Return that nothing is known of directions."""
    return Signal(np.zeros((coding.size, 0)), np.zeros(0))


def signal_of(moments: FloatArray, noise: float, coding: Coding, rows: float) -> Signal:
    """Return the directions that exceed noise, and the variance of clusters along them.

    Parameters
    ----------
    moments : float64 array (size, size)
        Sum of products over all rows.
    noise : float
        Standard deviation on the diagonal; beside it, where each is told once, it is less by the
        square root of 2.
    coding : Coding
        What was multiplied.
    rows : float
        Rows of all sites.
    """
    sd = noise / np.sqrt(2.0)
    half = sd * np.sqrt(coding.size)  # noise has eigenvalues up to twice this (Wigner)
    variable = np.repeat(np.arange(len(coding.n_cells)), coding.n_cells - 1)
    within = variable[:, None] == variable
    filled = np.where(within, 0.0, moments)
    for _ in range(FILLED):
        values, vectors = np.linalg.eigh(filled)
        clear = values > 2.0 * ABOVE * half
        values, axes = values[clear], vectors[:, clear]
        # An eigenvalue a of a few directions is seen, under noise, as a + half^2 / a.
        values = 0.5 * (values + np.sqrt(values**2 - 4.0 * half**2))
        filled = np.where(within, (axes * values) @ axes.T, filled)
    return Signal(axes, values / rows)


def random_clusters(
    coding: Coding, signal: Signal, n_clusters: int, rng: np.random.Generator
) -> FloatArray:
    """Draw what the rows of some clusters are written as on average: (n_clusters, size)."""
    if len(signal.variance):
        drawn = rng.normal(size=(n_clusters, len(signal.variance)))
        return np.asarray((drawn * np.sqrt(signal.variance)) @ signal.axes.T)
    spread = SPREAD * np.sqrt(coding.expected_length() / coding.size)
    return np.asarray(spread * rng.normal(size=(n_clusters, coding.size)))
