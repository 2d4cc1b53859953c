"""The paper's variable selection: simulations 1.4 and 1.5, and across sites (appendix H)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import adjusted_rand_score, f1_score

from benchmarks.learned_prior import SIMULATIONS
from benchmarks.measure import Finding, Report, in_turns, one_core
from benchmarks.paper_recipe import recipes
from fedmerdel import FedMerDel, MerDel, SimulatedTable, bayes_labels, simulate

N_TABLES = 10
N_SHUFFLES = 5
MOST_COST = 1.5

# Tables tablesim45_combined and selectionsim1vs: ARI, clusters, relevant and irrelevant
# variables found, F1, for each of LAPS.
PAPER = {
    "1.4": [
        (0.692, 7.53, 73.4, 21.7, 0.968),
        (0.731, 7.86, 73.5, 22.7, 0.975),
        (0.753, 8.10, 73.9, 22.7, 0.977),
        (0.773, 8.48, 74.0, 22.4, 0.977),
        (0.792, 9.16, 74.0, 22.2, 0.975),
        (0.782, 19.3, 74.1, 15.5, 0.935),
    ],
    "1.5": [
        (0.561, 6.60, 58.8, 34.6, 0.947),
        (0.625, 7.29, 58.7, 36.0, 0.957),
        (0.651, 7.67, 59.2, 35.8, 0.959),
        (0.679, 8.12, 59.3, 35.5, 0.958),
        (0.710, 8.90, 59.3, 34.9, 0.954),
        (0.730, 19.3, 59.3, 23.1, 0.872),
    ],
}

# Table globalmergeresultsvs: rows, clusters, share of noise, FedMerDel's medians of ARI,
# clusters, relevant and irrelevant variables found, and the ARI of its fit of all rows.
ACROSS_SITES = {
    "20,000": (20_000, 15, 0.20, (0.850, 15, 80, 20), 0.865),
    "50,000": (50_000, 10, 0.25, (0.881, 10, 75, 25), 0.885),
}


def run() -> Report:
    """Fit each simulation with every number of laps, then the federated ones; time one fit."""
    findings: list[Finding] = []
    rows: list[list[str]] = []
    for name, published in PAPER.items():
        _simulation(name, published, findings, rows)
    for name in ACROSS_SITES:
        _across_sites(name, findings, rows)
    findings.append(_cost())
    header = ["table", "recipe", "ARI", "the paper's", "clusters", "relevant", "irrelevant", "F1"]
    note = "The paper's figures in brackets. Means; across sites medians."
    return Report(findings, header, rows, note)


def _found(table: SimulatedTable, model: MerDel | FedMerDel, labels: object) -> tuple[float, ...]:
    selected = model.selected_
    return (
        adjusted_rand_score(table.labels, labels),
        model.n_clusters_,
        float((selected & table.relevant).sum()),
        float((~selected & ~table.relevant).sum()),
        f1_score(table.relevant, selected),
    )


def _simulation(
    name: str,
    published: Sequence[tuple[float, ...]],
    findings: list[Finding],
    rows: list[list[str]],
) -> None:
    tables = [simulate(random_state=seed, **SIMULATIONS[name]) for seed in range(N_TABLES)]
    best = np.mean([adjusted_rand_score(t.labels, bayes_labels(t)) for t in tables])
    for at, (recipe, options) in enumerate(recipes().items()):
        found = []
        for seed, table in enumerate(tables):
            model = MerDel(variable_selection=True, random_state=seed, tol=1e-6, **options)
            model.fit(table.X)
            found.append(_found(table, model, model.labels_))
        mean = np.mean(found, axis=0)
        paper = published[at] if at < len(published) else None
        rows.append([name, recipe, *_cells(mean, paper)])
        if recipe == "default":
            top = max(published, key=lambda row: row[4])
            findings += [
                Finding(
                    f"simulation {name}, selection, default recipe: ARI (best possible {best:.3f})",
                    f"the paper's {max(row[0] for row in published):.3f}",
                    f"{mean[0]:.3f}",
                    bool(mean[0] >= max(row[0] for row in published)),
                ),
                Finding(
                    f"simulation {name}, selection, default recipe: F1",
                    f"the paper's {top[4]:.3f}",
                    f"{mean[4]:.3f}",
                    bool(mean[4] >= top[4]),
                ),
            ]


def _across_sites(name: str, findings: list[Finding], rows: list[list[str]]) -> None:
    n_rows, n_clusters, noisy, published, pooled = ACROSS_SITES[name]
    ways: dict[str, dict[str, Any]] = {
        "paper, greedy": {"recipe": "paper", "search": "greedy"},
        "default, exact": {},
    }
    for recipe, options in ways.items():
        found, best = [], []
        for data in range(5):
            table = simulate(n_rows, 100, n_clusters, noisy=noisy, random_state=data)
            best.append(adjusted_rand_score(table.labels, bayes_labels(table)))
            for shuffle in range(N_SHUFFLES):
                model = FedMerDel(
                    variable_selection=True, n_batches=5, random_state=shuffle, tol=1e-6, **options
                )
                model.fit(table.X)
                frozen = "search" in options
                labels = model.frozen_labels_ if frozen else model.labels_
                found.append(_found(table, model, labels))
        median = np.median(found, axis=0)
        rows.append([f"{name} over 5 sites", recipe, *_cells(median, (*published, None))])
        lost, allowed = float(np.median(best)) - median[0], pooled - published[0]
        findings += [
            Finding(
                f"{name} over 5 sites, selection, {recipe}: ARI below the best possible "
                f"{np.median(best):.3f} (the paper's: below its fit of all rows)",
                f"{allowed:.3f}",
                f"{lost:.3f}",
                bool(lost <= allowed + 0.0005),
            ),
            Finding(
                f"{name} over 5 sites, selection, {recipe}: clusters, relevant, irrelevant found",
                ", ".join(f"{number:g}" for number in published[1:]),
                ", ".join(f"{number:.3g}" for number in median[1:4]),
                bool(median[1] == published[1] and (median[2:4] >= published[2:]).all()),
            ),
        ]


def _cells(found: NDArray[np.float64], paper: tuple[float | None, ...] | None) -> list[str]:
    ari, *rest = found
    if paper is None:
        return [f"{ari:.3f}", "", *(f"{x:.2f}" for x in rest[:3]), f"{rest[3]:.3f}"]
    told = ["" if x is None else f" ({x:g})" for x in paper[1:]]
    cells = [f"{x:.2f}{p}" for x, p in zip(rest[:3], told, strict=False)]
    return [f"{ari:.3f}", f"{paper[0]:.3f}", *cells, f"{rest[3]:.3f}{told[3]}"]


def _cost() -> Finding:
    """Time a fit with selection against one without, on the same table and start."""
    table = simulate(20_000, 100, 12, noisy=0.25, random_state=1)

    def fit(select: bool) -> None:
        MerDel(variable_selection=select, prior="fixed", random_state=1).fit(table.X)

    with one_core():
        plain, with_it, ratio = in_turns(lambda: fit(False), lambda: fit(True), times=7)
    return Finding(
        "a fit with selection against one without, 20,000 x 100",
        f"at most {MOST_COST} times",
        f"{ratio:.2f} times ({with_it:.2f} s, {plain:.2f} s)",
        ratio <= MOST_COST,
    )
