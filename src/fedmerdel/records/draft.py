"""Draft a study from a table of rows, or from a data dictionary."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedmerdel.errors import ConstantColumnWarning, DataError, OptionError, RareLevelWarning
from fedmerdel.records.columns import Column, Table
from fedmerdel.records.infer import infer_codebook
from fedmerdel.records.table_files import SUFFIXES
from fedmerdel.records.tables import Readable, open_readable, short_reason
from fedmerdel.study.codebook import (
    BOOLEANS,
    Codebook,
    Kind,
    Missing,
    Variable,
    level_number,
    level_text,
)
from fedmerdel.study.guide import guided
from fedmerdel.study.outcome import Outcome
from fedmerdel.study.promise import Promise
from fedmerdel.study.study import Study

MOST_NAMED = 5
"""Variables that a warning names."""

FEW_LEVELS = 5
"""A variable of so many levels is no identifier, however few rows there are."""


MOST_LISTED = 100
"""Columns that can't be used of which an error says why."""

MOST_VARIABLES = 100_000
"""Rows of a data dictionary; a table of rows may have columns of the same names."""


class UnusableError(DataError):
    """Columns, or variables of a data dictionary, can't be used.

    Parameters
    ----------
    found : str
        Which, and why.
    """

    def __init__(self, found: str) -> None:
        self.found = found
        super().__init__(self.advise("exclude=[...]", "outcomes", "row_id"))

    def advise(self, exclude: str, outcome: str, row_id: str) -> str:
        """Return the message, with what to do in the words of whoever asked."""
        return (
            f"{self.found}: leave out with {exclude} (or name as {outcome} or {row_id}), or cut or "
            "group the values first"
        )


def draft_study(
    source: Any,
    *,
    name: str | None = None,
    outcomes: Sequence[str] = (),
    covariates: Sequence[str] = (),
    guide: Mapping[str, float] | None = None,
    row_id: str | None = None,
    weight: str | None = None,
    exclude: Sequence[str] = (),
    missing: Missing = "ignore",
    rounds: int = 0,
    trusts_centre: bool = False,
) -> Study:
    """Draft a study for people to review.

    Parameters
    ----------
    source : array, frame, Arrow table or path
        A table of rows, whose columns become variables with the levels that occur in
        them. Or a data dictionary: a table with a column ``variable``, a column
        ``levels`` (separated by ``|``, or else by ``;``) and perhaps a column ``label``.
    name : str, optional
        Name of the study; else that of the file, or ``"study"``.
    outcomes : sequence of str
        Columns that are counted in each cluster, and are no variables.
    covariates : sequence of str
        Columns that membership of the clusters may depend on, and are no variables. Of each, the
        first level is what the others are compared with.
    guide : mapping of str to float, optional
        Variables that are outcomes and help to find the clusters, and the weight of each.
    row_id : str, optional
        Column that says which row is which, and is no variable.
    weight : str, optional
        Column that holds the weight of each row, and is no variable.
    exclude : sequence of str
        Further columns that are no variables.
    missing : {"ignore", "level", "error"}, default="ignore"
        What missing entries are; see `Study`.
    rounds : int, default=0
        Rounds that sites reply in at most.
    trusts_centre : bool, default=False
        Whether the sites trust the centre, which rounds need; see `Promise`.

    Returns
    -------
    Study
        With the usual options. Columns of true and false, or 0 and 1, in which only one
        of the two occurs have both as levels: another site may have the other.

    Raises
    ------
    UnusableError
        If columns can't be variables: all of them are named.
    DataError
        If columns are not in the table.

    Warns
    -----
    ConstantColumnWarning
        If columns of a table have one level only. They are kept.
    RareLevelWarning
        If levels are held by fewer rows than the usual policy tells of. They are kept.
    """
    asked = (("outcomes", outcomes), ("covariates", covariates), ("exclude", exclude))
    for field, given in asked:
        if isinstance(given, str):
            raise OptionError(f"{field}: give a list of names")
    opened = open_readable(source)
    table = opened.table
    aside = [*outcomes, *(name for name in (row_id, weight) if name is not None), *exclude]
    roles = {known.strip().lower(): known for known in table.names} if table.named else {}
    if {"variable", "levels"} <= roles.keys():
        codebook, labels = _read_dictionary(table, roles, aside, exclude)
    else:
        codebook, labels = _read_rows(opened, aside, missing == "level"), {}
    listed = {variable.name: variable for variable in codebook.variables}
    _check_known(covariates, tuple(listed), f"{table.prefix}the table has no column")
    rest = tuple(variable for variable in codebook.variables if variable.name not in covariates)
    if not rest:
        raise DataError(f"{table.prefix}no columns are left for variables: name fewer covariates")
    return Study(
        _name_of(source) if name is None else name,
        guided(Codebook(rest), guide),
        outcomes=tuple(map(Outcome, outcomes)),
        covariates=tuple(listed[name] for name in covariates),
        row_id=row_id,
        weight=weight,
        labels={known: text for known, text in labels.items() if known not in covariates},
        missing=missing,
        rounds=rounds,
        promise=Promise(trusts_centre=trusts_centre),
    )


def _read_rows(opened: Readable, aside: Sequence[str], missing_level: bool) -> Codebook:
    table, unreadable = opened.table, opened.unreadable
    _check_known(aside, (*table.names, *unreadable), f"{table.prefix}the table has no column")
    left = [name for name in table.names if name not in aside]
    unusable = {name: opened.why(name) for name in unreadable if name not in aside}
    if not left and not unusable:
        raise DataError(f"{table.prefix}no columns are left for variables: exclude fewer")
    if not unusable:
        try:
            kept = table.select(left)
            # A column of one level and missing entries is no constant one if missing is a level.
            codebook = infer_codebook(kept, missing_level=missing_level)
            unusable = _identifiers(codebook, kept)
            if not unusable:
                _warn_of_rare_levels(codebook, kept)
                return Codebook(
                    tuple(_with_both(v.name, v.observed, v.kind) for v in codebook.variables)
                )
        except DataError:
            pass  # it names one column only
    for name in left:
        part = table.select([name])
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConstantColumnWarning)
                unusable |= _identifiers(infer_codebook(part), part)
        except DataError as error:
            unusable[name] = short_reason(str(error), f"{table.prefix}column {name!r}")
    raise _unusable_error(table.prefix, "column", unusable)


def _identifiers(codebook: Codebook, table: Table) -> dict[str, str]:
    """Find columns that have a level for less than two entries each: names, numbers, notes.

    Of a small table, or where most rows have no entry, they would pass as variables, and what
    was written of people would stand in the study file.
    """
    found = {}
    for variable, column in zip(codebook.variables, table.columns, strict=True):
        n_levels, n_entries = len(variable.observed), len(column.numbers) - column.n_missing
        if n_levels > FEW_LEVELS and 2 * n_levels > n_entries:
            found[variable.name] = (
                f"looks like an identifier, with {n_levels} distinct values in {n_entries} entries"
            )
    return found


def _warn_of_rare_levels(codebook: Codebook, table: Table) -> None:
    """Warn of levels that few rows have, by the names of their variables alone.

    Of true and false, or 0 and 1, both are drafted whoever has them.
    """
    least = Study.policy.smallest
    rare = [
        repr(variable.name)
        for variable, column in zip(codebook.variables, table.columns, strict=True)
        if not (variable.kind == "boolean" or set(variable.observed) <= {"0", "1"})
        and np.unique(column.numbers[~column.absent], return_counts=True)[1].min() < least
    ]
    if rare:
        shown = ", ".join(rare[:MOST_NAMED]) + (", ..." if len(rare) > MOST_NAMED else "")
        warnings.warn(
            f"{table.prefix}levels of {shown} are held by fewer than {least} rows, and would stand "
            "in the study for all sites to read: group them, or take them out",
            RareLevelWarning,
            stacklevel=4,
        )


def _with_both(name: str, levels: tuple[str, ...], kind: Kind) -> Variable:
    if kind == "boolean":
        levels = tuple(BOOLEANS)
    elif kind == "integer" and set(levels) < {"0", "1"}:
        levels = ("0", "1")
    return Variable(name, levels, kind)


def _read_dictionary(
    table: Table, roles: Mapping[str, str], aside: Sequence[str], exclude: Sequence[str]
) -> tuple[Codebook, dict[str, str]]:
    if table.n_rows > MOST_VARIABLES:
        raise DataError(
            f"{table.prefix}a data dictionary has a row for each variable, and this one has "
            f"{table.n_rows:,}: name the columns of a table of rows otherwise"
        )
    cells = {
        role: _texts(table.select([roles[role]]).columns[0])
        for role in ("variable", "levels", "label")
        if role in roles
    }
    names = cells["variable"]
    _check_known(exclude, names, f"{table.prefix}the data dictionary has no variable")
    variables: list[Variable] = []
    labels: dict[str, str] = {}
    unusable: dict[str, str] = {}
    for at, name in enumerate(names):
        if not name and cells["levels"][at]:
            raise DataError(
                f"{table.prefix}row {at + 1} of the data dictionary has no name of a variable"
            )
        if not name or name in aside:
            continue
        try:
            variables.append(_dictionary_variable(name, cells["levels"][at]))
        except DataError as error:
            unusable[name] = short_reason(str(error), f"codebook: variable {name!r} ")
        if "label" in cells and cells["label"][at]:
            labels[name] = cells["label"][at]
    if unusable:
        raise _unusable_error(table.prefix, "variable", unusable)
    try:
        return Codebook(tuple(variables)), labels
    except DataError as error:
        raise DataError(f"{table.prefix}{error}") from None


def _dictionary_variable(name: str, listed: str) -> Variable:
    pieces = (piece.strip() for piece in listed.split("|" if "|" in listed else ";"))
    levels = tuple(piece for piece in pieces if piece)
    kind: Kind = "text"
    if levels and {level.lower() for level in levels} <= BOOLEANS.keys():
        # R and spreadsheets write them in capitals.
        levels, kind = tuple(level.lower() for level in levels), "boolean"
    elif levels and all(level_number(level) is not None for level in levels):
        kind = "integer"
    return Variable(name, levels, kind)


def _texts(column: Column) -> list[str]:
    """Return the entries of a column as text without blanks around it; empty if missing."""
    numbers = column.numbers.tolist()
    absent = [False] * len(numbers) if column.missing is None else column.missing.tolist()
    labels = column.labels
    return [
        "" if gone or at != at else level_text(at if labels is None else labels[at]).strip()
        for at, gone in zip(numbers, absent, strict=True)
    ]


def _check_known(given: Sequence[str], known: Sequence[str], words: str) -> None:
    absent = [repr(name) for name in given if name not in known]
    if absent:
        raise DataError(f"{words} {', '.join(absent)}: check the spelling")


def _unusable_error(prefix: str, noun: str, unusable: Mapping[str, str]) -> UnusableError:
    shown = list(unusable.items())[:MOST_LISTED]
    listed = ", ".join(f"{name!r} ({why})" for name, why in shown)
    if len(unusable) > len(shown):
        listed += f" and {len(unusable) - len(shown):,} more"
    nouns = f"this {noun}" if len(unusable) == 1 else f"these {len(unusable)} {noun}s"
    return UnusableError(f"{prefix}{nouns} can't be used: {listed}")


def _name_of(source: Any) -> str:
    if not isinstance(source, (str, Path)):
        return "study"
    name = Path(source).name
    ends = [suffix for suffix in SUFFIXES if name.lower().endswith(suffix)]
    return name[: -len(ends[0])].strip() or "study"
