"""One site's part: fit its rows, protect the small counts, return what may leave."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedmerdel.errors import DataError, NotConvergedWarning
from fedmerdel.fitting.passes import Workers
from fedmerdel.fitting.solution import Problem, em_step
from fedmerdel.options import thread_count
from fedmerdel.progress import shown
from fedmerdel.release.cells import HardCounts, OutcomeCounts
from fedmerdel.release.disclosure import protect, too_small
from fedmerdel.release.report import Changes
from fedmerdel.release.summary import SiteSummary, check_site_name, make_summary, selected_names
from fedmerdel.site.local_fit import LocalFit, count_fit, fit_in_batches
from fedmerdel.site.people import count_people, own_rows, soft_outcomes
from fedmerdel.site.site_table import (
    open_site_table,
    site_outcomes,
    site_weights,
    study_rows,
)
from fedmerdel.study.priors import study_prior
from fedmerdel.study.protocol import Study
from fedmerdel.sums.arrays import FloatArray, IntArray
from fedmerdel.sums.elbo import elbo


class Release(NamedTuple):
    """What a fit at a site gives: a summary that may leave, and an account that stays.

    Attributes
    ----------
    summary : SiteSummary
        What leaves.
    changes : Changes
        What disclosure control did, exactly: for the site's own eyes.
    """

    summary: SiteSummary
    changes: Changes


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
    check_site_name(site)
    threads = thread_count(n_jobs)
    opened = open_site_table(table)
    rows = study_rows(study, opened, site_weights(study, opened, sample_weight))
    outcomes = site_outcomes(study, opened)
    prior = study_prior(study, study.max_clusters)
    total = float(rows.weights.sum())
    # Sites draw different numbers from one seed, each the same ones every time.
    seed = np.random.SeedSequence([study.seed, *site.encode("utf-8")])
    with Workers(threads) as workers, shown(verbose, rows.n_rows, total) as watch:
        local = fit_in_batches(study, rows, prior, seed, workers, watch)
        # From here on the prior stays as it was learned, so that costs compare.
        prior = local.prior
        problem = Problem(rows, prior, workers)
        best = elbo(local.stats, prior)
        fitted, hard, small, absorbed = _absorb(problem, local, study, outcomes)
        if small.all():
            raise DataError(
                f"no cluster of this site has {study.policy.smallest} rows, the least that policy "
                f"{study.policy.name!r} releases: the site is too small to take part alone"
            )
        soft = soft_outcomes(rows, fitted.theta, outcomes, workers)
    if not local.converged:
        warnings.warn(
            f"site {site!r}: not converged after {local.n_iter} passes: the counts are right, but "
            "there may be better clusters; in the study, try another seed or fewer max_clusters",
            NotConvergedWarning,
            stacklevel=3,
        )
    kept, withheld = fitted, 0
    if study.small_clusters == "withhold":
        kept, hard, soft = _without(fitted, hard, soft, np.flatnonzero(~small))
        withheld = int(small.sum())
    protected = protect(
        kept.stats,
        hard,
        kept.overlap,
        prior,
        study.policy,
        outcomes=soft,
        absorbed=absorbed,
        withheld=withheld,
        cost_so_far=best - elbo(fitted.stats, prior) if absorbed else 0.0,
    )
    selected = selected_names(study.codebook, prior.inclusion)
    summary = make_summary(study, site, protected, selected)
    return Release(summary, protected.changes)


def _absorb(
    problem: Problem, fitted: LocalFit, study: Study, outcomes: dict[str, FloatArray]
) -> tuple[LocalFit, HardCounts, NDArray[np.bool_], int]:
    """Delete clusters that are too small for the policy, the smallest first.

    Say which are still too small: all that were, where they are to be withheld.
    """
    absorbed = 0
    while True:
        people = count_people(problem.rows, fitted.theta, outcomes, problem.workers)
        at_least = np.minimum(people.T, own_rows(problem.rows, fitted.theta, problem.workers))
        small = too_small(fitted.stats.T, at_least, study.policy)
        if study.small_clusters == "withhold" or not small.any() or len(small) == 1:
            return fitted, people, small, absorbed
        k = int(np.flatnonzero(small)[np.argmin(fitted.stats.T[small])])
        stats = em_step(problem, fitted.stats.without(k), fitted.prior).stats
        fitted = count_fit(problem, stats, fitted.prior)
        absorbed += 1


def _without(
    fitted: LocalFit, hard: HardCounts, soft: dict[str, OutcomeCounts], kept: IntArray
) -> tuple[LocalFit, HardCounts, dict[str, OutcomeCounts]]:
    def taken(counts: Mapping[str, OutcomeCounts]) -> dict[str, OutcomeCounts]:
        return {n: OutcomeCounts(c.positive[kept], c.observed[kept]) for n, c in counts.items()}

    return (
        fitted._replace(stats=fitted.stats.take(kept), overlap=fitted.overlap[np.ix_(kept, kept)]),
        HardCounts(hard.T[kept], hard.S[kept], taken(hard.outcomes)),
        taken(soft),
    )
