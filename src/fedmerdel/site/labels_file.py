"""Labels of rows as a file. It stays at the site: a line is a person."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from fedmerdel.errors import DataError, FileError
from fedmerdel.site.assign import Assignment


def write_labels(
    path: str | Path, assigned: Assignment, ids: NDArray[Any] | None, id_name: str | None
) -> None:
    """Write row id (if there is one), cluster and probability; CSV or Parquet by the suffix."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    target = Path(path)
    if target.suffix not in (".csv", ".parquet"):
        raise FileError(f"file {str(target)!r}: end its name in .csv or .parquet")
    if ids is not None and id_name in ("cluster", "probability"):
        raise DataError(f"row_id {id_name!r} has the name of a result: rename that column")
    rows = np.arange(len(assigned.labels))
    columns: dict[str, Any] = {} if ids is None else {str(id_name): ids}
    columns["cluster"] = assigned.labels
    columns["probability"] = assigned.probabilities[rows, assigned.labels]
    table = pa.table(columns)
    part = target.parent / f".{target.name}.{uuid4().hex}"
    try:
        if target.suffix == ".csv":
            csv.write_csv(table, part)
        else:
            parquet.write_table(table, part)
        part.replace(target)
    except OSError:
        raise FileError(
            f"file {str(target)!r} can't be written: check its name, folder and free space"
        ) from None
    finally:
        part.unlink(missing_ok=True)
