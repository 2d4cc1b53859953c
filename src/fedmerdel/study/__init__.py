"""What all sites of a study share: variables and levels, options, disclosure policy."""

from __future__ import annotations

from fedmerdel.study.codebook import MAX_LEVELS, Codebook, Variable
from fedmerdel.study.policy import POLICIES, Policy, custom_policy, policy_named
from fedmerdel.study.study import Study

__all__ = [
    "MAX_LEVELS",
    "POLICIES",
    "Codebook",
    "Policy",
    "Study",
    "Variable",
    "custom_policy",
    "policy_named",
]
