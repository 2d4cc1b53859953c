"""Simulated tables with known clusters: the paper's generators (appendix G.1).

Every accuracy can be stated as its distance from the best possible: `bayes_labels`
gives the labels that someone who knew the true parameters would give.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedmerdel.errors import OptionError
from fedmerdel.study.codebook import MAX_LEVELS

Seed = int | np.random.Generator | None


@dataclass(frozen=True)
class SimulatedTable:
    """A table drawn from a known mixture.

    Attributes
    ----------
    X : uint8 array (N, P)
        Level numbers, 0 to ``n_levels[j] - 1``.
    labels : int64 array (N,)
        The true cluster of each row.
    level_probabilities : list of float64 arrays (K, L_j)
        For each variable, the probability of each level in each cluster.
    relevant : bool array (P,)
        Whether a variable differs between clusters; the others are noise.
    """

    X: NDArray[np.uint8]
    labels: NDArray[np.int64]
    level_probabilities: list[NDArray[np.float64]]
    relevant: NDArray[np.bool_]

    @property
    def n_clusters(self) -> int:
        """Clusters that the rows were drawn from."""
        return len(self.level_probabilities[0])


def simulate(
    n_rows: int,
    n_variables: int = 100,
    n_clusters: int = 12,
    *,
    levels: int | tuple[int, ...] = 2,
    beta: tuple[float, float] = (1.0, 5.0),
    noisy: float = 0.0,
    cluster_sizes: Sequence[int] | None = None,
    size_range: tuple[int, int] | None = None,
    near_identical: bool = False,
    random_state: Seed = None,
) -> SimulatedTable:
    """Draw a table from a mixture as the paper does.

    Parameters
    ----------
    n_rows, n_variables, n_clusters : int
        Size of the table and its true number of clusters.
    levels : int or tuple of int
        Levels of every variable, or of each one. A variable of two levels has
        P(level 1) from ``Beta(*beta)``; one with more has its level probabilities
        from ``Dirichlet(1, ..., L)``.
    beta : tuple of two floats
        (1, 5) gives sparse binary variables, (2, 2) the paper's less separable ones.
    noisy : float
        Share of the variables (the last ones) whose probabilities are the same in
        every cluster.
    cluster_sizes : sequence of int, optional
        Rows of each cluster; without it, and without a range, sizes are even.
    size_range : tuple of two ints, optional
        Smallest and largest size of a cluster; sizes are drawn within it.
    near_identical : bool
        Make the last two clusters near-identical: three quarters of the relevant
        variables within 0.1 of each other.
    random_state : int, Generator or None
        A seed gives the same table every time.

    Returns
    -------
    SimulatedTable
        Rows in random order.

    Examples
    --------
    >>> from fedmerdel import simulate
    >>> table = simulate(1000, 60, 5, size_range=(100, 300), random_state=1)
    >>> table.X.shape
    (1000, 60)
    """
    if min(n_rows, n_variables, n_clusters) < 1:
        raise OptionError("n_rows, n_variables, n_clusters: give whole numbers of at least 1")
    if not 0 <= noisy <= 1:
        raise OptionError("noisy: give a share between 0 and 1")
    if near_identical and n_clusters < 2:
        raise OptionError("near_identical: takes at least 2 clusters")
    rng = np.random.default_rng(random_state)
    n_levels = (levels,) * n_variables if isinstance(levels, int) else tuple(levels)
    if len(n_levels) != n_variables or min(n_levels) < 2 or max(n_levels) > MAX_LEVELS:
        raise OptionError(
            f"levels: give one whole number from 2 to {MAX_LEVELS}, or one for each variable"
        )
    relevant = np.arange(n_variables) < round(n_variables * (1 - noisy))
    phi = [
        _level_probabilities(rng, n_clusters if relevant[j] else 1, n_levels[j], beta)
        for j in range(n_variables)
    ]
    phi = [np.broadcast_to(p, (n_clusters, p.shape[1])).copy() for p in phi]
    if near_identical:
        _copy_last_cluster(rng, [p for j, p in enumerate(phi) if relevant[j]])
    if cluster_sizes is None:
        sizes = _sizes(rng, n_rows, n_clusters, size_range)
    else:
        sizes = np.asarray(cluster_sizes, dtype=np.int64)
        if len(sizes) != n_clusters or sizes.sum() != n_rows or sizes.min() < 0:
            raise OptionError("cluster_sizes: give one size for each cluster, n_rows in all")
    labels = rng.permutation(np.repeat(np.arange(n_clusters), sizes))
    X = np.empty((n_rows, n_variables), dtype=np.uint8)
    for j, p in enumerate(phi):
        upper = np.cumsum(p, axis=1)[:, :-1]
        X[:, j] = (rng.random(n_rows)[:, None] >= upper[labels]).sum(axis=1)
    return SimulatedTable(X, labels, phi, relevant)


def bayes_labels(
    table: SimulatedTable,
    sites: NDArray[np.generic] | None = None,
    X: NDArray[np.floating[Any]] | None = None,
) -> NDArray[np.int64]:
    """Return the labels that the true parameters give: the best anyone can do.

    Parameters
    ----------
    table : SimulatedTable
        The rows and the mixture that they were drawn from.
    sites : array (N,), optional
        The site of each row. Then the weights are each site's own shares of the true
        clusters, which is what makes heterogeneous sites easier than pooled rows.
    X : float array (N, P), optional
        The table's rows as they are seen, NaN where an entry is missing: it is left out of
        the likelihood. That is the best possible if entries are missing at random.

    Returns
    -------
    int64 array (N,)
        The most probable cluster of each row under the true parameters.
    """
    if X is not None and X.shape != table.X.shape:
        raise OptionError("X: give the table's rows and columns, NaN where an entry is missing")
    where = np.zeros(len(table.X), dtype=np.int64)
    if sites is not None:
        where = np.unique(sites, return_inverse=True)[1].reshape(-1)
    shares = np.zeros((where.max() + 1, table.n_clusters))
    np.add.at(shares, (where, table.labels), 1.0)
    shares /= shares.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore"):
        log_shares = np.log(shares)
        # A row of zeros past the levels: what a missing entry adds.
        log_phi = [
            np.vstack([np.log(p).T, np.zeros(table.n_clusters)]) for p in table.level_probabilities
        ]
    log_joint = log_shares[where]
    for j, log_p in enumerate(log_phi):
        seen = table.X[:, j].astype(np.int64)
        if X is not None:
            seen[np.isnan(X[:, j])] = -1
        log_joint += log_p[seen]
    return np.asarray(log_joint.argmax(axis=1), dtype=np.int64)


def _level_probabilities(
    rng: np.random.Generator, n_clusters: int, n_levels: int, beta: tuple[float, float]
) -> NDArray[np.float64]:
    if n_levels == 2:
        p = rng.beta(*beta, size=n_clusters)
        return np.stack([1 - p, p], axis=1)
    return rng.dirichlet(np.arange(1.0, n_levels + 1), size=n_clusters)


def _copy_last_cluster(rng: np.random.Generator, phi: list[NDArray[np.float64]]) -> None:
    """Give the last cluster the one before's probabilities, within 0.1, on 3/4 of variables.

    Some of one level's probability goes to another, so that they still add up to 1.
    """
    for j in rng.choice(len(phi), size=round(0.75 * len(phi)), replace=False):
        p = phi[j]
        p[-1] = p[-2]
        giver, taker = rng.choice(p.shape[1], size=2, replace=False)
        moved = min(rng.uniform(0.0, 0.1), p[-1, giver])
        p[-1, giver] -= moved
        p[-1, taker] += moved


def _sizes(
    rng: np.random.Generator, n_rows: int, n_clusters: int, limits: tuple[int, int] | None
) -> NDArray[np.int64]:
    """Even sizes, or sizes drawn uniformly within limits and moved evenly to the right sum."""
    if limits is None:
        limits = (n_rows // n_clusters, -(-n_rows // n_clusters))
    low, high = limits
    if not low * n_clusters <= n_rows <= high * n_clusters:
        raise OptionError(
            f"size_range: {n_clusters} clusters of {low} to {high} rows can't make {n_rows} rows"
        )
    sizes = rng.integers(low, high + 1, size=n_clusters)
    while (short := n_rows - int(sizes.sum())) != 0:
        step = 1 if short > 0 else -1
        free = np.flatnonzero(sizes < high if short > 0 else sizes > low)
        share = max(1, abs(short) // len(free))
        chosen = rng.permutation(free)[: max(1, abs(short) // share)]
        sizes[chosen] = np.clip(sizes[chosen] + step * share, low, high)
    return sizes.astype(np.int64)
