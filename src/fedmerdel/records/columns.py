"""A table held in memory: columns of whole numbers, or of numbered labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, time, timedelta
from functools import cached_property
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedmerdel.errors import DataError
from fedmerdel.records.scan import HIGH, MISSING, Presence, place, scan

_MISSING_TYPES = frozenset({"NoneType", "NAType", "NaTType"})
"""None, pandas.NA and pandas.NaT, by name so that pandas need not be imported."""


@dataclass(frozen=True, eq=False, repr=False)
class Column:
    """One column of a table.

    Parameters
    ----------
    numbers : 1-D array of booleans, integers or floats
        The entries, or positions in `labels`. NaN is missing.
    missing : bool array or None
        Further entries that are missing, whatever `numbers` says there.
    labels : tuple or None
        Booleans, whole numbers or texts that `numbers` point to.
    ordered : bool
        The order of the labels is the user's, and is to be kept.
    """

    numbers: NDArray[Any]
    missing: NDArray[np.bool_] | None = None
    labels: tuple[Any, ...] | None = None
    ordered: bool = False

    @property
    def boolean(self) -> bool:
        """Whether the entries are booleans."""
        return self.labels is None and self.numbers.dtype.kind == "b"

    @property
    def may_miss(self) -> bool:
        """Whether a look at the rows is needed to know if entries are missing."""
        return self.numbers.dtype.kind == "f"

    @property
    def absent(self) -> NDArray[np.bool_]:
        """Which entries are missing."""
        gone: NDArray[np.bool_] = self.numbers != self.numbers
        return gone if self.missing is None else gone | self.missing

    @property
    def n_missing(self) -> int:
        """How many entries are missing."""
        return int(self.absent.sum())

    def fill(self, out: NDArray[np.uint16], start: int) -> None:
        """Write positions of the rows from `start` on; see `scan`."""
        rows = slice(start, start + len(out))
        place(self.numbers[rows], out)
        if self.missing is not None:
            out[self.missing[rows]] = MISSING


@dataclass(frozen=True, eq=False)
class Table:
    """A table whose columns are ready to be looked at. Rows: never leave their site.

    Parameters
    ----------
    names : tuple of str
        Names of the columns.
    columns : tuple of Column
        The columns, all of the same length.
    n_rows : int
        Rows.
    named : bool
        The names came with the table; else columns are known by their position.
    origin : str
        Where the table came from, for messages: a file's name, or nothing.
    matrix : 2-D array or None
        All columns at once, where they came so: faster to read.
    """

    names: tuple[str, ...]
    columns: tuple[Column, ...]
    n_rows: int
    named: bool
    origin: str = ""
    matrix: NDArray[Any] | None = None

    def __repr__(self) -> str:
        """Say how large it is, and nothing of its rows."""
        return f"Table({self.n_rows} rows, {self.n_columns} columns)"

    @property
    def n_columns(self) -> int:
        """Columns."""
        return len(self.columns)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.n_rows, self.n_columns

    @property
    def prefix(self) -> str:
        """How a message about this table begins."""
        return f"{self.origin}: " if self.origin else ""

    @cached_property
    def presence(self) -> Presence:
        """Which entries occur in each column; the first use passes over all rows."""
        return scan(self.fill, self.n_rows, self.n_columns)

    def select(self, names: Sequence[str]) -> Table:
        """Return a table of some columns, in the order in which they are named.

        Parameters
        ----------
        names : sequence of str
            Names of columns; entries are not copied.

        Raises
        ------
        DataError
            If there is no such column, or no name; all that are missing are named.
        """
        if tuple(names) == self.names:
            return self
        at = {name: position for position, name in enumerate(self.names)}
        absent = [name for name in names if name not in at]
        if absent:
            noun = "column" if len(absent) == 1 else "columns"
            listed = ", ".join(repr(name) for name in absent)
            raise DataError(f"{self.prefix}the table has no {noun} {listed}: check the spelling")
        if len(names) == 0:
            raise DataError(f"{self.prefix}no columns are selected: name at least one")
        columns = tuple(self.columns[at[name]] for name in names)
        # Without the matrix: a part of it would be a copy, and its columns are views.
        return Table(tuple(names), columns, self.n_rows, self.named, self.origin)

    def with_missing(self, name: str, at: int) -> Table:
        """Return the table with one more column at a place; all its entries are missing."""
        column = Column(np.zeros(self.n_rows, np.uint8), np.ones(self.n_rows, np.bool_))
        names = (*self.names[:at], name, *self.names[at:])
        columns = (*self.columns[:at], column, *self.columns[at:])
        return Table(names, columns, self.n_rows, self.named, self.origin)

    def fill(self, out: NDArray[np.uint16], start: int) -> None:
        """Write positions of the rows from `start` on; see `scan`."""
        if self.matrix is not None:
            place(self.matrix[start : start + len(out)], out)
            return
        for j, column in enumerate(self.columns):
            column.fill(out[:, j], start)


def label_column(
    numbers: NDArray[Any],
    labels: Sequence[Any],
    missing: NDArray[np.bool_] | None,
    ordered: bool,
) -> Column:
    """Make a column of numbered labels; labels that are None, NaN or empty are missing.

    Parameters
    ----------
    numbers : integer array
        Position of each entry's label; anything at missing entries.
    labels : sequence
        The labels.
    missing : bool array or None
        Missing entries.
    ordered : bool
        Keep the order of the labels.
    """
    absent = np.array([is_missing(label) for label in labels], dtype=np.bool_)
    if absent.any():
        # Missing entries may hold any number, also one outside the labels.
        inside = numbers if missing is None else np.where(missing, 0, numbers)
        missing = absent[inside] if missing is None else missing | absent[inside]
    if missing is not None and not missing.any():
        missing = None
    if len(labels) > HIGH:
        # A category type may list thousands of labels of which few occur.
        used, numbers = np.unique(
            numbers if missing is None else np.where(missing, -1, numbers), return_inverse=True
        )
        labels = [labels[at] if at >= 0 else None for at in used]
    return Column(numbers, missing, tuple(labels), ordered)


def object_column(cells: Sequence[Any], where: str) -> Column:
    """Make a column from Python objects.

    Parameters
    ----------
    cells : sequence
        Booleans, whole numbers (also as floats) or texts; None, NaN, `pandas.NA` and
        empty texts are missing.
    where : str
        How messages name the column.

    Raises
    ------
    DataError
        If the column mixes types or holds something else.
    """
    # A set of types is an order of magnitude faster than a look at each cell.
    types = {kind for kind in set(map(type, cells)) if kind.__name__ not in _MISSING_TYPES}
    if any(issubclass(kind, (complex, np.complexfloating)) for kind in types):
        raise DataError(f"{where}: Complex data not supported")
    if any(issubclass(kind, (date, time, timedelta)) for kind in types) or any(
        issubclass(kind, (np.datetime64, np.timedelta64)) for kind in types
    ):
        raise DataError(dates_message(where))
    families = {_family(kind) for kind in types}
    if None in families:
        raise DataError(
            f"{where} holds entries that are neither text, whole numbers nor true/false: "
            "convert or drop it"
        )
    if "float" in families:
        floats = (cell for cell in cells if isinstance(cell, (float, np.floating)))
        families -= {"float"} if all(cell != cell for cell in floats) else set()
    if families == {"text"}:
        return _text_column(cells)
    if families == {"boolean"}:
        return _number_column(cells, np.bool_, where)
    if families <= {"integer", "float"}:
        return _number_column(cells, np.float64 if "float" in families else np.int64, where)
    raise DataError(f"{where} mixes text, numbers or true/false: make all its entries one of these")


def dates_message(where: str) -> str:
    """Word the error for dates and times."""
    return (
        f"{where} holds dates or times: it looks continuous; cut it into bands first "
        "(for example years) or leave it out"
    )


def large_message(where: str) -> str:
    """Word the error for numbers that no int64 holds."""
    return f"{where} holds whole numbers beyond 64 bits: convert them to text"


def _number_column(cells: Sequence[Any], dtype: type[np.generic], where: str) -> Column:
    missing = np.fromiter(map(is_missing, cells), dtype=np.bool_, count=len(cells))
    known = [0 if absent else cell for cell, absent in zip(cells, missing, strict=True)]
    try:
        return Column(np.array(known, dtype=dtype), missing if missing.any() else None)
    except OverflowError:
        raise DataError(large_message(where)) from None


def _text_column(cells: Sequence[Any]) -> Column:
    labels = sorted(str(cell) for cell in set(cells) if isinstance(cell, str))
    numbers = {label: at for at, label in enumerate(labels)}
    found = np.fromiter(map(numbers.get, cells, repeat(-1)), np.int32, count=len(cells))
    return label_column(found, labels, found < 0, ordered=False)


def _family(kind: type) -> str | None:
    if issubclass(kind, str):
        return "text"
    if issubclass(kind, (bool, np.bool_)):
        return "boolean"
    if issubclass(kind, (int, np.integer)):
        return "integer"
    if issubclass(kind, (float, np.floating)):
        return "float"
    return None


def is_missing(cell: Any) -> bool:
    """Whether an entry is None, NaN, `pandas.NA`, `pandas.NaT` or an empty text."""
    if isinstance(cell, (float, np.floating)):
        return bool(cell != cell)
    return type(cell).__name__ in _MISSING_TYPES or (isinstance(cell, str) and cell == "")
