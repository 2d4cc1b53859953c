"""Packed codes: several variables in one byte (mixed-radix digits).

A variable with ``L`` levels is one digit of radix ``L``, or ``L + 1`` where its
column has missing values; digit ``L`` is then "missing". Digits are packed into
codes of at most 256 states, so that one look-up serves eight binary variables.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedmerdel.study.codebook import MAX_LEVELS

MAX_STATES = MAX_LEVELS + 1
"""States of one code: what a byte can hold."""

FEW_ROWS = 8192
"""Tables with fewer rows than this are packed into smaller codes; see `benchmarks.reading`."""

FEW_STATES = 16
"""States of a code for few rows: four binary variables; see `benchmarks.reading`."""


class Packing(NamedTuple):
    """Where each variable's digit sits in the packed codes.

    Attributes
    ----------
    n_levels : int64 array (P,)
        Levels of each variable, missing not counted.
    radix : int64 array (P,)
        States of each digit: ``n_levels``, plus one where missing values occur.
    code : int64 array (P,)
        The code that holds each variable.
    stride : int64 array (P,)
        The digit's place value: ``digit = (code // stride) % radix``.
    n_states : int64 array (G,)
        States of each code, the product of its radices.
    state_offsets : int64 array (G + 1,)
        First row of each code in a table stacked over all codes, and the end.
    level_offsets : int64 array (P + 1,)
        First level of each variable in an array over all levels, and the end.
    by_stride : int64 array (P,)
        The variables, those with the lowest place in their code first.
    """

    n_levels: NDArray[np.int64]
    radix: NDArray[np.int64]
    code: NDArray[np.int64]
    stride: NDArray[np.int64]
    n_states: NDArray[np.int64]
    state_offsets: NDArray[np.int64]
    level_offsets: NDArray[np.int64]
    by_stride: NDArray[np.int64]

    @property
    def n_codes(self) -> int:
        """Bytes per row."""
        return len(self.n_states)


class PackedRows(NamedTuple):
    """A table as the kernels read it. Rows: never leave their site.

    Attributes
    ----------
    codes : uint8 array (N, G), C-contiguous
        Packed codes of each row.
    weights : float64 array (N,)
        Weight of each row, at least 0.
    packing : Packing
        How to read the codes.
    """

    codes: NDArray[np.uint8]
    weights: NDArray[np.float64]
    packing: Packing

    @property
    def n_rows(self) -> int:
        """Rows held, whatever their weights."""
        return len(self.codes)

    def take(self, rows: NDArray[np.int64]) -> PackedRows:
        """Return these rows alone, with their weights."""
        return PackedRows(self.codes[rows], self.weights[rows], self.packing)


def plan_packing(
    n_levels: NDArray[np.int64],
    has_missing: NDArray[np.bool_],
    max_states: int = MAX_STATES,
) -> Packing:
    """Pack the digits first-fit, largest radix first (ties in column order).

    First-fit decreasing keeps the number of codes, and so the cost of a pass,
    within a fifth or so of the best packing; equal radices stay in column order.
    """
    radix = n_levels + has_missing
    if np.any(radix > MAX_STATES):
        raise ValueError(f"a digit has at most {MAX_STATES} states")
    code = np.zeros(len(radix), dtype=np.int64)
    stride = np.ones(len(radix), dtype=np.int64)
    n_states: list[int] = []
    for j in np.argsort(-radix, kind="stable"):
        fits = (g for g, s in enumerate(n_states) if s * radix[j] <= max_states)
        g = next(fits, len(n_states))
        if g == len(n_states):
            n_states.append(1)
        code[j], stride[j] = g, n_states[g]
        n_states[g] *= int(radix[j])
    return Packing(
        np.asarray(n_levels, dtype=np.int64),
        np.asarray(radix, dtype=np.int64),
        code,
        stride,
        np.asarray(n_states, dtype=np.int64),
        state_offsets=np.concatenate(([0], np.cumsum(n_states))).astype(np.int64),
        level_offsets=np.concatenate(([0], np.cumsum(n_levels))).astype(np.int64),
        by_stride=np.argsort(stride, kind="stable"),
    )


def states_that_pay(n_rows: int) -> int:
    """Return how many states a code should have for a table of this many rows.

    A pass fills and reads back a table of all states. For few rows that costs more
    than the look-ups which large codes save.
    """
    return MAX_STATES if n_rows >= FEW_ROWS else FEW_STATES


def repack(rows: PackedRows) -> PackedRows:
    """Return the rows in codes of the size that pays for their number."""
    old = rows.packing
    new = plan_packing(old.n_levels, old.radix > old.n_levels, states_that_pay(rows.n_rows))
    if new.n_codes == old.n_codes:
        return rows
    codes = np.zeros((rows.n_rows, new.n_codes), dtype=np.uint8)
    for j in range(len(old.radix)):
        digit = rows.codes[:, old.code[j]] // old.stride[j] % old.radix[j]
        codes[:, new.code[j]] += (digit * new.stride[j]).astype(np.uint8)
    return PackedRows(codes, rows.weights, new)


def pack_levels(levels: NDArray[np.int64], packing: Packing) -> PackedRows:
    """Return rows of weight 1 from level numbers, -1 where an entry is missing: (N, P)."""
    digits = np.where(levels < 0, packing.n_levels, levels) * packing.stride
    codes = np.zeros((len(levels), packing.n_codes), dtype=np.uint8)
    for j, g in enumerate(packing.code):
        codes[:, g] += digits[:, j].astype(np.uint8)
    return PackedRows(codes, np.ones(len(levels)), packing)


def unpack_levels(rows: PackedRows) -> NDArray[np.int64]:
    """Return the level numbers of rows, -1 where an entry is missing: (N, P)."""
    packing = rows.packing
    codes = rows.codes[:, packing.code].astype(np.int64)
    levels = codes // packing.stride % packing.radix
    return np.where(levels == packing.n_levels, -1, levels)
