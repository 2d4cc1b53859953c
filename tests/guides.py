"""Outcomes that guide: the slow formula, and tables in which one should or should not help."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.special import digamma, gammaln, xlogy

from fedmerdel.sums.prior import Prior
from tests.reference import Dense, by_variable, ln_beta, m_step

GUIDE = "died"


def guided_elbo(table: Dense, log_r: np.ndarray, prior: Prior, weights: np.ndarray) -> float:
    """E[ln p(pi, phi, z) + sum_j weight_j ln p(x_j | z, phi)] - E[ln q], row by row.

    q(pi) and q(phi) are where that is highest. Components without rows are in the prior.
    """
    sums, r = m_step(table, log_r), np.exp(log_r)
    n_empty = prior.n_components - len(sums.T)
    alpha = np.full(prior.n_components, prior.alpha)
    alpha_star = alpha + np.append(sums.T, np.zeros(n_empty))
    ln_pi = digamma(alpha_star) - digamma(alpha_star.sum())
    total = -_divergence(alpha_star, alpha)
    each = r * ln_pi[: len(sums.T)] - xlogy(r, r)
    for j, eps in enumerate(by_variable(prior.eps, prior.n_levels)):
        star = eps + weights[j] * sums.S[j]
        ln_phi = digamma(star) - digamma(star.sum(axis=1, keepdims=True))
        total -= sum(_divergence(one, eps) for one in star)
        for n in np.flatnonzero(table.X[:, j] >= 0):
            each[n] += weights[j] * r[n] * ln_phi[:, table.X[n, j]]
    return float(total + np.sum(table.weights[:, None] * each))


def _divergence(a: np.ndarray, b: np.ndarray) -> float:
    """KL(Dirichlet(a) || Dirichlet(b)), the textbook's."""
    mean = digamma(a) - digamma(a.sum())
    return float(gammaln(a.sum()) - gammaln(a).sum() + np.sum((a - b) * mean) + ln_beta(b))


def alike_but_for_the_outcome(
    seed: int, *, noise: bool = False, n_rows: int = 1500, gap: float = 0.14
) -> tuple[pd.DataFrame, np.ndarray]:
    """Three clusters, two of which differ little in 20 variables and much in the outcome.

    With noise, the outcome has nothing to do with any of them.
    """
    rng = np.random.default_rng(seed)
    z = rng.integers(0, 3, n_rows)
    first = rng.uniform(0.2, 0.6, 20)
    second = np.clip(first + gap * rng.choice([-1, 1], 20), 0.05, 0.95)
    phi = np.stack([first, second, rng.uniform(0.05, 0.95, 20)])
    frame = pd.DataFrame(
        (rng.random((n_rows, 20)) < phi[z]).astype(int), columns=[f"v{j}" for j in range(20)]
    )
    rate = np.full(3, 0.5) if noise else np.array([0.1, 0.9, 0.5])
    frame[GUIDE] = (rng.random(n_rows) < rate[z]).astype(int)
    return frame, z
