"""What the paper does not say of its tables: how large the clusters are (appendix G.4)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.metrics import adjusted_rand_score

from experiments.experiment import Experiment, Row, Scale, Task, counts
from experiments.published import FREQUENCY, GLOBAL_MERGE
from experiments.studies.frequency import DATASETS, LAPS, NEVER, fit_laps, table_of
from experiments.tables import by, markdown, mean, median_range
from fedmerdel import bayes_labels, simulate

N_ROWS, N_VARIABLES, N_CLUSTERS = 20_000, 100, 12
# The smallest and the largest share of the rows that a cluster may have.
KINDS = {"all alike": None, "1/24 to 1/6": (24, 6), "1/40 to 1/5": (40, 5)}

STATED = "1.5"
"""The one simulation of which the stated sizes are not those of the authors' shares."""


def _tasks(scale: Scale) -> list[Task]:
    n_rows = 2000 if scale == "smoke" else N_ROWS
    return [
        {"sizes": sizes, "n_rows": n_rows, "dataset": dataset}
        for sizes in KINDS
        for dataset in counts(scale, 1, 8, 40)
    ]


def _run(task: Task) -> list[Row]:
    n_rows, parts = int(task["n_rows"]), KINDS[str(task["sizes"])]
    limits = None if parts is None else (n_rows // parts[0], n_rows // parts[1])
    seed = int(np.random.SeedSequence([int(task["dataset"]), n_rows]).generate_state(1)[0])
    table = simulate(n_rows, N_VARIABLES, N_CLUSTERS, size_range=limits, random_state=seed)
    return [{"ari": adjusted_rand_score(table.labels, bayes_labels(table))}]


def _page(rows: pd.DataFrame, folder: Path) -> str:
    paper = [
        theirs.ari
        for (data, _, method), theirs in GLOBAL_MERGE.items()
        if method == "par" and data.isdigit()
    ]
    lines = [[sizes, median_range(part.ari)] for (sizes,), part in by(rows, "sizes")]
    return (
        markdown(["sizes of the 12 clusters", "best possible ARI"], lines)
        + f"\n{N_ROWS:,} rows, {N_VARIABLES} variables, median [quartiles]. The paper's medians of "
        f"MerDel on all rows in random batches are {min(paper):.3f} to {max(paper):.3f}, "
        f"{np.mean(paper):.3f} on average: as much as the true parameters give where sizes differ, "
        "and more than they give where all are alike. The paper does not say which it had; our "
        "tables have clusters of one size.\n"
    )


def _stated_tasks(scale: Scale) -> list[Task]:
    return [
        {"simulation": STATED, "dataset": dataset, "starts": len(counts(scale, 1, 2, 2))}
        for dataset in counts(scale, 1, 4, DATASETS)
    ]


def _run_stated(task: Task) -> list[Row]:
    table = table_of(STATED, int(task["dataset"]), by_range=True)
    return fit_laps(table, STATED, int(task["starts"]))


def stated_table(stated: pd.DataFrame, shares: pd.DataFrame | None = None) -> str:
    """Return ARI and clusters by laps, with stated sizes and those of the shares, and the paper's.

    ``shares`` are the rows of the experiment "frequency", where they are at hand.
    """
    several = {"sizes as stated": stated}
    if shares is not None:
        several["authors' shares"] = shares[shares.simulation.astype(str) == STATED]
    lines = []
    for laps in LAPS:
        theirs = FREQUENCY[STATED, laps]
        parts = [rows[rows.laps.astype(str) == str(laps)] for rows in several.values()]
        lines.append(
            ["no moves" if laps == NEVER else str(laps), *(mean(part.ari) for part in parts),
             f"{theirs.ari:.3f}", *(mean(part.n_clusters, 2) for part in parts),
             f"{theirs.clusters:g}"]
        )  # fmt: skip
    titles = [f"{what}, {name}" for what in ("ARI", "clusters") for name in (*several, "paper")]
    return markdown(["laps", *titles], lines)


def _stated_page(rows: pd.DataFrame, folder: Path) -> str:
    return (
        stated_table(rows)
        + "\nThe paper states 50 to 200 rows a cluster for this simulation. [Frequency of moves]"
        "(frequency.md) has it with the shares of the authors' public scripts, 75 to 300 rows.\n"
    )


SIZES = Experiment(
    "cluster-sizes",
    "The best possible ARI by the sizes of clusters, which the paper does not state",
    _tasks,
    _run,
    _page,
)
STATED_SIZES = Experiment(
    "stated-sizes",
    "Simulation 1.5 with the sizes of clusters that the paper states",
    _stated_tasks,
    _run_stated,
    _stated_page,
)
