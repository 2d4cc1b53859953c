"""Columns of data frames and Arrow tables.

pyarrow and narwhals are imported where they are used: a fit on a NumPy array, the most
common one, then starts faster. Their error messages may quote entries of the table, so
none of them is passed on.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fedmerdel.errors import DataError
from fedmerdel.records.columns import (
    Column,
    dates_message,
    is_missing,
    label_column,
    large_message,
    object_column,
)


def frame_column(series: Any, where: str) -> Column:
    """Make a column from a series of an eager narwhals frame."""
    import narwhals as nw

    try:
        if series.dtype == nw.Object:
            cells = series.to_list()
        elif series.implementation.is_pandas_like() and series.dtype in (nw.Categorical, nw.Enum):
            return _pandas_categories(series.to_native())
        else:
            cells, array = None, series.to_arrow()
    except Exception:
        raise DataError(unreadable_message(where)) from None
    if cells is not None:
        return object_column(cells, where)
    # Its categories are numbered in the order in which the process met them, which
    # would make the order of the levels depend on what was done before.
    accidental = series.implementation.is_polars() and series.dtype == nw.Categorical
    return arrow_column(array, where, keep_order=not accidental)


def arrow_column(array: Any, where: str, *, keep_order: bool = True) -> Column:
    """Make a column from an Arrow array, chunked or not.

    Parameters
    ----------
    array : pyarrow.Array or pyarrow.ChunkedArray
        Booleans, integers, floats, decimals, text or a dictionary of these.
    where : str
        How messages name the column.
    keep_order : bool
        Keep the order of a dictionary's labels.

    Raises
    ------
    DataError
        If the type can't be one of categories.
    """
    import pyarrow as pa

    kinds, dtype = pa.types, array.type
    if kinds.is_temporal(dtype):
        raise DataError(dates_message(where))
    if kinds.is_decimal(dtype):
        # Whole ones come from SQL sums and counts.
        try:
            array, dtype = array.cast(pa.int64()), pa.int64()
        except pa.ArrowInvalid:
            raise DataError(continuous_message(where)) from None
    if kinds.is_null(dtype):
        return Column(np.zeros(len(array), np.bool_), np.ones(len(array), np.bool_))
    if kinds.is_string(dtype) or kinds.is_large_string(dtype) or kinds.is_string_view(dtype):
        array, keep_order = array.cast(pa.large_string()).dictionary_encode(), False
    elif not (kinds.is_dictionary(dtype) or kinds.is_boolean(dtype) or kinds.is_primitive(dtype)):
        raise DataError(unreadable_message(where))
    if isinstance(array, pa.ChunkedArray):
        array = array.unify_dictionaries().combine_chunks()
    missing = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
    if kinds.is_dictionary(array.type):
        numbers = array.indices.fill_null(0).to_numpy(zero_copy_only=False)
        return label_column(numbers, array.dictionary.to_pylist(), missing, keep_order)
    if missing is not None:
        array = array.fill_null(False if kinds.is_boolean(dtype) else 0)
    return Column(checked_numbers(array.to_numpy(zero_copy_only=False), where), missing)


def file_column(array: Any, where: str, *, keep_order: bool) -> Column:
    """Make a column from what a file holds: of texts and their numbers that may be anything."""
    import pyarrow as pa

    if pa.types.is_dictionary(array.type):
        try:
            array.validate(full=True)
        except pa.ArrowException:
            raise DataError(
                f"{where} is damaged, or holds text that is not UTF-8: write it again"
            ) from None
    return arrow_column(array, where, keep_order=keep_order)


def date_texts(column: Any) -> list[str | None]:
    """Return dates and times as ISO 8601 text, such as 2025-03-01 or 2025-03-01T08:30:00.

    Parameters
    ----------
    column : pyarrow.ChunkedArray or narwhals.Series
        What `dates_message` was raised for.

    Returns
    -------
    list of str or None
        None where an entry is missing.
    """
    import narwhals as nw
    import pyarrow as pa

    if isinstance(column, nw.Series):
        if column.dtype == nw.Object:
            # Spans of time have no such text, and get the one they have.
            return [
                None if is_missing(cell) else getattr(cell, "isoformat", cell.__str__)()
                for cell in column.to_list()
            ]
        column = column.to_arrow()
    if pa.types.is_timestamp(column.type):
        column = _coarsest(column)
    texts: list[str | None] = column.cast(pa.string()).to_pylist()
    return [None if text is None else text.replace(" ", "T") for text in texts]


def _coarsest(column: Any) -> Any:
    """Return points in time in the coarsest unit that loses nothing: pandas has nanoseconds."""
    import pyarrow as pa

    for unit in ("s", "ms", "us"):
        try:
            return column.cast(pa.timestamp(unit, column.type.tz))
        except pa.ArrowInvalid:
            continue
    return column


def checked_numbers(numbers: Any, where: str) -> Any:
    """Return an array of numbers as it is, unless an entry is beyond int64."""
    if numbers.dtype == np.uint64 and numbers.size and numbers.max() > np.iinfo(np.int64).max:
        raise DataError(large_message(where))
    return numbers


def continuous_message(where: str) -> str:
    """Word the error for numbers that are not whole."""
    return (
        f"{where} holds numbers that are not whole: it looks continuous; cut it into bands "
        "first (for example with pandas.cut) or leave it out"
    )


def unreadable_message(where: str) -> str:
    """Word the error for a type that has no categories."""
    return f"{where} is of a type that can't be read: make it text, whole numbers or true/false"


def _pandas_categories(series: Any) -> Column:
    # Not through Arrow, which has no type for the bands of pandas.cut or for mixed labels.
    numbers = series.cat.codes.to_numpy()
    missing = numbers < 0
    return label_column(numbers, series.cat.categories.tolist(), missing, ordered=True)
