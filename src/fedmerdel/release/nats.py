"""Sums of logarithms over rows that may be told: in steps, rounded to the safe side."""

from __future__ import annotations

import numpy as np

from fedmerdel.study.policy import Policy
from fedmerdel.sums.arrays import FloatArray


def coarse(nats: FloatArray, policy: Policy, towards: np.ufunc) -> FloatArray:
    """Return sums over rows in whole steps, up (``np.ceil``) or down (``np.floor``).

    A row shared evenly by two clusters adds ln 2, so a step is as many rows as may be told.
    """
    unit = policy.smallest * np.log(2.0)
    steps = towards(nats / unit)
    # The quotient may have been rounded to a whole number, the wrong way.
    if towards is np.ceil:
        steps = np.where(steps * unit < nats, steps + 1.0, steps)
    else:
        steps = np.where(steps * unit > nats, steps - 1.0, steps)
    return np.asarray(steps * unit)


def overlap_bound(overlap: FloatArray, policy: Policy) -> FloatArray:
    """Return upper bounds of overlaps; none and a little look the same: one step."""
    bound = np.maximum(coarse(overlap, policy, np.ceil), policy.smallest * np.log(2.0))
    bound = np.maximum(bound, bound.T)
    np.fill_diagonal(bound, 0.0)
    return np.asarray(bound)


def entropy_bound(h: FloatArray, policy: Policy) -> FloatArray:
    """Return upper bounds of h: -h adds to the ELBO, so it is never too good to be true."""
    return np.asarray(0.0 - np.maximum(coarse(-h, policy, np.floor), 0.0))
