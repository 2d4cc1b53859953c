"""Noise for whole numbers: the discrete Gaussian, from a sampler that others have examined.

A Gaussian of floating-point numbers tells, by its last digits, what it was added to; the discrete
one is drawn in exact arithmetic (Canonne, Kamath and Steinke 2020), by the package opendp. It is
imported where it is first needed, so that all else works without it.
"""

from __future__ import annotations

import math
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedmerdel.errors import OptionError
from fedmerdel.sums.arrays import FloatArray, IntArray

TABLE_SCALE = 1000.0
"""Up to this scale seeded numbers come from a table of the distribution; beyond, a rounded Gaussian
differs from it by less than one part in ten million."""

FAR = 9.0
"""Scales from 0 at which the table ends: as far as a double of a uniform number reaches."""

LARGEST_SCALE = 2.0**53
"""Sums with more noise than this do not fit 64 bits for sure."""


def discrete_noise(scale: float, size: int, rng: np.random.Generator | None = None) -> IntArray:
    """Draw from the discrete Gaussian, of probabilities in proportion to ``exp(-x^2 / 2 scale^2)``.

    Parameters
    ----------
    scale : float
        In steps of the grid that the sums are counted in, at least 0; 0 draws zeros.
    size : int
        How many numbers.
    rng : Generator or None
        None is the operating system's randomness, by opendp's sampler: about 45 microseconds a
        number. A generator is for research alone: numbers of the same
        distribution that anyone who knows the seed can take off again. **Not private.**

    Returns
    -------
    int64 array (size,)

    Raises
    ------
    OptionError
        If the scale is no number that noise can have, or opendp is needed and not installed.
    """
    if not 0.0 <= scale <= LARGEST_SCALE:
        raise OptionError("scale of noise: give a number of at least 0, in steps of the grid")
    if scale == 0.0 or size == 0:
        return np.zeros(size, dtype=np.int64)
    if rng is None:
        return np.array(_measurement(float(scale))([0] * size), dtype=np.int64)
    if scale > TABLE_SCALE:
        return np.rint(rng.normal(0.0, scale, size)).astype(np.int64)
    cumulative = _cumulative(float(scale))
    return np.searchsorted(cumulative, rng.random(size)) - len(cumulative) // 2


@cache
def _cumulative(scale: float) -> FloatArray:
    """Return the distribution function at whole numbers from minus to plus where it ends."""
    end = math.ceil(FAR * scale)
    x = np.arange(-end, end + 1)
    odds: NDArray[np.float64] = np.exp(-0.5 * (x / scale) ** 2)
    return np.asarray(np.cumsum(odds) / odds.sum())


@cache
def _measurement(scale: float) -> Any:
    try:
        opendp = import_module("opendp.prelude")
    except ImportError:
        raise OptionError(
            "noise needs the package opendp, which is not installed: pip install 'fedmerdel[sums]'"
        ) from None
    opendp.enable_features("contrib")  # what opendp calls all of its mechanisms for now
    whole = opendp.vector_domain(opendp.atom_domain(T="i64"))
    return opendp.m.make_gaussian(whole, opendp.l2_distance(T="f64"), scale=scale)
