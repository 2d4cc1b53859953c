"""Outcomes and covariates of each row: the share by which it is in each cell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedmerdel.errors import DataError
from fedmerdel.records.columns import Table
from fedmerdel.records.encode import encode
from fedmerdel.records.tables import Readable
from fedmerdel.site.site_table import open_site_table
from fedmerdel.study.codebook import Codebook, Variable
from fedmerdel.study.outcome import COVARIATES, Outcome
from fedmerdel.study.study import Study
from fedmerdel.sums.arrays import FloatArray, IntArray

YES_NO = (
    *(("0", "1"), ("false", "true"), ("no", "yes"), ("No", "Yes"), ("NO", "YES")),
    *(("N", "Y"), ("n", "y")),
)
"""Spellings of an outcome, without it first."""


def site_outcomes(study: Study, source: Any) -> dict[str, FloatArray]:
    """Return the share of each row in each cell (N, C) of what the study counts.

    They sum to 1, or to 0 where the row tells nothing. A name is that of `Study.tables`.
    """
    opened = open_site_table(source)
    found = {}
    for outcome in study.outcomes:
        shares = _shares(opened, outcome)
        found[outcome.name] = _in_strata(shares, opened, outcome.strata)
    if study.covariates:
        whole = np.ones((opened.table.n_rows, 1))
        found[COVARIATES] = _in_strata(whole, opened, study.covariates)
    return found


def _shares(opened: Readable, outcome: Outcome) -> FloatArray:
    column = opened.select([outcome.name])
    if outcome.kind == "levels":
        variable = Variable.from_values(outcome.name, outcome.levels)
        return _one_of(_levels(column, variable), len(outcome.levels))
    if outcome.kind == "number":
        assert outcome.range is not None
        low, high = outcome.range
        y = np.clip((_numbers(column, outcome.name) - low) / (high - low), 0.0, 1.0)
        cells = np.column_stack([(1 - y) ** 2, 2 * y * (1 - y), y**2])
        return np.where(np.isnan(cells), 0.0, cells)
    if outcome.kind == "yes/no":
        return _one_of(_yes_no(column, outcome.name), 2)
    assert outcome.event is not None
    event = _yes_no(opened.select([outcome.event]), outcome.event)
    return _life_table(column, outcome, event)


def _life_table(column: Table, outcome: Outcome, event: IntArray) -> FloatArray:
    time = _numbers(column, outcome.name)
    if np.any(time < 0):
        raise DataError(
            f"{column.prefix}outcome {outcome.name!r} has times below 0: set them to missing"
        )
    ends, n = np.array(outcome.ends), len(outcome.ends)
    known = np.where(np.isnan(time), np.inf, time)
    # Who is lost at the very end of an interval was seen through it.
    at_event, lost = np.searchsorted(ends, known), np.searchsorted(ends, known, side="right")
    cell = np.where(event == 1, 1 + at_event, 1 + n + lost)
    beyond = np.where(event == 1, at_event == n, lost == n)
    cell = np.where(beyond, 0, cell)
    return _one_of(np.where(np.isnan(time) | (event < 0), -1, cell), 1 + 2 * n)


def _in_strata(shares: FloatArray, opened: Readable, strata: Sequence[Variable]) -> FloatArray:
    """Return the shares in each cell of each stratum; a row of no known stratum is in none."""
    for variable in reversed(strata):
        levels = _levels(opened.select([variable.name]), variable)
        where = _one_of(levels, len(variable.levels))
        shares = (where[:, :, None] * shares[:, None, :]).reshape(len(shares), -1)
    return shares


def _one_of(cell: IntArray, n_cells: int) -> FloatArray:
    """Return shares of rows that are in one cell each; in none where its number is below 0."""
    found = np.zeros((len(cell), n_cells))
    known = np.flatnonzero(cell >= 0)
    found[known, cell[known]] = 1.0
    return found


def _levels(column: Table, variable: Variable) -> IntArray:
    """Return the number of each entry's level; -1 where it is missing."""
    numbers = encode(column, Codebook((variable,)), owner="the study").codes[:, 0].astype(np.int64)
    known = len(variable.observed)
    missing = known if variable.missing_level else -1
    return np.where(numbers < known, numbers, missing)


def _numbers(column: Table, name: str) -> FloatArray:
    """Read a column of numbers; NaN where it is missing."""
    entries = column.columns[0]
    if entries.labels is not None or entries.boolean:
        raise DataError(f"{column.prefix}outcome {name!r} does not hold numbers")
    numbers = np.where(entries.absent, np.nan, entries.numbers.astype(np.float64))
    if np.any(np.isinf(numbers)):
        raise DataError(f"{column.prefix}outcome {name!r} holds infinity (inf)")
    return numbers


def _yes_no(column: Table, name: str) -> IntArray:
    """Read a yes/no column of whatever kind as 1, 0 and -1 where it is not known."""
    for levels in YES_NO:
        try:
            return _levels(column, Variable(name, levels, "text"))
        except DataError:
            continue
    raise DataError(
        f"{column.prefix}outcome {name!r} is not yes or no: make it 0/1, true/false, no/yes or N/Y"
    )
