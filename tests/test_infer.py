"""The codebook that a table gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedmerdel.errors import ConstantColumnWarning, DataError
from fedmerdel.records import (
    encode,
    infer_codebook,
    open_table,
)
from tests.encoding import SECRET, unpack


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
