"""A sheet of numbers with names beside them, as CSV text, and back to the last bit."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable

import numpy as np

from fedmerdel.errors import FileError
from fedmerdel.sums.arrays import FloatArray

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
    file: str, text: str, labels: list[str], columns: list[str]
) -> tuple[list[list[str]], FloatArray]:
    """Return the label columns of a sheet, and its numbers."""
    try:
        header, *rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    except (csv.Error, ValueError):
        raise FileError(f"file {file!r} is no table: copy it again") from None
    if header != labels + columns:
        raise FileError(
            f"file {file!r}: its columns must be {', '.join(labels + columns[:3])} and so on, "
            f"{len(labels + columns)} in all"
        )
    if not rows:
        raise FileError(f"file {file!r} has no rows: copy it again")
    for at, row in enumerate(rows, start=2):
        if len(row) != len(header) or not all(map(NUMBER.fullmatch, row[len(labels) :])):
            raise FileError(f"file {file!r}, row {at}: expected {len(columns)} numbers")
    numbers = np.array([row[len(labels) :] for row in rows]).astype(np.float64)
    if not np.isfinite(numbers).all():
        raise FileError(f"file {file!r} has a number too large to be one: copy it again")
    return [[*map(restored, row[: len(labels)])] for row in rows], numbers.reshape(
        len(rows), len(columns)
    )


def check_names(file: str, found: list[list[str]], expected: list[list[str]]) -> None:
    """Refuse other names beside the numbers than those of the codebook."""
    if found != expected:
        raise FileError(
            f"file {file!r}: its rows are not those of the codebook, in order: copy it again"
        )
