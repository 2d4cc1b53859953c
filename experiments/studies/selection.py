"""Global merge with variable selection (table globalmergeresultsvs)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import adjusted_rand_score

from experiments.data import federation
from experiments.experiment import Experiment, Row, Scale, Task, counts
from experiments.methods.ours import PAPER, fit_batches, merged_again, merged_by_selection
from experiments.tables import by, markdown, median_range
from fedmerdel import MerDel

# Rows: true clusters, share of noise; and the paper's medians: ARI, clusters, relevant and
# irrelevant variables found, for all rows together and for FedMerDel.
SCENARIOS: dict[int, tuple[int, float]] = {20_000: (15, 0.20), 50_000: (10, 0.25)}
PUBLISHED = {
    (20_000, "full"): (0.865, 15, 80, 17),
    (20_000, "greedy"): (0.850, 15, 80, 20),
    (50_000, "full"): (0.885, 10, 75, 23),
    (50_000, "greedy"): (0.881, 10, 75, 25),
}
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "full": ("MerDel, paper's recipe (full, par)", {**PAPER, "variable_selection": True}),
    "greedy": (
        "FedMerDel greedy, paper's recipe",
        {**PAPER, "variable_selection": True, "search": "greedy"},
    ),
    "weighted": ("FedMerDel greedy, S weighted by each site's c_j (appendix D.3)", {}),
    "thirty": (
        "FedMerDel greedy, 30 clusters at first",
        {**PAPER, "variable_selection": True, "search": "greedy", "max_clusters": 30},
    ),
    "selection": ("FedMerDel exact, selection", {"variable_selection": True}),
    "exact": ("FedMerDel exact, our default (learned prior)", {}),
}


def _tasks(scale: Scale) -> list[Task]:
    return [
        {"rows": rows, "n_rows": 4000 if scale == "smoke" else rows, "dataset": d, "shuffle": s}
        for rows in ((50_000,) if scale == "smoke" else SCENARIOS)
        for d in counts(scale, 1, 2, 5)
        for s in counts(scale, 1, 1, 3)
    ]


def _run(task: Task) -> list[Row]:
    n_rows, shuffle = int(task["n_rows"]), int(task["shuffle"])
    n_clusters, noisy = SCENARIOS[int(task["rows"])]
    found = federation(
        n_rows, 5, int(task["dataset"]), shuffle, kind="noise", n_clusters=n_clusters, noisy=noisy
    )
    truth = np.concatenate([found.table.labels[at] for at in found.rows_of_batches])
    best = adjusted_rand_score(found.table.labels, found.best_labels())
    rows: list[Row] = [{"method": "best", "ari": best, "n_clusters": n_clusters}]
    for method, (_, options) in METHODS.items():
        info: dict[str, float] = {}
        if method == "full":
            model: Any = MerDel(random_state=shuffle, **options).fit(np.concatenate(found.batches))
            labels = model.labels_
        elif method == "weighted":  # the local clusters of "greedy", which comes before
            labels, info = merged_by_selection(model, found.batches)
        else:
            model, _ = fit_batches(found.batches, shuffle, options)
            search = options.get("search", "exact")
            _, frozen, info = merged_again(model, found.batches, search)
            labels = frozen if search == "greedy" else model.labels_
        told, relevant = model.selected_, found.table.relevant
        rows.append(
            {
                "method": method,
                "ari": adjusted_rand_score(truth, labels),
                "n_clusters": info.get("n_clusters", model.n_clusters_),
                "relevant": int((told & relevant).sum()),
                "irrelevant": int((~told & ~relevant).sum()),
                "merge_seconds": info.get("merge_seconds", ""),
            }
        )
    return rows


def _page(rows: pd.DataFrame, folder: Path) -> str:
    lines = []
    for (n_rows,), part in by(rows, "rows"):
        best = median_range(part[part.method == "best"].ari)
        lines.append([f"**{int(n_rows):,}**", "best possible", best, "", "", "", "", ""])
        for method, (title, _) in METHODS.items():
            ours = part[part.method == method]
            theirs = PUBLISHED.get((int(n_rows), method))
            lines.append(
                [
                    "",
                    title,
                    median_range(ours.ari),
                    f"{theirs[0]:.3f}" if theirs else "",
                    median_range(ours.n_clusters, 1),
                    str(theirs[1]) if theirs else "",
                    f"{ours.relevant.astype(float).median():g}, "
                    f"{ours.irrelevant.astype(float).median():g}",
                    f"{theirs[2]}, {theirs[3]}" if theirs else "",
                ]
            )
    header = ["rows", "method", "ARI", "paper", "clusters", "paper",
              "relevant, irrelevant found", "paper"]  # fmt: skip
    merges = rows[rows.method == "greedy"].merge_seconds.astype(float)
    return (
        markdown(header, lines)
        + f"\nGlobal merges took at most {merges.max():.2f} core-seconds; the paper: less than one "
        "second in all cases.\n"
    )


SELECTION = Experiment(
    "selection", "Global merge with variable selection (table globalmergeresultsvs)",
    _tasks, _run, _page,
)  # fmt: skip
