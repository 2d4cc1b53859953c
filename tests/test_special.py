from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import gammaln, polygamma, psi

from fedmerdel.sums.special import (
    ln_beta,
    ln_gamma,
    ln_gamma_in_place,
    ln_gamma_slopes,
    ln_in_place,
)

numbers = st.floats(1e-9, 1e9, allow_nan=False)


@settings(max_examples=500, deadline=None)
@given(x=numbers)
def test_ln_gamma(x: float) -> None:
    np.testing.assert_allclose(ln_gamma(x), gammaln(x), rtol=2e-14, atol=2e-14)


# Vector code takes several numbers at a time: as many as that, and any others.
rows = st.one_of(st.lists(numbers, min_size=1, max_size=40), st.lists(numbers, min_size=8))


@settings(max_examples=200, deadline=None)
@given(drawn=st.lists(st.floats(1e-300, 1e300), min_size=1, max_size=40), more=st.integers(0, 3))
def test_logarithms_in_place(drawn: list[float], more: int) -> None:
    found = np.array([*drawn, *[7.0] * more])
    ln_in_place(found, np.empty(len(found)), len(drawn))
    np.testing.assert_allclose(found[: len(drawn)], np.log(drawn), rtol=1e-15, atol=1e-16)
    assert np.all(found[len(drawn) :] == 7.0)


def test_logarithms_where_the_exponent_changes() -> None:
    """At powers of two, halfway between them, and a bit beside."""
    edges = np.outer(2.0 ** np.arange(-40, 41), [1.0, np.sqrt(0.5)]).ravel()
    edges = np.concatenate([edges, np.nextafter(edges, 0.0), np.nextafter(edges, np.inf)])
    found = edges.copy()
    ln_in_place(found, np.empty(len(found)), len(found))
    np.testing.assert_allclose(found, np.log(edges), rtol=2e-15, atol=0.0)


@settings(max_examples=200, deadline=None)
@given(drawn=rows)
def test_ln_gamma_in_place(drawn: list[float]) -> None:
    found = np.array(drawn)
    ln_gamma_in_place(found, np.empty((3, len(found))), len(found))
    np.testing.assert_allclose(found, gammaln(drawn), rtol=2e-14, atol=2e-14)


@settings(max_examples=500, deadline=None)
@given(ln_x=st.floats(np.log(1e-6), np.log(1e8)))
def test_ln_gamma_and_its_slopes(ln_x: float) -> None:
    x = float(np.exp(ln_x))
    value, first, second = ln_gamma_slopes(x)
    np.testing.assert_allclose(value, gammaln(x), rtol=2e-14, atol=2e-14)
    # Around its zero at 1.46 the digamma function is a difference of numbers about 1.
    np.testing.assert_allclose(first, psi(x), rtol=1e-13, atol=1e-14)
    # Newton steps need no more than the series has.
    np.testing.assert_allclose(second, polygamma(1, x), rtol=1e-11)


@settings(max_examples=100, deadline=None)
@given(
    n_levels=st.lists(st.integers(1, 6), min_size=1, max_size=8),
    shape=st.sampled_from([(), (3,), (2, 4)]),
    seed=st.integers(0, 2**32 - 1),
)
def test_ln_beta_of_arrays_of_any_shape(
    n_levels: list[int], shape: tuple[int, ...], seed: int
) -> None:
    offsets = np.concatenate(([0], np.cumsum(n_levels))).astype(np.int64)
    eps = np.exp(np.random.default_rng(seed).normal(0, 4, size=(*shape, offsets[-1])))
    slow, terms = np.zeros(shape), np.zeros(shape)
    for start, end in pairwise(offsets):
        part = eps[..., start:end]
        slow = slow + gammaln(part).sum(axis=-1) - gammaln(part.sum(axis=-1))
        terms = terms + np.abs(gammaln(part)).sum(axis=-1) + np.abs(gammaln(part.sum(axis=-1)))
    found = ln_beta(eps, offsets)
    assert found.shape == shape
    # Large terms cancel, so the difference is measured against these.
    assert np.all(np.abs(found - slow) <= 1e-13 * (1 + terms))
