"""A federation in which a site never recorded a variable.

Two sites record all; york never recorded copd, and alone has the third cluster.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fedmerdel import Sums
from fedmerdel.centre.federation import Federation
from fedmerdel.study.policy import POLICIES
from tests.federations import binary, made_study, summary_of

SITES = ("hull", "leeds", "york")
YES = np.array([[0.9, 0.1, 0.5, 0.01], [0.1, 0.8, 0.3, 0.5], [0.5, 0.5, 0.6, 0.9]])
COPD = 2


def without(sums: Sums, variable: int) -> Sums:
    """The same clusters where nobody recorded this variable."""
    S = sums.S.copy()
    S[:, 2 * variable : 2 * variable + 2] = 0.0
    return sums._replace(S=S)


def made_unmeasured(policy: str = "none", **options: Any) -> Federation:
    study = made_study(
        np.full(4, 2), policy=POLICIES[policy], labels={"v2": "Chronic lung disease"}, **options
    )
    full = [binary(YES[:2].tolist(), [600.0 + b, 300.0]) for b in range(2)]
    york = without(binary(YES[1:].tolist(), [200.0, 250.0]), COPD)
    sums = [*full, york]
    if study.missing == "level":
        T = [each.T for each in sums]
        S = [
            np.dstack(
                [each.S.reshape(-1, 4, 2), t[:, None] - each.S.reshape(-1, 4, 2).sum(2)]
            ).reshape(-1, 12)
            for each, t in zip(sums, T, strict=True)
        ]
        sums = [each._replace(S=s) for each, s in zip(sums, S, strict=True)]
    summaries = [summary_of(study, site, each) for site, each in zip(SITES, sums, strict=True)]
    groups = (np.array([0, 2]), np.array([1, 3, 4]), np.array([5]))
    return Federation(study, tuple(summaries), groups, "exact", "correlation")
