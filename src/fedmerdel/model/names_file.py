"""Names of clusters as CSV, also such as spreadsheets write."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

from fedmerdel.errors import FileError, OptionError
from fedmerdel.files import read_plain
from fedmerdel.model.names import changed, checked
from fedmerdel.release.grid import defused, restored

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
    try:
        text = read_plain(path, file).decode("utf-8-sig")
    except ValueError:
        raise FileError(
            f"{file} is no text in UTF-8: save it as CSV UTF-8 (comma delimited)"
        ) from None
    return names_from(text, file)


def names_from(text: str, file: str) -> dict[int, str]:
    """Read the text of such a CSV; messages call it ``file``."""
    rows = _rows(text, file)
    header = [cell.strip().casefold() for cell in _trimmed(rows[0])] if rows else []
    if set(COLUMNS) < set(header):
        raise FileError(
            f"{file} has {len(header)} columns: delete those that are not cluster and name"
        )
    if sorted(header) != sorted(COLUMNS):
        # Not what they are: without a header these are cells of the first row.
        raise FileError(f"{file}: its first line must be the two columns' names, cluster,name")
    names: dict[int, str] = {}
    for at, row in enumerate(rows[1:], start=2):
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


def names_for(n_clusters: int, path: str | Path, text: str | None = None) -> tuple[str, ...]:
    """Return a name for each cluster, "" where it has none, from a file that is kept with them.

    Parameters
    ----------
    n_clusters : int
        Clusters.
    path : str or Path
        The file.
    text : str, optional
        Its text, where it was read already.
    """
    file = f"file {str(path)!r}"
    given = read_names(path) if text is None else names_from(text, file)
    try:
        return checked(changed((), n_clusters, given), n_clusters)
    except OptionError as error:
        raise FileError(f"{file}: {error}") from None


def _rows(text: str, file: str) -> list[list[str]]:
    separator = max(",;", key=text.partition("\n")[0].count)
    try:
        return list(csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True))
    except csv.Error:
        raise FileError(
            f"{file} is no CSV, or a quote in it is not closed: save it again"
        ) from None


def _trimmed(row: list[str]) -> list[str]:
    """Return a row without the empty cells at its end."""
    filled = [at for at, cell in enumerate(row) if cell.strip()]
    return row[: filled[-1] + 1] if filled else []
