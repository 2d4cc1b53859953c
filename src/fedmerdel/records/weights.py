"""Weights of rows: given as an array, or read from a column."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedmerdel.errors import DataError
from fedmerdel.records.columns import Table


def checked_weights(given: Any, n_rows: int, where: str = "sample_weight") -> NDArray[np.float64]:
    """Return the weight of each row.

    Parameters
    ----------
    given : array of shape (N,), number or None
        Finite and at least 0, one above 0; None is 1 for each row.
    n_rows : int
        Rows of the table.
    where : str
        How messages name the weights.

    Raises
    ------
    DataError
        If they can't be weights.
    """
    if given is None:
        return np.ones(n_rows)
    try:
        weights = np.array(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(f"{where} must be numbers, one for each row") from None
    if weights.ndim == 0:
        weights = np.full(n_rows, weights)
    if weights.ndim != 1:
        raise DataError(f"{where} must be 1D, got {weights.ndim}D: give one for each row")
    if len(weights) != n_rows:
        raise DataError(
            f"{where} has {len(weights)} entries for {n_rows} rows: give one for each row"
        )
    if not np.all(np.isfinite(weights)):
        raise DataError(f"{where} holds NaN or infinity (inf): give finite numbers")
    if np.any(weights < 0):
        raise DataError(f"{where} holds negative numbers: give numbers of at least 0")
    if not np.any(weights > 0):
        raise DataError(f"{where}: every weight is zero; at least one must be above zero")
    return weights


def column_weights(table: Table, name: str) -> NDArray[np.float64]:
    """Return the weights that a column of a table holds, checked."""
    column = table.select([name]).columns[0]
    where = f"{table.prefix}weight column {name!r}"
    if column.labels is not None or column.boolean:
        raise DataError(f"{where} must hold numbers, one for each row")
    if column.n_missing:
        raise DataError(
            f"{where} has {column.n_missing} missing entries: give every row a weight; one of 0 "
            "has no say in the clusters"
        )
    return checked_weights(column.numbers, table.n_rows, where)
