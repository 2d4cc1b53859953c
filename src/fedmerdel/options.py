"""The estimators' options, checked and made ready for a fit."""

from __future__ import annotations

import os
from numbers import Integral, Real
from typing import Any, Literal, get_args

import numpy as np

from fedmerdel.errors import OptionError
from fedmerdel.fitting.options import Init, Options, Recipe
from fedmerdel.study.codebook import Codebook, Missing
from fedmerdel.study.guide import check_not_selected, check_weights
from fedmerdel.study.level_prior import checked_alpha, checked_prior, chosen_way
from fedmerdel.sums.components import (
    AUTO,
    MaxClusters,
    checked_max_clusters,
    component_count,
)
from fedmerdel.sums.learning import Learned, what_is_learned
from fedmerdel.sums.prior import Expected, Prior, level_prior
from fedmerdel.sums.similarity import MergeCriterion

ROW_TOLERANCE = 1e-5
"""Nats per row that passes to come may still add, unless told otherwise, ..."""

MOST_TOLERANCE = 0.5
"""... and in all: what one nat decides does not depend on how many rows there are."""

SITE_TOLERANCE = 1e-3
"""The same at a site that is one of several, where the last passes lose what the centre can use:
clusters that few rows do not pay for, all sites' rows together may."""

SITE_START_ROWS = 2000
"""A site with fewer rows fits from several starts, as many as have so many rows together ..."""

SITE_MOST_STARTS = 4
"""... but no more than this."""

PAPER_TOLERANCE = 5e-6
"""Nats in all that a pass may still add in the paper's recipe (appendix G.2)."""


def check_options(estimator: Any) -> None:
    """Refuse options of the wrong type or outside what they take."""
    _choice("recipe", estimator.recipe, ("default", "paper"))
    _choice("merge_criterion", estimator.merge_criterion, get_args(MergeCriterion))
    _choice("missing", estimator.missing, get_args(Missing))
    checked_max_clusters(estimator.max_clusters)
    if estimator.max_iter is not None:
        check_whole("max_iter", estimator.max_iter, at_least=1)
    if estimator.n_init is not None:
        check_whole("n_init", estimator.n_init, at_least=1)
    if estimator.laps is not None:
        check_whole("laps", estimator.laps, at_least=0)
    checked_alpha(estimator.alpha)
    for name in ("tol", "absolute_tol"):
        if getattr(estimator, name) is not None:
            _positive(name, getattr(estimator, name))
    if estimator.tol is not None and estimator.absolute_tol is not None:
        raise OptionError("tol, absolute_tol: give one of them")
    if not isinstance(estimator.variable_selection, bool):
        raise OptionError("variable_selection: give True or False")
    check_weights(estimator.guide)
    if not isinstance(estimator.codebook, Codebook | None):
        raise OptionError("codebook: give a Codebook or None")
    if estimator.n_jobs is not None and (not _is_whole(estimator.n_jobs) or estimator.n_jobs == 0):
        raise OptionError("n_jobs: give a whole number other than 0, or None")
    if not isinstance(estimator.verbose, bool):
        check_whole("verbose", estimator.verbose, at_least=0)


def check_whole(name: str, value: Any, at_least: int, at_most: int | None = None) -> None:
    """Refuse what is no whole number, or one out of range."""
    if not _is_whole(value) or value < at_least or (at_most is not None and value > at_most):
        limit = f"of at least {at_least}" if at_most is None else f"from {at_least} to {at_most}"
        raise OptionError(f"{name}: give a whole number {limit}")


def check_share(name: str, value: Any) -> None:
    """Refuse what is not between 0 and 1."""
    if not _is_number(value) or not 0 < value < 1:
        raise OptionError(f"{name}: give a number between 0 and 1")


def thread_count(n_jobs: Any) -> int:
    """Return the threads that were asked for.

    Parameters
    ----------
    n_jobs : int or None
        Threads; None is one, and below 0 counts down from all cores.

    Raises
    ------
    OptionError
        If it is 0 or no whole number.
    """
    if n_jobs is None:
        return 1
    if not _is_whole(n_jobs) or n_jobs == 0:
        raise OptionError("n_jobs: give a whole number other than 0, or None")
    if n_jobs > 0:
        return int(n_jobs)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, (cores or 1) + 1 + int(n_jobs))


def checked_seed(random_state: Any) -> np.random.RandomState:
    """Return the source of random numbers that was asked for."""
    from sklearn.utils.validation import check_random_state

    try:
        seed: np.random.RandomState = check_random_state(random_state)
    except ValueError:
        raise OptionError("random_state: give a whole number, a RandomState or None") from None
    return seed


def chosen_tolerance(
    tol: float | None,
    absolute_tol: float | None,
    recipe: Recipe,
    total: float,
    *,
    at_site: bool = False,
) -> float:
    """Return the tolerance in nats for rows of this total weight, at a site or of one table."""
    if absolute_tol is not None:
        return absolute_tol
    if tol is None and recipe == "paper":
        return PAPER_TOLERANCE
    if tol is not None:
        return tol * total
    return SITE_TOLERANCE * total if at_site else min(ROW_TOLERANCE * total, MOST_TOLERANCE)


def site_starts(total: float, recipe: Recipe) -> int:
    """Return from how many starts a site fits rows of this total weight: few rows need more.

    Fewer than one table of that size has: the start with the highest ELBO of a site's own has
    fewer clusters than the centre can use. The paper's recipe has one.
    """
    if recipe == "paper":
        return 1
    return min(max(SITE_START_ROWS // max(int(total), 1), 1), SITE_MOST_STARTS)


def checked_init(init: Any, recipe: Recipe, max_clusters: MaxClusters, n_rows: int) -> Init:
    """Return where to start: the recipe's own start for None, or labels as int64."""
    if init is None:
        return "divide" if recipe == "default" else "kmodes"
    if isinstance(init, str):
        starts: tuple[Literal["divide", "kmodes", "random"], ...] = ("divide", "kmodes", "random")
        for start in starts:
            if init == start and not (recipe == "paper" and start == "divide"):
                return start
        raise OptionError(
            "init: give 'divide' (default recipe), 'kmodes', 'random' or the cluster of each row"
        )
    labels = np.asarray(init)
    if labels.shape != (n_rows,) or labels.dtype.kind not in "iu":
        raise OptionError("init: give one whole number, the cluster, for each row of the table")
    last = component_count(max_clusters, recipe) - 1
    if labels.min() < 0 or labels.max() > last:
        raise OptionError(f"init: clusters are numbered 0 to max_clusters - 1, {last}")
    return labels.astype(np.int64)


def fit_options(estimator: Any, init: Init, total: float, *, at_site: bool = False) -> Options:
    """Return how an estimator fits rows of this total weight, at a site or of one table."""
    recipe: Recipe = estimator.recipe
    n_init = estimator.n_init
    if at_site and n_init is None:
        n_init = site_starts(total, recipe)
    tolerances = estimator.tol, estimator.absolute_tol
    return Options(
        recipe=recipe,
        init=init,
        laps=estimator.laps,
        merge_criterion=estimator.merge_criterion,
        tol=chosen_tolerance(*tolerances, recipe, total, at_site=at_site),
        max_iter=estimator.max_iter,
        n_init=n_init,
        grows=estimator.max_clusters == AUTO and recipe == "default",
        thorough=not at_site,
    )


def chosen_prior(estimator: Any, codebook: Codebook) -> Expected:
    """Return what is expected of the levels, checked."""
    way = chosen_way(estimator.prior, estimator.recipe, estimator.variable_selection)
    return checked_prior(way, codebook)


def fit_prior(estimator: Any, codebook: Codebook) -> tuple[Prior, Learned]:
    """Return the prior of a fit, and what the fit learns of it."""
    check_not_selected(codebook, estimator.variable_selection)
    expected = chosen_prior(estimator, codebook)
    n_components = component_count(estimator.max_clusters, estimator.recipe)
    prior = level_prior(expected, codebook.n_levels, estimator.alpha, n_components, codebook.guide)
    return prior, what_is_learned(expected, estimator.variable_selection, estimator.recipe)


def _choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    if not isinstance(value, str) or value not in choices:
        raise OptionError(f"{name}: give one of {', '.join(repr(choice) for choice in choices)}")


def _positive(name: str, value: Any) -> None:
    if not _is_number(value) or not 0 < value < float("inf"):
        raise OptionError(f"{name}: give a number above 0")


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)
