"""What q costs: KL from the prior, by quadrature, by the paper's terms and by the ELBO."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from scipy.integrate import quad
from scipy.special import digamma
from scipy.stats import beta, dirichlet

from fedmerdel.fitting.passes import Workers
from fedmerdel.sums.divergence import delete_gains, kl_levels, kl_weights
from fedmerdel.sums.prior import Prior, uniform_prior
from fedmerdel.sums.sums import Sums
from tests import reference
from tests.drawn import clusterings, seeds
from tests.reference import Dense, by_variable, statistics_from

ONE = Workers(1)
many = settings(max_examples=60, deadline=None)

Drawn = tuple[Dense, np.ndarray, Prior]


def kl_by_quadrature(q: tuple[float, float], p: tuple[float, float]) -> float:
    def integrand(x: float) -> float:
        log_q = beta.logpdf(x, *q)
        return float(np.exp(log_q) * (log_q - beta.logpdf(x, *p)))

    return float(quad(integrand, 0, 1, epsabs=1e-11, epsrel=1e-11)[0])


def kl_of_dirichlets(q: np.ndarray, p: np.ndarray) -> float:
    """E_q[ln q] - E_q[ln p], the first of which SciPy knows."""
    if len(q) == 1:
        return 0.0
    mean_log = digamma(q) - digamma(q.sum())
    expected_log_p = np.sum((p - 1) * mean_log) - reference.ln_beta(p)
    return float(-dirichlet(q).entropy() - expected_log_p)


@pytest.mark.parametrize("counts", [(0.0, 0.0), (3.0, 7.0), (0.25, 40.0), (11.5, 0.0)])
def test_two_levels_by_quadrature(counts: tuple[float, float]) -> None:
    eps = np.array([1.5, 2.0])
    prior = Prior(1.25, 2, eps, np.array([0, 2]))
    S = np.array([counts])
    expected = kl_by_quadrature((1.5 + counts[0], 2.0 + counts[1]), (1.5, 2.0))
    found = kl_levels(Sums(S.sum(axis=1), S, np.zeros(1)), prior)
    np.testing.assert_allclose(found, [expected], atol=1e-9)
    weights = kl_by_quadrature((1.25 + counts[0], 1.25 + counts[1]), (1.25, 1.25))
    np.testing.assert_allclose(kl_weights(np.array(counts), prior), weights, atol=1e-9)


@many
@given(clusterings())
def test_each_part_is_a_kl_of_dirichlets(drawn: Drawn) -> None:
    table, log_r, prior = drawn
    sums = reference.m_step(table, log_r)
    stats = statistics_from(sums)
    eps = by_variable(prior.eps, table.n_levels)
    expected = [
        sum(kl_of_dirichlets(eps_j + S_j[k], eps_j) for eps_j, S_j in zip(eps, sums.S, strict=True))
        for k in range(stats.n_clusters)
    ]
    size = {"rtol": 1e-9, "atol": 1e-11 * (1 + prior.eps.max()) * len(prior.eps) + 1e-9}
    np.testing.assert_allclose(kl_levels(stats, prior), expected, **size)
    # Components without a row are in the prior, and in q.
    alpha = np.full(prior.n_components, prior.alpha)
    T = np.pad(sums.T, (0, prior.n_components - len(sums.T)))
    np.testing.assert_allclose(
        kl_weights(sums.T, prior), kl_of_dirichlets(alpha + T, alpha), **size
    )


def test_nothing_is_learned_from_no_rows() -> None:
    prior = uniform_prior(np.array([2, 5]), 0.01, 6)
    nothing = Sums(np.zeros(3), np.zeros((3, 7)), np.zeros(3))
    np.testing.assert_allclose(kl_levels(nothing, prior), np.zeros(3), atol=1e-12)
    assert kl_weights(nothing.T, prior) == pytest.approx(0.0, abs=1e-12)


@many
@given(clusterings(min_clusters=2, wide=False), seeds)
def test_clusters_are_interchangeable(drawn: Drawn, seed: int) -> None:
    table, log_r, prior = drawn
    stats = statistics_from(reference.m_step(table, log_r))
    order = np.random.default_rng(seed).permutation(stats.n_clusters)
    other = stats.take(order)
    cost = -np.random.default_rng(seed).gamma(1.0, 5.0, stats.n_clusters)
    np.testing.assert_allclose(
        delete_gains(other, prior, cost[order]),
        delete_gains(stats, prior, cost)[order],
        rtol=1e-8, atol=1e-8 * (1 + stats.T.sum()),
    )  # fmt: skip
