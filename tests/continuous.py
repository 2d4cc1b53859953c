"""Checks of scikit-learn that can't pass on a table of categories."""

from __future__ import annotations

from typing import Any

CONTINUOUS = "gives the estimator numbers that are not whole, which it refuses as continuous"


def needs_continuous_data(estimator: Any) -> dict[str, str]:
    """Name the checks that can't pass on a table of categories, each with its reason."""
    return {
        "check_clustering": f"{CONTINUOUS} (standardised blobs)",
        "check_positive_only_tag_during_fit": f"{CONTINUOUS} (draws from a normal distribution)",
        "check_sample_weight_equivalence_on_dense_data": f"{CONTINUOUS} (uniform draws)",
    }
