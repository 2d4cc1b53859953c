"""What noised sums say of clusters: rows, and probabilities shrunk as far as noise demands."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fedmerdel.private.coding import Coding
from fedmerdel.sums.arrays import BoolArray, FloatArray
from fedmerdel.sums.levels import sum_levels

FLOOR = 0.05
"""Least share of what a cell has among all rows that it is taken to have in a cluster."""

EMPTY = 2.0
"""Standard deviations of its noise under which a cluster's rows are taken for none."""


class Mixture(NamedTuple):
    """Clusters as far as they are known.

    Attributes
    ----------
    T : float64 array (K,)
        Rows in each.
    cells : float64 array (K, cells)
        Probability of each cell.
    """

    T: FloatArray
    cells: FloatArray


class Signal(NamedTuple):
    """In which directions clusters differ, as the moments of all rows tell.

    Attributes
    ----------
    axes : float64 array (size, q)
        Directions at right angles, of length 1.
    variance : float64 array (q,)
        Of the clusters' means along each.
    """

    axes: FloatArray
    variance: FloatArray


class Noised(NamedTuple):
    """Sums with noise: of one release, or the mean of several.

    Attributes
    ----------
    T, numbers : float64 arrays (K,), (K, size)
        Rows of each cluster, and what their cells are written as.
    T_noise, noise : float
        Standard deviations of the noise in either.
    """

    T: FloatArray
    numbers: FloatArray
    T_noise: float
    noise: float

    def filled(self) -> BoolArray:
        """Return which clusters hold more rows than noise makes of none; one at least does."""
        found = self.T > EMPTY * self.T_noise
        found[self.T.argmax()] = True
        return found

    def take(self, clusters: BoolArray) -> Noised:
        """Return these clusters alone."""
        return self._replace(T=self.T[clusters], numbers=self.numbers[clusters])

    def averaged(self, other: Noised, share: float) -> Noised:
        """Return the mean with another, of which this is the share that counts."""
        rest = 1.0 - share

        def noise(a: float, b: float) -> float:
            return float(np.hypot(rest * a, share * b))

        return Noised(
            rest * self.T + share * other.T,
            rest * self.numbers + share * other.numbers,
            noise(self.T_noise, other.T_noise),
            noise(self.noise, other.noise),
        )


def denoised(sums: Noised, coding: Coding, signal: Signal) -> Mixture:
    """Return the clusters that are likeliest behind noised sums.

    Along the directions of the signal clusters differ by as much as is known; beside them, by as
    much as the squares of each variable's numbers exceed those of noise. Each number is shrunk to
    what remains of it by expectation.
    """
    T = np.maximum(sums.T, sums.T_noise)
    noise = sums.noise**2
    of_axes = T[:, None] ** 2 * signal.variance
    if sums.numbers.shape[1] < coding.size:
        kept = (sums.numbers * of_axes / (of_axes + noise)) @ signal.axes.T
    else:
        along = sums.numbers @ signal.axes
        beside = sums.numbers - along @ signal.axes.T
        size = coding.n_cells - 1
        ends = np.concatenate(([0], np.cumsum(size)))
        room = 1.0 - (signal.axes**2).sum(axis=1)
        excess = sum_levels((beside**2).sum(axis=0) - len(T) * room * noise, ends)
        rest = T[:, None] ** 2 * np.maximum(excess / size / (T**2).sum(), 1e-12)
        kept = beside * np.repeat(rest / (rest + noise), size, axis=1)
        kept += (along * of_axes / (of_axes + noise)) @ signal.axes.T
    return around(coding, T, kept / T[:, None])


def around(coding: Coding, T: FloatArray, numbers: FloatArray) -> Mixture:
    """Return clusters whose rows are written as these numbers, on average."""
    p = np.maximum(coding.centre + coding.deviations(numbers), FLOOR * coding.centre)
    return Mixture(T, p / np.repeat(sum_levels(p, coding.starts), coding.n_cells, axis=1))


def mixture_of(T: FloatArray, S: FloatArray, coding: Coding) -> Mixture:
    """Return the clusters with these sums, a row's worth of all rows added to each."""
    p = (coding.cells(T, S) + coding.centre) / (T[:, None] + 1.0)
    return Mixture(T, p / np.repeat(sum_levels(p, coding.starts), coding.n_cells, axis=1))


def level_probabilities(mixture: Mixture, coding: Coding) -> FloatArray:
    """Return the probability of each level among the entries of a cluster: (K, M)."""
    p = mixture.cells[:, coding.levels]
    offsets = np.concatenate(([0], np.cumsum(coding.n_levels)))
    return np.asarray(p / np.repeat(sum_levels(p, offsets), coding.n_levels, axis=1))


def sums_of(mixture: Mixture, coding: Coding) -> tuple[FloatArray, FloatArray]:
    """Return T and S as they are expected."""
    return mixture.T, mixture.T[:, None] * mixture.cells[:, coding.levels]


def drawn_levels(
    mixture: Mixture, coding: Coding, n_rows: int, rng: np.random.Generator
) -> np.ndarray:
    """Make up rows of level numbers, -1 where missing: nobody's."""
    z = rng.choice(len(mixture.T), n_rows, p=mixture.T / mixture.T.sum())
    X = np.empty((n_rows, len(coding.n_levels)), dtype=np.int64)
    for j, (start, stop) in enumerate(zip(coding.starts, coding.starts[1:], strict=False)):
        upper = np.cumsum(mixture.cells[:, start:stop], axis=1)[:, :-1]
        X[:, j] = (rng.random(n_rows)[:, None] >= upper[z]).sum(axis=1)
    return np.where(coding.told & (X == coding.n_levels), -1, X)
