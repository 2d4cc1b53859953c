"""Missing entries of a table: which columns have them, and what an option makes of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedmerdel.errors import DataError
from fedmerdel.records.columns import Table
from fedmerdel.records.infer import infer_codebook, listing
from fedmerdel.study.codebook import Codebook, Missing, check_no_missing_level
from fedmerdel.study.guide import guided


def fit_codebook(
    table: Table, given: Codebook | None, missing: Missing, guide: Any = None
) -> Codebook:
    """Return the codebook of a fit on one table.

    Parameters
    ----------
    table : Table
        From `open_table`.
    given : Codebook or None
        The codebook to keep to; None takes one from the table.
    missing : {"ignore", "level", "error"}
        With "level", variables whose columns have missing entries get a level for them. The
        others get none: an empty level would change what is expected of the other levels.
    guide : mapping of str to float, or None
        Outcomes that help to find the clusters, and the weight of each.

    Raises
    ------
    DataError
        If entries are missing and may not be.
    OptionError
        If the codebook has a level for missing entries, and `missing` says otherwise.
    """
    if given is not None:
        given = guided(given, guide)
    if missing == "error":
        named = guide if isinstance(guide, Mapping) else ()
        check_complete(table, named if given is None else guide_columns(table, given))
    if given is None:
        return guided(infer_codebook(table, missing_level=missing == "level"), guide)
    if missing != "level":
        check_no_missing_level(given)
        return given
    # Columns of an array are known by their position. Whether they fit is asked by `encode`.
    names = table.names if table.named else given.names
    found = zip(names, columns_with_missing(table), strict=False)
    return given.with_missing_level([name for name, gone in found if gone])


def with_guides(table: Table, codebook: Codebook, columns: Sequence[str] | None = None) -> Table:
    """Return the table with a column of missing entries for each guide that it lacks.

    Of new rows an outcome is not known yet. Columns without names must all be there: which one
    is not could not be told. They are put where they are among `columns`, or in the codebook.
    """
    guides = {variable.name for variable in codebook.guides}
    for at, name in enumerate(codebook.names if columns is None else columns):
        if table.named and name in guides and name not in table.names:
            table = table.with_missing(str(name), at)
    return table


def columns_with_missing(table: Table) -> NDArray[np.bool_]:
    """Say which columns have missing entries; looks at the rows only where it must."""
    found = np.array([column.missing is not None for column in table.columns])
    if any(column.may_miss for column in table.columns):
        found |= table.presence.missing
    return found


def guide_columns(table: Table, codebook: Codebook) -> set[str]:
    """Return the table's columns that are guides, by name or by position."""
    columns = codebook.names if table.named else table.names
    found = zip(columns, codebook.variables, strict=False)
    return {name for name, variable in found if variable.guide is not None}


def check_complete(table: Table, but: Collection[str] = ()) -> None:
    """Refuse a table with missing entries but in these columns; say how many each has."""
    counts = {
        name: column.n_missing
        for name, column in zip(table.names, table.columns, strict=True)
        if column.n_missing and name not in but
    }
    if counts:
        raise DataError(
            f"{table.prefix}missing entries, which missing = 'error' refuses, in "
            f"{listing(list(counts), counts=counts)}: fill them in, or choose 'ignore' or 'level'"
        )
