"""A site that took no part in a model: how well its clusters fit there.

How probable is each row under clusters that were not found from it? The rows are cut into parts.
For each part, what a site may find for itself (its weights of the model's clusters, its own
margins, its own clusters) is found from the others. Otherwise clusters found at the site would be
praised for what they have by heart.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fedmerdel.errors import DataError
from fedmerdel.fitting.passes import (
    Workers,
    count_together,
    expect_and_count,
    label_rows,
    log_evidence,
)
from fedmerdel.model.global_model import GlobalModel
from fedmerdel.options import thread_count
from fedmerdel.records.packing import PackedRows
from fedmerdel.release.cells import with_missing
from fedmerdel.release.mechanism import Mechanism, People
from fedmerdel.release.mechanisms import mechanism_for
from fedmerdel.release.released import Released
from fedmerdel.release.scores import NAMES, limit_of
from fedmerdel.release.validation import Validation
from fedmerdel.site.assign import given_model, site_expectations
from fedmerdel.site.local_fit import fit_in_batches
from fedmerdel.site.site_table import check_one_row_each, open_site_table, site_weights, study_rows
from fedmerdel.study.priors import study_prior
from fedmerdel.study.site_keys import check_site_name
from fedmerdel.sums.agreement import weight_in
from fedmerdel.sums.arrays import FloatArray, IntArray
from fedmerdel.sums.expectations import Expectations
from fedmerdel.sums.predictive import mean_weights, predictive
from fedmerdel.sums.sums import Sums

PARTS = 5
"""Parts of the rows: clusters of the site's own are found from four fifths of them."""


def validate_site(
    model: GlobalModel,
    table: Any,
    site: str,
    *,
    sample_weight: Any = None,
    n_jobs: int | None = None,
) -> Validation:
    """Say how well a model's clusters fit a site that took no part in them.

    Clusters of the site's own are fitted six times, to compare with: on all rows, and five times
    on four fifths of them.

    Parameters
    ----------
    model : GlobalModel
        The clusters. (Of a federation, its model is taken.)
    table : array, frame, Arrow table or path of a CSV or Parquet file
        The site's rows. Columns that the study does not name are not looked at.
    site : str
        The site's name.
    sample_weight : array (N,), optional
        Weight of each row, where the study names no column for it.
    n_jobs : int or None
        Threads; the result does not depend on it.

    Returns
    -------
    Validation
        Gains over independence, shares and agreement of labels, under the disclosure policy of the
        model's study. Nothing else leaves the site.

    Raises
    ------
    DataError
        If the table does not fit the study, or has too few rows to tell anything of them.
    """
    model = given_model(model)
    study = model.study
    # Before the work, not after.
    check_site_name(site)
    study.key_of(site)
    study.check_counts()
    threads = thread_count(n_jobs)
    opened = open_site_table(table)
    check_one_row_each(study, opened)
    rows = study_rows(study, opened, site_weights(study, opened, sample_weight), new=True)
    rows = rows.take(np.flatnonzero(rows.weights > 0))
    mechanism = mechanism_for(study.policy)
    total = np.array([rows.weights.sum()])
    _check_enough(rows, total, mechanism)
    own_seed = np.random.SeedSequence([study.seed, *site.encode("utf-8")])  # that of `fit_site`
    parts_seed = np.random.SeedSequence([*site.encode("utf-8"), study.seed])
    with Workers(threads) as workers:
        gains = held_out_gains(model, rows, parts_seed, workers)
        prior = study_prior(study, study.n_components)
        own = fit_in_batches(study, rows, prior, own_seed, workers, None)
        own_labels = label_rows(rows, own.theta, workers)
        theta = site_expectations(model, rows, workers)
        labels = label_rows(rows, theta, workers)
        shares = mean_weights(model.sums, model.prior)
        unmoved = theta._replace(log_weights=np.log(shares))
        soft = [expect_and_count(rows, each, workers).T for each in (theta, unmoved)]
        unmoved_labels = label_rows(rows, unmoved, workers)
    K = model.n_clusters
    people = [np.bincount(each, minlength=K) for each in (labels, unmoved_labels)]
    counts = [
        _in_groups(part[None], whole[None].astype(np.float64), mechanism)[0][0]
        for part, whole in zip(soft, people, strict=True)
    ]
    limit = limit_of(len(study.codebook.names))
    told = mechanism.protect_scores(gains, rows.weights, limit)
    shape = (own.sums.n_clusters, K)
    table_of, rest = _in_groups(
        _crossed(own_labels, labels, rows.weights, shape),
        _crossed(own_labels, labels, np.ones(rows.n_rows), shape),
        mechanism,
    )
    return Validation(
        study_hash=study.hash,
        model_hash=model.hash,
        site=site,
        policy=study.policy,
        model_rows=float(model.rows.sum()),
        **told._asdict(),
        model_shares=shares,
        site_rows=counts[0],
        rows=counts[1],
        labels=table_of,
        rest=rest,
    )


def held_out_gains(
    model: GlobalModel, rows: PackedRows, seed: np.random.SeedSequence, workers: Workers
) -> FloatArray:
    """Return the log probability of each row less that under independence: (3, N).

    By what gives it: the model's clusters with the site's weights and with the model's, and
    clusters of the site's own; in each case with the means of levels, as `score_samples` has them.

    Parameters
    ----------
    model : GlobalModel
        Clusters from elsewhere.
    rows : PackedRows
        The site's rows, at least as many as parts.
    seed : SeedSequence
        Of the parts, and of the fits.
    workers : Workers
        The threads to work with.
    """
    study, pooled = model.study, predictive(model.sums, model.row_prior)
    found = np.empty((len(NAMES), rows.n_rows))
    found[1] = log_evidence(rows, pooled, workers)
    order, *starts = seed.spawn(PARTS + 1)
    part = np.random.default_rng(order).permutation(rows.n_rows) % PARTS
    for number, start in enumerate(starts):
        out = np.flatnonzero(part == number)
        tried, known = rows.take(out), rows.take(np.flatnonzero(part != number))
        weights = site_expectations(model, known, workers).log_weights
        alone = predictive(count_together(known, workers), study_prior(study, 1))
        prior = study_prior(study, study.n_components)
        own = fit_in_batches(study, known, prior, start, workers, None)
        found[0, out] = log_evidence(tried, _weighted(pooled, weights), workers)
        found[2, out] = log_evidence(tried, predictive(own.sums, own.prior), workers)
        found[:, out] -= log_evidence(tried, alone, workers)
    return found


def _weighted(pooled: Expectations, log_weights: FloatArray) -> Expectations:
    """Return the model's predictive with other weights; what it keeps for new clusters stays."""
    K, whole = len(log_weights), pooled.log_weights.copy()
    whole[:K] = log_weights + np.log(np.exp(pooled.log_weights[:K]).sum())
    return pooled._replace(log_weights=whole)


def _check_enough(rows: PackedRows, total: FloatArray, mechanism: Mechanism) -> None:
    """Refuse a table of which nothing may be told, or that can't be cut into parts."""
    everyone = Sums(np.array([float(rows.n_rows)]), np.empty((1, 0)), np.zeros(1))
    people = People(everyone, everyone.T, everyone._replace(T=total), everyone)
    few = rows.n_rows < PARTS
    if few or mechanism.too_small(total, lambda: people).any():
        least = max(PARTS, mechanism.smallest)
        raise DataError(
            f"the table has fewer than {least} rows, the least that can be validated under the "
            "study's policy: the site is too small for it alone"
        )


def _crossed(
    own: IntArray, labels: IntArray, weights: FloatArray, shape: tuple[int, int]
) -> FloatArray:
    """Return the weight of the rows in each own cluster and each of the model's: (own, K)."""
    return weight_in(own * shape[1] + labels, weights, shape[0] * shape[1]).reshape(shape)


def _in_groups(
    soft: FloatArray, hard: FloatArray, mechanism: Mechanism
) -> tuple[FloatArray, int | None]:
    """Protect rows by groups and clusters, (G, K); return groups that are told, and the rest.

    A table of labels is a variable like any other: the cluster that a row is in. Its last level
    stands where a variable has missing entries, as what the others leave of the group.
    """
    offsets = np.array([0, soft.shape[1] - 1])

    def sums(cells: FloatArray) -> Sums:
        n = len(cells)
        return Sums(cells.sum(axis=1), cells[:, :-1], np.zeros(n), np.zeros((n, n)))

    whole = sums(hard)
    people = People(whole, whole.T, sums(soft).total(), whole.total())
    leaves: Released = mechanism.protect(sums(soft), lambda: people, offsets)
    leaves = leaves.take(np.flatnonzero(leaves.sums.T > 0))
    return with_missing(leaves.sums.T, leaves.sums.S), leaves.rest
