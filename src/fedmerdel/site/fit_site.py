"""One site's part: fit its rows, protect the small counts, return what may leave."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import numpy as np

from fedmerdel.errors import CeilingWarning, NotConvergedWarning
from fedmerdel.fitting.passes import Workers
from fedmerdel.fitting.solution import Problem, em_step
from fedmerdel.options import thread_count
from fedmerdel.progress import shown
from fedmerdel.records.packing import PackedRows
from fedmerdel.release.mechanism import People
from fedmerdel.release.mechanisms import mechanism_for
from fedmerdel.release.protection import protect
from fedmerdel.release.summary import SiteSummary, selected_names
from fedmerdel.site.check_rows import study_checks
from fedmerdel.site.local_fit import LocalFit, count_fit, fit_in_batches
from fedmerdel.site.outcome_rows import site_outcomes
from fedmerdel.site.people import count_outcomes, count_people
from fedmerdel.site.release import Release, summary_fields
from fedmerdel.site.site_table import (
    check_one_row_each,
    open_site_table,
    site_weights,
    study_rows,
)
from fedmerdel.study.priors import study_prior
from fedmerdel.study.site_keys import check_site_name
from fedmerdel.study.study import Study, check_is_study
from fedmerdel.sums.arrays import FloatArray
from fedmerdel.sums.components import used_up
from fedmerdel.sums.elbo import elbo


def fit_site(
    study: Study,
    table: Any,
    site: str,
    *,
    sample_weight: Any = None,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> SiteSummary:
    """Fit one site's rows and return what may leave it.

    Parameters
    ----------
    study : Study
        What the sites agreed on.
    table : array, frame, Arrow table or path of a CSV or Parquet file
        The site's rows. Columns that the study does not name are not looked at.
    site : str
        The site's name.
    sample_weight : array (N,), optional
        Weight of each row, where the study names no column for it.
    n_jobs : int or None
        Threads; the result does not depend on it.
    verbose : int
        1 shows a line that moves.

    Returns
    -------
    SiteSummary
        The local clusters after disclosure control. Nothing else leaves the site.

    Warns
    -----
    NotConvergedWarning
        If the fit was stopped after the most passes that a site makes.
    CeilingWarning
        If it has used all clusters that the study allows.
    """
    return prepare_release(
        study, table, site, sample_weight=sample_weight, n_jobs=n_jobs, verbose=verbose
    ).summary


def prepare_release(
    study: Study,
    table: Any,
    site: str,
    *,
    sample_weight: Any = None,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> Release:
    """Fit as `fit_site` does; return the summary, and the exact account that stays."""
    # Before the work, not after.
    check_is_study(study)
    check_site_name(site)
    study.key_of(site)
    study.check_counts()
    threads = thread_count(n_jobs)
    opened = open_site_table(table)
    check_one_row_each(study, opened)
    rows = study_rows(study, opened, site_weights(study, opened, sample_weight))
    outcomes = site_outcomes(study, opened)
    total = float(rows.weights.sum())
    # Sites draw different numbers from one seed, each the same ones every time.
    seed = np.random.SeedSequence([study.seed, *site.encode("utf-8")])
    with Workers(threads) as workers, shown(verbose, rows.n_rows, total) as watch:
        prior = study_prior(study, study.n_components)
        fitted = fit_in_batches(study, rows, prior, seed, workers, watch)
        released = release_fit(study, site, fitted, rows, outcomes, workers)
    if not fitted.converged:
        warnings.warn(
            f"site {site!r}: not converged after {fitted.n_iter} passes: the counts are right, but "
            "there may be better clusters; in the study, try another seed or fewer max_clusters",
            NotConvergedWarning,
            stacklevel=3,
        )
    if fitted.sums.n_clusters == study.n_components:
        message = used_up(f"site {site!r}", study.n_components)
        warnings.warn(message, CeilingWarning, stacklevel=3)
    return released


def release_fit(
    study: Study,
    site: str,
    fitted: LocalFit,
    rows: PackedRows,
    outcomes: dict[str, FloatArray],
    workers: Workers,
) -> Release:
    """Protect the clusters of a fit: the summary that may leave, and the account that stays.

    Parameters
    ----------
    study : Study
        What the sites agreed on.
    site : str
        The site's name.
    fitted : LocalFit
        Its clusters.
    rows : PackedRows
        Its rows.
    outcomes : dict of str to float64 array (N, C)
        The share of each row in each cell of each outcome.
    workers : Workers
        The threads to work with.
    """
    # The prior stays as it was learned, so that costs compare.
    prior, best = fitted.prior, elbo(fitted.sums, fitted.prior)
    problem = Problem(rows, prior, workers)
    fitted, absorbed = _absorb(problem, fitted, study, outcomes)
    counts = count_outcomes(rows, fitted.theta, outcomes, workers)
    protected = protect(
        fitted.sums._replace(outcomes=counts),
        cache(lambda: count_people(rows, fitted.theta, outcomes, workers, study.parts)),
        prior,
        study.policy,
        absorbed=absorbed,
        drop_silent=True,
        cost_so_far=best - elbo(fitted.sums, prior) if absorbed else 0.0,
        checks=study_checks(study, rows, fitted.theta, workers),
    )
    selected = selected_names(study.codebook, prior.inclusion)
    summary = SiteSummary(**summary_fields(study, site, protected, selected))
    return Release(summary, protected.changes)


def _absorb(
    problem: Problem, fitted: LocalFit, study: Study, outcomes: dict[str, FloatArray]
) -> tuple[LocalFit, int]:
    """Delete clusters that are too small for the policy, the smallest first; say how many."""
    mechanism, absorbed = mechanism_for(study.policy), 0
    while True:
        T = fitted.sums.T

        def people(fitted: LocalFit = fitted) -> People:
            return count_people(problem.rows, fitted.theta, outcomes, problem.workers, study.parts)

        small = mechanism.too_small(T, people)
        if not small.any() or len(small) == 1:
            return fitted, absorbed
        k = int(np.flatnonzero(small)[np.argmin(T[small])])
        stats = em_step(problem, fitted.sums.without(k), fitted.prior).stats
        fitted = count_fit(problem, stats, fitted.prior)
        absorbed += 1
