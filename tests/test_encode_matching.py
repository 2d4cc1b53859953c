"""How columns and entries are matched to a codebook, weights, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from fedmerdel.errors import DataError
from fedmerdel.records import (
    encode,
    open_table,
)
from tests.encoding import SECRET, book, refusal, unpack

# How columns and entries are matched


def test_columns_are_matched_by_name_in_any_order() -> None:
    codebook = book(a=[0, 1, 2], b=["x", "y"], c=[False, True])
    frame = pd.DataFrame({"c": [True, False], "a": [2, None], "b": ["y", "x"]})
    np.testing.assert_array_equal(
        unpack(encode(open_table(frame), codebook)), [[2, 1, 1], [3, 0, 0]]
    )


@pytest.mark.parametrize(
    ("values", "column"),
    [
        ([0, 1], [True, False]),
        ([False, True], [1, 0]),
        ([False, True], [1.0, 0.0]),
        ([False, True], ["true", "false"]),
        ([False, True], ["1", "0"]),
        ([0, 1], ["1", "0"]),
        ([0, 1], [1.0, 0.0]),
        (["0", "1"], [1, 0]),
        (["0", "1"], [True, False]),
        (["false", "true"], [True, False]),
        ([0, 1], pd.Categorical([True, False])),
        ([0, 5000, 1], pd.Categorical([5000.0, 0.0])),
        (["0", "100000"], [100000, 0]),
        ([-(10**12), 10**12], [1e12, -1e12]),
    ],
)
def test_entries_of_another_type_fit_levels(values: list[Any], column: Any) -> None:
    rows = encode(open_table(pd.DataFrame({"v": column})), book(v=values))
    np.testing.assert_array_equal(unpack(rows), [[1], [0]])


def test_levels_need_not_be_in_order() -> None:
    rows = encode(open_table([[1], [3], [2]]), book(v=[3, 1, 2]))
    np.testing.assert_array_equal(unpack(rows), [[1], [0], [2]])


def test_a_column_entirely_missing_fits_a_given_codebook() -> None:
    for source in (np.array([[np.nan]]), [[None]], pa.table({"v": pa.nulls(1)})):
        np.testing.assert_array_equal(unpack(encode(open_table(source), book(v=[1, 2]))), [[2]])


@pytest.mark.parametrize(
    ("values", "column"),
    [
        (["a", "b"], ["a", SECRET]),
        (["a", "b"], pd.Categorical(["a", SECRET])),
        (["a", "b"], [1, 2]),
        (["a", "b"], [True, False]),
        ([0, 1], [0, 2]),
        ([0, 1], [0, -5000]),
        ([0, 1], [0, 2**60]),
        ([0, 10**6], [0, 10**6 + 1]),
        ([0, 10**6], [1, None]),
        ([False, True], [0, 2]),
        ([False, True], ["0", "yes"]),
        ([0, 2], [True, False]),
    ],
)
def test_unknown_entries_are_refused_without_naming_them(values: list[Any], column: Any) -> None:
    message = refusal(pd.DataFrame({"smoking": column}), book(smoking=values))
    assert message == (
        "entries that are not among the levels of the codebook in column 'smoking': set those "
        "entries to missing, or list the level in the codebook"
    )


def test_numbers_that_are_not_whole_never_fit() -> None:
    assert "not whole" in refusal(np.array([[0.5], [1.0]]), book(x0=[0, 1]))
    assert "infinity" in refusal(np.array([[np.inf], [1.0]]), book(x0=[0, 1]))


def test_many_labels_of_which_few_are_known() -> None:
    frame = pd.DataFrame({"v": [f"{at:05}" for at in range(3000)]})
    assert "column 'v'" in refusal(frame, book(v=["00001"]))


def test_columns_that_do_not_match() -> None:
    codebook = book(a=[0, 1], b=[0, 1])
    message = refusal(pd.DataFrame({"a": [0], "b": [0], "c": [0]}), codebook)
    assert message.startswith("the table has column 'c' unknown to the codebook: drop them")
    message = refusal(pd.DataFrame({"a": [0]}), codebook)
    assert message.startswith("the table lacks column 'b' of the codebook: add")
    message = refusal(pd.DataFrame({"a": [0], "B": [0]}), codebook)
    assert "lacks column 'b' of the codebook; it has column 'B' instead" in message
    many = pd.DataFrame({f"m{at}": [0] for at in range(20)} | {"a": [0], "b": [0]})
    assert "columns 'm0', 'm1', 'm2', 'm3', 'm4' and 15 more" in refusal(many, codebook)


def test_arrays_with_another_number_of_columns() -> None:
    with pytest.raises(DataError, match=r"^X has 3 features, but MerDel is expecting 2 features"):
        encode(open_table(np.zeros((2, 3))), book(a=[0], b=[0]), owner="MerDel")


# Weights


@pytest.mark.parametrize(
    "weights",
    [
        [1, 0, 2.5],
        np.array([1, 0, 2.5]),
        pd.Series([1, 0, 2.5]),
        pl.Series([1.0, 0.0, 2.5]),
        (1, 0, 2.5),
    ],
)
def test_weights(weights: Any) -> None:
    rows = encode(open_table([[0], [1], [0]]), book(v=[0, 1]), weights)
    np.testing.assert_array_equal(rows.weights, [1, 0, 2.5])
    assert rows.weights.dtype == np.float64


def test_weights_are_copied_one_for_all_or_none() -> None:
    table, codebook = open_table([[0], [1]]), book(v=[0, 1])
    given_weights = np.array([1.0, 2.0])
    assert not np.shares_memory(encode(table, codebook, given_weights).weights, given_weights)
    np.testing.assert_array_equal(encode(table, codebook, 3).weights, [3, 3])
    np.testing.assert_array_equal(encode(table, codebook).weights, [1, 1])


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ([1, 2, 3], "has 3 entries for 2 rows"),
        ([[1], [2]], "must be 1D, got 2D"),
        ([1, np.nan], "NaN or infinity"),
        ([1, np.inf], "NaN or infinity"),
        ([1, -1], "negative"),
        ([0, 0], "every weight is zero"),
        (0, "every weight is zero"),
        ([1, SECRET], "must be numbers"),
        ([1, None], "NaN or infinity"),
        ([[1], [2, 3]], "must be numbers"),
    ],
)
def test_unusable_weights(weights: Any, words: str) -> None:
    assert words in refusal([[0], [1]], book(v=[0, 1]), weights)


def test_a_file_of_one_column_named_in_messages(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"v\n{SECRET}\n")
    assert refusal(path, book(v=["a"])).startswith(f"file '{path}': entries that are not among")
