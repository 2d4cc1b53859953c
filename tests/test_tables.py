"""Tables of every kind that are taken."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from fedmerdel.records import infer_codebook, open_table
from tests.opened import kinds, levels


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
    assert table.presence.missing.all()


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
    assert open_table(frame).presence.missing.all()


def test_polars_types_and_lazy_frames() -> None:
    frame = pl.DataFrame(
        {"s": ["b", None, "a"], "i": [1, None, 0], "f": [1.0, float("nan"), None], "b": [True] * 3}
    ).with_columns(b=pl.Series([True, None, False]), f=pl.Series([1.0, float("nan"), 0.0]))
    expected = {"s": ("a", "b"), "i": ("0", "1"), "f": ("0", "1"), "b": ("false", "true")}
    assert levels(frame) == levels(frame.lazy()) == expected
    assert open_table(frame).presence.missing.all()


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
    assert table.presence.missing.all()


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
    assert table.presence.missing.all()


def test_empty_lines_of_a_csv(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,2\n\n3,4\n\n")
    assert open_table(path).n_rows == 2
    # With one column, an empty line is a row whose entry is missing.
    path.write_text("a\n1\n\n3\n")
    table = open_table(path)
    assert table.n_rows == 3
    assert table.presence.missing.all()


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
