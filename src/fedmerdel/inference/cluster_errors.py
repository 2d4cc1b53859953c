"""What corrected means owe to clusters that are estimates, and to rows that were drawn.

A mean is corrected by the confusions D of the sites. These come from rows that the model makes up,
so D errs with the model's levels, and by the chance of the draw. With ``dm/dD_gk`` the slopes of
the means (`corrected`), a drawn row n of cluster k pulls the means by

    e_n = sum_b sum_g (dm/dD_b,gk) r_b,ng / n_k

n_k rows being drawn of k. The variance of their sum is what the draw adds. With eta_kjl the logits
of the levels, ``dD_gk/deta_kjl = E[r_g ([x_j = l] - phi_kjl) | k]``, so that the means change with
the levels by

    dm/deta_kjl = sum_{n in k} e_n ([x_nj = l] - phi_kjl)

With the covariance of the logits, from the information of the mixture (`information`), this is
what the estimated clusters add. That errors of levels and of counts come from the same rows is left
out: they hardly go together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import softmax

from fedmerdel.inference.confusion import MadeUp
from fedmerdel.inference.information import (
    PRIOR_ROWS,
    Mixture,
    Rows,
    block_worth,
    outer_products,
    prior_information,
)
from fedmerdel.sums.arrays import FloatArray, IntArray

MOST_PARAMETERS = 1_000
"""With more, each level is taken as if all others were known: the whole would take too long."""

INFORMATION_ROWS, BLOCK_ROWS = 20_000, 4_000
"""Rows that the information is asked of, the whole of it or each level's own."""

PART = 2_000
"""Rows whose scores are held at a time."""


class Counter(NamedTuple):
    """How a site gives made-up rows to its clusters.

    Attributes
    ----------
    said : float64 array (K, n, G)
        What the rows say of its clusters.
    log_weights : float64 array (G,)
        Of these clusters.
    """

    said: FloatArray
    log_weights: FloatArray


class LevelErrors(NamedTuple):
    """How surely the levels of the clusters are known.

    Attributes
    ----------
    mixture : Mixture
        The clusters.
    factor : pair or None
        Cholesky's of the information of all parameters; None if they are too many.
    worth : float64 array (K, M)
        Where they are: how many sure rows tell as much of each level.
    """

    mixture: Mixture
    factor: tuple[FloatArray, bool] | None
    worth: FloatArray

    def covariance(self, slopes: FloatArray) -> FloatArray:
        """Return that of numbers with these derivatives by the logits (K, M, R): (R, R)."""
        R = slopes.shape[2]
        if self.factor is None:
            # They sum to 0 over the levels of a variable: n sure rows leave sum_l d_l^2 / (n p_l).
            spread = slopes / np.sqrt(self.mixture.levels * self.worth)[:, :, None]
            lines = spread.reshape(-1, R)
            return np.asarray(lines.T @ lines)
        lines = np.zeros((self.mixture.n_parameters, R))
        lines[len(self.mixture.weights) - 1 :] = slopes[:, self.mixture.free].reshape(-1, R)
        return np.asarray(lines.T @ cho_solve(self.factor, lines))


def level_errors(rows: MadeUp, said: FloatArray, mixture: Mixture, N: float) -> LevelErrors:
    """Return how surely levels are known from N rows of a mixture.

    Parameters
    ----------
    rows : MadeUp
        Rows drawn from its clusters.
    said : float64 array (K, n, K)
        What their levels say of the clusters.
    mixture : Mixture
        The clusters.
    N : float
        Rows that they were fitted to.
    """
    whole = mixture.n_parameters <= MOST_PARAMETERS
    K, drawn = said.shape[:2]
    wanted = INFORMATION_ROWS if whole else BLOCK_ROWS
    each = int(min(max(wanted / K, 1), drawn))

    def parts() -> Iterator[Rows]:
        for k in range(K):
            for start in range(0, each, PART):
                at = slice(start, min(start + PART, each))
                r = softmax(said[k, at] + np.log(mixture.weights), axis=1)
                w = np.full(len(r), N * mixture.weights[k] / each)
                yield Rows(_codes(rows.levels[k, at], mixture.offsets), r, w)

    if whole:
        information = outer_products(parts(), mixture)
        # The inverse of a mean over n rows of p parameters is too large by about n / (n - p).
        information *= K * each / max(K * each - mixture.n_parameters, 1)
        information += prior_information(mixture)
        # Of counts without measure, rounding may leave less than nothing.
        with suppress(np.linalg.LinAlgError):
            return LevelErrors(mixture, cho_factor(information), np.empty((0, 0)))
    return LevelErrors(mixture, None, block_worth(parts(), mixture).levels + PRIOR_ROWS)


def _codes(levels: IntArray, offsets: IntArray) -> IntArray:
    return np.where(levels == offsets[-1], -1, levels - offsets[:-1])


def error_covariance(
    slopes: Sequence[FloatArray], counters: Sequence[Counter], rows: MadeUp, errors: LevelErrors
) -> FloatArray:
    """Return what estimated clusters and drawn rows add to the covariance of corrected means.

    Parameters
    ----------
    slopes : sequence of float64 arrays (K, G, R)
        Of each site: how the means change with its confusion.
    counters : sequence of Counter
        How each gives rows to its clusters.
    rows : MadeUp
        The rows.
    errors : LevelErrors
        How surely their levels are known.
    """
    (K, n, P), R = rows.levels.shape, slopes[0].shape[2]
    offsets, phi = errors.mixture.offsets, errors.mixture.levels
    by_levels, found = np.zeros((K, phi.shape[1], R)), np.zeros((R, R))
    alike: dict[int, tuple[Counter, FloatArray]] = {}  # in a round all sites count in one way
    for counter, slope in zip(counters, slopes, strict=True):
        before = alike.get(id(counter))
        alike[id(counter)] = counter, slope if before is None else before[1] + slope
    for k in range(K):
        pull = np.zeros((n, R))
        for counter, slope in alike.values():
            pull += softmax(counter.said[k] + counter.log_weights, axis=1) @ (slope[k] / n)
        apart = pull - pull.mean(axis=0)
        found += apart.T @ apart
        for j in range(P):
            start, end = offsets[j], offsets[j + 1]
            there = rows.levels[k, :, j, None] == np.arange(start, end)
            sums = there.T.astype(np.float64) @ pull
            by_levels[k, start:end] = sums - phi[k, start:end, None] * sums.sum(axis=0)
    return np.asarray(found + errors.covariance(by_levels))
