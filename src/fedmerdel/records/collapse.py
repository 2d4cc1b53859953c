"""Identical rows become one row with a weight."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedmerdel.compiled import kernel
from fedmerdel.records.packing import PackedRows

WORTH_SHARE = 0.8
"""The rows stay as they are if more are distinct than this share of their weight.

What joining saves on either side of it is in `benchmarks.reading`."""

_SEED = np.uint64(0xCBF29CE484222325)
_PRIME = np.uint64(0x100000001B3)
_MIX = np.uint64(0xFF51AFD7ED558CCD)
_HALF = np.uint64(33)


def collapse(rows: PackedRows) -> tuple[PackedRows, NDArray[np.int64] | None]:
    """Let identical rows become one row that has the sum of their weights.

    Nothing is done where it would save little: if more than `WORTH_SHARE` of all rows are
    distinct. That depends on the data alone, so the same table always gives the same rows.
    A row of weight three counts as three rows here, so that a table with weights becomes
    what the same table with its rows repeated does.

    Parameters
    ----------
    rows : PackedRows
        From `encode`.

    Returns
    -------
    collapsed : PackedRows
        Distinct rows in the order in which they first appear; or `rows`.
    index : int64 array (N,) or None
        Row of `collapsed` that each row became; None if nothing was done.
    """
    index, firsts = find_distinct(rows.codes)
    # Weights that add up to less than the rows would make every row look distinct.
    if len(firsts) > WORTH_SHARE * max(float(rows.weights.sum()), float(rows.n_rows)):
        return rows, None
    weights = np.bincount(index, rows.weights, len(firsts)).astype(np.float64, copy=False)
    return PackedRows(rows.codes[firsts], weights, rows.packing), index


def find_distinct(codes: NDArray[np.uint8]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Give the distinct rows numbers in order of appearance.

    Returns
    -------
    index : int64 array (N,)
        Number of each row's distinct row.
    firsts : int64 array (D,)
        The row at which each distinct row first appears.
    """
    n_rows = len(codes)
    index = np.empty(n_rows, dtype=np.int64)
    firsts = np.empty(n_rows, dtype=np.int64)
    # At most half full: chains of occupied slots stay short.
    slots = np.full(2 ** int(2 * n_rows - 1).bit_length(), -1, dtype=np.int64)
    n_distinct = fill_slots(np.ascontiguousarray(codes), slots, index, firsts)
    return index, firsts[:n_distinct].copy()


@kernel
def fill_slots(
    codes: NDArray[np.uint8],
    slots: NDArray[np.int64],
    index: NDArray[np.int64],
    firsts: NDArray[np.int64],
) -> int:
    """Look up each row in a hash table with open addressing; return the distinct rows.

    Rows are compared byte by byte, so that equal hashes never make two rows one.
    """
    n_rows, n_codes = codes.shape
    mask = len(slots) - 1
    # Apart from the look-ups, which then wait for memory together and not one by one.
    for i in range(n_rows):
        hashed = _SEED
        for g in range(n_codes):
            hashed = (hashed ^ np.uint64(codes[i, g])) * _PRIME
        # The last bytes have only moved the low bits, and the mask takes no others.
        hashed = (hashed ^ (hashed >> _HALF)) * _MIX
        index[i] = np.int64(hashed >> _HALF) & mask
    n_distinct = 0
    for i in range(n_rows):
        slot = index[i]
        while True:
            found = slots[slot]
            if found < 0:
                slots[slot] = n_distinct
                firsts[n_distinct] = i
                index[i] = n_distinct
                n_distinct += 1
                break
            first = firsts[found]
            same = True
            for g in range(n_codes):
                if codes[first, g] != codes[i, g]:
                    same = False
                    break
            if same:
                index[i] = found
                break
            slot = (slot + 1) & mask
    return n_distinct
