"""The learned prior against the fixed one: simulations, density sets, tables with classes."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.metrics import adjusted_rand_score, f1_score

from benchmarks.measure import Finding, Report
from fedmerdel import FedMerDel, MerDel, bayes_labels, simulate
from fedmerdel.errors import FedMerDelWarning

FOLDER = Path(os.environ.get("FEDMERDEL_DATA", "../shared/data"))
N_TABLES = 10
SEEDS = range(5)
PRIORS = ("fixed", "learned")

SIMULATIONS: dict[str, dict[str, Any]] = {
    "1.1": {"n_rows": 1000, "n_variables": 60, "n_clusters": 5, "size_range": (100, 300)},
    "1.2": {"n_rows": 2000, "n_clusters": 8, "size_range": (50, 800)},
    "1.3": {"n_rows": 4000, "n_clusters": 10, "size_range": (200, 800)},
    "1.4": {"n_rows": 1000, "n_clusters": 10, "size_range": (50, 200), "noisy": 0.25},
    "1.5": {"n_rows": 1500, "n_clusters": 10, "size_range": (50, 200), "noisy": 0.4},
    "cat.1": {"n_rows": 2000, "n_clusters": 8, "size_range": (50, 800), "levels": 4},
    "cat.2": {"n_rows": 4000, "n_clusters": 10, "size_range": (200, 800), "levels": 3},
}
LEAST_ARI = {"1.4": 0.80, "1.5": 0.74}
MOST_CLUSTERS = {"1.3": 25, "cat.2": 25}

# Differences in the mean that are no loss: ARI, and nats a row.
ARI_NOISE, SCORE_NOISE = 0.005, 0.01


def run() -> Report:
    """Fit everything with both priors from the same single start."""
    findings: list[Finding] = []
    rows: list[list[str]] = []
    for name in SIMULATIONS:
        _simulation(name, findings, rows)
    _small_sites(findings, rows)
    for folder, load in (("debd", density_split), ("uci", _classes)):
        for path in sorted((FOLDER / folder).glob("*.*z")):
            _held_out(path.name.split(".")[0], load(path), findings, rows)
    header = ["table", "measure", "fixed (clusters)", "learned (clusters)", "best possible"]
    note = "ARI of simulated tables; of the others the log-likelihood of a held-out row in nats."
    return Report(findings, header, rows, note)


def _simulation(name: str, findings: list[Finding], rows: list[list[str]]) -> None:
    found = {prior: np.empty((N_TABLES, 3)) for prior in PRIORS}
    best = np.empty(N_TABLES)
    for seed in range(N_TABLES):
        table = simulate(random_state=seed, **SIMULATIONS[name])
        best[seed] = adjusted_rand_score(table.labels, bayes_labels(table))
        for prior in PRIORS:
            model = MerDel(MOST_CLUSTERS.get(name, 20), prior=prior, random_state=seed)
            _fit_quietly(model, table.X)
            ari = adjusted_rand_score(table.labels, model.labels_)
            f1 = f1_score(table.relevant, model.selected_)
            found[prior][seed] = ari, model.n_clusters_, f1
    fixed, learned = (found[prior].mean(axis=0) for prior in PRIORS)
    cells = [f"{mean[0]:.3f} ({mean[1]:.2f})" for mean in (fixed, learned)]
    rows.append([name, "ARI", *cells, f"{best.mean():.3f}"])
    findings.append(_no_loss(f"simulation {name}: ARI", fixed[0], learned[0], ARI_NOISE))
    if name in LEAST_ARI:
        truth = SIMULATIONS[name]["n_clusters"]
        findings += [
            Finding(
                f"simulation {name}: mean ARI (best possible {best.mean():.3f})",
                f"at least {LEAST_ARI[name]:.2f}",
                f"{learned[0]:.3f}",
                bool(learned[0] >= LEAST_ARI[name]),
            ),
            Finding(
                f"simulation {name}: mean number of clusters",
                f"within 0.5 of {truth}",
                f"{learned[1]:.2f}",
                bool(abs(learned[1] - truth) <= 0.5),
            ),
            Finding(
                f"simulation {name}: F1 of the relevant variables",
                "at least 0.96",
                f"{learned[2]:.3f}",
                bool(learned[2] >= 0.96),
            ),
        ]


def _small_sites(findings: list[Finding], rows: list[list[str]]) -> None:
    """50 sites of 400 rows."""
    found = {prior: np.empty((N_TABLES, 2)) for prior in PRIORS}
    best = np.empty(N_TABLES)
    for seed in range(N_TABLES):
        table = simulate(20_000, 100, 12, random_state=seed)
        site = np.random.default_rng(seed).permutation(np.arange(20_000) % 50)
        best[seed] = adjusted_rand_score(table.labels, bayes_labels(table, site))
        for prior in PRIORS:
            model = FedMerDel(prior=prior, random_state=seed).fit(table.X, groups=site)
            found[prior][seed] = adjusted_rand_score(table.labels, model.labels_), model.n_clusters_
    means = [found[prior].mean(axis=0) for prior in PRIORS]
    cells = [f"{mean[0]:.3f} ({mean[1]:.1f})" for mean in means]
    rows.append(["50 sites of 400 rows, one shot", "ARI", *cells, f"{best.mean():.3f}"])
    ari, clusters = found["learned"].T
    findings += [
        Finding(
            "50 sites of 400 rows, one shot: mean ARI",
            "at least 0.90",
            f"{ari.mean():.3f} (least {ari.min():.3f}; fixed prior {means[0][0]:.3f})",
            bool(ari.mean() >= 0.90),
        ),
        Finding(
            "50 sites of 400 rows, one shot: clusters",
            "11 to 13",
            f"{clusters.min():.0f} to {clusters.max():.0f}",
            bool(clusters.min() >= 11 and clusters.max() <= 13),
        ),
    ]


Splits = Callable[[int], tuple[Any, Any]]


def _held_out(name: str, split: Splits, findings: list[Finding], rows: list[list[str]]) -> None:
    found = {prior: np.empty((len(SEEDS), 2)) for prior in PRIORS}
    for seed in SEEDS:
        kept, held = split(seed)
        for prior in PRIORS:
            model = MerDel(prior=prior, random_state=seed)
            _fit_quietly(model, kept)
            found[prior][seed] = model.score(held), model.n_clusters_
    fixed, learned = (found[prior].mean(axis=0) for prior in PRIORS)
    cells = [f"{mean[0]:.3f} ({mean[1]:.1f})" for mean in (fixed, learned)]
    rows.append([name, "held out", *cells, ""])
    findings.append(_no_loss(f"{name}: held-out log-likelihood", fixed[0], learned[0], SCORE_NOISE))


def _no_loss(name: str, fixed: float, learned: float, noise: float) -> Finding:
    return Finding(
        f"{name}, learned less fixed",
        f"at least -{noise}",
        f"{learned - fixed:+.4f}",
        bool(learned - fixed >= -noise),
    )


def density_split(path: Path) -> Splits:
    """Return the training and test rows of a density set, the same for each seed."""
    packed = np.load(path)
    kept, held = (
        np.unpackbits(packed[part], axis=1, count=int(packed["n_cols"]))
        for part in ("train", "test")
    )
    varies = kept.min(axis=0) != kept.max(axis=0)
    return lambda seed: (kept[:, varies], held[:, varies])


def _classes(path: Path) -> Splits:
    """Return a table without its class, a fifth of the rows held out."""
    table = pd.read_csv(path, dtype=str, na_values="?")
    names = [name for name in table if name.lower() not in ("class", "target", "type", "animal")]
    table = table[[name for name in names if 1 < table[name].nunique() <= 50]]

    def split(seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
        out: NDArray[np.bool_] = np.random.default_rng(seed).random(len(table)) < 0.2
        kept, held = table[~out], table[out]
        known = [held[name].isin(kept[name]) | held[name].isna() for name in table]
        return kept, held[np.logical_and.reduce(known)]

    return split


def _fit_quietly(model: MerDel, X: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FedMerDelWarning)
        model.fit(X)
