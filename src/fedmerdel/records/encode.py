"""Turn the entries of a table into packed codes, and level numbers back into values."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedmerdel.errors import DataError
from fedmerdel.records.columns import Column, Table
from fedmerdel.records.infer import check_numbers, infer_codebook, listing
from fedmerdel.records.missing import columns_with_missing
from fedmerdel.records.packing import PackedRows, Packing, plan_packing, states_that_pay
from fedmerdel.records.scan import BEYOND, HIGH, LOW, MISSING, N_POSITIONS, blocks, pack_block
from fedmerdel.records.weights import checked_weights
from fedmerdel.study.codebook import BOOLEANS, Codebook, Variable, level_number

__all__ = ["decode", "encode", "infer_codebook"]


def encode(
    table: Table,
    codebook: Codebook,
    sample_weight: Any = None,
    *,
    owner: str = "the codebook",
) -> PackedRows:
    """Pack the rows of a table.

    Columns of a frame or a file are matched by name, in any order; those of an array by
    position. How entries fit levels is said in `fedmerdel.study.codebook`.

    Parameters
    ----------
    table : Table
        From `open_table`.
    codebook : Codebook
        The variables and their levels.
    sample_weight : array of shape (N,), number or None
        Weight of each row, finite and at least 0; 1 if None.
    owner : str
        Who expects these columns, for the message about their number.

    Returns
    -------
    PackedRows
        Variables in the order of the codebook. Missing entries have the level that the
        variable has for them, or else a digit of their own, which a variable has only if
        entries of its column are missing.

    Raises
    ------
    DataError
        If columns are missing or unknown, an entry is none of the levels, or the
        weights can't be used.
    """
    sources = _match_columns(table, codebook, owner)
    columns = [table.columns[at] for at in sources]
    weights = checked_weights(sample_weight, table.n_rows)
    if any(column.may_miss for column in table.columns):
        check_numbers(table)
    leveled = np.array([variable.missing_level for variable in codebook.variables])
    has_missing = columns_with_missing(table)[sources] & ~leveled
    packing = plan_packing(codebook.n_levels, has_missing, states_that_pay(table.n_rows))
    codes = np.empty((table.n_rows, packing.n_codes), dtype=np.uint8)

    # Per column of the table, as the blocks have them; the codebook's order may be another.
    code = np.empty(len(columns), dtype=np.int64)
    digits = np.full((len(columns), N_POSITIONS), -1, dtype=np.int16)
    distant: dict[int, NDArray[np.int64]] = {}
    for j, at in enumerate(sources):
        code[at] = packing.code[j]
        ranked = _place_levels(digits[at], columns[j], codebook.variables[j], packing, j)
        if ranked is not None:
            distant[int(at)] = ranked

    unknown = np.zeros(len(columns), dtype=np.bool_)
    for start, block in blocks(table.fill, table.n_rows, table.n_columns):
        for at, numbers in distant.items():
            _place_distant(block[:, at], table.columns[at], start, numbers)
        pack_block(block, code, digits, codes[start : start + len(block)], unknown)
    if unknown.any():
        names = [table.names[at] for at in np.flatnonzero(unknown)]
        raise DataError(
            f"{table.prefix}entries that are not among the levels of {owner} in "
            f"{listing(names)}: set those entries to missing, or list the level in the codebook"
        )
    return PackedRows(codes, weights, packing)


def decode(level_numbers: NDArray[Any], codebook: Codebook) -> NDArray[Any]:
    """Turn level numbers into values.

    Parameters
    ----------
    level_numbers : integer array (N, P)
        Number of each entry's level; the number of observed levels stands for missing.
    codebook : Codebook
        The variables and their levels.

    Returns
    -------
    array (N, P)
        int64 if all variables are integer, bool if all are boolean. Otherwise, or if
        anything is missing, an object array, in which missing is None.
    """
    level_numbers = np.asarray(level_numbers)
    if level_numbers.ndim != 2 or level_numbers.shape[1] != len(codebook.variables):
        raise ValueError(f"expected an array of {len(codebook.variables)} columns")
    kinds = {variable.kind for variable in codebook.variables}
    dtype: type[Any] = object
    observed = np.array([len(variable.observed) for variable in codebook.variables])
    if len(kinds) == 1 and not np.any(level_numbers == observed):
        dtype = {"integer": np.int64, "boolean": np.bool_, "text": object}[kinds.pop()]
    values = np.empty(level_numbers.shape, dtype=dtype)
    for j, variable in enumerate(codebook.variables):
        known: list[Any] = [*variable.values, None] if dtype is object else [*variable.values]
        values[:, j] = np.array(known, dtype=dtype)[level_numbers[:, j]]
    return values


def _match_columns(table: Table, codebook: Codebook, owner: str) -> NDArray[np.int64]:
    """Return the table's column of each variable."""
    n_variables = len(codebook.variables)
    if not table.named:
        if table.n_columns != n_variables:
            raise DataError(
                f"X has {table.n_columns} features, but {owner} is expecting {n_variables} "
                "features as input"
            )
        return np.arange(n_variables)
    position = {name: at for at, name in enumerate(table.names)}
    lacking = [name for name in codebook.names if name not in position]
    known = set(codebook.names)
    extra = [name for name in table.names if name not in known]
    if lacking:
        also = f"; it has {listing(extra)} instead" if extra else ""
        raise DataError(
            f"{table.prefix}the table lacks {listing(lacking)} of {owner}{also}: "
            "add or rename (all missing is possible too)"
        )
    if extra:
        raise DataError(
            f"{table.prefix}the table has {listing(extra)} unknown to {owner}: drop them from "
            "the table, or add them to the codebook"
        )
    return np.array([position[name] for name in codebook.names], dtype=np.int64)


def _place_levels(
    digits: NDArray[np.int16], column: Column, variable: Variable, packing: Packing, j: int
) -> NDArray[np.int64] | None:
    """Write digit times stride at the position of each level.

    Returns None, or the ascending numbers whose ranks are to be taken as positions, where
    levels are too far apart to have positions of their own.
    """
    stride = packing.stride[j]
    if variable.missing_level or packing.radix[j] > packing.n_levels[j]:
        digits[MISSING] = len(variable.observed) * stride
    if column.labels is not None:
        for at, label in enumerate(column.labels):
            level = variable.find(label)
            if level is not None and at <= HIGH:
                digits[at - LOW] = level * stride
        return None
    levels = _numbered_levels(variable, column.boolean)
    if all(LOW <= number <= HIGH for number in levels):
        for number, level in levels.items():
            digits[number - LOW] = level * stride
        return None
    ranked = sorted(levels)
    for rank, number in enumerate(ranked):
        digits[rank] = levels[number] * stride
    return np.array(ranked, dtype=np.int64)


def _numbered_levels(variable: Variable, boolean: bool) -> dict[int, int]:
    """Level of each number that a column of numbers, or of booleans, may hold."""
    if boolean:
        found = ((number, variable.find(bool(number))) for number in (0, 1))
        return {number: level for number, level in found if level is not None}
    levels = {}
    for level, text in enumerate(variable.observed):
        number = level_number(text)
        if number is None and variable.kind == "boolean":
            number = int(BOOLEANS[text])
        if number is not None:
            levels[number] = level
    return levels


def _place_distant(
    out: NDArray[np.uint16], column: Column, start: int, ranked: NDArray[np.int64]
) -> None:
    """Replace positions by ranks among given numbers; what is none of them is beyond."""
    present = out != MISSING
    numbers = column.numbers[start : start + len(out)][present].astype(np.int64)
    ranks = np.searchsorted(ranked, numbers)
    known = ranked[np.minimum(ranks, len(ranked) - 1)] == numbers
    out[present] = np.where(known, ranks, BEYOND)
