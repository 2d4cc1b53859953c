from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedmerdel.records import PackedRows, collapse, plan_packing
from fedmerdel.records.collapse import find_distinct
from fedmerdel.records.packing import FEW_STATES, MAX_STATES, repack


@given(
    st.lists(st.tuples(st.integers(1, 255), st.booleans()), min_size=1, max_size=40),
    st.sampled_from([256, 16]),
)
def test_digits_do_not_overlap(columns: list[tuple[int, bool]], max_states: int) -> None:
    n_levels = np.array([levels for levels, _ in columns])
    has_missing = np.array([missing for _, missing in columns])
    packing = plan_packing(n_levels, has_missing, max_states)
    np.testing.assert_array_equal(packing.radix, n_levels + has_missing)
    for g in range(packing.n_codes):
        members = np.flatnonzero(packing.code == g)
        members = members[np.argsort(packing.stride[members], kind="stable")]
        states = 1
        for j in sorted(members, key=lambda j: (packing.stride[j], packing.radix[j])):
            assert packing.stride[j] == states
            states *= packing.radix[j]
        assert packing.n_states[g] == states <= max(max_states, packing.radix[members].max())
    assert packing.state_offsets[-1] == packing.n_states.sum()
    assert packing.level_offsets[-1] == n_levels.sum()


def test_eight_binary_or_five_ternary_variables_share_a_byte() -> None:
    binary = plan_packing(np.full(24, 2), np.zeros(24, dtype=bool))
    ternary = plan_packing(np.full(10, 2), np.ones(10, dtype=bool))
    assert (binary.n_codes, ternary.n_codes) == (3, 2)


def test_too_many_states_are_refused() -> None:
    with pytest.raises(ValueError, match="at most 256"):
        plan_packing(np.array([MAX_STATES]), np.array([True]))


def test_repacked_rows_have_the_same_digits() -> None:
    rng = np.random.default_rng(2)
    n_levels = np.array([2, 3, 40, 2, 2, 2, 5, 255, 2])
    packing = plan_packing(n_levels, np.arange(9) % 2 == 0)
    digits = rng.integers(0, packing.radix, size=(50, 9))
    codes = np.zeros((50, packing.n_codes), dtype=np.uint8)
    for j in range(9):
        codes[:, packing.code[j]] += (digits[:, j] * packing.stride[j]).astype(np.uint8)
    small = repack(PackedRows(codes, np.ones(50), packing))
    assert small.packing.n_codes > packing.n_codes
    assert sorted(small.packing.n_states)[-3] <= FEW_STATES  # the 40 and 255 levels are alone
    for j in range(9):
        own = small.codes[:, small.packing.code[j]].astype(int)
        np.testing.assert_array_equal(
            own // small.packing.stride[j] % small.packing.radix[j], digits[:, j]
        )


def rows_of(codes: np.ndarray, weights: np.ndarray) -> PackedRows:
    n_levels = np.full(codes.shape[1], 200)
    return PackedRows(codes, weights, plan_packing(n_levels, np.zeros(len(n_levels), dtype=bool)))


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 4).flatmap(
        lambda n_codes: arrays(
            np.uint8, st.tuples(st.integers(1, 60), st.just(n_codes)), elements=st.integers(0, 3)
        )
    )
)
def test_distinct_rows_as_numpy_finds_them(codes: np.ndarray) -> None:
    index, firsts = find_distinct(codes)
    _, expected_firsts = np.unique(codes, axis=0, return_index=True)
    np.testing.assert_array_equal(firsts, np.sort(expected_firsts))
    np.testing.assert_array_equal(codes[firsts][index], codes)


def test_collapsed_rows_carry_the_sum_of_the_weights() -> None:
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 6, size=(30_000, 3), dtype=np.uint8)
    weights = rng.integers(0, 5, size=len(codes)).astype(float)
    rows = rows_of(codes, weights)
    collapsed, index = collapse(rows)
    assert index is not None
    distinct, inverse = np.unique(codes, axis=0, return_inverse=True)
    assert collapsed.n_rows == len(distinct)
    np.testing.assert_array_equal(collapsed.codes[index], codes)
    order = np.lexsort(collapsed.codes.T[::-1])
    np.testing.assert_array_equal(collapsed.codes[order], distinct)
    np.testing.assert_array_equal(collapsed.weights[order], np.bincount(inverse.ravel(), weights))
    assert collapsed.codes.flags.c_contiguous
    assert collapsed.packing is rows.packing


@pytest.mark.parametrize("repeated", [False, True])
def test_rows_are_joined_if_at_most_four_fifths_are_distinct(repeated: bool) -> None:
    for n_distinct, joined in ((80, True), (81, False), (100, False)):
        codes = np.arange(n_distinct, dtype=np.uint8)[:, None]
        times = np.ones(n_distinct, dtype=np.int64)
        times[3] += 100 - n_distinct
        rows = rows_of(codes, times.astype(float))
        if repeated:
            rows = rows_of(np.repeat(codes, times, axis=0), np.ones(100))
        collapsed, index = collapse(rows)
        assert (index is not None) == joined
        if joined:
            np.testing.assert_array_equal(collapsed.weights, times)
        else:
            assert collapsed is rows


def test_light_rows_count_as_rows() -> None:
    codes = np.arange(100, dtype=np.uint8)[:, None] % 80
    assert collapse(rows_of(codes, np.full(100, 0.1)))[0].n_rows == 80
