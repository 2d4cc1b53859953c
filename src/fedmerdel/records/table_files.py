"""A table's file, CSV or Parquet, read into an Arrow table.

Messages of Arrow may quote entries of the table, so none of them is passed on. How much memory a
file will need is looked at before it is read: a small one may hold a thousand million rows.
"""

from __future__ import annotations

import io
from csv import reader
from os import fspath
from pathlib import Path
from typing import Any, NamedTuple

from fedmerdel.errors import FileError
from fedmerdel.files import open_plain
from fedmerdel.records.memory import check_memory, free_memory, too_little
from fedmerdel.records.unpacked import Unpacked

SUFFIXES = (".csv", ".csv.gz", ".parquet")
"""How names of files that can be read end."""

FEW_COLUMNS = 3
"""Of fewer columns, a header can't be told from a row."""

FIRST_ROWS = 1000
"""Rows among whose entries a column's name is looked for."""

SAME_SHARE = 0.8
"""A first line is a row if this share of it is entries of its columns: a level may be rare."""

FIRST_BYTES = 2**20
"""Bytes of a CSV from which it is told how many entries the rest has."""

ENTRY_BYTES = 16
"""Bytes of memory of an entry of a CSV: a digit is read as a number of 64 bits, and once copied."""


COLUMN_BYTES = 9000
"""Bytes of memory of a column of a CSV besides its entries, as measured with pyarrow 17 to 25."""

CHUNK_BYTES = 1600
"""Bytes of memory of one column in one of the groups of rows of a Parquet file, measured so."""


class FileTable(NamedTuple):
    """What a file holds.

    Attributes
    ----------
    table : pyarrow.Table
        Its columns.
    texts : frozenset of str
        Columns of texts that are numbered in the order in which the file has them, an accident.
    """

    table: Any
    texts: frozenset[str]


def read_file(path: str | Path) -> FileTable:
    """Read a CSV or Parquet file into an Arrow table.

    Types of a CSV's columns are inferred from all its rows. Empty fields, and the usual
    spellings of missing (``NA``, ``NaN``, ``null``, ...), count as missing.

    Raises
    ------
    FileError
        If the file is missing, unreadable, empty or of another type, or needs more memory than
        there is.
    """
    name = fspath(path)
    where = f"file {name!r}"
    if not name.lower().endswith(SUFFIXES):
        raise FileError(f"{where}: unknown type of file; use one of {', '.join(SUFFIXES)}")
    with open_plain(name, where) as file:
        if not file.read(1):
            raise FileError(f"{where} is empty: it has no header and no rows")
    is_parquet = name.lower().endswith(".parquet")
    try:
        found = _read_parquet(name, where) if is_parquet else _read_csv(name, where)
        names = found.table.column_names
    except FileError:
        raise
    except MemoryError:
        raise too_little(where) from None
    except Exception:
        kind = "Parquet" if is_parquet else "CSV (UTF-8, with a header)"
        raise FileError(
            f"{where} can't be read as {kind}: it may be damaged, cut off, or have rows of "
            "different length; write it again"
        ) from None
    if len(names) == 1 and any(sign in names[0] for sign in ";\t"):
        # One column whose name is the whole first line, perhaps a row: not to be shown either.
        raise FileError(
            f"{where} has its columns separated by semicolons or tabs: save it with commas"
        )
    if has_no_header(found.table):
        # Its first line is a row: no message may name these columns.
        raise FileError(
            f"{where} has no header: its first line looks like a row; write the names of the "
            "columns there"
        )
    return found


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
        name in _first_texts(column) for name, column in zip(names, table.columns, strict=True)
    )
    return found >= SAME_SHARE * len(names)


def _first_texts(column: Any) -> set[str]:
    try:
        return {str(entry) for entry in column.slice(0, FIRST_ROWS).to_pylist()}
    except Exception:  # no text, damaged, or a date that Python does not have: no name either
        return set()


def _read_parquet(name: str, where: str) -> FileTable:
    import pyarrow as pa
    from pyarrow import parquet

    kinds, schema = pa.types, parquet.read_schema(name)
    # Read as numbers of labels: one long text in all rows is then in memory once.
    texts = frozenset(
        field.name
        for field in schema
        if kinds.is_string(field.type) or kinds.is_large_string(field.type)
    )
    with parquet.ParquetFile(name, read_dictionary=sorted(texts)) as file:
        widths = [_width(field.type) for field in file.schema_arrow]
        n_rows = file.metadata.num_rows
        chunks = file.metadata.num_row_groups * len(widths) * CHUNK_BYTES
        check_memory(n_rows * sum(widths) + chunks, where, f"a table of {n_rows:,} rows")
        return FileTable(file.read(), texts)


def _width(kind: Any) -> float:
    """Return the bytes that an entry takes at least."""
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        kind = kind.index_type
    try:
        return float(kind.bit_width) / 8
    except ValueError:  # texts, lists and so on
        return 4.0


def _read_csv(name: str, where: str) -> FileTable:
    from pyarrow import csv

    packed = name.lower().endswith(".gz")
    with open_plain(name, where) as file:
        first = Unpacked(file, name).read(FIRST_BYTES) if packed else file.read(FIRST_BYTES)
    n_columns = _n_names(first)
    if n_columns is None:
        raise FileError(f"{where}: its first line is too long to be the names of columns")
    entries = first.count(b",") + first.count(b"\n")
    # Of each byte: itself, until all types are known, and its part of an entry.
    each = 1 + ENTRY_BYTES * entries / max(len(first), 1)
    size = len(first) if packed else Path(name).stat().st_size
    check_memory(n_columns * COLUMN_BYTES + each * size, where, "a table of this size")
    # Of one column, an empty line is a row with its entry missing.
    parsed = csv.ParseOptions(ignore_empty_lines=n_columns != 1)
    converted = csv.ConvertOptions(strings_can_be_null=True)
    free = free_memory()
    most = None if free is None else int(free / each)
    with open_plain(name, where) as file:
        source: Any = Unpacked(file, name, most) if packed else name
        table = csv.read_csv(source, parse_options=parsed, convert_options=converted)
    return FileTable(table, frozenset())


def _n_names(first: bytes) -> int | None:
    """Return how many columns a CSV has, from its first line; None if there is no end of it."""
    lines = io.StringIO(first.decode("utf-8-sig", "replace"), newline=None)
    line = next((line for line in lines if line != "\n"), "")
    if not line.endswith("\n") and len(first) == FIRST_BYTES:
        return None
    return len(next(reader([line])))
