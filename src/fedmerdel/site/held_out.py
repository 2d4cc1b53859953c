"""How probable each row of a site is under clusters that were not found from it.

The rows are cut into parts. For each part, what a site may find for itself (its weights of the
model's clusters, its own margins, its own clusters) is found from the others. Otherwise clusters
found at the site would be praised for what they have by heart.
"""

from __future__ import annotations

import numpy as np

from fedmerdel.fitting.passes import Workers, count_together, log_evidence
from fedmerdel.model.global_model import GlobalModel
from fedmerdel.records.packing import PackedRows
from fedmerdel.site.assign import site_expectations
from fedmerdel.site.local_fit import fit_in_batches
from fedmerdel.study.priors import study_prior
from fedmerdel.sums.arrays import FloatArray
from fedmerdel.sums.expectations import Expectations
from fedmerdel.sums.predictive import predictive

PARTS = 5
"""Parts of the rows: clusters of the site's own are found from four fifths of them."""


def held_out_scores(
    model: GlobalModel, rows: PackedRows, seed: np.random.SeedSequence, workers: Workers
) -> FloatArray:
    """Return the log probability of each row, by what gives it: (4, N).

    The model's clusters with the site's weights and with the model's, independence, and clusters
    of the site's own; in each case with the means of levels, as `score_samples` has them.

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
    found = np.empty((4, rows.n_rows))
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
        found[2, out] = log_evidence(tried, alone, workers)
        found[3, out] = log_evidence(tried, predictive(own.sums, own.prior), workers)
    return found


def _weighted(pooled: Expectations, log_weights: FloatArray) -> Expectations:
    """Return the model's predictive with other weights; what it keeps for new clusters stays."""
    K, whole = len(log_weights), pooled.log_weights.copy()
    whole[:K] = log_weights + np.log(np.exp(pooled.log_weights[:K]).sum())
    return pooled._replace(log_weights=whole)
