"""A site's table as its study reads it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedmerdel.errors import DataError, OptionError
from fedmerdel.records.encode import encode
from fedmerdel.records.frames import date_texts
from fedmerdel.records.missing import check_complete, guide_columns, with_guides
from fedmerdel.records.packing import PackedRows
from fedmerdel.records.tables import Readable, open_readable
from fedmerdel.records.weights import column_weights
from fedmerdel.study.study import Study


def open_site_table(source: Any) -> Readable:
    """Open a site's table; columns that the study does not name may hold anything."""
    opened = open_readable(source)
    if opened.table.n_rows == 0:
        raise DataError(f"{opened.table.prefix}the table has no rows")
    return opened


def study_rows(
    study: Study, source: Any, sample_weight: Any = None, *, new: bool = False
) -> PackedRows:
    """Return the study's variables of a table: by name, or by position if it has none.

    Missing entries are what the study says. Weights are those given here: the column that a
    study names for them is read by `site_weights`, for fits alone. New rows, which no fit is
    made from, may lack the columns of guides.
    """
    opened = open_site_table(source)
    columns, book = opened.table, study.codebook
    if columns.named:
        lacking = {v.name for v in book.guides} - {*columns.names, *opened.unreadable}
        asked = [name for name in book.names if not (new and name in lacking)]
        columns = with_guides(opened.select(asked), book)
    if study.missing == "error":
        check_complete(columns, guide_columns(columns, book))
    return encode(columns, study.codebook, sample_weight, owner="the study")


def site_weights(study: Study, source: Any, given: Any = None) -> Any:
    """Return the weights of a fit: from the column that the study names, or those given."""
    if study.weight is None:
        return given
    if given is not None:
        raise OptionError(
            f"sample_weight: the study takes weights from column {study.weight!r}: leave it out"
        )
    return column_weights(open_site_table(source).select([study.weight]), study.weight)


def check_one_row_each(study: Study, source: Any) -> None:
    """Refuse a table that has several rows of a person, where the policy counts people.

    A person with twelve rows alike would pass for twelve.
    """
    ids = row_ids(study, source) if study.policy.smallest > 1 else None
    if ids is None:
        return
    known = ids if ids.dtype != object else ids[[each is not None for each in ids]]
    if len(set(known.tolist())) < len(known):
        raise DataError(
            f"{open_site_table(source).table.prefix}row_id {study.row_id!r} is there more than "
            "once: a policy counts each row as a person, so make it one row a person"
        )


def row_ids(study: Study, source: Any) -> NDArray[Any] | None:
    """Return what identifies each row at the site, if the study names such a column.

    Dates and times are returned as ISO 8601 text; None stands for a missing entry.
    """
    opened = open_site_table(source)
    if study.row_id is None or study.row_id not in (*opened.table.names, *opened.unreadable):
        return None
    if study.row_id in opened.dates:
        return np.array(date_texts(opened.dates[study.row_id]), dtype=object)
    column = opened.select([study.row_id]).columns[0]
    # Missing entries may hold any number, also one outside the labels.
    ids = column.numbers if column.missing is None else np.where(column.missing, 0, column.numbers)
    if column.labels is not None:
        ids = np.array([*column.labels, None], dtype=object)[ids]
    if column.missing is not None:
        ids = ids.astype(object)
        ids[column.missing] = None
    return ids
