"""What the report shows under "Can it be trusted?"."""

from __future__ import annotations

from math import log
from typing import Any

from fedmerdel.inference.check_counts import SURE
from fedmerdel.inference.separation import relative_entropy
from fedmerdel.model.certainty import Certainty
from fedmerdel.model.describe import Cluster
from fedmerdel.model.state import ModelState
from fedmerdel.release.mechanisms import mechanism_for
from fedmerdel.report.charts import compared

N_SHOWN = 10
"""Pairs of variables that the page lists."""

RARE = 5e-4
"""Numbers of conditions that fewer rows have, and should have, are left off the chart's end."""


def trust(model: ModelState, sure: Certainty, clusters: tuple[Cluster, ...]) -> dict[str, Any]:
    """Return the checks of a model: of its own sums and, where there are any, of real rows."""
    found: dict[str, Any] = {
        "entropy": relative_entropy(model.sums.T, model.sums.h),
        "bound": mechanism_for(model.study.policy).smallest > 0,
        "rounds": model.n_rounds > 0,
        "n_sites": model.n_sites,
        "rows": None,
        "worth": _worth(model, clusters),
    }
    checks = model.checks
    if checks is None:
        return found
    shares = zip(checks.conditions, checks.expected_conditions, strict=True)
    n_shown = 1 + max((at for at, both in enumerate(shares) if max(both) >= RARE), default=0)
    bins = len(checks.certainty)
    found["rows"] = {
        "verdict": checks.verdict,
        "fits": checks.fits,
        "conditions": compared(
            checks.conditions[:n_shown],
            checks.expected_conditions[:n_shown],
            [str(n) for n in range(n_shown)],
            "number of conditions",
        )
        if len(checks.conditions) > 1
        else None,
        "pairs": [
            {
                "first": model.study.label(pair.first),
                "second": model.study.label(pair.second),
                "residual": pair.residual,
                "known": pair.p_value < 0.01,
                "levels": f"{pair.first_level}, {pair.second_level}",
                "observed": pair.observed,
                "expected": pair.expected,
            }
            for pair in checks.pairs[:N_SHOWN]
        ],
        "n_pairs": checks.n_pairs,
        "sure": checks.sure,
        "made_up": sure.sure,
        "level": SURE,
        "certainty": compared(
            checks.certainty,
            sure.histogram.tolist(),
            [f"{at / bins:.2f}" for at in range(bins)],
            "probability of the row's cluster, from",
        ),
        "posterior": [
            {
                "number": cluster.number,
                "name": model.name(cluster.number),
                "mean": checks.mean_posterior[cluster.number],
            }
            for cluster in clusters
        ],
    }
    return found


def _worth(model: ModelState, clusters: tuple[Cluster, ...]) -> list[dict[str, Any]]:
    """Return what each cluster is worth, the least first: in nats, and as log10 of odds."""
    lines = [
        {
            "number": cluster.number,
            "name": model.name(cluster.number),
            "nats": cluster.worth,
            "error": cluster.worth_error,
            "odds": cluster.worth / log(10.0),
            "to_number": cluster.partner,
            "to": model.name(cluster.partner),
        }
        for cluster in clusters
        if cluster.worth is not None and cluster.partner is not None
    ]
    return sorted(lines, key=lambda line: float(line["nats"]))
