"""`consensus` makes one clustering of those of many starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from fedmerdel.errors import OptionError
from fedmerdel.estimators.merdel import MerDel
from fedmerdel.estimators.starts import Stability, checked_model, make_trial, run_fits
from fedmerdel.fitting.consensus import agree_by_clusters, agree_by_rows
from fedmerdel.options import check_whole
from fedmerdel.records.collapse import find_distinct
from fedmerdel.sums import agreement
from fedmerdel.sums.arrays import FloatArray, IntArray

MOST_KINDS = 5000
"""Kinds of rows up to which rows are compared with rows: the matrix takes 200 MB."""

START_STREAM = 2
"""Other random numbers than those of `stability`."""


@dataclass(frozen=True)
class Consensus:
    """What many starts agree on.

    Attributes
    ----------
    labels : int64 array (N,)
        The cluster of each row; cluster 0 is the largest.
    shares : float64 array (N, K)
        Share of the starts that put a row into each cluster. It is what one start can't
        tell: how much the row depends on the start. (Each start's cluster stands for the
        cluster of `labels` that holds most of it.)
    stability : Stability
        How surely each cluster is found by a start.
    starts : int64 array (n_starts, N)
        The cluster of each row by each start.
    lower_bounds : float64 array (n_starts,)
        The ELBO of each start.
    """

    labels: IntArray
    shares: FloatArray
    stability: Stability
    starts: IntArray
    lower_bounds: FloatArray

    @property
    def n_clusters(self) -> int:
        """Clusters found."""
        return len(self.stability.rows)

    def similarity(self, rows: Any = None) -> FloatArray:
        """Return the share of starts in which rows are together: (n, n).

        Parameters
        ----------
        rows : array of int, optional
            The rows to compare, all by default.
        """
        return agreement.similarity(self.starts if rows is None else self.starts[:, rows])


def consensus(
    model: MerDel,
    X: Any,
    *,
    n_starts: int = 20,
    method: Literal["clusters", "rows"] = "clusters",
    sample_weight: Any = None,
) -> Consensus:
    """Cluster a table from many starts and return what they agree on.

    Parameters
    ----------
    model : MerDel
        Whose options the fits have, its `n_jobs` and `random_state` included. It need not be
        fitted, and is left as it is. The result does not depend on `n_jobs`.
    X : array, frame, Arrow table or path of a CSV or Parquet file
        One row an observation, one categorical column a variable.
    n_starts : int, default=20
        Fits.
    method : {"clusters", "rows"}, default="clusters"
        "clusters" groups the clusters of all starts by the rows that they share, lets the
        starts vote for each row, and keeps the vote with the least mean variation of
        information to the starts. "rows" clusters rows by how often they are together,
        and minimises the lower bound of that mean, as is done with draws of a posterior
        (Wade and Ghahramani 2018); for up to 5,000 kinds of rows, those that no start
        tells apart being of one kind.
    sample_weight : array (N,), optional
        Weight of each row. A row of weight 0 gets a label, but has no say.

    Returns
    -------
    Consensus
        Labels, and how far to trust them.

    References
    ----------
    Wade and Ghahramani (2018), Bayesian cluster analysis: point estimation and credible
    balls, Bayesian Analysis 13, 559-626.

    Examples
    --------
    >>> from fedmerdel import MerDel, consensus, simulate
    >>> table = simulate(1000, n_variables=50, n_clusters=4, random_state=1)
    >>> consensus(MerDel(random_state=1), table.X, n_starts=5).n_clusters
    4
    """
    checked_model(model)
    check_whole("n_starts", n_starts, at_least=2)
    if method not in ("clusters", "rows"):
        raise OptionError("method: give one of 'clusters', 'rows'")
    trial = make_trial(model, X, sample_weight)
    fits = run_fits(model, trial, n_starts, START_STREAM)
    # What no start tells apart stays together: one row of each kind stands for all.
    kind, firsts = find_distinct(_as_bytes(fits.labels))
    starts = fits.labels[:, firsts]
    weights = agreement.weight_in(kind, trial.rows.weights, len(firsts))
    labels = _agreed(starts, weights, method, trial.prior.n_components)
    shares = agreement.shares(labels, starts, weights)
    alike = agreement.best_jaccard(labels, starts, weights)
    sizes = agreement.weight_in(labels, weights)
    stable = Stability(sizes, alike, np.empty((0, len(sizes))), fits.n_clusters)
    kind = trial.of_rows(kind)
    return Consensus(labels[kind], shares[kind], stable, starts[:, kind], fits.lower_bounds)


def _agreed(
    starts: IntArray, weights: FloatArray, method: Literal["clusters", "rows"], max_clusters: int
) -> IntArray:
    """Return the consensus of the rows that have weight, and what the starts vote for the rest."""
    heavy = np.flatnonzero(weights)
    if method == "rows" and len(heavy) > MOST_KINDS:
        raise OptionError(
            f"method: 'rows' takes up to {MOST_KINDS:,} kinds of rows, and these are "
            f"{len(heavy):,}: give 'clusters'"
        )
    found = np.array([np.unique(labels, return_inverse=True)[1] for labels in starts[:, heavy]])
    if method == "rows":
        best = agree_by_rows(found, weights[heavy], max_clusters)
    else:
        best = agree_by_clusters(found, weights[heavy])
    agreed = np.zeros(len(weights), dtype=np.int64)
    agreed[heavy] = agreement.by_size(best, weights[heavy])
    if len(heavy) < len(weights):
        voted = agreement.shares(agreed, starts, weights).argmax(axis=1)
        agreed = np.where(weights > 0, agreed, voted)
    return agreed


def _as_bytes(labels: IntArray) -> Any:
    """Return each row's labels by all starts as bytes: (N, 4 S)."""
    return np.ascontiguousarray(labels.T.astype(np.uint32)).view(np.uint8)
