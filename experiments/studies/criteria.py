"""Which clusters to propose for a merge: four criteria on studies A and B (figure cdrplots)."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pandas as pd
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

from experiments.experiment import Experiment, Row, Scale, Task, counts
from experiments.tables import by, figure, markdown, median_range
from fedmerdel import MerDel, simulate
from fedmerdel.sums.similarity import MergeCriterion

# True clusters, most clusters, variables.
STUDIES = {"A": (10, 20, 50), "B": (20, 40, 100)}
LAPS = (1, 5)
N_ROWS = 2000


def _tasks(scale: Scale) -> list[Task]:
    return [
        {"study": study, "dataset": d, "starts": len(counts(scale, 1, 3, 10))}
        for study in (("A",) if scale == "smoke" else STUDIES)
        for d in counts(scale, 1, 4, 30)
    ]


def _run(task: Task) -> list[Row]:
    study, dataset = str(task["study"]), int(task["dataset"])
    n_clusters, most, n_variables = STUDIES[study]
    seed = int(np.random.SeedSequence([dataset, *study.encode()]).generate_state(1)[0])
    table = simulate(N_ROWS, n_variables, n_clusters, random_state=seed)
    rows: list[Row] = []
    for criterion in get_args(MergeCriterion):
        for laps in LAPS:
            for start in range(int(task["starts"])):
                model = MerDel(most, recipe="paper", laps=laps, merge_criterion=criterion,
                               random_state=start)  # fmt: skip
                began = time.process_time()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", ConvergenceWarning)
                    model.fit(table.X)
                merges = [move.accepted for move in model.history_ if move.kind == "merge"]
                rows.append(
                    {
                        "criterion": criterion,
                        "laps": laps,
                        "start": start,
                        "seconds": time.process_time() - began,
                        "ari": adjusted_rand_score(table.labels, model.labels_),
                        "merge_rate": float(np.mean(merges)) if merges else 0.0,
                    }
                )
    return rows


def _page(rows: pd.DataFrame, folder: Path) -> str:
    lines = []
    for (study, laps, criterion), part in by(rows, "study", "laps", "criterion"):
        lines.append(
            [study, str(laps), criterion, median_range(part.ari), median_range(part.seconds),
             median_range(part.merge_rate)]
        )  # fmt: skip
    _draw(rows, folder)
    header = ["study", "laps", "criterion", "ARI", "core-s", "share of merges accepted"]
    return markdown(header, lines) + "\n![By criterion](criteria.svg)\n"


def _draw(rows: pd.DataFrame, folder: Path) -> None:
    measures = {"ari": "ARI", "seconds": "core-seconds", "merge_rate": "merges accepted"}
    studies = list(dict.fromkeys(rows.study))
    size = (11, 3 * len(studies))
    with figure(folder, "criteria", nrows=len(studies), ncols=3, figsize=size) as axes:
        for line, study in zip(np.atleast_2d(axes), studies, strict=True):
            for each, (measure, title) in zip(line, measures.items(), strict=True):
                part = rows[rows.study == study]
                groups: dict[str, Any] = {
                    f"{criterion[:4]} {laps}": g[measure].astype(float).to_numpy()
                    for (laps, criterion), g in by(part, "laps", "criterion")
                }
                each.boxplot(list(groups.values()), tick_labels=list(groups), showfliers=False)
                each.tick_params(axis="x", rotation=60)
                each.set_title(f"{study}: {title}")
                if measure == "seconds":
                    each.set_yscale("log")


CRITERIA = Experiment(
    "criteria", "Merge criteria in studies A and B: time, ARI, merge rate (figure cdrplots)",
    _tasks, _run, _page,
)  # fmt: skip
