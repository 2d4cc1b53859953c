"""Rows given to the global clusters: at the site, with the site's own weights of them.

Sites differ in how frequent the clusters are, and nobody but the site knows its rows. So the
weights are found there, with the model's levels as they are: pi_b ~ Dirichlet(kappa pi), pi the
model's weights and kappa one row, by EM,

    r_nk  ~  pi_bk exp(E ln phi_k x_n),      pi_bk = (kappa pi_k + sum_n w_n r_nk) / (kappa + N_b)

A cluster that the site did not find itself thus gets those of its rows that are there, and
nothing leaves the site.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fedmerdel.errors import OptionError
from fedmerdel.fitting.passes import Workers, expect_and_count, log_evidence, responsibilities
from fedmerdel.model.global_model import GlobalModel
from fedmerdel.options import thread_count
from fedmerdel.records.collapse import collapse
from fedmerdel.records.packing import PackedRows, repack
from fedmerdel.site.site_table import study_rows
from fedmerdel.sums.arrays import FloatArray, IntArray
from fedmerdel.sums.expectations import Expectations, expectations
from fedmerdel.sums.predictive import mean_weights, predictive

KAPPA = 1.0
"""Rows that the model's weights are worth at a site: one, so that its own rows decide."""

WEIGHT_PASSES = 20
"""Passes over a site's rows to find its weights; they settle in fewer."""


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


def assign(model: GlobalModel, table: Any, *, n_jobs: int | None = None) -> Assignment:
    """Give the rows of one site to the global clusters, with weights found from these rows.

    Parameters
    ----------
    model : GlobalModel
        The merged clusters. (Of a federation, its model is taken.)
    table : array, frame, Arrow table or path of a CSV or Parquet file
        The rows of one site.
    n_jobs : int or None
        Threads.

    Returns
    -------
    Assignment
        Labels and probabilities.
    """
    model = given_model(model)
    threads = thread_count(n_jobs)
    rows = study_rows(model.study, table, new=True)
    with Workers(threads) as workers:
        theta = site_expectations(model, rows, workers)
        probabilities = responsibilities(rows, theta, workers)
    return Assignment(probabilities.argmax(axis=1), probabilities)


def score_samples(model: GlobalModel, table: Any, *, n_jobs: int | None = None) -> FloatArray:
    """Return the log predictive probability of each row under the global model."""
    model = given_model(model)
    threads = thread_count(n_jobs)
    rows = study_rows(model.study, table, new=True)
    with Workers(threads) as workers:
        return log_evidence(rows, predictive(model.sums, model.row_prior), workers)


def site_expectations(model: GlobalModel, rows: PackedRows, workers: Workers) -> Expectations:
    """Return what an E step reads: the model's levels, and weights found from a site's rows."""
    pooled = mean_weights(model.sums, model.prior)
    theta = expectations(model.sums, model.row_prior)
    rows = repack(collapse(rows)[0])
    total = float(rows.weights.sum())
    weights = pooled
    for _ in range(WEIGHT_PASSES):
        theta = theta._replace(log_weights=np.log(weights))
        T = expect_and_count(rows, theta, workers).T
        weights = (KAPPA * pooled + T) / (KAPPA + total)
    return theta._replace(log_weights=np.log(weights))


def given_model(given: Any) -> GlobalModel:
    """Return a model, or that of a federation, which has it; refuse one of another centre."""
    model = getattr(given, "model", given)
    if not isinstance(model, GlobalModel):
        raise OptionError("model: give a GlobalModel, such as federation.model")
    model.check_centre()
    return model
