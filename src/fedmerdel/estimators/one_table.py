"""The clusters of one table as a model of one site, so that it has what such a model has."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fedmerdel.model.state import ModelState
from fedmerdel.study.codebook import Codebook
from fedmerdel.study.policy import policy_named
from fedmerdel.study.study import Study


def one_table(estimator: Any) -> ModelState:
    """Return the model of a fitted `MerDel`, whose table is its only site."""
    book, sums, weights = estimator.codebook_, estimator._stats, estimator._weights
    # A study has a level for missing entries in all variables or in none; here it is in those
    # that have any, and is shown like other levels.
    variables = tuple(
        replace(v, kind="text", missing_level=False) if v.missing_level else v
        for v in book.variables
    )
    study = Study(
        type(estimator).__name__,
        Codebook(variables),
        max_clusters=estimator.max_clusters,
        recipe=estimator.recipe,
        prior=estimator.prior,
        variable_selection=estimator.variable_selection,
        policy=policy_named("none"),
        covariates=() if weights is None else weights.variables,
    )
    return ModelState(
        study=study,
        sums=sums,
        prior=estimator._prior,
        rows=sums.T,
        selection_probability=estimator.selection_probability_,
        selected=tuple(n for n, told in zip(book.names, estimator.selected_, strict=True) if told),
        elbo=estimator.lower_bound_,
        membership=None if weights is None else weights.membership,
    )
