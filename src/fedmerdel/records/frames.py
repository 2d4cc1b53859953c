"""Columns of data frames, Arrow tables and files.

pyarrow and narwhals are imported where they are used: a fit on a NumPy array, the most
common one, then starts faster. Their error messages may quote entries of the table, so
none of them is passed on.
"""

from __future__ import annotations

import gzip
from csv import reader
from os import fspath
from pathlib import Path
from typing import Any

import numpy as np

from fedmerdel.errors import DataError, FileError
from fedmerdel.records.columns import (
    Column,
    dates_message,
    is_missing,
    label_column,
    large_message,
    object_column,
)

SUFFIXES = (".csv", ".csv.gz", ".parquet")
"""How names of files that can be read end."""

FEW_COLUMNS = 3
"""Of fewer columns, a header can't be told from a row."""

FIRST_ROWS = 1000
"""Rows among whose entries a column's name is looked for."""

SAME_SHARE = 0.8
"""A first line is a row if this share of it is entries of its columns: a level may be rare."""


def read_file(path: str | Path) -> Any:
    """Read a CSV or Parquet file into an Arrow table.

    Types of a CSV's columns are inferred from all its rows. Empty fields, and the usual
    spellings of missing (``NA``, ``NaN``, ``null``, ...), count as missing.

    Raises
    ------
    FileError
        If the file is missing, unreadable, empty or of another type.
    """
    name = fspath(path)
    where = f"file {name!r}"
    if not name.lower().endswith(SUFFIXES):
        raise FileError(f"{where}: unknown type of file; use one of {', '.join(SUFFIXES)}")
    if not Path(name).exists():
        raise FileError(f"{where} does not exist: check its name and folder")
    if not Path(name).is_file():
        raise FileError(f"{where} is not a file: give one CSV or Parquet file")
    try:
        empty = Path(name).stat().st_size == 0
        # Opened once here: Arrow words a lack of permission in many ways.
        with Path(name).open("rb"):
            pass
    except OSError:
        raise FileError(f"{where} can't be opened: check that you may read it") from None
    if empty:
        raise FileError(f"{where} is empty: it has no header and no rows")
    try:
        if name.lower().endswith(".parquet"):
            from pyarrow import parquet

            return parquet.ParquetFile(name).read()
        from pyarrow import csv

        table = csv.read_csv(
            name,
            # Of one column, an empty line is a row with its entry missing.
            parse_options=csv.ParseOptions(ignore_empty_lines=_n_names(name) != 1),
            convert_options=csv.ConvertOptions(strings_can_be_null=True),
        )
    except Exception:
        kind = "Parquet" if name.lower().endswith(".parquet") else "CSV (UTF-8, with a header)"
        raise FileError(
            f"{where} can't be read as {kind}: it may be damaged, cut off, or have rows of "
            "different length; write it again"
        ) from None
    if len(table.column_names) == 1 and any(sign in table.column_names[0] for sign in ";\t"):
        # One column whose name is the whole first line, perhaps a row: not to be shown either.
        raise FileError(
            f"{where} has its columns separated by semicolons or tabs: save it with commas"
        )
    if has_no_header(table):
        # Its first line is a row: no message may name these columns.
        raise FileError(
            f"{where} has no header: its first line looks like a row; write the names of the "
            "columns there"
        )
    return table


def has_no_header(table: Any) -> bool:
    """Whether what should be the columns' names looks like a row of the table.

    Four in five names are then entries of their own columns. Names that count the columns are
    names, though a column may hold its own number.
    """
    names = table.column_names
    counted = ([str(at + first) for at in range(len(names))] for first in (0, 1))
    if len(names) < FEW_COLUMNS or names in counted:
        return False
    found = sum(
        name in {str(entry) for entry in column.slice(0, FIRST_ROWS).to_pylist()}
        for name, column in zip(names, table.columns, strict=True)
    )
    return found >= SAME_SHARE * len(names)


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


def _n_names(csv_name: str) -> int:
    """Return how many columns a CSV has, from its first line alone."""
    opener: Any = gzip.open if csv_name.lower().endswith(".gz") else open
    with opener(csv_name, "rt", encoding="utf-8-sig", errors="replace") as lines:
        return len(next(reader([next((line for line in lines if line != "\n"), "")])))


def _pandas_categories(series: Any) -> Column:
    # Not through Arrow, which has no type for the bands of pandas.cut or for mixed labels.
    numbers = series.cat.codes.to_numpy()
    missing = numbers < 0
    return label_column(numbers, series.cat.categories.tolist(), missing, ordered=True)
