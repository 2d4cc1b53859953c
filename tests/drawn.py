"""What Hypothesis draws for the numerical tests: dense tables, expectations, priors.

Hypothesis draws the shape and the kind of the numbers; a seed that it draws too fills
them in. So examples are quick to make and still shrink to small tables.
"""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from fedmerdel.sums.expectations import Expectations
from fedmerdel.sums.prior import Prior, uniform_prior
from tests.reference import Dense

seeds = st.integers(0, 2**32 - 1)

# Kernels work on blocks of 64 or 128 rows: sizes at and beside the edges, and any other.
edges = st.sampled_from([1, 2, 63, 64, 65, 127, 128, 129, 256, 257])
n_rows = st.one_of(edges, st.integers(1, 300))
n_clusters = st.one_of(st.integers(1, 6), st.sampled_from([7, 8, 9, 16, 25]))
max_states = st.sampled_from([16, 256])


def row_weights(kind: str, size: int, rng: np.random.Generator) -> np.ndarray:
    if kind == "ones":
        return np.ones(size)
    if kind == "whole":
        return rng.integers(0, 4, size).astype(float)
    return np.where(rng.random(size) < 0.2, 0.0, rng.gamma(1.0, 2.0, size))


@st.composite
def dense_tables(
    draw: st.DrawFn,
    rows: st.SearchStrategy[int] = n_rows,
    max_variables: int = 12,
    wide: bool = True,
    weights: tuple[str, ...] = ("ones", "whole", "fractions"),
) -> Dense:
    """Mixed numbers of levels (one may have 200), missing entries, any weights."""
    levels = draw(st.lists(st.integers(1, 6), min_size=1, max_size=max_variables))
    if wide and draw(st.booleans()):
        levels.insert(draw(st.integers(0, len(levels))), 200)
    size = draw(rows)
    missing = draw(st.sampled_from([0.0, 0.1, 0.9]))
    kind = draw(st.sampled_from(weights))
    rng = np.random.default_rng(draw(seeds))
    X = rng.integers(0, levels, size=(size, len(levels)))
    X[rng.random(X.shape) < missing] = -1
    return Dense(X, row_weights(kind, size, rng), np.array(levels))


def random_theta(rng: np.random.Generator, K: int, n_levels: np.ndarray, spread: float):
    shape = (K, int(n_levels.sum()))
    return Expectations(spread * rng.standard_normal(K), spread * rng.standard_normal(shape))


@st.composite
def tables_and_expectations(
    draw: st.DrawFn,
    spreads: tuple[float, ...] = (0.1, 1.0, 10.0, 3000.0),
    clusters: st.SearchStrategy[int] = n_clusters,
    **table: object,
) -> tuple[Dense, Expectations]:
    """A table and expectations for it; a spread of thousands makes all other shares vanish."""
    dense = draw(dense_tables(**table))  # type: ignore[arg-type]
    rng = np.random.default_rng(draw(seeds))
    return dense, random_theta(rng, draw(clusters), dense.n_levels, draw(st.sampled_from(spreads)))


@st.composite
def priors(draw: st.DrawFn, n_levels: np.ndarray, n_components: int) -> Prior:
    """The paper's prior, or any positive number for each level."""
    alpha = draw(st.sampled_from([0.01, 0.5, 1.0, 3.0]))
    prior = uniform_prior(n_levels, alpha, n_components)
    if draw(st.booleans()):
        rng = np.random.default_rng(draw(seeds))
        prior = prior._replace(eps=rng.gamma(1.0, 1.0, len(prior.eps)) + 1e-3)
    return prior


def random_log_r(rng: np.random.Generator, N: int, K: int, sharpness: float) -> np.ndarray:
    log_r = sharpness * rng.standard_normal((N, K))
    return log_r - np.logaddexp.reduce(log_r, axis=1, keepdims=True)


@st.composite
def clusterings(
    draw: st.DrawFn, min_clusters: int = 1, **table: object
) -> tuple[Dense, np.ndarray, Prior]:
    """A table, ln r for it from soft to almost hard, and a prior with 0 to 5 zombies."""
    dense = draw(dense_tables(max_variables=6, **table))  # type: ignore[arg-type]
    K = draw(st.integers(min_clusters, 6))
    rng = np.random.default_rng(draw(seeds))
    sharpness = draw(st.sampled_from([0.3, 3.0, 100.0]))
    prior = draw(priors(dense.n_levels, K + draw(st.integers(0, 5))))
    return dense, random_log_r(rng, len(dense.X), K, sharpness), prior


def largest(theta: Expectations) -> float:
    return max(1.0, float(np.abs(theta.log_levels).max()))


def mixed_table(n_rows: int = 700, seed: int = 0) -> Dense:
    rng = np.random.default_rng(seed)
    n_levels = np.array([2, 2, 3, 1, 5, 2, 2, 2, 2, 4, 17, 2, 2, 2])
    X = rng.integers(0, n_levels, size=(n_rows, len(n_levels)))
    X[rng.random(X.shape) < 0.05] = -1
    return Dense(X, rng.gamma(1.0, 1.0, n_rows), n_levels)
