"""Missing entries: what is lost to them, and when missing should be a level of its own."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import adjusted_rand_score

from benchmarks.measure import Finding, Report
from fedmerdel import FedMerDel, MerDel, SimulatedTable, bayes_labels, simulate
from fedmerdel.study.codebook import Missing

N_SEEDS = 10
GAP = 0.01
N_CLUSTERS = 12
N_SITES = 5
SHARE = 0.3
WAYS: tuple[Missing, ...] = ("ignore", "level")

Floats = NDArray[np.float64]


def run() -> Report:
    """Delete entries at random and fit; then delete them for a reason, and fit both ways."""
    measured = np.array([_one(seed) for seed in range(N_SEEDS)])
    ours, clusters, best, federated, fed_clusters, fed_best = measured.T
    findings = []
    for name, gap, found in (
        ("MerDel", best - ours, clusters),
        (f"FedMerDel, {N_SITES} sites", fed_best - federated, fed_clusters),
    ):
        exact = int((found == N_CLUSTERS).sum())
        findings.append(
            Finding(
                f"{SHARE:.0%} of entries missing, {name}: ARI below Bayes labels' (mean, worst)",
                f"worst at most {GAP}",
                f"{gap.mean():.4f}, {gap.max():.4f}",
                bool(gap.max() <= GAP),
            )
        )
        findings.append(
            Finding(
                f"the same: exactly {N_CLUSTERS} clusters",
                f"{N_SEEDS} of {N_SEEDS}",
                f"{exact} of {N_SEEDS}",
                exact == N_SEEDS,
            )
        )
    rows = [_row(name, table, X) for name, table, X in _reasons()]
    header = ["entries are missing", *(f"{way}: ARI (clusters)" for way in WAYS)]
    note = (
        "Bayes labels are those of the same incomplete rows, N = 20,000, P = 100. The table "
        "compares the two ways on 6,000 rows of 60 variables, by the reason for which a half of "
        "the variables have missing entries: at random; by cluster, where clusters 0 and 1 differ "
        "in nothing else (a test is ordered for some patients); by ward, which has nothing to do "
        "with the clusters (a form that one ward does not use). 'level' finds what hangs together "
        "with missing entries, whether it is wanted or not."
    )
    return Report(findings, header, rows, note)


def _one(seed: int) -> tuple[float, ...]:
    table = simulate(20_000, 100, N_CLUSTERS, random_state=seed)
    rng = np.random.default_rng(1000 + seed)
    X = np.where(rng.random(table.X.shape) < SHARE, np.nan, table.X)
    site = rng.permutation(np.arange(len(X)) % N_SITES)
    one = MerDel(random_state=seed).fit(X)
    many = FedMerDel(random_state=seed).fit(X, groups=site)
    truth = table.labels
    return (
        adjusted_rand_score(truth, one.labels_),
        one.n_clusters_,
        adjusted_rand_score(truth, bayes_labels(table, X=X)),
        adjusted_rand_score(truth, many.labels_),
        many.n_clusters_,
        adjusted_rand_score(truth, bayes_labels(table, site, X)),
    )


def _reasons() -> list[tuple[str, SimulatedTable, Floats]]:
    """Return tables with entries missing at random, by cluster and by ward."""
    rng = np.random.default_rng(0)
    table = simulate(6000, 60, 5, random_state=0)
    half = np.arange(60) < 30
    chance = rng.random(table.X.shape)
    ward = rng.integers(0, 2, size=6000)
    at_random = np.where(half, SHARE, 0.0)
    by_ward = np.where(half, np.array([[0.1], [0.5]])[ward], 0.0)

    # Clusters 0 and 1 take the levels of one cluster, and differ in what is recorded.
    twin = simulate(6000, 60, 5, random_state=0)
    for probabilities in twin.level_probabilities:
        probabilities[1] = probabilities[0]
    for j, probabilities in enumerate(twin.level_probabilities):
        twin.X[:, j] = rng.random(6000) < probabilities[twin.labels, 1]
    by_cluster = np.where(half, np.where(twin.labels == 1, 0.5, 0.1)[:, None], 0.0)
    return [
        ("at random", table, np.where(chance < at_random, np.nan, table.X)),
        ("by cluster", twin, np.where(chance < by_cluster, np.nan, twin.X)),
        ("by ward", table, np.where(chance < by_ward, np.nan, table.X)),
    ]


def _row(name: str, table: SimulatedTable, X: Floats) -> list[str]:
    cells = [name]
    for way in WAYS:
        found = MerDel(missing=way, random_state=0).fit(X)
        ari = adjusted_rand_score(table.labels, found.labels_)
        cells.append(f"{ari:.3f} ({found.n_clusters_})")
    return cells
