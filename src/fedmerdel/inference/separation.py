"""How well clusters are told apart, by all rows together and by those of each cluster."""

from __future__ import annotations

from math import log

import numpy as np

from fedmerdel.sums.arrays import FloatArray


def relative_entropy(T: FloatArray, h: FloatArray) -> float | None:
    """Return ``1 - (-sum_k h_k) / (N ln K)``: 1 if rows are sure, 0 if not at all.

    None of a single cluster. Where h is told as a bound nearer to 0, this is at most so much.
    """
    if len(T) < 2:
        return None
    return float(np.clip(1.0 + h.sum() / (T.sum() * log(len(T))), 0.0, 1.0))


def mean_posterior(own: FloatArray, belonging: FloatArray) -> FloatArray:
    """Return the mean probability with which each cluster's own rows belong to it; nan of none."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(own > 0, np.minimum(belonging / own, 1.0), np.nan)
