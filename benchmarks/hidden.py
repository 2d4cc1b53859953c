"""One shot under a policy: hidden counts filled with what is expected, against taken for none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.metrics import adjusted_rand_score

from benchmarks.measure import Finding, Report
from benchmarks.real_tables import FOLDER, TABLES
from fedmerdel import (
    Federation,
    GlobalModel,
    MerDel,
    assign,
    bayes_labels,
    draft_study,
    fit_site,
    merge_sites,
    policy_named,
    score_samples,
    simulate,
)
from fedmerdel.centre.prior import centre_prior
from fedmerdel.sums.merging import local_clusters, merged_sums

POLICY = "opensafely"
SEEDS = range(3)
N_SITES = 20


def run() -> Report:
    """Measure ARI on simulated sites, and held-out log-likelihood on real tables."""
    aris = np.array([_simulated(seed) for seed in SEEDS])
    exact, raw, filled, best = aris.mean(axis=0)
    findings = [
        Finding(
            f"{N_SITES} sites x 1,000 rows, policy {POLICY}: ARI filled, taken for none, policy "
            "none, best possible (mean of 3)",
            "filled nearer to policy none",
            f"{filled:.3f}, {raw:.3f}, {exact:.3f}, {best:.3f}",
            bool(filled > raw),
        )
    ]
    rows = []
    for name in TABLES if FOLDER.exists() else ():
        losses = _real(name)
        rows.append([name, *(f"{loss:.3f} %" for loss in losses)])
    header = [
        "loss against pooled rows",
        "policy none",
        f"{POLICY}, zeros taken for none",
        "filled",
    ]
    note = "Held-out log-likelihood of a row, a fifth of the rows, one seed, one shot."
    return Report(findings, header, rows, note if rows else "No tables were found.")


def unfilled(federation: Federation) -> GlobalModel:
    """Return the model as it would be with zeros taken for none."""
    told = local_clusters([summary.sums for summary in federation.summaries])
    sums = merged_sums(told, list(federation.groups))
    prior = centre_prior(federation.study, federation.n_components, sums.S)
    return replace(federation.model, sums=sums, prior=prior)


def _simulated(seed: int) -> tuple[float, float, float, float]:
    table = simulate(20_000, 100, 12, random_state=seed)
    site = np.random.default_rng(seed).integers(0, N_SITES, 20_000)
    parts = {f"site {b:02d}": site == b for b in range(N_SITES)}
    found = []
    for policy in ("none", POLICY):
        federation = merged(table.X, parts, policy)
        filled = federation.model
        for model in (filled,) if policy == "none" else (unfilled(federation), filled):
            labels = np.empty(len(site), dtype=np.int64)
            for at in parts.values():
                labels[at] = assign(model, table.X[at]).labels
            found.append(adjusted_rand_score(table.labels, labels))
    best = adjusted_rand_score(table.labels, bayes_labels(table, site))
    return found[0], found[1], found[2], best


def _real(name: str) -> list[float]:
    X, site = TABLES[name]()
    out = np.random.default_rng(0).random(len(X)) < 0.2
    kept, held, site = X[~out], X[out], site[~out].astype(str)
    best = MerDel(max_iter=5000, random_state=0).fit(kept).score(held)
    parts = {each: site == each for each in np.unique(site).tolist()}
    exact, federation = (merged(kept, parts, policy) for policy in ("none", POLICY))
    return [
        100 * (best - float(np.mean(score_samples(model, held)))) / abs(best)
        for model in (exact.model, unfilled(federation), federation.model)
    ]


def merged(X: Any, parts: dict[str, NDArray[np.bool_]], policy: str) -> Federation:
    """Return what the sites of a table, each with its rows, are under a policy."""
    study = replace(draft_study(pd.DataFrame(X)), policy=policy_named(policy))
    return merge_sites(study, [fit_site(study, X[at], name) for name, at in parts.items()])
