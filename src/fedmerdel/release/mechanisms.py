"""Which release mechanism keeps a policy: the one place that asks."""

from __future__ import annotations

from fedmerdel.release.exact import Exact
from fedmerdel.release.mechanism import Mechanism
from fedmerdel.release.thresholds import Thresholds
from fedmerdel.study.policy import Policy


def mechanism_for(policy: Policy) -> Mechanism:
    """Return the mechanism that keeps a policy."""
    if policy.threshold == 0 and policy.rounding <= 1:
        return Exact()
    return Thresholds(policy)
