"""What the paper does not say of its tables: how large the clusters are (appendix G.4)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.metrics import adjusted_rand_score

from experiments.experiment import Experiment, Row, Scale, Task, counts
from experiments.published import GLOBAL_MERGE
from experiments.tables import by, markdown, median_range
from fedmerdel import bayes_labels, simulate

N_ROWS, N_VARIABLES, N_CLUSTERS = 20_000, 100, 12
# The smallest and the largest share of the rows that a cluster may have.
KINDS = {"all alike": None, "1/24 to 1/6": (24, 6), "1/40 to 1/5": (40, 5)}


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


SIZES = Experiment(
    "cluster-sizes",
    "The best possible ARI by the sizes of clusters, which the paper does not state",
    _tasks,
    _run,
    _page,
)
