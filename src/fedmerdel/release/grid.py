"""A sheet of numbers with names beside them, as CSV text, and back to the last bit."""

from __future__ import annotations

import csv
import io
import re
from array import array
from collections.abc import Iterable

import numpy as np

from fedmerdel.bundles import damaged
from fedmerdel.errors import FileError
from fedmerdel.sums.arrays import FloatArray
from fedmerdel.texts import LARGEST, TextError, sheet_rows

MOST_ROWS = 250_000
"""Rows of a sheet: one for each level of each variable, and few more."""

MOST_NUMBERS = 4_000_000
"""Numbers of a sheet: two hundred clusters of twenty thousand levels."""

# float() alone takes "1_000" and digits of other scripts.
NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?")

FORMULA = re.compile(r"'*([=@\t\r]|[-+].)", re.DOTALL)
"""How cells begin that spreadsheets compute; a sign alone is none."""


def number_text(number: float) -> str:
    """Return a whole number plainly, and any other so that it reads back to the last bit."""
    plain = float(number).is_integer() and abs(number) < 2**53
    if plain and not (number == 0 and np.signbit(number)):
        return str(int(number))
    return repr(float(number))


def defused(cell: str) -> str:
    """Return a cell so that no spreadsheet takes it for a formula: with an apostrophe before it."""
    return f"'{cell}" if _is_formula(cell) else cell


def restored(cell: str) -> str:
    """Return what `defused` was given."""
    return cell[1:] if cell.startswith("'") and _is_formula(cell[1:]) else cell


def _is_formula(cell: str) -> bool:
    # One that has an apostrophe already gets another, so that it is known on the way back.
    return bool(FORMULA.match(cell)) and not NUMBER.fullmatch(cell)


def write_grid(header: list[str], rows: Iterable[list[str]]) -> str:
    """Return a sheet as text."""
    file = io.StringIO()
    # The line ends of RFC 4180; with these, texts that hold either sign are quoted.
    writer = csv.writer(file, lineterminator="\r\n")
    writer.writerow(header)  # our own words
    writer.writerows(map(defused, row) for row in rows)
    return file.getvalue()


def read_grid(
    file: str, data: bytes, labels: list[str], columns: list[str]
) -> tuple[list[list[str]], FloatArray]:
    """Return the label columns of a sheet, and its numbers.

    Rows are read one by one, so that no more is held of a sheet than its numbers and labels.
    """
    names: list[list[str]] = []
    numbers = array("d")
    header = labels + columns
    try:
        for at, row in enumerate(sheet_rows(data), start=1):
            if at == 1 and row != header:
                raise FileError(
                    f"file {file!r}: its columns must be {', '.join(labels + columns[:3])} and so "
                    f"on, {len(header)} in all"
                )
            if at == 1:
                continue
            if at > MOST_ROWS or len(numbers) > MOST_NUMBERS:
                raise TextError("it holds too much")
            if len(row) != len(header) or not all(map(NUMBER.fullmatch, row[len(labels) :])):
                raise FileError(f"file {file!r}, row {at}: expected {len(columns)} numbers")
            names.append([*map(restored, row[: len(labels)])])
            numbers.extend(map(float, row[len(labels) :]))
    except TextError as why:
        raise FileError(damaged(file, str(why))) from None
    if not names:
        raise FileError(f"file {file!r} has no rows: copy it again")
    found = np.array(numbers).reshape(len(names), len(columns))
    if not (np.abs(found) <= LARGEST).all():
        raise FileError(f"file {file!r} has a number too large to be one: copy it again")
    return names, found


def check_names(file: str, found: list[list[str]], expected: list[list[str]]) -> None:
    """Refuse other names beside the numbers than those of the codebook."""
    if found != expected:
        raise FileError(
            f"file {file!r}: its rows are not those of the codebook, in order: copy it again"
        )
