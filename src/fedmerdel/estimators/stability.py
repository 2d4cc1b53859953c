"""`stability` says which clusters of a fit come back from other starts and other samples."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from fedmerdel.errors import OptionError
from fedmerdel.estimators.merdel import MerDel
from fedmerdel.estimators.starts import (
    Stability,
    bootstrap,
    checked_model,
    make_trial,
    run_fits,
)
from fedmerdel.fitting.passes import Workers, label_rows
from fedmerdel.options import check_whole, thread_count
from fedmerdel.sums.agreement import best_jaccard, weight_in
from fedmerdel.sums.expectations import expectations


def stability(
    model: MerDel,
    X: Any,
    *,
    n_starts: int = 10,
    n_bootstrap: int = 20,
    sample_weight: Any = None,
) -> Stability:
    """Fit a table again, from other starts and on bootstrap samples, and look for its clusters.

    Parameters
    ----------
    model : MerDel
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
    checked_model(model)
    check_is_fitted(model)
    check_whole("n_starts", n_starts, at_least=0)
    check_whole("n_bootstrap", n_bootstrap, at_least=0)
    if n_starts + n_bootstrap == 0:
        raise OptionError("n_starts, n_bootstrap: give at least one of them")
    trial = make_trial(model, X, sample_weight, known=True)
    weights = trial.rows.weights
    with Workers(thread_count(model.n_jobs)) as workers:
        theta = expectations(model._stats, model._prior)
        labels = label_rows(trial.rows, theta, workers)
    n_clusters = model.n_clusters_
    alike, numbers = [], []
    for stream, (n_fits, draw) in enumerate(((n_starts, None), (n_bootstrap, bootstrap))):
        alike.append(np.zeros((n_fits, n_clusters)))
        numbers.append(np.empty(0, dtype=np.int64))
        if n_fits:
            fits = run_fits(model, trial, n_fits, stream, draw)
            best = best_jaccard(labels, fits.labels, weights)
            alike[-1][:, : best.shape[1]] = best
            numbers[-1] = fits.n_clusters
    (starts, samples), (of_starts, of_samples) = alike, numbers
    rows = weight_in(labels, weights, n_clusters)
    return Stability(rows, starts, samples, of_starts, of_samples)
