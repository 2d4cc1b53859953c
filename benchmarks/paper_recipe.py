"""The paper's recipe on its simulations 1.1 to 1.3 (appendix G.3), ten tables each."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.metrics import adjusted_rand_score

from benchmarks.measure import Finding, Report
from fedmerdel import MerDel, bayes_labels, simulate

N_TABLES = 10
ARI_GAP = 0.01
CLUSTERS_OFF = 0.5
LAPS = (0, 1, 2, 5, 10, None)

# Rows, variables, K_init and the sizes of the clusters: the paper gives their range.
SIMULATIONS = {
    "1.1": (1000, 60, 20, [100, 150, 200, 250, 300]),
    "1.2": (2000, 100, 20, [50, 80, 120, 150, 200, 250, 350, 800]),
    "1.3": (4000, 100, 25, [200, 225, 250, 300, 350, 400, 450, 475, 550, 800]),
}

# The paper's table tablesim_combined: ARI and clusters for each of LAPS.
PAPER = {
    "1.1": [(0.856, 5.01), (0.858, 5.0), (0.858, 5.0), (0.858, 5.0), (0.858, 5.0), (0.823, 15.3)],
    "1.2": [
        (0.959, 7.65),
        (0.962, 7.63),
        (0.962, 7.70),
        (0.963, 7.84),
        (0.962, 8.54),
        (0.940, 18.0),
    ],
    "1.3": [
        (0.953, 10.0),
        (0.954, 10.0),
        (0.954, 10.0),
        (0.954, 10.2),
        (0.953, 12.0),
        (0.943, 22.7),
    ],
}


def recipes() -> dict[str, dict[str, Any]]:
    """Return the options of the paper's recipe for each number of laps, and the default's."""
    laps = {f"laps {'never' if n is None else n}": {"recipe": "paper", "laps": n} for n in LAPS}
    return {**laps, "default": {}}


def run() -> Report:
    """Fit every simulation with every number of laps, and with the default recipe."""
    findings, rows = [], []
    for name in SIMULATIONS:
        best, results = _simulation(name)
        for laps, (ari, clusters, elbo) in results.items():
            published = PAPER[name][LAPS.index(laps)] if laps in LAPS else None
            rows.append(
                [
                    name,
                    "never" if laps is None else str(laps),
                    f"{ari:.3f}",
                    f"{published[0]:.3f}" if published else "",
                    f"{best:.3f}",
                    f"{clusters:.2f}",
                    f"{published[1]:.2f}" if published else "",
                    f"{elbo:,.0f}",
                ]
            )
        ari, clusters, _ = results[5]
        off = abs(clusters - PAPER[name][LAPS.index(5)][1])
        findings += [
            Finding(
                f"{name}, laps = 5: mean ARI below the Bayes labels'",
                f"at most {ARI_GAP}",
                f"{best - ari:.4f}",
                best - ari <= ARI_GAP,
            ),
            Finding(
                f"{name}, laps = 5: mean clusters from the paper's",
                f"within {CLUSTERS_OFF}",
                f"{off:.2f}",
                off <= CLUSTERS_OFF,
            ),
            Finding(
                f"{name}, no moves: mean clusters (the paper: {PAPER[name][-1][1]})",
                f"more than {len(SIMULATIONS[name][3])}, as in the paper",
                f"{results[None][1]:.1f}",
                results[None][1] > len(SIMULATIONS[name][3]) + 1,
            ),
        ]
    header = ["simulation", "laps", "ARI", "paper", "Bayes", "clusters", "paper", "ELBO"]
    note = f"Means over {N_TABLES} tables, one start each; 'default' is the default recipe."
    return Report(findings, header, rows, note)


def _simulation(
    name: str,
) -> tuple[float, dict[int | str | None, tuple[float, float, float]]]:
    n_rows, n_variables, max_clusters, sizes = SIMULATIONS[name]
    tables = [
        simulate(n_rows, n_variables, len(sizes), cluster_sizes=sizes, random_state=seed)
        for seed in range(N_TABLES)
    ]
    best = float(np.mean([adjusted_rand_score(t.labels, bayes_labels(t)) for t in tables]))
    results: dict[int | str | None, tuple[float, float, float]] = {}
    for laps in (*LAPS, "default"):
        fits = []
        for seed, table in enumerate(tables):
            if isinstance(laps, str):
                model = MerDel(max_clusters, random_state=seed)
            else:
                model = MerDel(max_clusters, recipe="paper", laps=laps, random_state=seed)
            model.fit(table.X)
            ari = adjusted_rand_score(table.labels, model.labels_)
            fits.append((ari, model.n_clusters_, model.lower_bound_))
        ari, clusters, elbo = np.mean(fits, axis=0)
        results[laps] = (float(ari), float(clusters), float(elbo))
    return best, results
