"""From numbers for each level to tables over code states, and from counts over states to S."""

from __future__ import annotations

import numpy as np

from fedmerdel.compiled import kernel
from fedmerdel.records.packing import Packing
from fedmerdel.sums.arrays import FloatArray, IntArray


def build_table(constant: FloatArray, by_level: FloatArray, packing: Packing) -> FloatArray:
    """Return the table (states of all codes, K) whose rows add up to a linear function of a row.

    ``constant[k] + sum_j by_level[k, j x_nj]``: ``ln rho`` for expectations, the log odds of the
    first half for cuts. The constant rides on the first code: every row reads exactly one of
    its states.
    """
    base = packing.state_offsets
    table = np.empty((base[-1], len(constant)))
    table[base[0]] = constant
    table[base[1:-1]] = 0.0
    _fill_table(
        np.ascontiguousarray(by_level.T),
        packing.level_offsets,
        packing.n_levels,
        packing.radix,
        packing.code,
        packing.stride,
        base,
        packing.by_stride,
        table,
    )
    return table


def decode_counts(counts: FloatArray, packing: Packing) -> FloatArray:
    """Return S (K, M) from the counts over states. ``counts`` is used up on the way."""
    S = np.zeros((packing.level_offsets[-1], counts.shape[1]))
    _fold_counts(
        counts,
        packing.level_offsets,
        packing.n_levels,
        packing.radix,
        packing.code,
        packing.stride,
        packing.state_offsets,
        packing.by_stride[::-1].copy(),
        S,
    )
    return np.ascontiguousarray(S.T)


@kernel
def _fill_table(
    levels: FloatArray,
    first_level: IntArray,
    n_levels: IntArray,
    radix: IntArray,
    code: IntArray,
    stride: IntArray,
    base: IntArray,
    order: IntArray,
    table: FloatArray,
) -> None:
    """Add one digit at a time, the lowest of each code first; missing adds 0.

    The states of the digits added so far are the first ``stride`` of the code. Each
    level of the next digit is a copy of them with its expectation added; level 0 goes
    last, since it takes their place.
    """
    for j in order:
        for digit in range(radix[j] - 1, -1, -1):
            for s in range(stride[j]):
                done = table[base[code[j]] + s]
                row = table[base[code[j]] + digit * stride[j] + s]
                if digit < n_levels[j]:
                    level = levels[first_level[j] + digit]
                    for k in range(table.shape[1]):
                        row[k] = done[k] + level[k]
                else:
                    for k in range(table.shape[1]):
                        row[k] = done[k]


@kernel
def _fold_counts(
    counts: FloatArray,
    first_level: IntArray,
    n_levels: IntArray,
    radix: IntArray,
    code: IntArray,
    stride: IntArray,
    base: IntArray,
    order: IntArray,
    S: FloatArray,
) -> None:
    """Sum out one digit at a time, the highest of each code first.

    Once the highest digit's levels are read off, the states that differ in it alone
    are added together and the next digit is the highest: each code's table shrinks
    by its radix, so that all digits together cost little more than the first.
    """
    n_clusters = counts.shape[1]
    for j in order:
        for digit in range(radix[j]):
            for s in range(stride[j]):
                row = counts[base[code[j]] + digit * stride[j] + s]
                if digit < n_levels[j]:
                    total = S[first_level[j] + digit]
                    for k in range(n_clusters):
                        total[k] += row[k]
                if digit > 0:
                    rest = counts[base[code[j]] + s]
                    for k in range(n_clusters):
                        rest[k] += row[k]
