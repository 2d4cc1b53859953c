"""Tables that are refused, in one line that quotes no entry."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
from pyarrow import parquet

from fedmerdel.errors import FileError
from fedmerdel.records.tables import open_table
from tests.opened import SECRET, refusal


@pytest.mark.parametrize(
    "source",
    [
        np.array([1, 2]),
        np.array(3),
        [1, 2],
        [],
        pd.Series([1, 2]),
        pl.Series([1, 2]),
        pa.chunked_array([[1, 2]]),
        3,
        None,
        {"a": [1]},
        [[1, 2], [3]],
        [["a", 2], ["b"]],
    ],
)
def test_what_has_not_two_dimensions(source: Any) -> None:
    message = refusal(source)
    assert message.startswith("Expected 2D array")
    assert "Reshape your data" in message


def test_three_dimensions() -> None:
    assert "dim 3, while dim <= 2 is required" in refusal(np.zeros((2, 2, 2)))


@pytest.mark.parametrize(
    "source",
    [np.empty((0, 5)), pd.DataFrame(np.empty((0, 5))), pl.DataFrame({c: [] for c in "abcde"})],
)
def test_no_rows(source: Any) -> None:
    words = "Found array with 0 sample(s) (shape=(0, 5)) while a minimum of 1 is required"
    assert words in refusal(source)


@pytest.mark.parametrize("source", [np.empty((3, 0)), pd.DataFrame(index=range(3)), [[], [], []]])
def test_no_columns(source: Any) -> None:
    assert "0 feature(s) (shape=(3, 0)) while a minimum of 1 is required." in refusal(source)


@pytest.mark.parametrize("container", ["csr_array", "csc_matrix", "coo_array", "dok_matrix"])
def test_sparse(container: str) -> None:
    message = refusal(getattr(scipy.sparse, container)(np.eye(3)))
    assert "Sparse data was passed" in message
    assert ".toarray()" in message


@pytest.mark.parametrize("source", [np.array([[1j]]), [[1j]], np.array([[1j, "a"]], dtype=object)])
def test_complex(source: Any) -> None:
    assert "Complex data not supported" in refusal(source)


@pytest.mark.parametrize("value", [np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [float, object])
def test_infinity(value: float, dtype: type) -> None:
    message = refusal(np.array([[1, 1.0], [0, value]], dtype=dtype))
    assert message == "column 'x1' holds infinity (inf): set those entries to missing"


@pytest.mark.parametrize(
    "column",
    [
        np.array([20.5, 1.0]),
        np.array([1e-20, 1.0]),
        np.array([1e300, 1.0]),
        np.array([3000.5, 1.0]),
        pa.array([20.5, None]),
        pa.array(["20.50", "1"]).cast(pa.decimal128(9, 2)),
        pd.Series([20.5, 1], dtype=object),
    ],
)
def test_continuous_columns(column: Any) -> None:
    source = (
        pa.table({"bmi": column}) if isinstance(column, pa.Array) else pd.DataFrame({"bmi": column})
    )
    assert refusal(source) == (
        "column 'bmi' holds numbers that are not whole: it looks continuous; cut it into bands "
        "first (for example with pandas.cut) or leave it out"
    )


@pytest.mark.parametrize(
    "source",
    [
        pd.DataFrame({"seen": pd.to_datetime(["2020-01-01", None])}),
        pd.DataFrame({"seen": pd.Series([pd.Timestamp("2020-01-01").date()], dtype=object)}),
        pl.DataFrame({"seen": [pd.Timestamp("2020-01-01").to_pydatetime()]}),
        np.array([["2020-01-01"]], dtype="M8[D]"),
        np.array([[np.datetime64("2020-01-01")]], dtype=object),
    ],
)
def test_dates(source: Any) -> None:
    assert "holds dates or times: it looks continuous" in refusal(source)


@pytest.mark.parametrize(
    "source",
    [
        np.array([[SECRET.encode()]]),
        np.array([[SECRET.encode()]], dtype=object),
        np.array([[{SECRET: 1}], [{}]], dtype=object),
        np.array([(1, 2)], dtype="i4,i4").reshape(1, 1),
        pl.DataFrame({"v": [[SECRET]]}),
        pl.DataFrame({"v": [SECRET.encode()]}),
        pd.DataFrame({"v": [{SECRET}]}),
        pd.DataFrame({"v": [1j]}),
    ],
)
def test_other_types(source: Any) -> None:
    message = refusal(source)
    assert "can't be read: make it text" in message or "neither text, whole" in message


@pytest.mark.parametrize(
    "cells", [[SECRET, 1], [SECRET, 1.5], [True, 2], [SECRET, False], [SECRET, None, np.nan, 0.0]]
)
def test_mixed_columns(cells: list[Any]) -> None:
    for source in (
        np.array([cells], dtype=object).T,
        pd.DataFrame({"x0": pd.Series(cells, dtype=object)}),
    ):
        assert refusal(source) == (
            "column 'x0' mixes text, numbers or true/false: make all its entries one of these"
        )


@pytest.mark.parametrize(
    "source",
    [
        np.array([[2**64 - 1], [0]], dtype=np.uint64),
        pa.table({"v": pa.array([2**64 - 1, 0], pa.uint64())}),
        np.array([[2**64], [0]], dtype=object),
    ],
)
def test_numbers_beyond_64_bits(source: Any) -> None:
    assert "beyond 64 bits: convert them to text" in refusal(source)


def test_masked_arrays() -> None:
    assert "the array is masked" in refusal(np.ma.masked_equal([[1, 2], [3, 4]], 3))


@pytest.mark.parametrize(
    ("source", "name"),
    [
        (pd.DataFrame([[1, 2]], columns=["age", "age"]), "'age'"),
        (pd.DataFrame([[1, 2]], columns=[7, 7]), "7"),
        (pa.table([[1], [2]], names=["age", "age"]), "'age'"),
    ],
)
def test_names_used_twice(source: Any, name: str) -> None:
    assert refusal(source) == f"column {name} appears twice: rename or drop one"


def test_names_of_several_types() -> None:
    assert "make all of them text" in refusal(pd.DataFrame([[1, 2]], columns=["age", 1]))


def test_a_query_that_fails() -> None:
    relation = duckdb.sql(f"select cast(v as integer) as v from (values ('{SECRET}')) as t(v)")
    assert "can't be read" in refusal(relation)
    lazy = pl.LazyFrame({"v": [SECRET]}).select(pl.col("v").cast(pl.Int64))
    assert "can't be read" in refusal(lazy)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    assert refusal(tmp_path / "gone.csv", FileError).endswith(
        "gone.csv' does not exist: check its name and folder"
    )
    for name in ("patients.xlsx", "patients", "patients.gz"):
        (tmp_path / name).write_text(SECRET)
        message = refusal(tmp_path / name, FileError)
        assert "unknown type of file; use one of .csv, .csv.gz, .parquet" in message
    (tmp_path / "folder.csv").mkdir()
    assert "is a folder" in refusal(tmp_path / "folder.csv", FileError)
    (tmp_path / "empty.csv").write_text("")
    assert "is empty" in refusal(tmp_path / "empty.csv", FileError)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("blank.csv", b"\n\n"),
        ("ragged.csv", f"a,b\n1,2\n{SECRET},3,4\n".encode()),
        ("cut.csv.gz", gzip.compress(SECRET.encode() * 100, mtime=0)[:-12]),
        ("cut.parquet", f"PAR1{SECRET}PAR1".encode()),
    ],
)
def test_damaged_files(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    message = refusal(tmp_path / name, FileError)
    assert name in message
    assert "write it again" in message


def test_messages_name_the_file_and_the_column(tmp_path: Path) -> None:
    path = tmp_path / "patients.csv"
    path.write_text("bmi\n20.5\n")
    assert refusal(path).startswith(f"file '{path}': column 'bmi' holds numbers that are not whole")
    path.write_text("bmi\n")
    assert refusal(path).startswith(f"file '{path}': Found array with 0 sample(s)")
    path.write_text("bmi,bmi\n1,2\n")
    assert refusal(path) == f"file '{path}': column 'bmi' appears twice: rename or drop one"
    path.write_bytes(b"bmi\n\xff\xfe\n")
    assert refusal(path).startswith(f"file '{path}': column 'bmi' is of a type that can't be read")
    parquet.write_table(pa.table({"bmi": pa.nulls(3)}), tmp_path / "p.parquet")
    assert refusal(tmp_path / "p.parquet").endswith(
        "column 'bmi' has no entries, all are missing: leave it out"
    )


# A first line that is a row


def headerless(tmp_path: Path, table: pd.DataFrame) -> Path:
    path = tmp_path / "rows.csv"
    table.to_csv(path, index=False, header=False)
    return path


@pytest.mark.parametrize("seed", range(3))
def test_a_table_without_a_header_is_no_table(seed: int, tmp_path: Path) -> None:
    """What would be names of columns are entries of a row: no message shows them."""
    rng = np.random.default_rng(seed)
    words = np.array([f"{SECRET} yes", f"{SECRET} no"])
    table = pd.DataFrame(words[rng.integers(0, 2, (300, 6))])
    with pytest.raises(FileError) as caught:
        open_table(headerless(tmp_path, table))
    assert "has no header" in str(caught.value)
    assert SECRET not in str(caught.value)
    numbers = pd.DataFrame(rng.integers(0, 2, (300, 6)))
    with pytest.raises(FileError, match="has no header"):
        open_table(headerless(tmp_path, numbers))


@pytest.mark.parametrize(
    "names",
    [
        ["0", "1", "2", "3", "4"],
        ["1", "2", "3", "4", "5"],
        ["250", "401", "428", "496", "585"],
        ["asthma", "1", "2", "3", "4"],
    ],
)
def test_columns_may_be_called_by_numbers(names: list[str], tmp_path: Path) -> None:
    """Counted as pandas does, or codes of diseases."""
    X = np.random.default_rng(0).integers(0, 6, (300, 5))
    table = pd.DataFrame(X, columns=names)
    if names[0] == "asthma":
        table[names] = X % 2
    table.to_csv(tmp_path / "rows.csv", index=False)
    assert list(open_table(tmp_path / "rows.csv").names) == names


@pytest.mark.parametrize("sign", [";", "\t"])
def test_other_separators_are_told_without_showing_the_line(sign: str, tmp_path: Path) -> None:
    lines = [sign.join([SECRET, "yes", "no"])] * 5
    (tmp_path / "rows.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    with pytest.raises(FileError, match="separated by semicolons or tabs") as caught:
        open_table(tmp_path / "rows.csv")
    assert SECRET not in str(caught.value)
