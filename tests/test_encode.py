from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import csv, parquet

from fedmerdel.errors import ConstantColumnWarning, DataError
from fedmerdel.records import (
    PackedRows,
    decode,
    encode,
    infer_codebook,
    open_table,
    scan,
)
from fedmerdel.study import Codebook, Variable

SECRET = "SECRET"


@st.composite
def tables(draw: st.DrawFn) -> dict[str, list[Any]]:
    """Draw columns of whole numbers, booleans or texts; None is missing."""
    n_rows = draw(st.integers(2, 12))
    cells = st.one_of(
        st.lists(st.integers(-3, 3) | st.none(), min_size=n_rows, max_size=n_rows),
        st.lists(st.integers(-(2**40), 2**40) | st.none(), min_size=n_rows, max_size=n_rows),
        st.lists(st.booleans() | st.none(), min_size=n_rows, max_size=n_rows),
        st.lists(
            st.sampled_from(["a", "B", "é", "x y", "z"]) | st.none(),
            min_size=n_rows,
            max_size=n_rows,
        ),
    )
    # Constant columns would warn, and entirely missing ones are refused.
    varied = cells.filter(lambda column: len({cell for cell in column if cell is not None}) > 1)
    columns = draw(st.lists(varied, min_size=1, max_size=12))
    return {f"v{at}": column for at, column in enumerate(columns)}


def slow_codebook(table: dict[str, list[Any]]) -> Codebook:
    variables = []
    for name, column in table.items():
        values = sorted({cell for cell in column if cell is not None})
        kind = {int: "integer", bool: "boolean", str: "text"}[type(values[0])]
        levels = [str(value).lower() if kind == "boolean" else str(value) for value in values]
        variables.append(Variable(name, tuple(levels), kind))  # type: ignore[arg-type]
    return Codebook(tuple(variables))


def slow_levels(table: dict[str, list[Any]], codebook: Codebook) -> np.ndarray:
    """Level number of every cell, the number of levels where it is missing."""
    numbers = np.empty((len(next(iter(table.values()))), len(codebook.variables)), dtype=int)
    for j, variable in enumerate(codebook.variables):
        for i, cell in enumerate(table[variable.name]):
            missing = cell is None
            numbers[i, j] = len(variable.levels) if missing else variable.values.index(cell)
    return numbers


def unpack(rows: PackedRows) -> np.ndarray:
    packing = rows.packing
    digits = np.empty((rows.n_rows, len(packing.code)), dtype=int)
    for j, (code, stride, radix) in enumerate(
        zip(packing.code, packing.stride, packing.radix, strict=True)
    ):
        digits[:, j] = (rows.codes[:, code].astype(int) // stride) % radix
    return digits


def refusal(source: Any, codebook: Codebook, sample_weight: Any = None) -> str:
    with pytest.raises(DataError) as caught:
        encode(open_table(source), codebook, sample_weight)
    assert SECRET not in str(caught.value)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def book(**levels: list[Any]) -> Codebook:
    return Codebook(tuple(Variable.from_values(name, values) for name, values in levels.items()))


# Against the slow oracle


@settings(deadline=None, max_examples=100)
@given(tables())
def test_every_kind_of_table_gives_the_codes_of_the_oracle(table: dict[str, list[Any]]) -> None:
    codebook = slow_codebook(table)
    expected = slow_levels(table, codebook)
    objects = {name: pd.Series(column, dtype=object) for name, column in table.items()}
    sources: list[Any] = [
        pd.DataFrame(table),
        pd.DataFrame(objects),
        pd.DataFrame(objects).convert_dtypes(),
        pl.DataFrame(table),
        pa.table(table),
        np.array(list(table.values()), dtype=object).T,
        [list(row) for row in zip(*table.values(), strict=True)],
    ]
    packings = []
    for source in sources:
        opened = open_table(source)
        if not opened.named:
            # Columns are known by position: another name is no other variable.
            inferred = [(v.levels, v.kind) for v in infer_codebook(opened).variables]
            assert inferred == [(v.levels, v.kind) for v in codebook.variables]
        rows = encode(opened, codebook)
        np.testing.assert_array_equal(unpack(rows), expected)
        assert rows.codes.flags.c_contiguous
        packings.append(rows.packing.radix.tolist())
    has_missing = [None in column for column in table.values()]
    radix = [
        len(v.levels) + missing for v, missing in zip(codebook.variables, has_missing, strict=True)
    ]
    assert all(packing == radix for packing in packings)
    for source in (pl.DataFrame(table), pa.table(table), pd.DataFrame(objects)):
        assert infer_codebook(open_table(source)) == codebook


@settings(deadline=None, max_examples=30)
@given(tables())
def test_files_give_the_codes_of_the_oracle(
    tmp_path_factory: pytest.TempPathFactory, table: dict[str, list[Any]]
) -> None:
    folder = tmp_path_factory.mktemp("files")
    codebook = slow_codebook(table)
    csv.write_csv(pa.table(table), folder / "t.csv")
    parquet.write_table(pa.table(table), folder / "t.parquet")
    for path in (folder / "t.csv", folder / "t.parquet"):
        opened = open_table(path)
        assert infer_codebook(opened) == codebook
        np.testing.assert_array_equal(
            unpack(encode(opened, codebook)), slow_levels(table, codebook)
        )


@settings(deadline=None, max_examples=60)
@given(
    st.integers(1, 500),
    st.integers(1, 20),
    st.sampled_from(["bool", "int8", "uint16", "int32", "int64", "float32", "float64"]),
    st.sampled_from("CF"),
    st.integers(0, 2**32 - 1),
)
def test_arrays_give_the_codes_of_the_oracle(
    n_rows: int, n_columns: int, dtype: str, order: str, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    spread = rng.choice([2, 3, 100, 3000], size=n_columns)
    array = rng.integers(0, spread, size=(n_rows, n_columns)).astype(dtype, order=order)
    array[:1], array[-1:] = False, True
    if dtype.startswith("float"):
        array[1:-1][rng.random((max(n_rows - 2, 0), n_columns)) < 0.1] = np.nan
    if n_rows == 1:
        array = np.concatenate((array, np.zeros_like(array)))
    cells = {
        f"x{j}": [
            None if math.isnan(cell) else (bool(cell) if dtype == "bool" else int(cell))
            for cell in array[:, j].tolist()
        ]
        for j in range(n_columns)
    }
    if any(len(set(column) - {None}) > 255 for column in cells.values()):
        with pytest.raises(DataError, match="distinct values"):
            infer_codebook(open_table(array))
        return
    codebook = slow_codebook(cells)
    opened = open_table(array)
    assert infer_codebook(opened) == codebook
    rows = encode(opened, codebook)
    np.testing.assert_array_equal(unpack(rows), slow_levels(cells, codebook))
    # A table that was not looked at before gives the same.
    np.testing.assert_array_equal(encode(open_table(array), codebook).codes, rows.codes)


@pytest.mark.parametrize("tall", [False, True])
def test_many_blocks(tall: bool) -> None:
    rng = np.random.default_rng(3)
    array = rng.integers(0, 4, size=(20_001, 70)).astype(float)
    array[rng.random(array.shape) < 0.05] = np.nan
    source = pl.DataFrame(array, nan_to_null=True) if tall else array
    table = open_table(source)
    assert table.n_rows * table.n_columns > 2 * scan._TALL_BLOCK
    rows = encode(table, infer_codebook(table))
    np.testing.assert_array_equal(unpack(rows), np.where(np.isnan(array), 4, array))


def test_whole_numbers_past_the_precision_of_floats() -> None:
    snomed = np.array([[999000011000001104], [999000011000001105], [5]])
    table = open_table(snomed)
    codebook = infer_codebook(table)
    assert codebook.variables[0].values == (5, 999000011000001104, 999000011000001105)
    np.testing.assert_array_equal(unpack(encode(table, codebook))[:, 0], [1, 2, 0])
    limits = open_table(np.array([[2**63 - 1], [-(2**63)], [0]]))
    np.testing.assert_array_equal(unpack(encode(limits, infer_codebook(limits)))[:, 0], [2, 0, 1])


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


# The codebook of a table


def test_constant_columns_are_kept_with_one_warning() -> None:
    table = open_table(np.column_stack([np.zeros((9, 7)), np.arange(9)]))
    with pytest.warns(ConstantColumnWarning) as caught:
        codebook = infer_codebook(table)
    assert len(caught) == 1
    assert "columns 'x0', 'x1', 'x2', 'x3', 'x4' and 2 more: kept" in str(caught[0].message)
    np.testing.assert_array_equal(codebook.n_levels, [1] * 7 + [9])
    rows = encode(table, codebook)
    np.testing.assert_array_equal(unpack(rows)[:, :7], 0)


@pytest.mark.parametrize(
    "column",
    [np.arange(300), np.arange(300) * 1000, [f"{SECRET}{at}" for at in range(300)]],
)
def test_too_many_levels(column: Any) -> None:
    with pytest.raises(DataError) as caught:
        infer_codebook(open_table(pd.DataFrame({"icd": column})))
    assert str(caught.value) == (
        "column 'icd' has 300 distinct values, and a variable has at most 255 levels: group rare "
        "ones into one, or leave the column out"
    )


def test_as_many_levels_as_possible_and_missing() -> None:
    array = np.append(np.arange(255.0), np.nan)[:, None]
    table = open_table(array)
    rows = encode(table, infer_codebook(table))
    np.testing.assert_array_equal(rows.codes[:, 0], np.arange(256))


def test_very_many_texts_are_counted() -> None:
    with pytest.raises(DataError, match="5,000 distinct"):
        infer_codebook(open_table(pd.DataFrame({"id": [f"p{at}" for at in range(5000)]})))


@pytest.mark.parametrize(
    "source",
    [np.array([[np.nan, 1]] * 2), [[None, 1], ["", 2]], pd.DataFrame({"x0": [None, None]})],
)
def test_a_column_entirely_missing_has_no_levels(source: Any) -> None:
    with pytest.raises(DataError, match="column 'x0' has no entries, all are missing"):
        infer_codebook(open_table(source))


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


# And back


@settings(deadline=None, max_examples=60)
@given(tables())
def test_decoding_gives_the_entries_back(table: dict[str, list[Any]]) -> None:
    codebook = slow_codebook(table)
    values = decode(slow_levels(table, codebook), codebook)
    assert values.T.tolist() == list(table.values())


def test_type_of_decoded_values() -> None:
    numbers = np.array([[0, 1], [1, 0]], dtype=np.uint8)
    assert decode(numbers, book(a=[3, 5], b=[0, 1])).dtype == np.int64
    assert decode(numbers, book(a=[False, True], b=[True, False])).dtype == np.bool_
    assert decode(numbers, book(a=[0, 1], b=[True, False])).dtype == object
    assert decode(numbers, book(a=["x", "y"], b=["x", "y"])).tolist() == [["x", "y"], ["y", "x"]]
    assert decode(numbers + 1, book(a=[3, 5], b=[0, 1, 2])).tolist() == [[5, 2], [None, 1]]
    with pytest.raises(ValueError, match="2 columns"):
        decode(numbers[:, :1], book(a=[0], b=[0]))


def test_a_file_of_one_column_named_in_messages(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"v\n{SECRET}\n")
    assert refusal(path, book(v=["a"])).startswith(f"file '{path}': entries that are not among")
