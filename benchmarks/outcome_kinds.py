"""Outcomes of several levels, numbers, times to an event, and rates in strata: coverage.

Four sites of 1,500 rows, clusters that rows can be assigned to with an ARI of .87.
"""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd

from benchmarks.measure import Finding, Report
from benchmarks.outcome_rates import LIMITS, SHARES, Floats, made_rows, matched_clusters
from fedmerdel import (
    Codebook,
    GlobalModel,
    Outcome,
    Study,
    Variable,
    assign,
    fit_site,
    merge_sites,
    policy_named,
)

N_FEDERATIONS, N_SITES, N_ROWS, BEST = 60, 4, 6000, 0.87
SEED = 19_000
"""Nothing was chosen on federations of these seeds."""

LEVELS = np.array([[0.7, 0.2, 0.1], [0.5, 0.3, 0.2], [0.3, 0.5, 0.2], [0.2, 0.3, 0.5]])
MEANS, SPREAD = np.array([40.0, 50.0, 60.0, 70.0]), 10.0
HAZARDS, LOST, ENDS = np.array([0.05, 0.1, 0.2, 0.4]), 0.15, (1.0, 2.0, 4.0)
OLD = np.array([0.2, 0.4, 0.6, 0.7])
IN_STRATA = np.array([[0.05, 0.15], [0.1, 0.25], [0.15, 0.4], [0.3, 0.6]])

OUTCOMES = (
    Outcome("grade", levels=("low", "middle", "high")),
    Outcome("pressure", range=(0.0, 110.0)),
    Outcome("years", event="stroke", ends=ENDS),
    Outcome("fell", strata=(Variable("age", ("young", "old"), "text"),)),
)
KINDS = {"grade": "levels", "pressure": "a mean", "stroke": "time to an event", "fell": "in strata"}


def run() -> Report:
    """Simulate federations, and count how often intervals hold what was drawn from."""
    findings, lines = [], []
    for policy, (low, high) in LIMITS.items():
        found = [_one(SEED + seed, policy) for seed in range(N_FEDERATIONS)]
        known = [each for each in found if each is not None]
        for name, kind in KINDS.items():
            covered = np.concatenate([each[name] for each in known])
            rate, target = covered.mean(), f"{low:.2f} to {high:.2f}"
            reached = bool(low <= rate <= high)
            findings.append(Finding(f"coverage: {kind}, {policy}", target, f"{rate:.3f}", reached))
            lines.append([kind, policy, f"{len(known)}", f"{covered.size}", f"{rate:.3f}"])
            print(*lines[-1], sep=" | ", flush=True)
    header = ["outcome", "policy", "federations", "intervals", "coverage"]
    return Report(findings, header, lines, f"{N_FEDERATIONS} federations of {N_SITES} sites each.")


def _true() -> dict[str, Floats]:
    """Return every measure in each of the true clusters."""
    strata = np.array([SHARES @ (1 - OLD), SHARES @ OLD])
    by_end = 1 - np.exp(-np.outer(ENDS, HAZARDS))
    return {
        **{f"grade: {level}": LEVELS[:, at] for at, level in enumerate(OUTCOMES[0].levels)},
        "pressure": MEANS,
        **dict(zip(OUTCOMES[2].measures, by_end, strict=True)),
        "fell": IN_STRATA @ strata,
    }


def _one(seed: int, policy: str) -> dict[str, Floats] | None:
    """Return for each outcome whether each interval holds the truth; None if clusters differ."""
    made = made_rows(seed, BEST, N_ROWS)
    rng, z = np.random.default_rng([seed, 1]), made.labels
    event, lost = rng.exponential(1 / HAZARDS[z]), rng.exponential(1 / LOST, N_ROWS)
    old = rng.random(N_ROWS) < OLD[z]
    grades = np.array(OUTCOMES[0].levels)
    table = made.X.assign(
        grade=grades[(rng.random(N_ROWS)[:, None] > LEVELS[z].cumsum(axis=1)[:, :2]).sum(axis=1)],
        pressure=rng.normal(MEANS[z], SPREAD),
        years=np.minimum(event, lost),
        stroke=(event <= lost).astype(int),
        age=np.where(old, "old", "young"),
        fell=(rng.random(N_ROWS) < IN_STRATA[z, old.astype(int)]).astype(int),
    )
    study = Study(
        "kinds",
        Codebook(tuple(Variable(name, ("0", "1"), "integer") for name in made.X.columns)),
        policy=policy_named(policy),
        outcomes=OUTCOMES,
    )
    model = _merged(study, table)
    at = matched_clusters(assign(model, made.X).labels, made, model.n_clusters)
    if at is None:
        return None
    held: dict[str, Floats] = {}
    for name, true in _true().items():
        rates = model.outcome_rates(name)
        inside = [rate.low <= t <= rate.high for rate, t in zip(rates, true[at], strict=True)]
        kind = next(kind for kind in KINDS if name.startswith(kind))
        held[kind] = np.append(held.get(kind, np.empty(0)), np.array(inside, dtype=np.float64))
    return held


def _merged(study: Study, table: pd.DataFrame) -> GlobalModel:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parts = [
            fit_site(study, table.iloc[b::N_SITES], f"site {b}", n_jobs=1) for b in range(N_SITES)
        ]
        return merge_sites(study, parts).model
