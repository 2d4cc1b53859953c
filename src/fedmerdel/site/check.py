"""A rehearsal at a site: what fits the study, and how small the counts would be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedmerdel.errors import DataError
from fedmerdel.fitting.passes import Workers, count_together
from fedmerdel.release.account import told_share
from fedmerdel.site.outcome_rows import site_outcomes
from fedmerdel.site.site_table import (
    check_one_row_each,
    open_site_table,
    site_weights,
    study_rows,
)
from fedmerdel.study.policy import Policy
from fedmerdel.study.study import Study


@dataclass(frozen=True)
class Check:
    """What a site would see if it fitted now. Nothing is written.

    Attributes
    ----------
    problems : tuple of str
        Why the table would be refused; empty if it fits.
    n_rows : int
        Rows of the table.
    ignored : tuple of str
        Columns that the study does not name.
    missing : dict of str to float
        Share of missing entries of each variable that has any.
    rare : dict of str to int
        Levels of each variable that fewer rows have than the policy's threshold, though
        some have them: in every cluster they would be released as 0.
    rare_outcomes : tuple of str
        Outcomes that fewer rows have than the policy's threshold, or that fewer are known
        not to have, though some are: one of the two would be 0 in every cluster.
    enough : bool
        Whether the site has the rows that the policy asks of a cluster.
    total_weight, effective_rows : float
        The sum of the weights, which a fit takes for the number of rows; and how many rows of
        equal weight would tell as much (Kish: the square of the sum over the sum of squares).
    told : float
        Share of the entries, at levels but the most frequent one of each variable, that the policy
        lets the totals tell. Counts of clusters tell less. For the site's own eyes.
    """

    problems: tuple[str, ...]
    n_rows: int
    ignored: tuple[str, ...]
    missing: dict[str, float]
    rare: dict[str, int]
    rare_outcomes: tuple[str, ...]
    enough: bool
    total_weight: float
    effective_rows: float
    told: float = 1.0


def check_site(study: Study, table: Any) -> Check:
    """Rehearse a fit on a site's table without fitting or writing anything."""
    opened = open_site_table(table)
    names = study.codebook.names
    asked = [column for outcome in study.outcomes for column in outcome.columns]
    asked += [variable.name for outcome in study.outcomes for variable in outcome.strata]
    asked += [covariate.name for covariate in study.covariates]
    known = {*names, *asked, study.row_id, study.weight}
    found = (*opened.table.names, *opened.unreadable)
    ignored = tuple(name for name in found if name not in known) if opened.table.named else ()
    problems = []
    rows = None
    outcomes = {}
    try:
        rows = study_rows(study, opened)
    except DataError as error:
        problems.append(str(error))
    try:
        outcomes = site_outcomes(study, opened)
    except DataError as error:
        problems.append(str(error))
    n_rows = opened.table.n_rows
    weights = np.ones(n_rows)
    try:
        weights = site_weights(study, opened, weights if study.weight is None else None)
    except DataError as error:
        problems.append(str(error))
    missing: dict[str, float] = {}
    rare: dict[str, int] = {}
    told = 1.0
    if rows is not None:
        S = count_together(rows, Workers()).S[0]
        kept = np.where(S < study.policy.least, 0.0, S)
        told = told_share(S, kept, study.codebook.level_offsets)
        for variable, counts in zip(
            study.codebook.variables,
            np.split(S, study.codebook.level_offsets[1:-1]),
            strict=True,
        ):
            observed = float(counts[: len(variable.observed)].sum())
            if observed < n_rows:
                missing[variable.name] = 1.0 - observed / n_rows
            few = int(_hidden(counts, study.policy).sum())
            if few:
                rare[variable.name] = few
    try:
        check_one_row_each(study, opened)
    except DataError as error:
        problems.append(str(error))
    enough = n_rows >= study.policy.smallest
    if not enough:
        problems.append(
            f"the site has {n_rows} rows, fewer than the {study.policy.smallest} that policy "
            f"{study.policy.name!r} asks of a cluster"
        )
    rare_outcomes = tuple(
        name for name, cells in outcomes.items() if _hidden(cells.sum(axis=0), study.policy).any()
    )
    return Check(
        tuple(problems),
        n_rows,
        ignored,
        missing,
        rare,
        rare_outcomes,
        enough,
        total_weight=float(weights.sum()),
        effective_rows=float(weights.sum() ** 2 / (weights**2).sum()),
        told=told,
    )


def _hidden(counts: NDArray[Any], policy: Policy) -> NDArray[np.bool_]:
    """Say which counts of all rows are too small to be told in any cluster, though not 0."""
    return np.asarray((counts > 0) & (counts < policy.threshold))
