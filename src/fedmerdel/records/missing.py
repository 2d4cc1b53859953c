"""Missing entries of a table: which columns have them, and what an option makes of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedmerdel.errors import DataError
from fedmerdel.records.columns import Table
from fedmerdel.records.infer import infer_codebook, listing
from fedmerdel.study.codebook import Codebook, Missing, check_no_missing_level


def fit_codebook(table: Table, given: Codebook | None, missing: Missing) -> Codebook:
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

    Raises
    ------
    DataError
        If entries are missing and may not be.
    OptionError
        If the codebook has a level for missing entries, and `missing` says otherwise.
    """
    if missing == "error":
        check_complete(table)
    if missing != "level":
        if given is not None:
            check_no_missing_level(given)
        return infer_codebook(table) if given is None else given
    if given is None:
        return infer_codebook(table, missing_level=True)
    # Columns of an array are known by their position. Whether they fit is asked by `encode`.
    names = table.names if table.named else given.names
    found = zip(names, columns_with_missing(table), strict=False)
    return given.with_missing_level([name for name, gone in found if gone])


def columns_with_missing(table: Table) -> NDArray[np.bool_]:
    """Say which columns have missing entries; looks at the rows only where it must."""
    found = np.array([column.missing is not None for column in table.columns])
    if any(column.may_miss for column in table.columns):
        found |= table.presence.missing
    return found


def check_complete(table: Table) -> None:
    """Refuse a table with missing entries; say how many each column has."""
    counts = {
        name: column.n_missing
        for name, column in zip(table.names, table.columns, strict=True)
        if column.n_missing
    }
    if counts:
        raise DataError(
            f"{table.prefix}missing entries, which missing = 'error' refuses, in "
            f"{listing(list(counts), counts=counts)}: fill them in, or choose 'ignore' or 'level'"
        )
