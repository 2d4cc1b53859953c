"""The best of all pairs while pairs are merged, against looking through all of them each time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedmerdel.sums.pairs import NEVER, Pairs
from tests.drawn import seeds


def drawn_gains(n: int, kinds: int, forbidden: float, rng: np.random.Generator) -> np.ndarray:
    """Few kinds of gains: many pairs are as good as each other."""
    gains = np.tril(rng.integers(-kinds, kinds + 1, (n, n)), k=-1).astype(float)
    gains[rng.random((n, n)) < forbidden] = NEVER
    gains[np.triu_indices(n)] = NEVER
    return np.maximum(gains, gains.T)


def slow_best(gains: np.ndarray) -> tuple[int, int, float]:
    a, b = np.unravel_index(gains.argmax(), gains.shape)
    return int(a), int(b), float(gains[a, b])


@settings(max_examples=200, deadline=None)
@given(
    n=st.integers(2, 14),
    kinds=st.sampled_from([1, 3, 1000]),
    forbidden=st.sampled_from([0.0, 0.3, 0.9]),
    seed=seeds,
)
def test_the_best_pair_is_the_first_of_the_greatest_gains(
    n: int, kinds: int, forbidden: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    gains = drawn_gains(n, kinds, forbidden, rng)
    pairs = Pairs(gains.copy())
    while gains.max() > NEVER:
        a, b, gain = pairs.best()
        assert (a, b, gain) == slow_best(gains)
        assert a < b
        both = [c for c in range(n) if gains[a, c] > NEVER and gains[b, c] > NEVER]
        assert pairs.with_both(a, b).tolist() == both
        fresh = rng.integers(-kinds, kinds + 1, len(both)).astype(float)
        gains[[a, b]] = NEVER
        gains[:, [a, b]] = NEVER
        gains[a, both] = gains[both, a] = fresh
        pairs.merge(a, b, np.array(both, dtype=np.int64), fresh)
    assert pairs.best()[2] == NEVER


@pytest.mark.parametrize("n", [1, 3])
def test_where_no_pair_may_be_merged_none_is_the_best(n: int) -> None:
    assert Pairs(np.full((n, n), NEVER)).best()[2] == NEVER
