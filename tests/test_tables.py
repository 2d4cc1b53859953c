from __future__ import annotations

import gzip
import subprocess
import sys
import traceback
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

from fedmerdel.errors import DataError, FileError
from fedmerdel.records import infer_codebook, open_table

SECRET = "SECRET"


def levels(source: Any) -> dict[str, tuple[str, ...]]:
    return {v.name: v.levels for v in infer_codebook(open_table(source)).variables}


def kinds(source: Any) -> list[str]:
    return [v.kind for v in infer_codebook(open_table(source)).variables]


def refusal(source: Any, error: type[Exception] = DataError) -> str:
    """Return the message with which a table is refused; nothing printed may hold the secret."""
    with pytest.raises(error) as caught:
        infer_codebook(open_table(source))
    printed = "".join(traceback.format_exception_only(caught.value))
    assert SECRET not in printed
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None or caught.value.__suppress_context__
    assert "\n" not in str(caught.value)
    return str(caught.value)


# What is taken


def test_arrays_name_their_columns_by_position() -> None:
    table = open_table(np.array([[1, 0], [2, 0], [1, 5]]))
    assert table.names == ("x0", "x1")
    assert not table.named
    assert table.shape == (3, 2)
    assert repr(table) == "Table(3 rows, 2 columns)"


def test_an_open_table_is_taken_as_it_is() -> None:
    table = open_table([[1], [2]])
    assert open_table(table) is table


@pytest.mark.parametrize(
    "dtype",
    ["int8", "uint8", "int16", "int32", "int64", "uint64", "float32", "float64", ">i4", object],
)
@pytest.mark.parametrize("layout", ["C", "F", "strided", "read-only"])
def test_numbers_of_any_dtype_and_layout(dtype: str, layout: str) -> None:
    array = np.array([[3, 1], [0, 1], [7, 2]]).astype(dtype)
    if layout == "F":
        array = np.asfortranarray(array)
    elif layout == "strided":
        array = np.repeat(np.repeat(array, 2, axis=0), 3, axis=1)[::2, ::3]
    elif layout == "read-only":
        array.flags.writeable = False
    assert levels(array) == {"x0": ("0", "3", "7"), "x1": ("1", "2")}
    assert kinds(array) == ["integer", "integer"]


def test_booleans_and_texts() -> None:
    assert levels(np.array([[True], [False]])) == {"x0": ("false", "true")}
    assert kinds(np.array([[True], [False]])) == ["boolean"]
    assert levels(np.array([["b"], ["a"], [""]])) == {"x0": ("a", "b")}
    assert levels(np.array([["b"], ["a"]], dtype=np.dtypes.StringDType())) == {"x0": ("a", "b")}


def test_lists_keep_the_type_of_each_column() -> None:
    rows = [[1, "a", True, 2.0], [2, None, False, None], [1, "b", True, 3]]
    assert kinds(rows) == ["integer", "text", "boolean", "integer"]
    assert levels(rows)["x3"] == ("2", "3")


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA, pd.NaT, np.float32("nan")])
def test_missing_cells_of_object_arrays(missing: Any) -> None:
    array = np.array([["a", 1, True], [missing, missing, missing], ["b", 2, False]], dtype=object)
    table = open_table(array)
    assert kinds(array) == ["text", "integer", "boolean"]
    assert table.profile.missing.all()


def test_anything_that_turns_into_an_array() -> None:
    class Wrapped:
        def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
            return np.array([[1], [2]])

    assert levels(Wrapped()) == {"x0": ("1", "2")}


def test_pandas_types() -> None:
    frame = pd.DataFrame(
        {
            "str": ["b", None, "a"],
            "string": pd.array(["b", None, "a"], dtype="string"),
            "object": pd.Series(["b", np.nan, "a"], dtype=object),
            "float": [1.0, np.nan, 0.0],
            "Int8": pd.array([1, None, 0], dtype="Int8"),
            "arrow": pd.array([1, None, 0], dtype="int64[pyarrow]"),
            "boolean": pd.array([True, None, False], dtype="boolean"),
            "flags": pd.Series([True, None, False], dtype=object),
        }
    )
    assert frame["str"].dtype == "str"
    assert (
        list(levels(frame).values())
        == [("a", "b")] * 3 + [("0", "1")] * 3 + [("false", "true")] * 2
    )
    assert open_table(frame).profile.missing.all()


def test_polars_types_and_lazy_frames() -> None:
    frame = pl.DataFrame(
        {"s": ["b", None, "a"], "i": [1, None, 0], "f": [1.0, float("nan"), None], "b": [True] * 3}
    ).with_columns(b=pl.Series([True, None, False]), f=pl.Series([1.0, float("nan"), 0.0]))
    expected = {"s": ("a", "b"), "i": ("0", "1"), "f": ("0", "1"), "b": ("false", "true")}
    assert levels(frame) == levels(frame.lazy()) == expected
    assert open_table(frame).profile.missing.all()


def test_category_types_keep_their_order_and_drop_what_no_row_has() -> None:
    order = ["never", "unused", "former", "current"]
    cells = ["former", "current", None, "never"]
    kept = ("never", "former", "current")
    assert levels(pd.DataFrame({"v": pd.Categorical(cells, order)})) == {"v": kept}
    assert levels(pl.DataFrame({"v": pl.Series(cells, dtype=pl.Enum(order))})) == {"v": kept}
    dictionary = pa.DictionaryArray.from_arrays(pa.array([2, 3, None, 0]), pa.array(order))
    assert levels(pa.table({"v": dictionary})) == {"v": kept}


def test_the_accidental_order_of_polars_categoricals_is_not_kept() -> None:
    assert levels(pl.DataFrame({"v": pl.Series(["b", "a"], dtype=pl.Categorical)}))["v"] == (
        "a",
        "b",
    )


def test_categories_need_not_be_texts() -> None:
    frame = pd.DataFrame(
        {
            "number": pd.Categorical([3, 1, 3], [3, 1]),
            "flag": pd.Categorical([True, False, True]),
            "mixed": pd.Categorical([3, "a", None]),
            "band": pd.cut([1.5, 20.0, np.nan], [0, 10, 30]),
        }
    )
    assert levels(frame) == {
        "number": ("3", "1"),
        "flag": ("false", "true"),
        "mixed": ("3", "a"),
        "band": ("(0, 10]", "(10, 30]"),
    }
    assert kinds(frame) == ["integer", "boolean", "text", "text"]


def test_few_of_very_many_categories() -> None:
    categories = [f"c{at:05}" for at in range(5000)]
    cells = ["c04000", None, "c00001", "c04999"]
    frame = pd.DataFrame({"v": pd.Categorical(cells, categories)})
    assert levels(frame) == {"v": ("c00001", "c04000", "c04999")}


def test_missing_and_repeated_labels_of_a_dictionary() -> None:
    array = pa.DictionaryArray.from_arrays(
        pa.array([0, 1, 2, 3, None]), pa.array(["b", None, "", "b"])
    )
    table = open_table(pa.table({"v": array}))
    assert infer_codebook_quietly(table) == ("b",)
    assert table.profile.missing.all()


def infer_codebook_quietly(table: Any) -> tuple[str, ...]:
    with pytest.warns(UserWarning, match="one level only"):
        return infer_codebook(table).variables[0].levels


def test_chunked_arrow_columns_and_other_arrow_data() -> None:
    text = pa.chunked_array([["b"], ["a", None]])
    labels = pa.chunked_array(
        [pa.array(["y"]).dictionary_encode(), pa.array(["x", "y"]).dictionary_encode()]
    )
    table = pa.table({"t": text, "d": labels, "i": pa.chunked_array([[1], [None, 0]])})
    expected = {"t": ("a", "b"), "d": ("y", "x"), "i": ("0", "1")}
    assert levels(table) == expected
    batch = pa.record_batch({"t": ["a", "b"]})
    assert levels(batch) == {"t": ("a", "b")}
    assert levels(pa.RecordBatchReader.from_batches(batch.schema, [batch])) == {"t": ("a", "b")}
    view = pa.table({"t": pa.array(["a", "b"], pa.string_view())})
    assert levels(view) == {"t": ("a", "b")}


def test_duckdb_relations_with_their_wide_numbers() -> None:
    relation = duckdb.sql(
        "select * from (values (1::decimal(9, 2), 5::hugeint, 'b'), "
        "(0, 6, 'a'), (null, null, null)) as t(d, h, s)"
    )
    assert levels(relation) == {"d": ("0", "1"), "h": ("5", "6"), "s": ("a", "b")}


def test_frames_with_the_default_names_are_taken_like_arrays() -> None:
    table = open_table(pd.DataFrame([[1, 2], [3, 4]]))
    assert table.names == ("x0", "x1")
    assert not table.named


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".CSV"])
def test_csv(tmp_path: Path, suffix: str) -> None:
    text = "\ufeffid,sex,frail,smoking\n1,f,true,\n2,,false,NA\n,m,,yes\n0,m,true,no\n"
    path = tmp_path / f"patients{suffix}"
    path.write_bytes(gzip.compress(text.encode()) if suffix.endswith("gz") else text.encode())
    table = open_table(path)
    assert table.named
    assert levels(str(path)) == {
        "id": ("0", "1", "2"),
        "sex": ("f", "m"),
        "frail": ("false", "true"),
        "smoking": ("no", "yes"),
    }
    assert table.profile.missing.all()


def test_empty_lines_of_a_csv(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,2\n\n3,4\n\n")
    assert open_table(path).n_rows == 2
    # With one column, an empty line is a row whose entry is missing.
    path.write_text("a\n1\n\n3\n")
    table = open_table(path)
    assert table.n_rows == 3
    assert table.profile.missing.all()


def test_parquet(tmp_path: Path) -> None:
    path = tmp_path / "patients.parquet"
    frame = pd.DataFrame({"a": [1, 2], "c": pd.Categorical(["x", "y"], ["y", "x"])})
    frame.to_parquet(path)
    assert levels(path) == {"a": ("1", "2"), "c": ("y", "x")}


def test_arrays_need_no_other_library() -> None:
    code = (
        "import sys, numpy as np; "
        "sys.modules.update(dict.fromkeys(('pandas', 'polars', 'pyarrow'))); "
        "from fedmerdel.records import *; "
        "t = open_table(np.eye(2)); encode(t, infer_codebook(t)); open_table([['a', 1]]); "
        "print('done')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "done"


# What is refused


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
    assert "is not a file" in refusal(tmp_path / "folder.csv", FileError)
    (tmp_path / "empty.csv").write_text("")
    assert "is empty" in refusal(tmp_path / "empty.csv", FileError)


@pytest.mark.parametrize(
    ("name", "content"),
    [
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
