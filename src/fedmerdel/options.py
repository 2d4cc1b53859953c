"""The estimators' options, checked and made ready for a fit."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, Literal

import numpy as np

from fedmerdel.errors import DataError, OptionError
from fedmerdel.mixture.fit import Init, Recipe
from fedmerdel.mixture.prior import Prior, uniform_prior
from fedmerdel.study.codebook import Codebook

ROW_TOLERANCE = 1e-5
"""Nats per row that a pass may still add, unless told otherwise."""

PAPER_TOLERANCE = 5e-6
"""Nats in all that a pass may still add in the paper's recipe (appendix G.2)."""


def check_options(estimator: Any) -> None:
    """Refuse options of the wrong type or outside what they take."""
    _choice(estimator, "recipe", ("default", "paper"))
    _choice(estimator, "merge_criterion", ("correlation", "kl", "bhattacharyya", "random"))
    _whole(estimator, "max_clusters", at_least=1)
    _whole(estimator, "max_iter", at_least=1)
    _whole(estimator, "n_init", at_least=1)
    if estimator.laps is not None:
        _whole(estimator, "laps", at_least=0)
    _positive(estimator, "alpha")
    for name in ("tol", "absolute_tol"):
        if getattr(estimator, name) is not None:
            _positive(estimator, name)
    if estimator.n_jobs is not None and (
        not isinstance(estimator.n_jobs, Integral) or estimator.n_jobs == 0
    ):
        raise OptionError("n_jobs: give a whole number other than 0, or None")


def checked_tolerance(
    tol: float | None, absolute_tol: float | None, recipe: Recipe, total: float
) -> float:
    """Return the tolerance in nats for rows of this total weight."""
    if tol is not None and absolute_tol is not None:
        raise OptionError("tol, absolute_tol: give one of them")
    if absolute_tol is not None:
        return absolute_tol
    if tol is None and recipe == "paper":
        return PAPER_TOLERANCE
    return (ROW_TOLERANCE if tol is None else tol) * total


def checked_init(init: Any, recipe: Recipe, max_clusters: int, n_rows: int) -> Init:
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
    if labels.min() < 0 or labels.max() >= max_clusters:
        raise OptionError(f"init: clusters are numbered 0 to max_clusters - 1, {max_clusters - 1}")
    return labels.astype(np.int64)


def chosen_prior(prior: Any, codebook: Codebook, alpha: float, max_clusters: int) -> Prior:
    """Return the prior that was asked for: fixed, or one number for each level."""
    fixed = uniform_prior(codebook.n_levels, alpha, max_clusters)
    if isinstance(prior, str):
        if prior != "fixed":
            raise OptionError("prior: give 'fixed' or one positive number for each level")
        return fixed
    try:
        eps = np.concatenate([np.asarray(part, dtype=np.float64).reshape(-1) for part in prior])
    except (TypeError, ValueError):
        raise OptionError("prior: give 'fixed' or one positive number for each level") from None
    if eps.shape != fixed.eps.shape:
        raise DataError(
            f"prior: {len(eps)} numbers were given, and the variables have {len(fixed.eps)} levels "
            "in all: give one for each, in the order of the codebook"
        )
    if not np.all(np.isfinite(eps) & (eps > 0)):
        raise OptionError("prior: every number must be finite and above 0")
    return fixed._replace(eps=eps)


def _choice(estimator: Any, name: str, choices: tuple[str, ...]) -> None:
    if getattr(estimator, name) not in choices:
        raise OptionError(f"{name}: give one of {', '.join(repr(choice) for choice in choices)}")


def _whole(estimator: Any, name: str, at_least: int) -> None:
    value = getattr(estimator, name)
    if not isinstance(value, Integral) or isinstance(value, bool) or value < at_least:
        raise OptionError(f"{name}: give a whole number of at least {at_least}")


def _positive(estimator: Any, name: str) -> None:
    value = getattr(estimator, name)
    if not isinstance(value, Real) or not 0 < value < float("inf"):
        raise OptionError(f"{name}: give a number above 0")
