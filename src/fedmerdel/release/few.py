"""Counts that are known to be few: what is expected of them."""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln, xlogy

from fedmerdel.sums.arrays import FloatArray

TINY = 1e-300


def expected_below(mean: FloatArray, limit: int) -> FloatArray:
    """Return ``E[X | X < limit]`` of a Poisson count with this mean."""
    if limit < 2:
        return np.zeros_like(mean)
    x = np.arange(limit)
    # Relative to the largest weight: a large mean makes each of them 0.
    log_weight = xlogy(x, mean[..., None]) - gammaln(x + 1)
    weight = np.exp(log_weight - log_weight.max(axis=-1, keepdims=True))
    return np.asarray((weight * x).sum(axis=-1) / weight.sum(axis=-1))
