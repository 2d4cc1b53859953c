"""Tables drawn at random, and a slow reader of them that says what their codes must be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from fedmerdel.errors import DataError
from fedmerdel.records import (
    PackedRows,
    encode,
    open_table,
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
