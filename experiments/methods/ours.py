"""MerDel and FedMerDel: as in the paper, and as the software does by default."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from experiments.methods.face import Batch, Info, Labels
from fedmerdel import Federation, FedMerDel, MerDel, merge_sites
from fedmerdel.sums.search import Search

PAPER: dict[str, Any] = {"recipe": "paper", "laps": 5}
"""The paper's local fit: k-modes, five passes between moves, its own prior and tolerance."""


@dataclass
class Pooled:
    """MerDel on all rows. With threads ("par" in the paper) it gives the same to the last bit."""

    seed: int = 0
    options: dict[str, Any] = field(default_factory=dict)

    def fit(self, batches: list[Batch]) -> tuple[Labels, Info]:
        """Cluster the rows of all batches."""
        X = np.concatenate(batches)
        with _timed() as watch:
            model = MerDel(random_state=self.seed, **self.options).fit(X)
        info = {"seconds": watch[0], "n_clusters": model.n_clusters_, "elbo": model.lower_bound_}
        return model.labels_, info


@dataclass
class OneShot:
    """FedMerDel: each batch by itself, then the global merge, then rounds if any.

    With `assigned`, rows are given to the global clusters anew; else they keep their local
    cluster's company, as in the paper.
    """

    seed: int = 0
    assigned: bool = True
    options: dict[str, Any] = field(default_factory=dict)

    def fit(self, batches: list[Batch]) -> tuple[Labels, Info]:
        """Cluster the rows of all batches."""
        model, info = fit_batches(batches, self.seed, self.options)
        return (model.labels_ if self.assigned else model.frozen_labels_), info


def fit_batches(batches: list[Batch], seed: int, options: dict[str, Any]) -> tuple[FedMerDel, Info]:
    """Return a fitted FedMerDel, and what it took."""
    names = _names(batches)
    with _timed() as watch:
        model = FedMerDel(random_state=seed, **options).fit(np.concatenate(batches), groups=names)
    info = {"seconds": watch[0], "n_clusters": model.n_clusters_, "elbo": model.lower_bound_}
    return model, info


def merged_again(
    model: FedMerDel, batches: list[Batch], search: Search, criterion: Any = "correlation"
) -> tuple[Federation, Labels, Info]:
    """Merge the local clusters of a fit by another search; rows keep their local clusters."""
    with _timed() as watch:
        first = model.federation_
        again = merge_sites(first.study, first.summaries, search, criterion=criterion)
    became = {(a.site, a.local_cluster): a.cluster for a in again.lineage}
    names, local = _names(batches), model.local_labels_
    width = int(local.max()) + 1
    sites, at = np.unique(names, return_inverse=True)
    table = np.array([[became.get((s, k), -1) for k in range(width)] for s in sites.tolist()])
    info = {"merge_seconds": watch[0], "n_clusters": again.n_clusters, "elbo": again.lower_bound}
    return again, table[at, local], info


def _names(batches: list[Batch]) -> np.ndarray[tuple[int], np.dtype[np.str_]]:
    width = len(str(len(batches)))
    return np.repeat(
        [f"batch {b:0{width}d}" for b in range(len(batches))], [len(b) for b in batches]
    )


@contextmanager
def _timed() -> Iterator[list[float]]:
    """Measure core-seconds of this process; slow convergence is part of what is measured."""
    watch = [0.0]
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield watch
    watch[0] = time.process_time() - began
