"""Labels of rows as a file. It stays at the site: a line is a person."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedmerdel.errors import DataError, FileError
from fedmerdel.files import check_earlier, check_place, replacement, unwritable
from fedmerdel.site.assign import Assignment

RESULTS = ["cluster", "probability"]
"""The columns of labels, after the row's id if it has one."""

OWNER_ONLY = 0o600
"""Who may read labels, where files have such modes: whoever wrote them."""


def write_labels(
    path: str | Path, assigned: Assignment, ids: NDArray[Any] | None, id_name: str | None
) -> None:
    """Write row id (if there is one), cluster and probability; CSV or Parquet by the suffix.

    On POSIX systems no one but the owner may read the file, an earlier one's mode or not.
    """
    import pyarrow as pa
    from pyarrow import csv as arrow_csv
    from pyarrow import parquet

    check_labels_place(path)
    if ids is not None and id_name in RESULTS:
        raise DataError(f"row_id {id_name!r} has the name of a result: rename that column")
    rows = np.arange(len(assigned.labels))
    columns: dict[str, Any] = {} if ids is None else {str(id_name): ids}
    columns["cluster"] = assigned.labels
    columns["probability"] = assigned.probabilities[rows, assigned.labels]
    table = pa.table(columns)
    with replacement(path) as part:
        # Before the first line is in it: a process that is killed leaves this file behind.
        part.touch(mode=OWNER_ONLY, exist_ok=False)
        if Path(path).suffix == ".csv":
            arrow_csv.write_csv(table, part)
        else:
            parquet.write_table(table, part)


def check_labels_place(path: str | Path) -> None:
    """Refuse a name that labels can't be written to.

    Raises
    ------
    FileError
        If it ends otherwise than in .csv or .parquet, or nothing can be written there.
    """
    target = Path(path)
    if target.suffix not in (".csv", ".parquet"):
        raise FileError(f"file {str(target)!r}: end its name in .csv or .parquet")
    check_place(target)
    if target.is_dir():
        raise unwritable(target, "file")
    check_earlier(target, "file of labels", lambda first: _are_labels(_columns(target, first)))


def _are_labels(columns: list[str]) -> bool:
    """Whether these are the columns of labels and no others: a table may end in them too."""
    return columns == RESULTS or columns[1:] == RESULTS


def _columns(target: Path, first: bytes) -> list[str]:
    """Return the columns of a file that is there, given its first bytes; none if it has none."""
    from pyarrow import ArrowException, parquet

    if target.suffix == ".csv":
        header = first.decode("utf-8", "replace").partition("\n")[0]
        try:
            return next(csv.reader([header.rstrip("\r")]), [])
        except csv.Error:
            return []
    try:
        return list(parquet.read_schema(target).names)
    except (ArrowException, ValueError, OSError):  # damaged, or names that are no text
        return []
