"""What the fitted mixture says of new rows, and of its own parameters."""

from __future__ import annotations

import numpy as np
from scipy.special import betaincinv

from fedmerdel.sums.arrays import FloatArray, IntArray
from fedmerdel.sums.expectations import Expectations
from fedmerdel.sums.levels import level_means, level_totals
from fedmerdel.sums.prior import Prior
from fedmerdel.sums.sums import Sums


def mean_weights(stats: Sums, prior: Prior) -> FloatArray:
    """Return the posterior mean weight of each cluster, empty components left out."""
    alpha = prior.alpha + stats.T
    return np.asarray(alpha / alpha.sum())


def mean_levels(stats: Sums, prior: Prior) -> FloatArray:
    """Return the posterior mean probability of each level in each cluster: (K, M)."""
    means = level_means(prior.described.posterior(stats.S), prior.offsets)
    return _with_background(means, prior)


def level_intervals(stats: Sums, prior: Prior, level: float) -> FloatArray:
    """Return the equal-tailed credible interval of each level's probability: (K, M, 2).

    One component of a Dirichlet has a beta distribution.
    """
    eps = prior.described.posterior(stats.S)
    rest = level_totals(eps, prior.offsets) - eps
    tails = np.array([(1 - level) / 2, (1 + level) / 2])
    # A variable of one level has no rest: its probability is 1 for certain.
    certain = rest <= 0
    bounds = betaincinv(eps[..., None], np.where(certain, 1.0, rest)[..., None], tails)
    return _with_background(np.where(certain[..., None], 1.0, bounds), prior)


def _with_background(levels: FloatArray, prior: Prior) -> FloatArray:
    """Mix into each variable what does not differ between clusters, if some were selected."""
    if prior.inclusion is None or prior.background is None:
        return levels
    c = np.repeat(prior.inclusion, prior.n_levels)
    shape = (-1,) + (1,) * (levels.ndim - 2)
    c, background = c.reshape(shape), prior.background.reshape(shape)
    return np.asarray(c * levels + (1.0 - c) * background)


def predictive(stats: Sums, prior: Prior) -> Expectations:
    """Return the log posterior predictive as a mixture: q's means in place of E[ln .].

    Under q the weights and the levels are independent, so the predictive probability of
    one row is exactly the sum over clusters of E[pi_k] prod_j E[phi_kj x_j]. The empty
    components are one more cluster, with the prior's own levels.
    """
    total = prior.n_components * prior.alpha + stats.T.sum()
    n_empty = prior.n_components - stats.n_clusters
    weights = np.append(prior.alpha + stats.T, prior.alpha * n_empty) / total
    empty = Sums(np.zeros(1), np.zeros((1, len(prior.eps))), np.zeros(1))
    levels = mean_levels(stats.joined(empty), prior)
    keep = weights > 0
    return Expectations(np.log(weights[keep]), np.log(levels[keep]))


def draw(
    stats: Sums, prior: Prior, n_rows: int, rng: np.random.Generator
) -> tuple[IntArray, IntArray]:
    """Draw rows of level numbers and their clusters from the posterior means."""
    return draw_from(mean_weights(stats, prior), mean_levels(stats, prior), prior, n_rows, rng)


def draw_from(
    weights: FloatArray, levels: FloatArray, prior: Prior, n_rows: int, rng: np.random.Generator
) -> tuple[IntArray, IntArray]:
    """Draw rows from a mixture with these weights (K,) and probabilities of levels (K, M)."""
    labels = rng.choice(len(weights), size=n_rows, p=weights)
    X = np.empty((n_rows, len(prior.n_levels)), dtype=np.int64)
    for j, start in enumerate(prior.offsets[:-1]):
        upper = np.cumsum(levels[:, start : prior.offsets[j + 1]], axis=1)[:, :-1]
        X[:, j] = (rng.random(n_rows)[:, None] >= upper[labels]).sum(axis=1)
    return X, labels


def draw_levels(stats: Sums, prior: Prior, rng: np.random.Generator) -> FloatArray:
    """Draw the probability of each level in each cluster from its posterior: (K, M)."""
    # A Dirichlet is gammas over their sum; all of one variable may be too small for numbers.
    drawn = rng.gamma(prior.described.posterior(stats.S)) + np.finfo(np.float64).tiny
    return _with_background(level_means(drawn, prior.offsets), prior)
