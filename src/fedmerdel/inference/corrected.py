"""Means in clusters, corrected for rows that are counted in the wrong one.

Site b has summed numbers y_q of its rows by their shares in the clusters that it counted in:
``a_gq = sum_n r_ng y_nq``, and rows ``a_g = sum_n r_ng``, of rows whose y are known. With D the
site's confusion (`confusion`), N_k its true rows of cluster k and mu_kq the true means,

    E[a_gq] = sum_k D_gk N_k mu_kq        E[a_g] = sum_k D_gk N_k

so ``a_gq / a_g`` is a mixture of the true means, pulled to their mean however many rows there are.
Bolck, Croon and Hagenaars (2004) take it back, ``mu = D^-1 a_q / D^-1 a``. Here all sites share
mu, each has its own N, and a site may have counted in more or fewer clusters than there are:
generalised least squares of all sums, with the covariance that rows bring,

    Cov = sum_k N_k E[r r' | k] (x) E[y y' | k],        y with a last entry of 1

by Gauss-Newton. For one site that counted in K clusters this is BCH.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.optimize import lsq_linear

from fedmerdel.inference.confusion import Confusion
from fedmerdel.sums.arrays import FloatArray

STEPS = 8
"""Gauss-Newton steps; they settle in fewer."""

SETTLED = 1e-4
"""A step that changes no mean by more is the last."""

EDGE = 1e-3
"""Least and most, from 0 and 1, that a mean is taken for where its variance is computed."""

SINGULAR = 1e-6
"""Share of the largest variance that is added to all: shares sum to 1, so some sums hardly vary."""

SURE = 1e-24
"""Least variance of a share: one that nobody has, or everyone, may seem to have none."""

OPEN = 1.0
"""Standard deviation, as a share of it, of a site's rows of a cluster about what all sites have."""


class SiteSums(NamedTuple):
    """What one site has summed over its rows.

    Attributes
    ----------
    confusion : Confusion
        How rows of the K clusters are counted in its G clusters.
    sums : float64 array (G, Q + 1)
        Of each number by cluster; last the rows whose numbers are known.
    noise : float64 array (G, Q + 1, Q + 1)
        Covariance of what disclosure control did to those of a cluster.
    """

    confusion: Confusion
    sums: FloatArray
    noise: FloatArray


class Estimate(NamedTuple):
    """Means with their covariance.

    Attributes
    ----------
    mean : float64 array (K, Q)
        Of each number in each cluster; nan where nothing is known.
    covariance : float64 array (K * Q, K * Q)
        Of these, number by number: the clusters of the first, then those of the second.
    rows : float64 array (K,)
        True rows of each cluster whose numbers are known.
    slopes : tuple of float64 arrays (K, G, K * Q)
        Of each site: how the means change with the share ``D_gk`` of its confusion.
    misfit : float
        How far the sums of the sites are from what the means make of them: a chi-squared
        statistic over its degrees of freedom, about 1 if confusions are right; 1 if none is left.
    """

    mean: FloatArray
    covariance: FloatArray
    rows: FloatArray
    slopes: tuple[FloatArray, ...] = ()
    misfit: float = 1.0


def effective_rows(share: FloatArray, variance: FloatArray, rows: FloatArray) -> FloatArray:
    """Return how many rows, surely assigned, would leave a share as open as it is.

    A share nearer to 0 or 1 than its standard deviation is taken to be as far; and they are no
    more rows than there are.
    """
    variance = np.maximum(variance, SURE)
    apart = np.minimum(np.sqrt(variance), 0.5)
    spread = np.maximum(share * (1 - share), apart * (1 - apart))
    return np.asarray(np.minimum(spread / variance, rows))


def told_together(cells: FloatArray, variance: FloatArray, of_rows: FloatArray) -> FloatArray:
    """Return the covariance of what rounding did to cells and to their sum: (G, C - 1, C - 1).

    All cells of a cluster add up to its rows, so that the largest has what the others lost.

    Parameters
    ----------
    cells : float64 array (G, C)
        As told; the last, of rows without the outcome, and the first are not asked about.
    variance : float64 array (G, C)
        Of each cell, were it rounded alone.
    of_rows : float64 array (G,)
        Of the rows.
    """
    C, found = cells.shape[1], []
    for own, each, rows in zip(cells, variance, of_rows, strict=True):
        largest, alone = int(own.argmax()), each.copy()
        moved = np.eye(C)
        moved[largest] = -1.0
        moved[largest, largest], alone[largest] = 1.0, rows
        # Where hardly any row is without the outcome, hardly any is hidden.
        alone[-1] = min(alone[-1], own[-1] ** 2 / 3)
        told = np.vstack([moved[1:-1], moved[:-1].sum(axis=0)])
        found.append((told * alone) @ told.T)
    return np.array(found)


Moments = Callable[[FloatArray], FloatArray]
"""From the means (K, Q) to the second moments (K, Q + 1, Q + 1), the last number being 1."""


def of_cells(mean: FloatArray) -> FloatArray:
    """Second moments of numbers that are 0 or 1, one of them at most 1: cells of a table."""
    K, Q = mean.shape
    found = np.zeros((K, Q + 1, Q + 1))
    found[:, np.arange(Q), np.arange(Q)] = mean
    found[:, :Q, Q] = found[:, Q, :Q] = mean
    found[:, Q, Q] = 1.0
    return found


def corrected(sites: list[SiteSums], weights: FloatArray, moments: Moments = of_cells) -> Estimate:
    """Return the means that all sites share; numbers lie between 0 and 1.

    Parameters
    ----------
    sites : list of SiteSums
        What each has summed.
    weights : float64 array (K,)
        Shares of the clusters in all rows: what a site that can't tell two clusters apart is
        taken to have of them.
    moments : callable
        Second moments of the numbers, where these are the means.
    """
    K, Q = len(weights), sites[0].sums.shape[1] - 1
    total = np.sum([site.sums.sum(axis=0) for site in sites], axis=0)
    if not total[-1] > 0:
        return Estimate(np.full((K, Q), np.nan), np.zeros((K * Q, K * Q)), np.zeros(K))
    start = np.tile(np.clip(total[:-1] / total[-1], 0.0, 1.0), (K, 1))
    mean, rows = start, [site.sums[:, -1].sum() * weights for site in sites]
    for _ in range(STEPS):
        before = mean
        # A cluster that nobody has rows of keeps the mean of all, and a huge variance.
        information = EDGE**2 * np.eye(K * Q)
        score = EDGE**2 * start.T.ravel()
        second = moments(_inside(mean))
        parts = []
        for site, N in zip(sites, rows, strict=True):
            part = _linear(site, N, mean, weights, second)
            parts.append(part)
            information += part.means.T @ part.means
            score += part.means.T @ part.seen
        mean = _within(information, score).reshape(Q, K).T
        rows = [np.maximum(part.rows(mean), 0.0) for part in parts]
        if np.abs(mean - before).max() < SETTLED:
            break
    covariance = np.asarray(np.linalg.pinv(information, hermitian=True), dtype=np.float64)
    slopes = tuple(-part.by_confusion @ covariance for part in parts)
    return Estimate(mean, covariance, np.sum(rows, axis=0), slopes, _misfit(parts, mean))


def _misfit(parts: list[_Linear], mean: FloatArray) -> float:
    """Return the chi-squared statistic of the sums over its degrees of freedom."""
    # Each site has its own rows to fit, as many as clusters; the prior of them adds as many lines.
    left = sum(len(part.seen) - 2 * len(mean) for part in parts) - mean.size
    apart = sum(float(np.sum((part.seen - part.means @ mean.T.ravel()) ** 2)) for part in parts)
    return apart / left if left > 0 else 1.0


def _inside(mean: FloatArray) -> FloatArray:
    """Return means that rows can have: each, and what they leave of 1, off the edges."""
    found = np.clip(mean, EDGE, 1 - EDGE)
    most = 1 - EDGE
    return np.asarray(found * np.minimum(most / found.sum(axis=1, keepdims=True), 1.0))


def _within(information: FloatArray, score: FloatArray) -> FloatArray:
    """Return the means that fit best; where they leave 0 to 1, the best that don't."""
    found = np.linalg.solve(information, score)
    if np.all((found >= 0) & (found <= 1)):
        return np.asarray(found)
    root = np.linalg.cholesky(information).T
    return np.asarray(lsq_linear(root, root @ found, bounds=(0.0, 1.0)).x)


class _Linear(NamedTuple):
    """A site's sums about the present means, white: with its rows N profiled out."""

    means: FloatArray
    seen: FloatArray
    back: FloatArray
    left: FloatArray
    by_confusion: FloatArray

    def rows(self, mean: FloatArray) -> FloatArray:
        """Return the rows of each cluster that these means leave most probable."""
        return np.asarray(self.back @ mean.T.ravel() + self.left)


def _linear(
    site: SiteSums, N: FloatArray, mean: FloatArray, weights: FloatArray, second: FloatArray
) -> _Linear:
    D, products = site.confusion
    (G, K), Q = D.shape, mean.shape[1]
    blocks = (N[:, None, None] * second).reshape(K, -1).T @ products.reshape(K, -1)
    by_cluster = blocks.reshape(Q + 1, Q + 1, G, G).transpose(0, 2, 1, 3).copy()
    by_cluster[:, np.arange(G), :, np.arange(G)] += site.noise
    V = by_cluster.reshape((Q + 1) * G, -1)
    V[np.diag_indices_from(V)] += SINGULAR * V.diagonal().max() + 1e-12
    white = np.asarray(np.linalg.inv(np.linalg.cholesky(V)), dtype=np.float64)
    of_means = np.zeros(((Q + 1) * G, K * Q))
    for q in range(Q):
        of_means[q * G : (q + 1) * G, q * K : (q + 1) * K] = D * N
    of_rows = np.concatenate([*(D * mean[:, q] for q in range(Q)), D])
    # The sums are bilinear in means and rows: about the present ones,
    # E[a] = of_means @ mean + of_rows @ N - of_rows' first Q blocks @ N.
    now = of_means @ mean.T.ravel()
    seen = site.sums.T.ravel() + now
    A, B, y = white @ of_means, white @ of_rows, white @ seen
    # What all sites have of the clusters is a weak prior of N; it decides what D leaves open.
    expected = float(site.sums[:, -1].sum()) * weights
    prior = 1.0 / np.maximum(OPEN * expected, 1.0) ** 2
    H = np.linalg.inv(B.T @ B + np.diag(prior))
    back = -H @ (B.T @ A)
    left = H @ (B.T @ y + prior * expected)
    # Residuals of the profile: (I - B H B') applied symmetrically, prior rows included.
    root = np.concatenate([A + B @ back, np.sqrt(prior)[:, None] * back])
    rest = np.concatenate([y - B @ left, np.sqrt(prior) * (expected - left)])
    # A higher D_gk makes more be expected of line g: as if less had been seen there.
    pull = ((A + B @ back).T @ white).reshape(K * Q, Q + 1, G)
    expected_each = np.column_stack([mean, np.ones(K)]) * N[:, None]
    by_confusion = np.einsum("aqg,kq->kga", pull, expected_each)
    return _Linear(root, rest, back, left, by_confusion)
