"""Some columns of a table: those named, or those that can be read."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedmerdel.errors import DataError
from fedmerdel.records import encode, infer_codebook, open_table
from fedmerdel.records.frames import date_texts
from fedmerdel.records.tables import open_readable

ROWS = pd.DataFrame(
    {
        "person": [f"person {n}" for n in range(300)],
        "sex": ["f", "m", None] * 100,
        "copd": [0, 1, 0] * 100,
        "born": [dt.date(1950, 1, 1)] * 300,
        "death": [True, False, False] * 100,
    }
)


# Columns of a table


@settings(deadline=None)  # the first call compiles, or loads what was compiled
@given(st.permutations(["person", "sex", "copd", "death"]), st.integers(1, 4))
def test_select_takes_columns_in_the_order_of_their_names(names: list[str], n: int) -> None:
    kept = ROWS[["death", "copd", "sex", "person"]]
    part = open_table(kept).select(names[:n])
    assert part.names == tuple(names[:n])
    assert part.shape == (300, n)
    usable = [name for name in names[:n] if name != "person"]
    if usable:
        found = infer_codebook(part.select(usable))
        assert found == infer_codebook(open_table(kept[usable]))


def test_select_from_an_array_and_its_origin(tmp_path: Path) -> None:
    X = np.array([[0, 1, 2], [1, 0, 2], [1, 1, 0]])
    part = open_table(X).select(["x2", "x0"])
    assert not part.named
    rows = encode(part, infer_codebook(part))
    other = open_table(X[:, [2, 0]])
    expected = encode(other, infer_codebook(other))
    np.testing.assert_array_equal(rows.codes, expected.codes)
    ROWS[["sex", "copd"]].to_csv(tmp_path / "rows.csv", index=False)
    table = open_table(tmp_path / "rows.csv")
    assert table.select(["copd"]).origin == table.origin
    assert table.select(["sex", "copd"]) is table


def test_select_names_all_columns_that_are_missing(tmp_path: Path) -> None:
    ROWS[["sex", "copd"]].to_csv(tmp_path / "rows.csv", index=False)
    table = open_table(tmp_path / "rows.csv")
    with pytest.raises(DataError, match=r"rows\.csv': the table has no columns 'a', 'b': check"):
        table.select(["sex", "a", "b"])
    with pytest.raises(DataError, match="the table has no column 'a': check"):
        table.select(["a"])
    with pytest.raises(DataError, match="no columns are selected"):
        table.select([])


# Tables of which a part can be read


@pytest.mark.parametrize("make", [pd.DataFrame, pl.from_pandas, pa.Table.from_pandas])
def test_what_can_be_read_is_opened_and_the_rest_explained(make: Any) -> None:
    opened = open_readable(make(ROWS[["sex", "born", "copd"]]))
    assert opened.table.names == ("sex", "copd")
    assert list(opened.unreadable) == ["born"]
    assert opened.why("born") == "holds dates or times"
    assert date_texts(opened.dates["born"]) == ["1950-01-01"] * 300
    assert (opened.table.n_rows, opened.table.named) == (300, True)
    assert "1950" not in repr(opened)


def test_what_can_not_be_read_is_not_selected() -> None:
    opened = open_readable(ROWS)
    assert opened.select(["death", "sex"]).names == ("death", "sex")
    with pytest.raises(DataError, match=r"^column 'born' holds dates or times$"):
        opened.select(["sex", "born"])
    assert open_readable(opened) is opened
    with pytest.raises(DataError, match=r"^column 'born' holds dates or times: it looks"):
        open_table(opened)


def test_a_file_of_which_a_part_can_be_read(tmp_path: Path) -> None:
    ROWS.to_csv(tmp_path / "rows.csv", index=False)
    opened = open_readable(tmp_path / "rows.csv")
    assert opened.table.names == ("person", "sex", "copd", "death")
    assert opened.why("born") == "holds dates or times"
    assert date_texts(opened.dates["born"]) == ["1950-01-01"] * 300
    assert opened.table.origin == f"file {str(tmp_path / 'rows.csv')!r}"


def test_a_lazy_frame_of_which_a_part_can_be_read() -> None:
    opened = open_readable(pl.from_pandas(ROWS[["sex", "born"]]).lazy())
    assert (opened.table.names, list(opened.unreadable)) == (("sex",), ["born"])
    assert date_texts(opened.dates["born"]) == ["1950-01-01"] * 300


SECONDS = [dt.datetime(2020, 7, 1, 8, 30), None]


@pytest.mark.parametrize(
    ("column", "text"),
    [
        (pd.Series(SECONDS), "2020-07-01T08:30:00"),
        (pl.Series(SECONDS), "2020-07-01T08:30:00"),
        (pd.Series(["2020-07-01 08:30:00.25", None]).astype("datetime64[ns]"),
         "2020-07-01T08:30:00.250"),
        (pd.Series(["2020-07-01 08:30:00.000000001", None]).astype("datetime64[ns]"),
         "2020-07-01T08:30:00.000000001"),
        (pd.Series(SECONDS).dt.tz_localize("UTC"), "2020-07-01T08:30:00Z"),
        (pd.Series([dt.date(2020, 7, 1), pd.NaT], dtype=object), "2020-07-01"),
        (pd.Series([dt.timedelta(days=1), None], dtype=object), "1 day, 0:00:00"),
    ],
)  # fmt: skip
def test_dates_and_times_as_text(column: Any, text: str) -> None:
    frame = pl.DataFrame if isinstance(column, pl.Series) else pd.DataFrame
    opened = open_readable(frame({"when": column, "copd": [0, 1]}))
    assert date_texts(opened.dates["when"]) == [text, None]


@pytest.mark.parametrize(
    "source",
    [
        ROWS[["born"]],
        np.array([["2020-01-01"]], dtype="datetime64[D]"),
        [1, 2],
        object(),
        pd.Series([1, 2]),
        pd.DataFrame([[dt.date(1950, 1, 1), 1]], columns=["a", "a"]),
        pd.DataFrame([[dt.date(1950, 1, 1), 1]]),
    ],
    ids=["dates", "array", "list", "object", "series", "twice", "numbers"],
)
def test_what_is_no_table_is_refused_as_ever(source: Any) -> None:
    with pytest.raises(DataError) as expected:
        open_table(source)
    with pytest.raises(DataError) as caught:
        open_readable(source)
    assert str(caught.value) == str(expected.value)
