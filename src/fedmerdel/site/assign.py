"""Rows given to the global clusters: at the site, with the site's own shares of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fedmerdel.errors import OptionError
from fedmerdel.fitting.passes import Workers, label_rows, log_evidence, responsibilities
from fedmerdel.model.global_model import GlobalModel
from fedmerdel.options import thread_count
from fedmerdel.site.site_table import study_rows
from fedmerdel.sums.arrays import FloatArray, IntArray
from fedmerdel.sums.expectations import Expectations, expectations, expected_log_weights
from fedmerdel.sums.predictive import predictive


class Assignment(NamedTuple):
    """Rows and their clusters. Rows: never leave their site.

    Attributes
    ----------
    labels : int64 array (N,)
        The most probable global cluster of each row.
    probabilities : float64 array (N, K)
        The probability of each cluster.
    """

    labels: IntArray
    probabilities: FloatArray


def assign(
    model: GlobalModel, table: Any, site: str | None = None, *, n_jobs: int | None = None
) -> Assignment:
    """Give rows to the global clusters.

    Parameters
    ----------
    model : GlobalModel
        The merged clusters.
    table : array, frame, Arrow table or path of a CSV or Parquet file
        The rows.
    site : str, optional
        The site they are from, if it took part: then its own shares of the clusters are
        the weights. Without it the shares of all sites together are.
    n_jobs : int or None
        Threads.

    Returns
    -------
    Assignment
        Labels and probabilities.
    """
    theta = site_expectations(model, site)
    threads = thread_count(n_jobs)
    rows = study_rows(model.study, table)
    with Workers(threads) as workers:
        return Assignment(label_rows(rows, theta, workers), responsibilities(rows, theta, workers))


def score_samples(model: GlobalModel, table: Any, *, n_jobs: int | None = None) -> FloatArray:
    """Return the log predictive probability of each row under the global model."""
    threads = thread_count(n_jobs)
    rows = study_rows(model.study, table)
    with Workers(threads) as workers:
        return log_evidence(rows, predictive(model.statistics, model.row_prior), workers)


def site_expectations(model: GlobalModel, site: str | None) -> Expectations:
    """Return what an E step reads: everyone's levels, and the site's own weights."""
    theta = expectations(model.statistics, model.row_prior)
    if site is None:
        return theta
    if site not in model.sites:
        known = ", ".join(repr(name) for name in model.sites)
        raise OptionError(f"site: {site!r} took no part in the model; it has {known}")
    rows = model.site_rows[model.sites.index(site)]
    return theta._replace(log_weights=expected_log_weights(np.asarray(rows), model.prior))
