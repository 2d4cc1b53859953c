"""Find out the levels of each column: the codebook of one table."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fedmerdel.errors import ConstantColumnWarning, DataError
from fedmerdel.records.columns import Column, Table
from fedmerdel.records.frames import continuous_message
from fedmerdel.study.codebook import MAX_LEVELS, Codebook, Value, Variable


def infer_codebook(table: Table, *, missing_level: bool = False) -> Codebook:
    """Make a codebook of the levels that occur in a table.

    Levels are sorted: numbers by value, texts alphabetically (by code point), false before
    true. Columns of a category type (pandas ``Categorical``, polars ``Enum``, Arrow
    dictionaries) keep the order of their categories, for the user chose it; not so
    polars ``Categorical``, whose order is an accident. Only levels that occur are listed,
    also of category types and of booleans: one that no row has can tell nothing.

    Parameters
    ----------
    table : Table
        From `open_table`.
    missing_level : bool
        Give variables whose columns have missing entries a level for them, the last.

    Returns
    -------
    Codebook
        Its variables are in the order of the columns.

    Raises
    ------
    DataError
        If a column looks continuous, is entirely missing, or has too many levels.

    Warns
    -----
    ConstantColumnWarning
        If columns have one level only. They are kept.
    """
    check_numbers(table)
    variables = [_variable(table, at) for at in range(table.n_columns)]
    if missing_level:  # presence is known by now, so this looks at no row again
        gone = table.presence.missing
        variables = [
            variable.with_missing_level() if gone[at] else variable
            for at, variable in enumerate(variables)
        ]
    constant = [variable.name for variable in variables if len(variable.levels) == 1]
    if constant:
        warnings.warn(
            f"{table.prefix}one level only in {listing(constant)}: kept, but such columns "
            "can't tell clusters apart",
            ConstantColumnWarning,
            stacklevel=2,
        )
    return Codebook(tuple(variables))


def check_numbers(table: Table) -> None:
    """Refuse columns with numbers that can't be levels."""
    for found, word in (
        (table.presence.infinite, "holds infinity (inf): set those entries to missing"),
        (table.presence.broken, None),
    ):
        if found.any():
            where = f"{table.prefix}column {table.names[int(np.argmax(found))]!r}"
            raise DataError(f"{where} {word}" if word else continuous_message(where))


def listing(names: Sequence[str], shown: int = 5, counts: Mapping[str, int] | None = None) -> str:
    """List names of columns for a message, at most a few of them, perhaps with a count each."""
    beside = {name: f" ({n:,})" for name, n in (counts or {}).items()}
    first = ", ".join(f"{name!r}{beside.get(name, '')}" for name in names[:shown])
    rest = len(names) - shown
    noun = "column" if len(names) == 1 else "columns"
    return f"{noun} {first}" + (f" and {rest} more" if rest > 0 else "")


def _variable(table: Table, at: int) -> Variable:
    column, name = table.columns[at], table.names[at]
    where = f"{table.prefix}column {name!r}"
    presence = table.presence
    numbers = presence.numbers(at)
    if presence.beyond[at]:  # some are too far apart to be marked in a table
        numbers = np.unique(column.numbers[~column.absent].astype(np.int64))
    if len(numbers) == 0:
        raise DataError(f"{where} has no entries, all are missing: leave it out")
    if len(numbers) > MAX_LEVELS:
        raise DataError(
            f"{where} has {len(numbers):,} distinct values, and a variable has at most "
            f"{MAX_LEVELS} levels: group rare ones into one, or leave the column out"
        )
    return Variable.from_values(name, _values(column, numbers))


def _values(column: Column, numbers: NDArray[np.int64]) -> list[Value]:
    if column.labels is not None:
        labels = [column.labels[number] for number in numbers]
        return labels if column.ordered else sorted(labels)
    if column.boolean:
        return [bool(number) for number in numbers]
    return [int(number) for number in numbers]
