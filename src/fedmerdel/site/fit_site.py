"""One site's part: fit its rows, protect the small counts, return what may leave."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np

from fedmerdel.errors import DataError
from fedmerdel.mixture.elbo import elbo
from fedmerdel.mixture.passes import Workers, count_labels, expect_and_count, label_rows
from fedmerdel.mixture.prior import FloatArray, IntArray, study_prior
from fedmerdel.mixture.solution import Problem, pass_on
from fedmerdel.options import thread_count
from fedmerdel.progress import shown
from fedmerdel.release.cells import HardCounts, OutcomeCounts
from fedmerdel.release.disclosure import protect, too_small
from fedmerdel.release.report import Changes
from fedmerdel.release.summary import SiteSummary, check_site_name
from fedmerdel.site.local_fit import LocalFit, count_fit, fit_in_batches
from fedmerdel.site.site_table import open_site_table, site_outcomes, study_rows
from fedmerdel.study.protocol import Study


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
        Weight of each row.
    n_jobs : int or None
        Threads; the result does not depend on it.
    verbose : int
        1 shows a line that moves.

    Returns
    -------
    SiteSummary
        The local clusters after disclosure control. Nothing else leaves the site.
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
    check_site_name(site)  # before the work, not after
    opened = open_site_table(table)
    rows = study_rows(study, opened, sample_weight)
    outcomes = site_outcomes(study, opened)
    prior = study_prior(study, study.max_clusters)
    total = float(rows.weights.sum())
    # Sites draw different numbers from one seed, each the same ones every time.
    seed = np.random.SeedSequence([study.seed, *site.encode("utf-8")])
    with Workers(thread_count(n_jobs)) as workers, shown(verbose, rows.n_rows, total) as watch:
        fitted = fit_in_batches(study, rows, prior, seed, workers, watch)
        problem = Problem(rows, prior, workers)
        best = elbo(fitted.stats, prior)
        fitted, hard, absorbed = _absorb(problem, fitted, study, outcomes)
        small = too_small(fitted.stats.T, hard.T, study.policy)
        if small.all():
            raise DataError(
                f"no cluster of this site has {study.policy.smallest} rows, the least that policy "
                f"{study.policy.name!r} releases: the site is too small to take part alone"
            )
        soft = {name: _soft_outcome(problem, fitted, values) for name, values in outcomes.items()}
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
    summary = SiteSummary(
        study_hash=study.hash,
        site=site,
        software=f"fedmerdel {version('fedmerdel')}",
        n_components=study.max_clusters,
        statistics=protected.statistics,
        overlap=protected.overlap,
        outcomes=protected.outcomes,
        elbo=protected.elbo,
        report=protected.report,
        codebook=study.codebook,
    )
    return Release(summary, protected.changes)


def _absorb(
    problem: Problem, fitted: LocalFit, study: Study, outcomes: dict[str, FloatArray]
) -> tuple[LocalFit, HardCounts, int]:
    """Delete clusters that are too small for the policy, the smallest first."""
    absorbed = 0
    while True:
        hard = _hard_counts(problem, fitted, outcomes)
        small = too_small(fitted.stats.T, hard.T, study.policy)
        if study.small_clusters == "withhold" or not small.any() or len(small) == 1:
            return fitted, hard, absorbed
        k = int(np.flatnonzero(small)[np.argmin(fitted.stats.T[small])])
        stats = pass_on(problem, fitted.stats.without(k)).stats
        fitted = count_fit(problem, stats)
        absorbed += 1


def _hard_counts(problem: Problem, fitted: LocalFit, outcomes: dict[str, FloatArray]) -> HardCounts:
    """Count every row once, for its most probable cluster, whatever its weight.

    A row of weight 0 is in no sum, so it must not count as one of the people behind it.
    """
    counted = problem.rows.weights > 0
    rows = problem.rows._replace(weights=counted.astype(np.float64))
    n_clusters = fitted.stats.n_clusters
    labels = label_rows(rows, fitted.theta, problem.workers)
    counts = count_labels(rows, labels, n_clusters, problem.workers)
    named = {}
    for name, values in outcomes.items():
        known = counted & ~np.isnan(values)
        named[name] = OutcomeCounts(
            np.bincount(labels[counted & (values == 1)], minlength=n_clusters).astype(np.float64),
            np.bincount(labels[known], minlength=n_clusters).astype(np.float64),
        )
    return HardCounts(counts.T, counts.S, named)


def _soft_outcome(problem: Problem, fitted: LocalFit, values: FloatArray) -> OutcomeCounts:
    """Sum the responsibilities of the rows with an outcome, and of those where it is known."""
    sums = []
    for counted in (values == 1, ~np.isnan(values)):
        weights = np.where(counted, problem.rows.weights, 0.0)
        rows = problem.rows._replace(weights=weights)
        sums.append(expect_and_count(rows, fitted.theta, problem.workers).T)
    return OutcomeCounts(*sums)


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
