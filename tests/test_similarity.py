"""How alike clusters are, against formulas and integrals that say it another way."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as distributions
from scipy.integrate import quad
from scipy.special import digamma

from fedmerdel.sums.prior import Prior, uniform_prior
from fedmerdel.sums.similarity import LIKENESS, bhattacharyya, correlation, kullback_leibler
from fedmerdel.sums.sums import Sums
from tests.drawn import seeds
from tests.reference import by_variable, ln_beta


def drawn_clusters(levels: list[int], K: int, seed: int) -> tuple[Sums, Prior]:
    rng = np.random.default_rng(seed)
    n_levels = np.array(levels)
    T = rng.integers(1, 200, K).astype(float)
    S = [T[:, None] * rng.dirichlet(np.ones(size), K) for size in levels]
    prior = uniform_prior(n_levels, 0.01, K)
    return Sums(T, np.concatenate(S, axis=1), np.zeros(K)), prior


mixed_levels = st.lists(st.integers(1, 5), min_size=2, max_size=8)


@settings(max_examples=50, deadline=None)
@given(mixed_levels, st.integers(1, 5), seeds, st.sampled_from(sorted(LIKENESS)))
def test_symmetric_and_a_cluster_is_most_like_itself(
    levels: list[int], K: int, seed: int, name: str
) -> None:
    stats, prior = drawn_clusters(levels, K, seed)
    alike = LIKENESS[name](stats, prior)
    assert alike.shape == (K, K)
    np.testing.assert_allclose(alike, alike.T, rtol=1e-9, atol=1e-9)
    slack = 1e-9 * stats.T.sum()
    assert np.all(alike <= np.diag(alike)[:, None] + slack) or name == "correlation"
    assert np.all(alike <= (1 if name == "correlation" else 0) + slack)


@pytest.mark.parametrize("seed", range(5))
def test_correlation_of_binary_tables_is_that_of_level_0(seed: int) -> None:
    stats, prior = drawn_clusters([2] * 20, 6, seed)
    expected = np.corrcoef((prior.eps + stats.S)[:, 0::2])
    np.testing.assert_allclose(correlation(stats, prior), expected, rtol=1e-10)


def test_correlation_of_mixed_levels_leaves_out_the_last_of_each() -> None:
    stats, prior = drawn_clusters([3, 2, 4], 4, 1)
    kept = (prior.eps + stats.S)[:, [0, 1, 3, 5, 6, 7]]
    np.testing.assert_allclose(correlation(stats, prior), np.corrcoef(kept), rtol=1e-10)


@pytest.mark.parametrize("levels", [[1, 1], [2], [1, 2, 1]])
def test_clusters_that_do_not_vary_are_uncorrelated(levels: list[int]) -> None:
    stats, prior = drawn_clusters(levels, 3, 0)
    np.testing.assert_array_equal(correlation(stats, prior), np.zeros((3, 3)))


def dirichlet_divergence(a: np.ndarray, b: np.ndarray) -> float:
    return ln_beta(b) - ln_beta(a) + np.sum((a - b) * (digamma(a) - digamma(a.sum())))


@settings(max_examples=50, deadline=None)
@given(mixed_levels, st.integers(2, 4), seeds)
def test_divergence_is_the_sum_of_both_directions(levels: list[int], K: int, seed: int) -> None:
    stats, prior = drawn_clusters(levels, K, seed)
    eps = by_variable(prior.eps + stats.S, prior.n_levels)
    found = kullback_leibler(stats, prior)
    for a in range(K):
        for b in range(K):
            both = sum(
                dirichlet_divergence(e[a], e[b]) + dirichlet_divergence(e[b], e[a]) for e in eps
            )
            assert -found[a, b] == pytest.approx(both, rel=1e-7, abs=1e-7)


@pytest.mark.parametrize(
    ("a", "b"), [((3.0, 5.0), (9.0, 2.0)), ((40.0, 60.0), (1.5, 1.5)), ((2.0, 2.0), (2.0, 2.0))]
)
def test_distance_is_that_of_the_densities(a: tuple[float, ...], b: tuple[float, ...]) -> None:
    prior = uniform_prior(np.array([2, 2]), 0.01, 2)
    S = np.array([[*a, *b], [*b, *b]]) - prior.eps
    alike = bhattacharyya(Sums(np.zeros(2), S, np.zeros(2)), prior)
    p, q = distributions.beta(*a), distributions.beta(*b)
    shared, _ = quad(lambda x: np.sqrt(p.pdf(x) * q.pdf(x)), 0, 1)
    # The second variable is the same in both clusters: no distance.
    assert alike[0, 1] == pytest.approx(np.log(shared), abs=1e-7)


@pytest.mark.parametrize("name", sorted(LIKENESS))
@pytest.mark.parametrize("seed", range(5))
def test_identical_clusters_come_first(name: str, seed: int) -> None:
    stats, prior = drawn_clusters([2, 3, 2, 4, 2, 2], 6, seed)
    stats.S[4] = stats.S[1]
    alike = LIKENESS[name](stats, prior)
    np.fill_diagonal(alike, -np.inf)
    assert sorted(np.unravel_index(alike.argmax(), alike.shape)) == [1, 4]
