"""The clusters of one site's rows, before anything is protected. Stays at the site."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from fedmerdel.fitting.fit import fit_mixture
from fedmerdel.fitting.history import History
from fedmerdel.fitting.options import Options
from fedmerdel.fitting.passes import Workers, expect_and_count, overlap_matrix
from fedmerdel.fitting.solution import Problem, em_step, make_problem
from fedmerdel.options import chosen_tolerance, site_starts
from fedmerdel.records.collapse import collapse
from fedmerdel.records.packing import PackedRows, repack
from fedmerdel.study.priors import centre_learns, site_learns
from fedmerdel.study.study import Study
from fedmerdel.sums.components import AUTO
from fedmerdel.sums.expectations import Expectations, expectations
from fedmerdel.sums.learning import Learned
from fedmerdel.sums.merging import local_clusters, merged_sums
from fedmerdel.sums.prior import Prior
from fedmerdel.sums.search import search_groups
from fedmerdel.sums.sums import Sums

BATCH_ROWS = 1_000_000
"""Rows that are fitted at once; a site with more is split into batches."""

BATCH_PASSES = 5
"""Passes over all rows of the site once its batches are merged."""


class LocalFit(NamedTuple):
    """One clustering of some rows.

    Attributes
    ----------
    theta : Expectations
        What the E step read: it stands for the responsibilities.
    sums : Sums
        The sums of these responsibilities, overlaps included.
    prior : Prior
        The prior, or what was learned of it.
    n_iter : int
        Passes of the fit.
    converged : bool
        Whether the fit ended by itself, before the most passes that it may make.
    """

    theta: Expectations
    sums: Sums
    prior: Prior
    n_iter: int = 0
    converged: bool = True


def fit_rows(
    rows: PackedRows,
    prior: Prior,
    learned: Learned,
    options: Options,
    seed: np.random.SeedSequence,
    workers: Workers,
    watch: Callable[[History], None] | None = None,
) -> LocalFit:
    """Fit a mixture, and count once more with its last expectations, overlaps included.

    Identical rows are joined first: none of this tells them apart.
    """
    rows = repack(collapse(rows)[0])
    problem = make_problem(rows, prior, workers, learned)
    fit = fit_mixture(problem, options, seed, watch)
    counted = count_fit(problem, fit.stats, fit.prior)
    return counted._replace(n_iter=fit.history.n_iter, converged=fit.converged)


def count_fit(problem: Problem, stats: Sums, prior: Prior) -> LocalFit:
    """Return sums and overlaps of the same responsibilities, those that these sums lead to."""
    theta = expectations(stats, prior)
    return LocalFit(theta, count_clusters(problem.rows, theta, problem.workers), prior)


def count_clusters(rows: PackedRows, theta: Expectations, workers: Workers) -> Sums:
    """Give rows to clusters; return the sums, overlaps included."""
    return expect_and_count(rows, theta, workers)._replace(Q=overlap_matrix(rows, theta, workers))


def site_options(study: Study, total: float) -> Options:
    """Return how a site fits rows of this total weight."""
    return Options(
        recipe=study.recipe,
        init="divide" if study.recipe == "default" else "kmodes",
        laps=study.laps,
        merge_criterion=study.merge_criterion,
        tol=chosen_tolerance(None, None, study.recipe, total, at_site=True),
        max_iter=None,
        n_init=site_starts(total, study.recipe),
        grows=study.max_clusters == AUTO and study.recipe == "default",
        thorough=False,
    )


def fit_in_batches(
    study: Study,
    rows: PackedRows,
    prior: Prior,
    seed: np.random.SeedSequence,
    workers: Workers,
    watch: Callable[[History], None] | None,
) -> LocalFit:
    """Fit all rows at once or, if there are very many, batches that are merged at the site."""
    learned = site_learns(study)
    if not rows.weights.all():  # they have no say, and a batch of nothing else has no fit
        rows = rows.take(np.flatnonzero(rows.weights))
    n_batches = -(-rows.n_rows // BATCH_ROWS)
    if n_batches == 1:
        options = site_options(study, float(rows.weights.sum()))
        return fit_rows(rows, prior, learned, options, seed, workers, watch)
    order = np.random.default_rng(seed).permutation(rows.n_rows)
    fits = []
    for batch, start in zip(np.array_split(order, n_batches), seed.spawn(n_batches), strict=True):
        part = rows.take(np.sort(batch))
        options = site_options(study, float(part.weights.sum()))
        fits.append(fit_rows(part, prior, learned, options, start, workers, watch))
    local = local_clusters([fit.sums for fit in fits])
    whole = prior._replace(n_components=n_batches * prior.n_components)
    rng = np.random.default_rng(seed)
    groups = search_groups("tree", local, whole, centre_learns(study), "correlation", rng)
    # The site has its rows at hand: a few passes over all of them make one clustering of it.
    largest = sorted(groups, key=lambda group: -local.stats.T[group].sum())
    problem = make_problem(rows, prior, workers, learned)
    stats, found = merged_sums(local, largest[: prior.n_components]), problem.prior
    for _ in range(BATCH_PASSES):
        _, stats, _, found = em_step(problem, stats, found)
    return count_fit(problem, stats, found)._replace(
        n_iter=max(fit.n_iter for fit in fits), converged=all(fit.converged for fit in fits)
    )
