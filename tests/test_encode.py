"""Codes of tables of every kind against a slow oracle, and back."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import csv, parquet

from fedmerdel.errors import DataError
from fedmerdel.records import (
    decode,
    encode,
    infer_codebook,
    open_table,
    scan,
)
from tests.encoding import book, slow_codebook, slow_levels, tables, unpack

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


@pytest.mark.parametrize("frame", [False, True])
def test_many_blocks(frame: bool) -> None:
    rng = np.random.default_rng(3)
    array = rng.integers(0, 4, size=(20_001, 70)).astype(float)
    array[rng.random(array.shape) < 0.05] = np.nan
    source = pl.DataFrame(array, nan_to_null=True) if frame else array
    table = open_table(source)
    assert table.n_rows * table.n_columns > 2 * scan.BLOCK
    rows = encode(table, infer_codebook(table))
    np.testing.assert_array_equal(unpack(rows), np.where(np.isnan(array), 4, array))


@pytest.mark.parametrize(
    "numbers",
    [np.arange(-128, 128, dtype=np.int8), np.arange(256, dtype=np.uint8), np.arange(1850, 2176)],
    ids=["signed bytes", "bytes", "years"],
)
def test_bytes_and_years_have_positions_of_their_own(numbers: np.ndarray) -> None:
    presence = open_table(numbers[:, None]).presence
    assert not presence.beyond.any()
    np.testing.assert_array_equal(presence.numbers(0), numbers)


def test_whole_numbers_past_the_precision_of_floats() -> None:
    snomed = np.array([[999000011000001104], [999000011000001105], [5]])
    table = open_table(snomed)
    codebook = infer_codebook(table)
    assert codebook.variables[0].values == (5, 999000011000001104, 999000011000001105)
    np.testing.assert_array_equal(unpack(encode(table, codebook))[:, 0], [1, 2, 0])
    limits = open_table(np.array([[2**63 - 1], [-(2**63)], [0]]))
    np.testing.assert_array_equal(unpack(encode(limits, infer_codebook(limits)))[:, 0], [2, 0, 1])


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
