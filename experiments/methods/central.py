"""Methods that see all rows at once: what pooling the batches would give.

Each takes the batches, puts them together and hands them to the package that is commonly used
for it, with the true number of clusters where the method takes one.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import pandas as pd
import prince  # type: ignore[import-untyped]
from numpy.typing import NDArray
from sklearn.cluster import DBSCAN, AgglomerativeClustering, KMeans
from sklearn.neighbors import NearestNeighbors
from stepmix.stepmix import StepMix

from experiments.methods.face import Batch, Info, Labels
from experiments.methods.modes import Floats, cluster_modes, level_offsets, one_hot, sums_by_label
from fedmerdel.fitting.class_starts import drawn_rows
from fedmerdel.fitting.classical import climb
from fedmerdel.fitting.passes import Workers, label_rows
from fedmerdel.records.encode import encode
from fedmerdel.records.packing import repack
from fedmerdel.records.tables import open_table
from fedmerdel.study.codebook import Codebook, Variable

MOST_ROWS = 10_000
"""Rows that methods which need all pairs of rows are fitted on; the others follow these."""


@dataclass(frozen=True)
class KModes:
    """k-modes from several starts, the one with the least cost.

    Parameters
    ----------
    n_clusters, seed : int
        Clusters, and the seed of the starts.
    n_init, max_iter : int
        Starts, and most passes of each.
    """

    n_clusters: int
    seed: int = 0
    n_init: int = 10
    max_iter: int = 100

    def fit(self, batches: list[Batch]) -> tuple[Labels, Info]:
        """Cluster the pooled rows."""
        offsets = level_offsets(batches)
        rng = np.random.default_rng(self.seed)
        rows = one_hot(np.concatenate(batches), offsets)
        found = cluster_modes(
            rows, offsets, self.n_clusters, rng, n_init=self.n_init, max_iter=self.max_iter
        )
        return found.labels, {"n_clusters": _count(found.labels), "cost": found.cost}


@dataclass(frozen=True)
class Agglomerative:
    """Hierarchical clustering of at most so many rows; the others go to the nearest centre.

    All pairs of rows are needed, which for 50,000 rows would be 10 GB. The distance is the
    Euclidean one of one-hot rows: its square is twice the Hamming distance.

    Going to the nearest centre is a step of k-means and does better than the tree: on
    ``simulate(20_000, 100, 12, random_state=0)`` the ARI is 0.60 for rows of the tree and
    0.88 for the others. ``rows_fitted`` tells how many are the tree's.

    Parameters
    ----------
    n_clusters, seed : int
        Clusters, and the seed of the rows that are drawn.
    linkage : str
        "ward", the default, does best here; R's hclust takes "complete" if nothing is said.
    max_rows : int
        Most rows to cluster.
    """

    n_clusters: int
    seed: int = 0
    linkage: str = "ward"
    max_rows: int = MOST_ROWS

    def fit(self, batches: list[Batch]) -> tuple[Labels, Info]:
        """Cluster a sample of the pooled rows, then give all to the centres."""
        rows = one_hot(np.concatenate(batches), level_offsets(batches))
        drawn = _sample(len(rows), self.max_rows, self.seed)
        tree = AgglomerativeClustering(n_clusters=self.n_clusters, linkage=self.linkage)
        own = tree.fit_predict(rows[drawn]).astype(np.int64)
        centres = sums_by_label(rows[drawn], own, self.n_clusters)
        centres /= np.bincount(own, minlength=self.n_clusters)[:, None]
        # |x - c|^2 less |x|^2, which is the same for all rows.
        labels = ((centres**2).sum(axis=1) - 2 * rows @ centres.T).argmin(axis=1).astype(np.int64)
        labels[drawn] = own
        return labels, {"n_clusters": _count(labels), "rows_fitted": float(len(drawn))}


@dataclass(frozen=True)
class Dbscan:
    """DBSCAN with the Hamming distance; it can't be told the number of clusters.

    It is fitted on at most so many rows, as `Agglomerative`; others go to the cluster of the
    nearest core row if that is within eps. Rows of no cluster, noise, get the label -1.

    Parameters
    ----------
    seed : int
        Of the rows that are drawn.
    min_samples : int
        Rows within eps, itself among them, that make a row a core row.
    eps : int or None
        Differing variables up to which rows are neighbours. None takes it from the distances
        to the neighbour of number `min_samples`: the one that makes all but the expected share
        of noise core rows.
    noise : float
        That share. On simulated tables with clusters apart, a low one finds these more often
        than the knee of the curve does; on those of the paper no eps finds any.
    max_rows : int
        Most rows to cluster.
    """

    seed: int = 0
    min_samples: int = 10
    eps: int | None = None
    noise: float = 0.01
    max_rows: int = MOST_ROWS

    def fit(self, batches: list[Batch]) -> tuple[Labels, Info]:
        """Cluster a sample of the pooled rows, then give the others to core rows."""
        rows = one_hot(np.concatenate(batches), level_offsets(batches))
        drawn = _sample(len(rows), self.max_rows, self.seed)
        sample = rows[drawn]
        eps = self._k_distance(sample) if self.eps is None else self.eps
        # Hamming distances are whole numbers; halfway between two, rounding can't matter.
        radius = float(np.sqrt(2 * (eps + 0.5)))
        found = DBSCAN(eps=radius, min_samples=self.min_samples, algorithm="brute").fit(sample)
        labels = np.full(len(rows), -1, dtype=np.int64)
        core = found.core_sample_indices_
        others = np.setdiff1d(np.arange(len(rows)), drawn)
        if len(core) and len(others):
            nearest = NearestNeighbors(n_neighbors=1, algorithm="brute").fit(sample[core])
            distance, at = nearest.kneighbors(rows[others])
            follow = np.where(distance[:, 0] <= radius, found.labels_[core[at[:, 0]]], -1)
            labels[others] = follow
        labels[drawn] = found.labels_
        return labels, {
            "n_clusters": _count(labels[labels >= 0]),
            "noise": float(np.mean(labels < 0)),
            "eps": float(eps),
            "rows_fitted": float(len(drawn)),
        }

    def _k_distance(self, rows: Floats) -> int:
        k = min(self.min_samples, len(rows))
        distance, _ = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(rows).kneighbors(rows)
        curve = np.rint(distance[:, -1] ** 2 / 2)
        return int(np.quantile(curve, 1 - self.noise, method="higher"))


@dataclass(frozen=True)
class McaKMeans:
    """k-means on the first dimensions of a multiple correspondence analysis.

    Parameters
    ----------
    n_clusters, seed : int
        Clusters, and the seed of all that is drawn.
    n_dimensions : int
        Dimensions to keep.
    n_init, max_iter : int
        Starts of k-means, and most passes of each; the paper's numbers.
    """

    n_clusters: int
    seed: int = 0
    n_dimensions: int = 10
    n_init: int = 20
    max_iter: int = 20

    def fit(self, batches: list[Batch]) -> tuple[Labels, Info]:
        """Cluster the pooled rows by their coordinates."""
        X = np.concatenate(batches)
        frame = pd.DataFrame(X, columns=[f"v{j}" for j in range(X.shape[1])])
        analysis = prince.MCA(n_components=self.n_dimensions, random_state=self.seed).fit(frame)
        Z = np.asarray(analysis.row_coordinates(frame), dtype=np.float64)
        kmeans = KMeans(
            self.n_clusters, n_init=self.n_init, max_iter=self.max_iter, random_state=self.seed
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # more starts or passes than a small table needs
            labels = kmeans.fit_predict(Z).astype(np.int64)
        explained = float(np.sum(analysis.percentage_of_variance_)) / 100
        return labels, {"n_clusters": _count(labels), "explained": explained}


@dataclass(frozen=True)
class Lca:
    """Latent class analysis by StepMix.

    Parameters
    ----------
    n_clusters, seed : int
        Classes, and the seed of the starts.
    n_init, max_iter : int
        Starts, and most passes of each.
    tol : float
        Nats a row by which a pass must raise the likelihood to go on.
    """

    n_clusters: int
    seed: int = 0
    n_init: int = 5
    max_iter: int = 1000
    tol: float = 1e-7

    def fit(self, batches: list[Batch]) -> tuple[Labels, Info]:
        """Fit the classes to the pooled rows."""
        X = np.concatenate(batches).astype(np.float64)
        model = StepMix(
            n_components=self.n_clusters,
            measurement="binary" if X.max() <= 1 else "categorical",
            n_init=self.n_init,
            max_iter=self.max_iter,
            abs_tol=self.tol,
            random_state=self.seed,
            progress_bar=0,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # StepMix warns about scikit-learn's new names
            labels = model.fit(X).predict(X).astype(np.int64)
            fit = float(model.score(X)) * len(X)
        return labels, {"n_clusters": _count(labels), "log_likelihood": fit}


@dataclass(frozen=True)
class EmBic:
    """Maximum likelihood by EM for several numbers of clusters, the best by BIC.

    What flexmix does for the paper. The passes are those of `fedmerdel.model_table`, which
    gives no labels; starts are rows only, without that table's search by `MerDel`, so that
    this stays a method of its own.

    Parameters
    ----------
    n_clusters : tuple of int
        Numbers to try; one alone is fitted as it is.
    seed : int
        Of the starts.
    n_init, max_iter : int
        Starts for each number, and most passes of each.
    tol : float
        Nats a row that five steps together must add to go on.
    """

    n_clusters: tuple[int, ...]
    seed: int = 0
    n_init: int = 10
    max_iter: int = 1000
    tol: float = 1e-6

    def fit(self, batches: list[Batch]) -> tuple[Labels, Info]:
        """Fit each number of clusters to the pooled rows and keep the best."""
        X = np.concatenate(batches)
        n_levels = np.diff(level_offsets(batches))
        # A variable needs two levels, also where all rows have the same.
        levels = [tuple(map(str, range(max(2, n)))) for n in n_levels.tolist()]
        book = Codebook(tuple(Variable(str(j), levels[j], "integer") for j in range(len(levels))))
        rows = repack(encode(open_table(X), book, None, owner="EmBic"))
        best_bic, best = np.inf, None
        with Workers() as workers:
            for K in self.n_clusters:
                n_free = K - 1 + K * int((n_levels - 1).sum())
                for seed in np.random.SeedSequence([self.seed, K]).spawn(self.n_init):
                    start = drawn_rows(rows, K, np.random.default_rng(seed), workers)
                    found = climb(rows, start, self.tol * len(X), self.max_iter, workers).found
                    bic = n_free * float(np.log(len(X))) - 2 * found.log_likelihood
                    if bic < best_bic:
                        best_bic, best = bic, found
            assert best is not None
            labels = label_rows(rows, best.theta, workers).astype(np.int64)
        return labels, {
            "n_clusters": _count(labels),
            "bic": best_bic,
            "log_likelihood": best.log_likelihood,
        }


def _count(labels: Labels) -> float:
    return float(len(np.unique(labels)))


def _sample(n_rows: int, most: int, seed: int) -> NDArray[np.int64]:
    """Draw rows without replacement, in order; all, if there are not more."""
    if n_rows <= most:
        return np.arange(n_rows)
    return np.sort(np.random.default_rng(seed).choice(n_rows, size=most, replace=False))
