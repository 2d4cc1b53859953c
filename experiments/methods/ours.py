"""MerDel and FedMerDel: as in the paper, and as the software does by default."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from experiments.methods.face import Batch, Info, Labels
from fedmerdel import Federation, FedMerDel, MerDel, merge_sites
from fedmerdel.study.priors import study_prior
from fedmerdel.sums.arrays import IntArray
from fedmerdel.sums.search import Search, search_groups

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
        return model.labels_, {
            "seconds": watch[0],
            "n_clusters": model.n_clusters_,
            "elbo": model.lower_bound_,
            "proposed": len(model.history_),
            "accepted": sum(move.accepted for move in model.history_),
        }


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
        info |= {"rounds": 1 + len(model.federation_.record), "released": _numbers_sent(model)}
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
    info = {"merge_seconds": watch[0], "n_clusters": again.n_clusters, "elbo": again.lower_bound}
    return again, _kept_labels(again.groups, model, batches), info


def merged_by_selection(model: FedMerDel, batches: list[Batch]) -> tuple[Labels, Info]:
    """Merge greedily with the sums that each site's own selection of variables leaves.

    As in appendix D.3: with selection S_kjl = eps*_kjl - eps_jl is weighted by the site's c_j, so
    that a variable which a site did not select says nothing of its clusters. The software does
    not do this; c_j is taken for 0 or 1, as the site tells it.
    """
    first = model.federation_
    study, names = first.study, np.array(first.study.codebook.names)
    local = first.local
    chosen = np.array([np.isin(names, summary.selected or ()) for summary in first.summaries])
    c = np.repeat(chosen, study.codebook.n_levels, axis=1)[local.site].astype(np.float64)
    weighted = local._replace(stats=local.stats._replace(S=local.stats.S * c))
    prior = study_prior(study, sum(summary.n_components for summary in first.summaries))
    rng = np.random.default_rng(study.seed)
    with _timed() as watch:
        groups = search_groups("greedy", weighted, prior, None, "correlation", rng)
    info = {"merge_seconds": watch[0], "n_clusters": len(groups)}
    return _kept_labels(groups, model, batches), info


def _numbers_sent(model: FedMerDel) -> float:
    """Return how many numbers a site has sent, on average: replies are as large as summaries."""
    federation = model.federation_
    n_levels = federation.study.codebook.n_levels
    # The size and the entropy of a cluster, all its levels but one of each variable, and overlaps.
    own = 2 + sum(n_levels) - len(n_levels)
    once = [s.n_clusters * (own + (s.n_clusters - 1) / 2) for s in federation.summaries]
    return (1 + len(federation.record)) * float(np.mean(once))


def _kept_labels(groups: Sequence[IntArray], model: FedMerDel, batches: list[Batch]) -> Labels:
    """Return where each row goes if it keeps its local cluster's company."""
    sizes = [summary.n_clusters for summary in model.federation_.summaries]
    became = np.empty(sum(sizes), dtype=np.int64)
    for k, group in enumerate(groups):
        became[group] = k
    first = np.cumsum([0, *sizes[:-1]])
    site = np.unique(_names(batches), return_inverse=True)[1]
    return np.asarray(became[first[site] + model.local_labels_])


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
