"""Passes over the rows, in blocks that stay in the cache.

Every entry, whatever its type, is first given a position: whole numbers from LOW to
HIGH by their value, the rest a position of their own past those. The kernels are then
plain look-ups for one type of block (uint16), so that little is compiled and no copy of
the table is ever made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedmerdel.compiled import kernel

LOW, HIGH = -128, 2175
"""Whole numbers with a position of their own: every byte, as `place` needs, ages and years."""

WINDOW = HIGH - LOW + 1
BEYOND, BROKEN, INFINITE, MISSING = WINDOW, WINDOW + 1, WINDOW + 2, WINDOW + 3
"""Positions of other whole numbers, numbers that are not whole, infinities, missing."""

N_POSITIONS = MISSING + 1

EXACT = 2.0**53
"""Whole floats past this can't be told from their neighbours: they count as not whole."""

BLOCK = 2**19
"""Cells of a block: they pay for some calls a column, and take little memory.

Measured in `benchmarks.reading`."""

Fill = Callable[[NDArray[np.uint16], int], None]
"""Writes positions of the rows from a given one on into a block (rows x columns)."""


class Presence(NamedTuple):
    """Which positions the entries of each column have, as one pass over the rows found.

    Attributes
    ----------
    present : bool array (P, N_POSITIONS)
        Positions that occur.
    """

    present: NDArray[np.bool_]

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Columns with missing entries."""
        return self.present[:, MISSING]

    @property
    def beyond(self) -> NDArray[np.bool_]:
        """Columns with whole numbers outside LOW to HIGH."""
        return self.present[:, BEYOND]

    @property
    def broken(self) -> NDArray[np.bool_]:
        """Columns with numbers that are not whole."""
        return self.present[:, BROKEN]

    @property
    def infinite(self) -> NDArray[np.bool_]:
        """Columns with infinities."""
        return self.present[:, INFINITE]

    def numbers(self, column: int) -> NDArray[np.int64]:
        """Whole numbers between LOW and HIGH that occur in a column, ascending."""
        return np.flatnonzero(self.present[column, :WINDOW]) + LOW


def place(numbers: NDArray[Any], out: NDArray[np.uint16]) -> None:
    """Write the position of each number of a block, or of a part of one column.

    Parameters
    ----------
    numbers : array of booleans, integers or floats
        NaN is missing.
    out : uint16 array of the same shape
        Written.
    """
    if numbers.dtype.kind == "f":
        buffer = np.empty(numbers.shape, dtype=np.float64)
        buffer[...] = numbers
        found = np.empty(numbers.shape, dtype=np.uint16)
        place_floats(buffer.reshape(-1), found.reshape(-1))
        out[...] = found
    elif numbers.dtype.itemsize == 1:
        np.subtract(numbers, np.int16(LOW), out=out, casting="unsafe")
    else:
        # Seen as unsigned, what lies below LOW is huge too: one comparison serves both ends.
        shifted = np.subtract(numbers, LOW, dtype=np.int64, casting="unsafe")
        np.minimum(shifted.view(np.uint64), np.uint64(BEYOND), out=out, casting="unsafe")


def blocks(fill: Fill, n_rows: int, n_columns: int) -> Iterator[tuple[int, NDArray[np.uint16]]]:
    """Yield the first row of each block, and the block in a buffer used over again."""
    height = max(1, min(n_rows, BLOCK // n_columns))
    buffer = np.empty((height, n_columns), dtype=np.uint16)
    for start in range(0, n_rows, height):
        block = buffer[: min(height, n_rows - start)]
        fill(block, start)
        yield start, block


def scan(fill: Fill, n_rows: int, n_columns: int) -> Presence:
    """Look at every entry once."""
    present = np.zeros((n_columns, N_POSITIONS), dtype=np.bool_)
    for _, block in blocks(fill, n_rows, n_columns):
        mark_positions(block, present)
    return Presence(present)


@kernel
def place_floats(numbers: NDArray[np.float64], out: NDArray[np.uint16]) -> None:
    """Write the position of each number; NaN is missing."""
    for i in range(len(numbers)):
        number = numbers[i]
        inside = number >= LOW and number <= HIGH
        whole = int(number if inside else 0.0)
        if inside and whole == number:
            out[i] = whole - LOW
        elif number != number:
            out[i] = MISSING
        elif np.isinf(number):
            out[i] = INFINITE
        elif number == np.floor(number) and abs(number) <= EXACT:
            out[i] = BEYOND
        else:
            out[i] = BROKEN


@kernel
def mark_positions(block: NDArray[np.uint16], present: NDArray[np.bool_]) -> None:
    """Set ``present[j, position]`` for every entry of a block."""
    n_rows, n_columns = block.shape
    for i in range(n_rows):
        for j in range(n_columns):
            present[j, block[i, j]] = True


@kernel
def pack_block(
    block: NDArray[np.uint16],
    code: NDArray[np.int64],
    digits: NDArray[np.int16],
    codes: NDArray[np.uint8],
    unknown: NDArray[np.bool_],
) -> None:
    """Add up, for each row, what its entries contribute to its codes.

    Parameters
    ----------
    block : uint16 array (n, P)
        Positions of the entries.
    code : int64 array (P,)
        The code that holds each variable.
    digits : int16 array (P, N_POSITIONS)
        Digit times stride of each position; -1 where it is no level.
    codes : uint8 array (n, G)
        Written.
    unknown : bool array (P,)
        Set where a column holds an entry that is no level.
    """
    n_rows, n_columns = block.shape
    codes[:] = 0
    for i in range(n_rows):
        for j in range(n_columns):
            digit = digits[j, block[i, j]]
            if digit < 0:
                unknown[j] = True
            codes[i, code[j]] += np.uint8(digit)
