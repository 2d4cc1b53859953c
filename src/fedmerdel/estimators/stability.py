"""`stability` says which clusters of a fit come back from other starts and other samples."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from fedmerdel.errors import OptionError
from fedmerdel.estimators.fitted import FittedClusters
from fedmerdel.estimators.merdel import MerDel
from fedmerdel.estimators.starts import (
    Draw,
    Fits,
    Stability,
    bootstrap,
    checked_model,
    make_trial,
    run_fits,
)
from fedmerdel.fitting.passes import Workers, label_rows
from fedmerdel.options import check_whole, checked_seed, thread_count
from fedmerdel.records.weights import checked_weights
from fedmerdel.sums.agreement import best_jaccard, weight_in
from fedmerdel.sums.arrays import FloatArray, IntArray
from fedmerdel.sums.expectations import expectations

Run = Callable[[int, int, Draw | None], Fits]
"""Fits so often, in a stream of random numbers, with weights of the rows as drawn."""


def stability(
    model: FittedClusters,
    X: Any,
    *,
    n_starts: int = 10,
    n_bootstrap: int = 20,
    sample_weight: Any = None,
    groups: Any = None,
) -> Stability:
    """Fit a table again, from other starts and on bootstrap samples, and look for its clusters.

    Parameters
    ----------
    model : MerDel or FedMerDel
        A fitted estimator, whose clusters are looked for. Its options are those of the
        fits, its `n_jobs` and `random_state` included; the result does not depend on `n_jobs`.
    X : array, frame, Arrow table or path of a CSV or Parquet file
        The table that it was fitted to.
    n_starts : int, default=10
        Fits of the same rows. They say what the search leaves to chance.
    n_bootstrap : int, default=20
        Fits of bootstrap samples: as many rows, drawn with replacement; one drawn twice counts
        once, or its copies would be a cluster. They say what the choice of rows leaves to
        chance as well. Each fit labels all rows, so that all rows judge.
    sample_weight : array (N,), optional
        Weight of each row; a row of weight 3 counts, and is drawn, as three rows.
    groups : array (N,), optional
        Of a `FedMerDel`: the site of each row, as it was given to `fit`. Rows are drawn at every
        site; `federation_stability` draws sites too.

    Returns
    -------
    Stability
        Numbers for each cluster, and how many clusters each fit has.

    References
    ----------
    Hennig (2007), Cluster-wise assessment of cluster stability, Computational Statistics and
    Data Analysis 52, 258-271.

    Examples
    --------
    >>> from fedmerdel import MerDel, simulate, stability
    >>> table = simulate(1000, n_variables=50, n_clusters=4, random_state=1)
    >>> model = MerDel(random_state=1).fit(table.X)
    >>> stability(model, table.X, n_starts=3, n_bootstrap=3).over_bootstrap.min() > 0.8
    np.True_
    """
    check_whole("n_starts", n_starts, at_least=0)
    check_whole("n_bootstrap", n_bootstrap, at_least=0)
    if n_starts + n_bootstrap == 0:
        raise OptionError("n_starts, n_bootstrap: give at least one of them")
    if isinstance(model, FittedClusters) and not isinstance(model, MerDel):
        labels, weights, run = _of_sites(model, X, sample_weight, groups)
    elif groups is not None:
        raise OptionError("groups: a MerDel has no sites: leave it out")
    else:
        labels, weights, run = _of_one_table(model, X, sample_weight)
    n_clusters = model.n_clusters_
    alike, numbers = [], []
    for stream, (n_fits, draw) in enumerate(((n_starts, None), (n_bootstrap, bootstrap))):
        alike.append(np.zeros((n_fits, n_clusters)))
        numbers.append(np.empty(0, dtype=np.int64))
        if n_fits:
            fits = run(n_fits, stream, draw)
            best = best_jaccard(labels, fits.labels, weights)
            alike[-1][:, : best.shape[1]] = best
            numbers[-1] = fits.n_clusters
    (starts, samples), (of_starts, of_samples) = alike, numbers
    rows = weight_in(labels, weights, n_clusters)
    return Stability(rows, starts, samples, of_starts, of_samples)


def _of_one_table(model: Any, X: Any, sample_weight: Any) -> tuple[IntArray, FloatArray, Run]:
    """Return the labels of a table's rows, their weights, and how it is fitted again."""
    checked_model(model)
    check_is_fitted(model)
    trial = make_trial(model, X, sample_weight, known=True)
    with Workers(thread_count(model.n_jobs)) as workers:
        theta = expectations(model._stats, model._prior)
        labels = label_rows(trial.rows, theta, workers)
    return labels, trial.rows.weights, partial(run_fits, model, trial)


def _of_sites(
    model: Any, X: Any, sample_weight: Any, groups: Any
) -> tuple[IntArray, FloatArray, Run]:
    """Return the same of the rows of several sites."""
    check_is_fitted(model)
    if not hasattr(model, "labels_"):
        raise OptionError("model: a file has no labels: fit the estimator again")
    weights = checked_weights(sample_weight, len(model.labels_))
    entropy = int(checked_seed(model.random_state).randint(2**31 - 1))

    def run(n_fits: int, stream: int, draw: Draw | None) -> Fits:
        again = []
        for seed in np.random.SeedSequence(entropy, spawn_key=(stream,)).spawn(n_fits):
            for_draw, for_fit = seed.spawn(2)
            drawn = weights if draw is None else draw(weights, np.random.default_rng(for_draw))
            fit = clone(model).set_params(random_state=int(for_fit.generate_state(1)[0]))
            # Rows of weight 0 have no say, and are labelled.
            again.append(fit.fit(X, groups=groups, sample_weight=drawn))
        return Fits(
            np.array([each.labels_ for each in again]),
            np.array([each.lower_bound_ for each in again]),
            np.array([each.n_clusters_ for each in again]),
        )

    return model.labels_, weights, run
