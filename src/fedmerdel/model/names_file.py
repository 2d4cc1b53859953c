"""Names of clusters as CSV, also such as spreadsheets write."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path

from fedmerdel.errors import FileError, OptionError
from fedmerdel.files import read_plain, too_large
from fedmerdel.model.names import changed, checked
from fedmerdel.release.grid import defused, restored
from fedmerdel.texts import TextError, sheet_rows

MOST_BYTES = 4 * 2**20
"""Of the names of clusters: ten thousand of the longest take three quarters of it."""

FILE = "names.csv"
COLUMNS = ("cluster", "name")

# int() alone takes "1_000" and digits of other scripts; no model has a thousand million clusters.
NUMBER = re.compile(r"[0-9]{1,9}")


def names_text(names: tuple[str, ...]) -> str:
    """Return the names as CSV, a line for each cluster that has one."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows([k, defused(name)] for k, name in enumerate(names) if name)
    return text.getvalue()


def read_names(path: str | Path) -> dict[int, str]:
    """Read a CSV of names by cluster: the columns cluster and name, in any order.

    Commas or semicolons separate them, and lines without anything in them don't count. What is
    a name, and which clusters there are, is for `GlobalModel.named` to say.

    Raises
    ------
    FileError
        If it can't be read as that.
    """
    file = f"file {str(path)!r}"
    return names_from(read_plain(path, file, MOST_BYTES), file)


def names_from(data: bytes, file: str) -> dict[int, str]:
    """Read the bytes of such a CSV; messages call it ``file``."""
    if len(data) > MOST_BYTES:
        raise too_large(file)
    separator = max(",;", key=data.partition(b"\n")[0].decode("latin-1").count)
    try:
        return _names(sheet_rows(data, separator), file)
    except TextError as why:
        raise FileError(f"{file}: {why}: save it as CSV UTF-8 (comma delimited)") from None


def _names(rows: Iterator[list[str]], file: str) -> dict[int, str]:
    header = [cell.strip().casefold() for cell in _trimmed(next(rows, []))]
    if set(COLUMNS) < set(header):
        raise FileError(
            f"{file} has {len(header)} columns: delete those that are not cluster and name"
        )
    if sorted(header) != sorted(COLUMNS):
        # Not what they are: without a header these are cells of the first row.
        raise FileError(f"{file}: its first line must be the two columns' names, cluster,name")
    names: dict[int, str] = {}
    for at, row in enumerate(rows, start=2):
        cells = _trimmed(row)
        if not cells:
            continue
        if len(cells) > len(COLUMNS):
            raise FileError(
                f"{file}, row {at} has {len(cells)} cells: put a name with separators in it in "
                "double quotes"
            )
        # Spreadsheets leave out cells at the end that are empty.
        entry = dict(zip(header, [*cells, ""], strict=False))
        number = entry["cluster"].strip()
        if not NUMBER.fullmatch(number):
            raise FileError(f"{file}, row {at}: its cluster is no number: give one such as 3")
        if int(number) in names:
            raise FileError(f"{file}, row {at}: cluster {int(number)} is there twice: keep one")
        names[int(number)] = restored(entry["name"])
    return names


def names_for(n_clusters: int, path: str | Path, data: bytes | None = None) -> tuple[str, ...]:
    """Return a name for each cluster, "" where it has none, from a file that is kept with them.

    Parameters
    ----------
    n_clusters : int
        Clusters.
    path : str or Path
        The file.
    data : bytes, optional
        Its content, where it was read already.
    """
    file = f"file {str(path)!r}"
    given = read_names(path) if data is None else names_from(data, file)
    try:
        return checked(changed((), n_clusters, given), n_clusters)
    except OptionError as error:
        raise FileError(f"{file}: {error}") from None


def _trimmed(row: list[str]) -> list[str]:
    """Return a row without the empty cells at its end."""
    filled = [at for at, cell in enumerate(row) if cell.strip()]
    return row[: filled[-1] + 1] if filled else []
