"""Confusion from made-up rows against sums of real rows, where variables depend within clusters.

Sites could tell E = sum_n r_n r_n', and ``E diag(T)^-1`` would stand for D: K x K more numbers to
protect. Here they are told exactly, and D is also what the true clusters of the rows make of it.
"""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
from scipy.special import softmax
from scipy.stats import norm

from benchmarks.measure import Finding, Report
from benchmarks.outcome_rates import N_VARIABLES, RATES, SHARES, Floats, Made, matched_clusters
from fedmerdel import (
    Codebook,
    Federation,
    Outcome,
    Study,
    Variable,
    assign,
    fit_site,
    merge_sites,
    policy_named,
    reply_site,
)
from fedmerdel.centre.outcomes import common_means, site_sums
from fedmerdel.inference.corrected import effective_rows, of_cells
from fedmerdel.model.rates import rate

N_FEDERATIONS, N_SITES, N_ROWS, N_ROUNDS, BEST = 30, 4, 6000, 3, 0.87
SEED = 29_000
SETTINGS = (
    ("independent", 0.0),
    ("pairs", 0.5),
    ("pairs", 0.8),
    ("severity", 0.05),
    ("severity", 0.1),
)
"""How variables depend: every second is, with this probability, as extreme as the one before it;
or all lean on one severity, which is this share of the variance of each."""

WAYS = ("made-up rows", "sums of real rows", "true clusters")


def run() -> Report:
    """Compare coverage and error of rates, with each way to find D."""
    lines = []
    for kind, strength in SETTINGS:
        found = [_one(SEED + seed, kind, strength) for seed in range(N_FEDERATIONS)]
        known = [each for each in found if each is not None]
        for way, (covered, error, own) in zip(WAYS, np.mean(known, axis=0), strict=True):
            name = kind if kind == "independent" else f"{kind}, {strength}"
            lines.append(
                [name, way, f"{len(known)}", f"{covered:.3f}", f"{error:.4f}", f"{own:.3f}"]
            )
            print(*lines[-1], sep=" | ", flush=True)
    header = [
        "dependence",
        "D from",
        "federations",
        "coverage",
        "mean error",
        "mean of D's diagonal",
    ]
    note = (
        f"Four sites of 1,500 rows, {N_ROUNDS} rounds, at most four clusters, no policy. With as "
        "many clusters as the fit likes, strong dependence is split into more of them."
    )
    return Report(list[Finding](), header, lines, note)


def _made(seed: int, kind: str, strength: float) -> Made:
    rng = np.random.default_rng(seed)
    P, K = N_VARIABLES[BEST], len(SHARES)
    levels, rates = rng.beta(1.0, 3.0, (K, P)), rng.permutation(RATES)
    labels = rng.choice(K, N_ROWS, p=SHARES)
    extreme = rng.random((N_ROWS, P))
    if kind == "pairs":
        same = rng.random((N_ROWS, P // 2)) < strength
        extreme[:, 1::2] = np.where(same, extreme[:, 0 : P - 1 : 2], extreme[:, 1::2])
    elif kind == "severity":
        one, own = rng.normal(size=(N_ROWS, 1)), rng.normal(size=(N_ROWS, P))
        extreme = norm.cdf(np.sqrt(strength) * one + np.sqrt(1 - strength) * own)
    X = pd.DataFrame((extreme < levels[labels]).astype(int), columns=[f"v{j}" for j in range(P)])
    return Made(X, (rng.random(N_ROWS) < rates[labels]).astype(int), labels, rates)


def _one(seed: int, kind: str, strength: float) -> list[tuple[float, float, float]] | None:
    """Return coverage, mean error and D's diagonal for each way; None if clusters are others."""
    made = _made(seed, kind, strength)
    federation = _federation(made)
    at = matched_clusters(assign(federation.model, made.X).labels, made, federation.n_clusters)
    counting, true = federation.counting, made.rates
    if at is None or any(site.home.tolist() != [0, 1, 2, 3] for site in counting.sites):
        return None
    sites, r = site_sums(counting, "died"), _shares(federation, made.X.to_numpy())
    by_truth = np.array([r[made.labels == k].mean(axis=0) for k in at]).T
    found = []
    for D in (sites[0].confusion.mean, r.T @ r / r.sum(axis=0), by_truth):
        used = [site._replace(confusion=site.confusion._replace(mean=D)) for site in sites]
        estimate = common_means(counting, used, of_cells)
        share = np.clip(estimate.mean[:, 0], 0.0, 1.0)
        rows = effective_rows(share, np.diag(estimate.covariance), estimate.rows)
        told = [rate(float(each), float(n)) for each, n in zip(share, rows, strict=True)]
        held = [each.low <= t <= each.high for each, t in zip(told, true[at], strict=True)]
        error = float(np.abs(share - true[at]).mean())
        found.append((float(np.mean(held)), error, float(np.diag(D).mean())))
    return found


def _shares(federation: Federation, X: np.ndarray) -> Floats:
    """Return the share of each row in each cluster that was last sent out."""
    assert federation.asked is not None
    log_weights, log_levels = federation.asked.clusters
    said = np.where(X[:, None, :] == 1, log_levels[:, 1::2], log_levels[:, ::2]).sum(axis=2)
    return np.asarray(softmax(said + log_weights, axis=1))


def _federation(made: Made) -> Federation:
    variables = tuple(Variable(name, ("0", "1"), "integer") for name in made.X.columns)
    study = Study(
        "real", Codebook(variables), policy=policy_named("none"), outcomes=(Outcome("died"),),
        rounds=N_ROUNDS, max_clusters=len(SHARES),
    )  # fmt: skip
    table = made.X.assign(died=made.y)
    tables = {f"site {b}": table.iloc[b::N_SITES] for b in range(N_SITES)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        federation = merge_sites(study, [fit_site(study, t, s) for s, t in tables.items()])
        for _ in range(N_ROUNDS):
            replies = [reply_site(study, federation.broadcast, t, s) for s, t in tables.items()]
            federation, _ = federation.step(replies)
    return federation
