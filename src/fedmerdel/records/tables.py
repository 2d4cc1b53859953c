"""Open a table from wherever it is: an array, a data frame, an Arrow table or a file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedmerdel.errors import DataError
from fedmerdel.records.columns import Column, Table, dates_message, object_column
from fedmerdel.records.frames import (
    checked_numbers,
    file_column,
    frame_column,
    unreadable_message,
)
from fedmerdel.records.table_files import read_file

__all__ = ["Column", "Readable", "Table", "open_readable", "open_table", "short_reason"]

# scikit-learn's words, which its estimator checks look for; the array's values left out.
_RESHAPE = (
    "Reshape your data either using array.reshape(-1, 1) if your data has a single feature "
    "or array.reshape(1, -1) if it contains a single sample."
)


@dataclass(frozen=True, eq=False, repr=False)
class Readable:
    """What can be read of a table, and why the rest can't. Rows: never leave their site.

    Parameters
    ----------
    table : Table
        The columns that hold categories.
    unreadable : dict of str to str
        The other columns, and how `open_table` refuses each.
    dates : dict of str to Any
        Those of them that hold dates or times, as they came: they may still tell rows
        apart; see `date_texts`.
    """

    table: Table
    unreadable: dict[str, str] = field(default_factory=dict)
    dates: dict[str, Any] = field(default_factory=dict)

    def why(self, name: str) -> str:
        """Say in a few words why a column can't be read."""
        return short_reason(self.unreadable[name], f"{self.table.prefix}column {name!r}")

    def select(self, names: Sequence[str]) -> Table:
        """Return the columns of these names; refuse those that can't be read."""
        for name in names:
            if name in self.unreadable:
                raise DataError(f"{self.table.prefix}column {name!r} {self.why(name)}")
        return self.table.select(names)


def open_table(source: Any) -> Table:
    """Open a table of categorical columns.

    Parameters
    ----------
    source : array, frame, Arrow table, path or list of lists
        - NumPy array of two dimensions (integers, booleans, floats with whole values,
          text or objects), anything that turns into one, or a list of rows. Its columns
          are named ``"x0"``, ``"x1"``, … and known by their position.
        - pandas or polars frame, Arrow table, or any other frame that narwhals takes
          (lazy ones, such as a DuckDB relation, are collected). Columns keep their names.
          A pandas frame whose names are no texts, such as the default 0, 1, …, is
          taken like an array.
        - ``str`` or ``Path`` of a ``.csv``, ``.csv.gz`` or ``.parquet`` file.

    Returns
    -------
    Table
        What `infer_codebook` and `encode` take. None, NaN, NaT, `pandas.NA`, null and
        empty text are missing, wherever the table came from.

    Raises
    ------
    DataError
        If it is no table of categories.
    FileError
        If a file can't be read.
    """
    opened = open_readable(source)
    table, unreadable = opened.table, opened.unreadable
    if table.n_rows < 1:
        raise DataError(
            f"{table.prefix}Found array with 0 sample(s) (shape=(0, "
            f"{table.n_columns + len(unreadable)})) while a minimum of 1 is required."
        )
    if unreadable:
        raise DataError(next(iter(unreadable.values())))
    return table


def open_readable(source: Any) -> Readable:
    """Open a table without the columns that can't be columns of categories.

    A hospital's table has columns of dates beside those of a study. Columns that are known
    by their position are all read or none: without one, the others would seem moved.

    Parameters
    ----------
    source : array, frame, Arrow table, path or list of lists
        Whatever `open_table` takes, also without rows.

    Returns
    -------
    Readable
        The columns that can be read, and what is known of the others.

    Raises
    ------
    DataError
        If it is no table, or no column can be read.
    FileError
        If a file can't be read.
    """
    if isinstance(source, Readable):
        return source
    if isinstance(source, Table):
        return Readable(source)
    if isinstance(source, (str, Path)):
        (table, texts), origin = read_file(source), f"file {str(source)!r}"
        reads = [partial(file_column, keep_order=name not in texts) for name in table.column_names]
        return _from_columns(table.column_names, table.columns, reads, table.num_rows, origin)
    if isinstance(source, np.ndarray):
        return _from_array(source)
    if isinstance(source, (list, tuple)):
        return _from_rows(source)
    if type(source).__module__.startswith(("scipy.sparse", "sparse.")):
        raise DataError(
            "Sparse data was passed, but dense data is required. Use '.toarray()' to convert "
            "to a dense numpy array."
        )
    return _from_frame(source)


def short_reason(message: str, where: str) -> str:
    """Cut an error's message to what is wrong with the column, without what to do."""
    return message.removeprefix(where).lstrip(": ").partition(":")[0]


def _from_columns(
    names: Sequence[Any],
    columns: Sequence[Any],
    reads: Iterable[Callable[[Any, str], Column]],
    n_rows: int,
    origin: str = "",
) -> Readable:
    prefix = f"{origin}: " if origin else ""
    names, named = _names(names, prefix)
    _check_width(n_rows, len(names), prefix)
    found: dict[str, Column] = {}
    unreadable: dict[str, str] = {}
    dates: dict[str, Any] = {}
    for name, column, read in zip(names, columns, reads, strict=False):
        where = f"{prefix}column {name!r}"
        try:
            found[name] = read(column, where)
        except DataError as error:
            unreadable[name] = str(error)
            if str(error) == dates_message(where):
                dates[name] = column
    if unreadable and not (named and found):
        raise DataError(next(iter(unreadable.values())))
    table = Table(tuple(found), tuple(found.values()), n_rows, named, origin)
    return Readable(table, unreadable, dates)


def _from_frame(source: Any) -> Readable:
    import narwhals as nw

    try:
        frame: Any = nw.from_native(source, pass_through=True, allow_series=True)
        if isinstance(frame, nw.LazyFrame):
            frame = frame.collect()
        elif not isinstance(frame, (nw.DataFrame, nw.Series)) and (
            hasattr(source, "__arrow_c_stream__") or hasattr(source, "__arrow_c_array__")
        ):
            import pyarrow as pa

            frame = nw.from_native(pa.table(source), eager_only=True)
    except nw.exceptions.DuplicateError:
        names = getattr(source, "column_names", None) or list(getattr(source, "columns", []))
        twice = _twice(names)
        raise DataError(f"column {twice!r} appears twice: rename or drop one") from None
    except Exception:
        raise DataError(
            f"the table ({type(source).__name__}) can't be read: give a NumPy array, a data "
            "frame, an Arrow table or the path of a file"
        ) from None
    if isinstance(frame, nw.Series):
        raise DataError(
            f"Expected 2D array, got a series instead ({type(source).__name__}): give a data "
            f"frame. {_RESHAPE}"
        )
    if not isinstance(frame, nw.DataFrame):
        if hasattr(source, "__array__"):
            return _from_array(np.asarray(source))
        raise DataError(
            f"Expected 2D array, got {type(source).__name__} instead: give a NumPy array, a "
            f"data frame, an Arrow table or the path of a file. {_RESHAPE}"
        )
    columns = list(frame.iter_columns())
    return _from_columns(frame.columns, columns, repeat(frame_column), len(frame))


def _from_rows(rows: Sequence[Any]) -> Readable:
    try:
        array = np.asarray(rows)
        mixed = array.dtype.kind in "iuf" and any(
            isinstance(cell, bool) for row in rows if isinstance(row, (list, tuple)) for cell in row
        )
        if mixed or array.dtype.kind not in "biufc":
            # Without this, a row such as [1, "a"] would turn into two texts, [1, True] into ones.
            array = np.array(rows, dtype=object)
    except (ValueError, TypeError, OverflowError):
        raise DataError(
            "Expected 2D array, got a list whose rows can't be put together: give every row "
            f"the same number of entries. {_RESHAPE}"
        ) from None
    return _from_array(array)


def _from_array(array: NDArray[Any]) -> Readable:
    if isinstance(array, np.ma.MaskedArray):
        raise DataError("the array is masked: give it as floats with NaN where entries are missing")
    array = np.asarray(array)
    if array.dtype.kind == "c":
        raise DataError("Complex data not supported: give whole numbers, text or true/false")
    if array.ndim < 2:
        shape = "scalar array" if array.ndim == 0 else "1D array"
        raise DataError(f"Expected 2D array, got {shape} instead. {_RESHAPE}")
    if array.ndim > 2:
        raise DataError(
            f"Expected 2D array. Found array with dim {array.ndim}, while dim <= 2 is required."
        )
    n_rows, n_columns = array.shape
    _check_width(n_rows, n_columns, "")
    names = _positions(n_columns)
    kind = array.dtype.kind
    if kind in "biuf":
        checked_numbers(array, "the array")
        columns = tuple(Column(array[:, j]) for j in range(n_columns))
        return Readable(Table(names, columns, n_rows, named=False, matrix=array))
    if kind in "Mm":
        raise DataError(dates_message("the array"))
    if kind not in "OUT":
        raise DataError(unreadable_message("the array"))
    columns = tuple(
        object_column(array[:, j].tolist(), f"column {name!r}") for j, name in enumerate(names)
    )
    return Readable(Table(names, columns, n_rows, named=False))


def _positions(n_columns: int) -> tuple[str, ...]:
    return tuple(f"x{j}" for j in range(n_columns))


def _names(names: Sequence[Any], prefix: str) -> tuple[Sequence[str], bool]:
    texts = [name for name in names if isinstance(name, str)]
    if not texts:
        return _positions(len(names)), False
    if len(texts) < len(names):
        raise DataError(
            f"{prefix}some names of columns are text and others are not: make all of them text "
            "(for example with frame.columns.astype(str))"
        )
    twice = _twice(texts)
    if twice is not None:
        raise DataError(f"{prefix}column {twice!r} appears twice: rename or drop one")
    return texts, True


def _twice(names: Sequence[Any]) -> Any:
    return next((name for name, times in Counter(names).items() if times > 1), None)


def _check_width(n_rows: int, n_columns: int, prefix: str) -> None:
    if n_columns < 1:
        raise DataError(
            f"{prefix}Found array with 0 feature(s) (shape=({n_rows}, 0)) while a minimum of 1 "
            "is required."
        )
