"""Stretches of two steps: where a geometric series ends, and what never happens."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedmerdel.sums.stretch import GROWTH, KEPT, next_longest, stretched
from tests.drawn import seeds

ONE = np.ones(1)


@pytest.mark.parametrize("ratio", [0.5, 0.9, 0.99])
def test_a_geometric_series_is_followed_to_its_end(ratio: float) -> None:
    end, off = np.array([3.0, 5.0, 2.0]), np.array([1.0, -2.0, 0.5])
    points = [end + off * ratio**n for n in range(3)]
    x, length = stretched(*points, ONE, 1e9)
    assert length == pytest.approx(1 / (1 - ratio))
    np.testing.assert_allclose(x, end, rtol=1e-9)


def test_a_stretch_of_length_one_is_the_third_point() -> None:
    rng = np.random.default_rng(0)
    points = rng.uniform(0.5, 2.0, (3, 7))
    x, length = stretched(*points, ONE, 1.0)
    assert length == 1.0
    np.testing.assert_allclose(x, points[2])


@settings(max_examples=60, deadline=None)
@given(seeds, st.floats(1.0, 1e6))
def test_nothing_falls_to_zero_and_no_stretch_is_too_long(seed: int, longest: float) -> None:
    points = np.random.default_rng(seed).gamma(0.3, size=(3, 9))
    x, length = stretched(*points, ONE, longest)
    assert 1.0 <= length <= longest
    assert np.all(x >= KEPT * points[2])
    assert np.isfinite(x).all()


def test_points_that_do_not_move_stay() -> None:
    still = np.array([1.0, 2.0])
    x, length = stretched(still, still, still, ONE, 8.0)
    np.testing.assert_array_equal(x, still)
    assert length == 1.0


def test_weights_say_what_counts() -> None:
    """The second number shrinks slowly; where it does not count, the first alone tells."""
    points = [np.array([4.0 + 0.5**n, 4.0 + 0.99**n]) for n in range(3)]
    slow, quick = (
        stretched(*points, np.array(weight), 1e9).length for weight in ([0.0, 1.0], [1.0, 0.0])
    )
    assert slow == pytest.approx(100.0)
    assert quick == pytest.approx(2.0)


def test_how_long_the_next_may_be() -> None:
    assert next_longest(8.0, 8.0, went_well=True) == 8.0 * GROWTH
    assert next_longest(8.0, 3.0, went_well=True) == 8.0
    assert next_longest(8.0, 6.0, went_well=False) == 6.0 / GROWTH
    assert next_longest(8.0, 1.0, went_well=False) >= 1.0
