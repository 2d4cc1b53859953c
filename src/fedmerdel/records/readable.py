"""Open what can be opened of a table, and say why the rest can't.

`open_table` refuses a table for one column of dates, which is right where every column is
to be used. A hospital's table has such columns beside those of a study.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fedmerdel.errors import DataError
from fedmerdel.records.columns import Column, Table
from fedmerdel.records.frames import arrow_column, frame_columns, read_file
from fedmerdel.records.tables import open_table


def open_readable(source: Any) -> tuple[Table, dict[str, str]]:
    """Open a table without the columns that can't be columns of categories.

    Parameters
    ----------
    source : array, frame, Arrow table, path or list of lists
        Whatever `open_table` takes.

    Returns
    -------
    table : Table
        The columns that can be read.
    unreadable : dict of str to str
        Names of the others, and in a few words why.

    Raises
    ------
    DataError
        If it is no table, or no column can be read.
    FileError
        If a file can't be read.
    """
    try:
        return open_table(source), {}
    except DataError:
        if isinstance(source, (str, Path)):
            frame, origin = read_file(source), f"file {str(source)!r}"
            names, n_rows = list(frame.column_names), frame.num_rows
        else:
            frame, origin = _eager_frame(source), ""
            names, n_rows = ([], 0) if frame is None else (list(frame.columns), len(frame))
        if not _are_names(names):
            raise
        found, unreadable = _try_columns(frame, names, origin)
        if not found:
            raise
    return Table(tuple(found), tuple(found.values()), n_rows, True, origin), unreadable


def short_reason(error: Exception, where: str) -> str:
    """Cut an error's message to what is wrong with the column, without what to do."""
    return str(error).removeprefix(where).lstrip(": ").partition(":")[0]


def _try_columns(
    frame: Any, names: list[str], origin: str
) -> tuple[dict[str, Column], dict[str, str]]:
    prefix = f"{origin}: " if origin else ""
    found: dict[str, Column] = {}
    unreadable: dict[str, str] = {}
    for name in names:
        where = f"{prefix}column {name!r}"
        try:
            if origin:
                found[name] = arrow_column(frame.column(name), where)
            else:
                (found[name],) = frame_columns(frame.select(name), [name], prefix)
        except DataError as error:
            unreadable[name] = short_reason(error, where)
    return found, unreadable


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
