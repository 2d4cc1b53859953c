"""Missing entries of a table: which columns have them, and what an option makes of them."""

from __future__ import annotations

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
    if given is not None and missing != "level":
        check_no_missing_level(given)
    found = infer_codebook(table, missing_level=missing == "level") if given is None else given
    codebook = guided(found, guide)
    if missing == "error":
        check_complete(table, codebook)
    if given is None or missing != "level":
        return codebook
    # Columns of an array are known by their position. Whether they fit is asked by `encode`.
    names = table.names if table.named else codebook.names
    gone = zip(names, columns_with_missing(table), strict=False)
    return codebook.with_missing_level([name for name, some in gone if some])


def with_guides(table: Table, codebook: Codebook) -> Table:
    """Return the table with a column of missing entries for each guide that it lacks.

    Of new rows an outcome is not known yet. Columns without names must all be there: which one
    is not could not be told.
    """
    for at, variable in enumerate(codebook.variables):
        if table.named and variable.guide is not None and variable.name not in table.names:
            table = table.with_missing(variable.name, at)
    return table


def columns_with_missing(table: Table) -> NDArray[np.bool_]:
    """Say which columns have missing entries; looks at the rows only where it must."""
    found = np.array([column.missing is not None for column in table.columns])
    if any(column.may_miss for column in table.columns):
        found |= table.presence.missing
    return found


def check_complete(table: Table, codebook: Codebook) -> None:
    """Refuse a table with missing entries; say how many each column has. Guides may have any."""
    exempt = {
        name if table.named else table.names[at]
        for at, name in enumerate(codebook.names)
        if codebook.variables[at].guide is not None and at < table.n_columns
    }
    counts = {
        name: column.n_missing
        for name, column in zip(table.names, table.columns, strict=True)
        if column.n_missing and name not in exempt
    }
    if counts:
        raise DataError(
            f"{table.prefix}missing entries, which missing = 'error' refuses, in "
            f"{listing(list(counts), counts=counts)}: fill them in, or choose 'ignore' or 'level'"
        )
