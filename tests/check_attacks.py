"""What a reader can work out of a histogram of conditions, given the site's totals."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog

from fedmerdel.study.policy import Policy


def possible_counts(
    told: np.ndarray,
    positive: np.ndarray,
    rows: float,
    policy: Policy,
    step: int,
    both: np.ndarray | None = None,
) -> list[tuple[float, float]]:
    """The fewest and the most rows in each cell that was told as 0, and in all of these.

    The reader knows the rules. Cells were rounded to multiples of the step, and the largest takes
    what the others lose. Rows with each condition (`positive`) were rounded to the policy's own
    step. All conditions of all rows together are the same number, counted both ways; and so are
    pairs of conditions, where rows with each two (`both`) were told.
    """
    n = len(told)
    least = max(policy.threshold, -(-step // 2) if step > 1 else 0)
    slack = (step - 1) / 2 + 0.5 if step > 1 else 0.0
    raised = max(slack, policy.smallest - policy.threshold)
    bounds = [
        (0.0, None) if s == told.argmax() else
        (0.0, least - 1) if told[s] == 0 else
        (max(told[s] - raised, least), told[s] + slack)
        for s in range(n)
    ]  # fmt: skip
    own = policy.step / 2 if policy.step > 1 else 0.0
    low = np.where(positive == 0, 0.0, positive - own).sum()
    high = np.where(positive == 0, policy.least - 1, positive + own).sum()
    number = np.arange(n, dtype=float)
    A = np.array([number, -number, np.ones(n), -np.ones(n)])
    b = np.array([high, -low, rows + own, -(rows - own)])
    if both is not None:
        low = np.where(both == 0, 0.0, both - own).sum()
        high = np.where(both == 0, policy.least - 1, both + own).sum()
        pairs = number * (number - 1) / 2
        A, b = np.concatenate([A, [pairs, -pairs]]), np.concatenate([b, [high, -low]])
    found = []
    hidden = told == 0
    # Each of the hidden cells, and all of them together: a union may be a small group as well.
    for some in [*(number == s for s in np.flatnonzero(hidden)), hidden]:
        ends = []
        for sign in (1.0, -1.0):
            out = linprog(sign * some, A_ub=A, b_ub=b, bounds=bounds, method="highs")
            assert out.success, out.message
            ends.append(sign * out.fun)
        found.append((ends[0], ends[1]))
    return found
