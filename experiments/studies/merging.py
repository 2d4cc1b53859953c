"""FedMerDel against MerDel on pooled rows: global merges of random and heterogeneous batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import adjusted_rand_score

from experiments.data import Federation, federation
from experiments.experiment import Experiment, Row, Scale, Task, counts
from experiments.methods.face import Labels
from experiments.methods.ours import PAPER, Pooled, fit_batches, merged_again
from experiments.published import GLOBAL_MERGE
from experiments.tables import COLOURS, by, figure, markdown, median_range

METHODS = {
    "full": "MerDel, paper's recipe (full, par)",
    "greedy": "FedMerDel greedy, paper's recipe",
    "random": "FedMerDel random, paper's recipe",
    "default": "MerDel, our default",
    "frozen": "FedMerDel exact, labels frozen",
    "exact": "FedMerDel exact, our default",
}
SIZES = (
    (20_000, 5),
    (50_000, 5),
    (50_000, 10),
    (100_000, 5),
    (100_000, 10),
    (200_000, 10),
    (500_000, 10),
    (1_000_000, 20),
)
KINDS = {"a": (50_000, 10), "b": (50_000, 5), "c": (20_000, 5)}
SHUFFLES = ((20_000, 10), (50_000, 4), (200_000, 2), (1_000_000, 1))
"""Shuffles of each data set up to so many rows; the paper has ten of all, and sees that ARIs
differ by data set and hardly by shuffle."""


def compare(
    found: Federation, seed: int, *, max_clusters: int = 20, criterion: str = "correlation",
    pooled: bool = True, **options: Any,
) -> list[Row]:  # fmt: skip
    """Fit one federation by every method, and return a row for each."""
    batches = found.batches
    truth = np.concatenate([found.table.labels[at] for at in found.rows_of_batches])
    best = found.best_labels()
    rows: list[Row] = [
        {
            "method": "best",
            "ari": adjusted_rand_score(found.table.labels, best),
            "n_clusters": found.table.n_clusters,
        }
    ]

    def note(method: str, labels: Labels, info: dict[str, float], seconds: float) -> None:
        ari = adjusted_rand_score(truth, labels)
        rows.append({"method": method, "ari": ari, **info, "seconds": seconds})

    paper = {**PAPER, "max_clusters": max_clusters, "merge_criterion": criterion, **options}
    ours = {"max_clusters": max_clusters, **options}
    if pooled:
        for method, chosen in (("full", paper), ("default", ours)):
            labels, info = Pooled(seed, chosen).fit(batches)
            note(method, labels, info, info["seconds"])
    model, info = fit_batches(batches, seed, {**paper, "search": "greedy"})
    note("greedy", model.frozen_labels_, info, info["seconds"])
    local = info["seconds"]
    _, labels, info = merged_again(model, batches, "random", criterion)
    note("random", labels, info, local)
    model, info = fit_batches(batches, seed, ours)
    note("frozen", model.frozen_labels_, info, info["seconds"])
    note("exact", model.labels_, info, info["seconds"])
    return rows


def _tasks(scale: Scale) -> list[Task]:
    sizes = {"smoke": ((2000, 2),), "small": SIZES[:3], "paper": SIZES}[scale]
    return [
        {"n_rows": n_rows, "n_batches": n_batches, "dataset": dataset, "shuffle": shuffle}
        for n_rows, n_batches in sizes
        for dataset in counts(scale, 1, 2, 10)
        for shuffle in counts(scale, 1, 2, next(s for most, s in SHUFFLES if n_rows <= most))
    ]


def _run(task: Task) -> list[Row]:
    n_rows, n_batches, shuffle = (int(task[k]) for k in ("n_rows", "n_batches", "shuffle"))
    return compare(federation(n_rows, n_batches, int(task["dataset"]), shuffle), shuffle)


def _kind_tasks(scale: Scale) -> list[Task]:
    return [
        {"kind": kind, "n_rows": 2000 if scale == "smoke" else n_rows, "n_batches": n_batches,
         "dataset": dataset, "shuffle": shuffle}
        for kind, (n_rows, n_batches) in KINDS.items()
        if scale != "smoke" or kind == "c"
        for dataset in counts(scale, 1, 2, 10)
        for shuffle in counts(scale, 1, 2, 10)
    ]  # fmt: skip


def _run_kind(task: Task) -> list[Row]:
    n_rows, n_batches, shuffle = (int(task[k]) for k in ("n_rows", "n_batches", "shuffle"))
    found = federation(n_rows, n_batches, int(task["dataset"]), shuffle, kind=str(task["kind"]))
    return compare(found, shuffle)


def merge_table(rows: pd.DataFrame, scenario: str, published: dict[Any, Any]) -> str:
    """Return the table of one column of scenarios: ours beside the paper's."""
    lines = []
    for (name, n_batches), part in by(rows, scenario, "n_batches"):
        best = median_range(part[part.method == "best"].ari)
        lines.append([f"**{name}**, {n_batches} batches", "best possible", best, *[""] * 5])
        for method, title in METHODS.items():
            ours = part[part.method == method]
            theirs = published.get((str(name), n_batches, {"full": "par"}.get(method, method)))
            if len(ours) == 0:
                continue
            lines.append(
                [
                    "",
                    title,
                    median_range(ours.ari),
                    f"{theirs.ari:.3f}" if theirs else "",
                    median_range(ours.n_clusters, 1),
                    f"{theirs.clusters:g}" if theirs else "",
                    f"{ours.seconds.astype(float).median():.2f}",
                    f"{theirs.seconds * theirs.cores:,.0f}" if theirs else "",
                ]
            )
    header = ["rows", "method", "ARI", "paper", "clusters", "paper", "core-s", "paper's core-s"]
    return markdown(header, lines)


def _page(rows: pd.DataFrame, folder: Path) -> str:
    with figure(folder, "global-merge") as axes:
        for colour, method in zip(COLOURS, ("full", "random", "exact"), strict=False):
            part = rows[rows.method == method]
            line = (
                part.assign(seconds=part.seconds.astype(float)).groupby("n_rows").seconds.median()
            )
            axes.plot(line.index, line, "o-", color=colour, label=METHODS[method])
        axes.set(xscale="log", yscale="log", xlabel="rows", ylabel="core-seconds, median")
        axes.legend(frameon=False)
    return (
        merge_table(rows, "n_rows", GLOBAL_MERGE)
        + "\nMedian [quartiles] over data sets and shuffles. The paper's core-seconds: wall-clock "
        "times cores. Best possible: labels by the true parameters, on the same rows.\n\n"
        "![Core-seconds against rows](global-merge.svg)\n"
    )


def _kind_page(rows: pd.DataFrame, folder: Path) -> str:
    return merge_table(rows, "kind", GLOBAL_MERGE)


GLOBAL = Experiment(
    "global-merge",
    "Global merge simulations: 20,000 to 1,000,000 rows in random batches "
    "(table globalmergeresultsfull, figure Nlines)",
    _tasks,
    _run,
    _page,
)
HETEROGENEOUS = Experiment(
    "heterogeneous",
    "Heterogeneous batches (a), (b), (c) (table globalmergeresults)",
    _kind_tasks,
    _run_kind,
    _kind_page,
)
