"""SNOB, approximately: a Gibbs sampler on each batch, then hierarchical clustering of clusters.

Zuanetti et al. (2018) cluster batches by MCMC, then cluster the clusters by MCMC again. The
paper that this reproduces takes a Dirichlet-process mixture on each batch (the R package
PReMiuM) and merges the local clusters by hierarchical clustering; so does this module. The local
sampler is blocked: sticks, level probabilities and labels are each drawn at once, given the
others, with the stick-breaking prior cut at a number of components (Ishwaran and James 2001).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.special import gammaln

from experiments.methods.face import Batch, Info, Labels
from experiments.methods.fedem import Doubles, Mixture, by_variable, free_levels, log_joint
from experiments.methods.modes import (
    Floats,
    IntArray,
    cluster_modes,
    level_offsets,
    one_hot,
    sums_by_label,
)

ALPHA_SHAPE, ALPHA_RATE = 2.0, 1.0
"""Gamma prior of the concentration, PReMiuM's."""

LEVEL_PRIOR = 1.0
"""Dirichlet parameter of each level of each variable, PReMiuM's: even."""


class LocalClusters(NamedTuple):
    """Clusters of one batch.

    Attributes
    ----------
    labels : int64 array (N_b,)
        The cluster of each row, numbered from 0 without gaps.
    levels : float64 array (K_b, L)
        Posterior mean of each cluster's level probabilities.
    log_posterior : float
        Of the labels and the concentration, up to a constant.
    """

    labels: Labels
    levels: Doubles
    log_posterior: float


@dataclass(frozen=True)
class Snob:
    """Approximate SNOB.

    Parameters
    ----------
    n_clusters : int
        Clusters that the local ones are merged into.
    seed : int
        Of all that is drawn.
    n_components : int
        Where stick-breaking is cut: most clusters of a batch.
    n_sweeps : int
        Sweeps of each batch's sampler. The labels with the highest posterior are kept.
    method, metric : str
        Linkage of the hierarchical clustering and the distance between the clusters' level
        probabilities, as `scipy.cluster.hierarchy.linkage` takes them. Sizes of the clusters
        do not count.
    """

    n_clusters: int
    seed: int = 0
    n_components: int = 30
    n_sweeps: int = 300
    method: str = "average"
    metric: str = "euclidean"

    def fit(self, batches: list[Batch]) -> tuple[Labels, Info]:
        """Sample each batch's clusters, then merge those of all."""
        offsets = level_offsets(batches)
        seeds = np.random.SeedSequence(self.seed).spawn(len(batches))
        local = [
            sample_clusters(
                one_hot(batch, offsets),
                offsets,
                np.random.default_rng(seed),
                n_components=self.n_components,
                n_sweeps=self.n_sweeps,
            )
            for batch, seed in zip(batches, seeds, strict=True)
        ]
        merged = self.merge(np.concatenate([found.levels for found in local]))
        starts = np.cumsum([0] + [len(found.levels) for found in local])
        labels = np.concatenate(
            [merged[found.labels + start] for found, start in zip(local, starts, strict=False)]
        )
        return labels, {
            "n_clusters": float(len(np.unique(labels))),
            "rounds": 1.0,
            "released": starts[-1] / len(batches) * (free_levels(offsets) - 1),
            "local_clusters": float(starts[-1]),
        }

    def merge(self, levels: Doubles) -> Labels:
        """Merge local clusters, given their level probabilities, into global ones."""
        if len(levels) <= self.n_clusters:
            return np.arange(len(levels), dtype=np.int64)
        tree = linkage(levels, method=self.method, metric=self.metric)
        merged: Labels = fcluster(tree, self.n_clusters, criterion="maxclust").astype(np.int64)
        return merged - 1


def sample_clusters(
    rows: Floats,
    offsets: IntArray,
    rng: np.random.Generator,
    *,
    n_components: int = 30,
    n_sweeps: int = 300,
) -> LocalClusters:
    """Sample a Dirichlet-process mixture of one batch and keep its most probable labels.

    Parameters
    ----------
    rows : float32 array (N, L)
        One-hot rows.
    offsets : int64 array (P + 1,)
        First level of each variable, and the end.
    rng : Generator
        Where all is drawn from.
    n_components, n_sweeps : int
        Where stick-breaking is cut, and sweeps of the sampler.
    """
    alpha = ALPHA_SHAPE / ALPHA_RATE
    # From k-modes, as from random labels all components look the same for many sweeps.
    z = cluster_modes(rows, offsets, n_components, rng, n_init=1, max_iter=5).labels
    best = z, -np.inf
    for _ in range(n_sweeps):
        counts = sums_by_label(rows, z, n_components).astype(np.float64)
        sizes = np.bincount(z, minlength=n_components)
        sticks, shares = draw_shares(sizes, alpha, rng)
        alpha = draw_concentration(sticks, rng)
        theta = Mixture(shares, draw_levels(counts, offsets, rng))
        z = draw_labels(rows, theta, rng)
        posterior = log_posterior(rows, z, alpha, n_components, offsets)
        if posterior > best[1]:
            best = z, posterior
    used, labels = np.unique(best[0], return_inverse=True)
    counts = sums_by_label(rows, labels, len(used)).astype(np.float64) + LEVEL_PRIOR
    levels = counts / by_variable(counts, offsets)
    return LocalClusters(labels.astype(np.int64), levels, best[1])


def draw_shares(sizes: IntArray, alpha: float, rng: np.random.Generator) -> tuple[Doubles, Doubles]:
    """Draw the sticks given the clusters' sizes: V_t ~ Beta(1 + n_t, alpha + n_(t+1) + ...).

    Returns
    -------
    sticks : float64 array (T - 1,)
        The share of what is left that each component takes.
    shares : float64 array (T,)
        The share of each component.
    """
    after = np.cumsum(sizes[::-1])[::-1][1:]
    # A stick of exactly 1 would leave nothing, and have no logarithm.
    sticks = np.minimum(rng.beta(1.0 + sizes[:-1], alpha + after), 1 - 1e-12)
    left = np.concatenate(([1.0], np.cumprod(1 - sticks)))
    shares = left * np.append(sticks, 1.0)
    return sticks, np.maximum(shares, 1e-300)


def draw_concentration(sticks: Doubles, rng: np.random.Generator) -> float:
    """Draw alpha given the sticks: Gamma(a + T - 1, b - sum ln(1 - V_t))."""
    rate = ALPHA_RATE - np.log1p(-sticks).sum()
    return float(rng.gamma(ALPHA_SHAPE + len(sticks), 1 / rate))


def draw_levels(counts: Doubles, offsets: IntArray, rng: np.random.Generator) -> Doubles:
    """Draw the level probabilities given the counts: Dirichlet, by gamma variables."""
    drawn = np.maximum(rng.standard_gamma(counts + LEVEL_PRIOR), 1e-30)
    return drawn / by_variable(drawn, offsets)


def label_probabilities(rows: Floats, theta: Mixture) -> Floats:
    """Return p(z_n = t | x_n, theta) for all rows and components."""
    p = log_joint(rows, theta)
    np.exp(p - p.max(axis=1, keepdims=True), out=p)
    p /= p.sum(axis=1, keepdims=True)
    return p


def draw_labels(rows: Floats, theta: Mixture, rng: np.random.Generator) -> Labels:
    """Draw the label of each row given all else."""
    upper = np.cumsum(label_probabilities(rows, theta), axis=1)
    u = rng.random((len(rows), 1), dtype=np.float32) * upper[:, -1:]
    z: Labels = (u >= upper).sum(axis=1).astype(np.int64)
    np.minimum(z, upper.shape[1] - 1, out=z)
    return z


def log_posterior(
    rows: Floats, z: Labels, alpha: float, n_components: int, offsets: IntArray
) -> float:
    """Return ln p(z, alpha, X), with the sticks and the level probabilities integrated out.

    These are drawn anew in each sweep and would only add noise to the choice of the best.
    """
    sizes = np.bincount(z, minlength=n_components)
    after = np.cumsum(sizes[::-1])[::-1][1:]
    own = sizes[:-1]
    prior = (
        gammaln(1.0 + own) + gammaln(alpha + after) - gammaln(1.0 + alpha + own + after)
    ).sum() + len(own) * np.log(alpha)
    prior += (ALPHA_SHAPE - 1) * np.log(alpha) - ALPHA_RATE * alpha
    counts = sums_by_label(rows, z, n_components).astype(np.float64)
    n_levels = np.diff(offsets)
    fit = (gammaln(counts + LEVEL_PRIOR) - gammaln(LEVEL_PRIOR)).sum()
    fit += gammaln(n_levels * LEVEL_PRIOR).sum() * n_components
    fit -= gammaln(sizes[:, None] + n_levels * LEVEL_PRIOR).sum()
    return float(prior + fit)
