"""Whether a histogram, told beside other counts, keeps its hidden cells hidden.

Rows are told by their number of conditions. The conditions of all rows together are counted twice:
as rows times their number of conditions, and as rows with each condition, which the totals tell.
Pairs of conditions are, too. So a hidden cell might be worked out from cells that are told too
finely. They are told in steps of the smallest count, or of twice that and so on, until the reader
can't exclude that all hidden cells are empty: there is then a histogram without them that agrees
with all that is told.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fedmerdel.study.policy import Policy
from fedmerdel.sums.arrays import FloatArray


class Known(NamedTuple):
    """A sum over the histogram that follows from other counts.

    Attributes
    ----------
    weights : float64 array
        What a row in each cell adds to it.
    least, most : float
        Within these it is known to be.
    """

    weights: FloatArray
    least: float
    most: float


def known_sum(weights: FloatArray, told: FloatArray, policy: Policy) -> Known:
    """Return what counts that were told sum to, as a reader knows it."""
    off = policy.step / 2 if policy.step > 1 else 0.0
    hidden = told == 0
    least = np.where(hidden, 0.0, told - off).sum()
    most = np.where(hidden, max(policy.least - 1, 0), told + off).sum()
    return Known(weights, float(least), float(most))


def may_be_empty(told: FloatArray, policy: Policy, known: Sequence[Known]) -> bool:
    """Whether all cells told as 0 may be empty, as far as a reader can tell."""
    # Slow to import, and needed at sites alone.
    from scipy.optimize import linprog

    off = policy.step / 2 if policy.step > 1 else 0.0
    at = np.flatnonzero(told)
    bounds = [(min(max(told[s] - off, policy.least), told[s]), told[s] + off) for s in at]
    # The largest cell is what the others leave.
    bounds[int(told[at].argmax())] = (0.0, float(told.sum()))
    weights = np.array([each.weights[at] for each in known]).reshape(len(known), len(at))
    found = linprog(
        np.zeros(len(at)),
        A_ub=np.concatenate([weights, -weights]) if known else None,
        b_ub=np.array([*(e.most for e in known), *(-e.least for e in known)]) if known else None,
        A_eq=np.ones((1, len(at))),
        b_eq=[told.sum()],
        bounds=bounds,
        method="highs",
    )
    return bool(found.success)
