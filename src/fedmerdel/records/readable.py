"""Open what can be opened of a table, and say why the rest can't.

`open_table` refuses a table for one column of dates, which is right where every column is
to be used. A hospital's table has such columns beside those of a study.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from fedmerdel.errors import DataError
from fedmerdel.records.columns import Column, Table, dates_message
from fedmerdel.records.frames import arrow_column, frame_columns, read_file
from fedmerdel.records.tables import open_table


class Readable(NamedTuple):
    """A table of which some columns can't be columns of categories. Rows: never leave.

    Attributes
    ----------
    table : Table
        The columns that can be read.
    unreadable : dict of str to str
        Names of the others, and in a few words why.
    dates : dict of str to Any
        Those of the others that hold dates or times, as they came; see `date_texts`.
    """

    table: Table
    unreadable: dict[str, str]
    dates: dict[str, Any]


def open_readable(source: Any) -> Readable:
    """Open a table without the columns that can't be columns of categories.

    Parameters
    ----------
    source : array, frame, Arrow table, path or list of lists
        Whatever `open_table` takes.

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
    try:
        return Readable(open_table(source), {}, {})
    except DataError:
        if isinstance(source, (str, Path)):
            frame, origin = read_file(source), f"file {str(source)!r}"
            names, n_rows = list(frame.column_names), frame.num_rows
        else:
            frame, origin = _eager_frame(source), ""
            names, n_rows = ([], 0) if frame is None else (list(frame.columns), len(frame))
        if not _are_names(names):
            raise
        found, unreadable, dates = _try_columns(frame, names, origin)
        if not found:
            raise
    table = Table(tuple(found), tuple(found.values()), n_rows, True, origin)
    return Readable(table, unreadable, dates)


def short_reason(error: Exception, where: str) -> str:
    """Cut an error's message to what is wrong with the column, without what to do."""
    return str(error).removeprefix(where).lstrip(": ").partition(":")[0]


def _try_columns(
    frame: Any, names: list[str], origin: str
) -> tuple[dict[str, Column], dict[str, str], dict[str, Any]]:
    prefix = f"{origin}: " if origin else ""
    found: dict[str, Column] = {}
    unreadable: dict[str, str] = {}
    dates: dict[str, Any] = {}
    for name in names:
        where = f"{prefix}column {name!r}"
        try:
            if origin:
                found[name] = arrow_column(frame.column(name), where)
            else:
                (found[name],) = frame_columns(frame.select(name), [name], prefix)
        except DataError as error:
            unreadable[name] = short_reason(error, where)
            if str(error) == dates_message(where):
                dates[name] = frame.column(name) if origin else frame.get_column(name)
    return found, unreadable, dates


def _eager_frame(source: Any) -> Any:
    import narwhals as nw

    try:
        frame: Any = nw.from_native(source)
        return frame.collect() if isinstance(frame, nw.LazyFrame) else frame
    except Exception:  # whatever the library of the frame raises; it may quote entries
        return None


def _are_names(names: list[Any]) -> bool:
    texts = all(isinstance(name, str) for name in names)
    return bool(names) and texts and len(set(names)) == len(names)
