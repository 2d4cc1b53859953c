"""Other global merges: more or fewer variables, alike clusters, more levels, more batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import kruskal
from sklearn.metrics import adjusted_rand_score

from experiments.data import Federation, federation, random_batches
from experiments.experiment import Experiment, Row, Scale, Task, counts
from experiments.methods.ours import PAPER, fit_batches, merged_again
from experiments.published import CATEGORICAL, CATEGORICAL_MERGE_SECONDS, VARYING_P
from experiments.studies.merge_pages import METHODS, SEARCHES, draw_seconds, seconds_of_merges
from experiments.studies.merging import compare
from experiments.tables import by, figure, markdown, median_range

VARIABLES = (60, 80, 120, 200)
BATCHES = {100_000: (2, 4, 10), 200_000: (4, 8, 20)}
# Rows: true clusters, batches, most clusters.
CATEGORIES = {20_000: (20, 4, 30), 50_000: (10, 5, 20), 100_000: (12, 5, 20)}
FIRST = (15, 20, 30)
"""Clusters that fits start with where clusters are less separable; the paper's 15 first."""

SHUFFLES = 3
"""Of each data set; the paper has three, five or ten."""


def _line(part: pd.DataFrame, first: str, title: str, published: Any) -> list[str]:
    return [
        first,
        title,
        median_range(part.ari),
        f"{published.ari:.3f}" if published else "",
        median_range(part.n_clusters, 1),
        f"{published.clusters:g}" if published else "",
        f"{part.seconds.astype(float).median():.2f}" if title != "best possible" else "",
        f"{published.seconds * published.cores:,.0f}" if published else "",
    ]


def _table(rows: pd.DataFrame, column: str, published: dict[Any, Any]) -> str:
    lines = []
    for (value,), part in by(rows, column):
        lines.append(_line(part[part.method == "best"], f"**{value}**", "best possible", None))
        for method, title in METHODS.items():
            ours = part[part.method == method]
            if len(ours):
                theirs = published.get((value, {"full": "par"}.get(method, method)))
                lines.append(_line(ours, "", title, theirs))
    header = [column, "method", "ARI", "paper", "clusters", "paper", "core-s", "paper's core-s"]
    return markdown(header, lines)


def _p_tasks(scale: Scale) -> list[Task]:
    return [
        {
            "variables": P,
            "n_rows": 2000 if scale == "smoke" else 100_000,
            "dataset": d,
            "shuffle": s,
        }
        for P in (VARIABLES[:1] if scale == "smoke" else VARIABLES)
        for d in counts(scale, 1, 2, 5)
        for s in counts(scale, 1, 1, SHUFFLES)
    ]


def _run_p(task: Task) -> list[Row]:
    found = federation(
        int(task["n_rows"]), 5, int(task["dataset"]), int(task["shuffle"]),
        kind=f"P{task['variables']}", n_variables=int(task["variables"]), n_clusters=10,
    )  # fmt: skip
    return compare(found, int(task["shuffle"]))


def _p_page(rows: pd.DataFrame, folder: Path) -> str:
    with figure(folder, "varying-p") as axes:
        draw_seconds(axes, rows, "variables")
        axes.set(xlabel="variables", ylabel="core-seconds, mean and 95 % interval", ylim=(0, None))
        axes.legend(frameon=False)
    return _table(rows, "variables", VARYING_P) + "\n![Core-seconds](varying-p.svg)\n"


def _separable_tasks(scale: Scale) -> list[Task]:
    return [
        {"alike": alike, "n_rows": 2000 if scale == "smoke" else 50_000, "dataset": d, "shuffle": s}
        for alike in (0, 1)
        for d in counts(scale, 1, 2, 5)
        for s in counts(scale, 1, 1, 3)
    ]


def _run_separable(task: Task) -> list[Row]:
    alike = bool(int(task["alike"]))
    found = federation(
        int(task["n_rows"]), 5, int(task["dataset"]), int(task["shuffle"]),
        kind=f"alike{int(alike)}", beta=(2, 2), near_identical=alike,
    )  # fmt: skip
    rows = compare(found, int(task["shuffle"]), max_clusters=FIRST[0])
    return rows + [_local(found, int(task["shuffle"]), first) for first in FIRST]


def _local(found: Federation, seed: int, first: int) -> Row:
    """Count the batches whose fits by the paper's recipe have two true clusters in one."""
    options = {**PAPER, "search": "greedy", "max_clusters": first}
    model, _ = fit_batches(found.batches, seed, options)
    ends = np.cumsum([len(batch) for batch in found.batches])[:-1]
    truth = np.concatenate([found.table.labels[at] for at in found.rows_of_batches])
    twins = others = 0
    for true, own in zip(np.split(truth, ends), np.split(model.local_labels_, ends), strict=True):
        table = np.zeros((found.table.n_clusters, int(own.max()) + 1))
        np.add.at(table, (true, own), 1)
        mostly = table.argmax(axis=1)
        together = mostly[-1] == mostly[-2]
        twins += bool(together)
        others += len(np.unique(mostly)) + together < len(mostly)
    return {
        "method": f"local, {first} at first",
        "ari": adjusted_rand_score(truth, model.frozen_labels_),
        "n_clusters": model.n_clusters_,
        "fits": len(found.batches),
        "twins": twins,
        "others": others,
    }


def _separable_page(rows: pd.DataFrame, folder: Path) -> str:
    named = rows.assign(
        clusters=np.where(rows.alike.astype(int) == 1, "Beta(2, 2), two alike", "Beta(2, 2)")
    )
    return (
        _table(named, "clusters", {})
        + "\nThe paper: all ARIs close to 0.99.\n\nFits of single batches (10,000 rows) by the "
        "paper's recipe, by the number of clusters at first; the paper has 15. Labels are frozen "
        "after the merge.\n\n" + lost_in_batches(named)
    )


def lost_in_batches(rows: pd.DataFrame) -> str:
    """Return how many fits of batches have two true clusters in one, and what becomes of it."""
    lines = []
    for (name, method), part in by(rows[rows.method.str.startswith("local")], "clusters", "method"):
        fits, twins, others = (part[c].astype(int).sum() for c in ("fits", "twins", "others"))
        first = method.removeprefix("local, ").removesuffix(" at first")
        lines.append([name, first, f"{twins} of {fits}", f"{others} of {fits}",
                      median_range(part.ari)])  # fmt: skip
    header = ["clusters", "at first", "last two clusters in one", "others in one", "ARI"]
    return markdown(header, lines)


def _categorical_tasks(scale: Scale) -> list[Task]:
    return [
        {"rows": rows, "n_rows": 2000 if scale == "smoke" else rows, "dataset": d, "shuffle": s}
        for rows in ((50_000,) if scale == "smoke" else CATEGORIES)
        for d in counts(scale, 1, 2, 5)
        for s in counts(scale, 1, 1, SHUFFLES)
    ]


def _run_categorical(task: Task) -> list[Row]:
    n_clusters, n_batches, most = CATEGORIES[int(task["rows"])]
    found = federation(
        int(task["n_rows"]), n_batches, int(task["dataset"]), int(task["shuffle"]), kind="levels",
        levels=3, n_clusters=n_clusters,
    )  # fmt: skip
    return compare(found, int(task["shuffle"]), max_clusters=most, criterion="kl")


def _categorical_page(rows: pd.DataFrame, folder: Path) -> str:
    rows = rows.assign(rows=rows["rows"].astype(int))
    return _table(rows, "rows", CATEGORICAL) + seconds_of_merges(
        rows, "rows", CATEGORICAL_MERGE_SECONDS, SEARCHES
    )


def _batch_tasks(scale: Scale) -> list[Task]:
    sizes = {2000: (2, 4)} if scale == "smoke" else BATCHES
    return [
        {"n_rows": n_rows, "dataset": d, "shuffle": s, "batches": n_batches}
        for n_rows, several in sizes.items()
        for n_batches in several
        for d in counts(scale, 1, 2, 20)
        for s in counts(scale, 1, 1, 1)
    ]


def _run_batches(task: Task) -> list[Row]:
    """Fit by the paper's recipe and random search and, on the first shuffle, by our default."""
    n_rows, n_batches, shuffle = (int(task[k]) for k in ("n_rows", "batches", "shuffle"))
    # The same tables for every number of batches: sizes from a twentieth to a fifth.
    found = federation(
        n_rows, 1, int(task["dataset"]), 0, kind="uneven", n_clusters=10,
        size_range=(n_rows // 20, n_rows // 5),
    )  # fmt: skip
    found = found._replace(batch=random_batches(n_rows, n_batches, shuffle))
    truth = np.concatenate([found.table.labels[at] for at in found.rows_of_batches])
    model, info = fit_batches(found.batches, shuffle, {**PAPER, "search": "greedy"})
    _, labels, merged = merged_again(model, found.batches, "random")
    rows: list[Row] = [
        {"method": "random", "ari": adjusted_rand_score(truth, labels),
         "n_clusters": merged["n_clusters"], "seconds": info["seconds"]},
    ]  # fmt: skip
    if shuffle == 0:
        model, info = fit_batches(found.batches, shuffle, {})
        rows.append(
            {"method": "exact", "ari": adjusted_rand_score(truth, model.labels_),
             "n_clusters": info["n_clusters"], "seconds": info["seconds"]}
        )  # fmt: skip
    return rows


def _batch_page(rows: pd.DataFrame, folder: Path) -> str:
    lines, tests = [], []
    sizes = list(dict.fromkeys(rows.n_rows))
    with figure(folder, "batches", ncols=len(sizes), figsize=(9, 4)) as axes:
        for each, n_rows in zip(np.atleast_1d(axes), sizes, strict=True):
            part = rows[(rows.n_rows == n_rows) & (rows.method == "random")]
            groups = {b: g.ari.astype(float).to_numpy() for (b,), g in by(part, "batches")}
            each.boxplot(list(groups.values()), tick_labels=[str(b) for b in groups])
            each.set(title=f"{int(n_rows):,} rows", xlabel="batches", ylabel="ARI")
            if len(groups) > 1 and min(map(len, groups.values())) > 1:
                published = {100_000: "0.125", 200_000: "0.0938"}.get(int(n_rows), "")
                p = kruskal(*groups.values()).pvalue
                tests.append([f"{int(n_rows):,}", f"{p:.3f}", published])
    for (n_rows, n_batches, method), part in by(rows, "n_rows", "batches", "method"):
        lines.append([f"{int(n_rows):,}", str(n_batches), METHODS[method], median_range(part.ari),
                      median_range(part.n_clusters, 1)])  # fmt: skip
    text = markdown(["rows", "batches", "method", "ARI", "clusters"], lines)
    if tests:
        text += "\nKruskal-Wallis test of a difference in ARI between numbers of batches:\n\n"
        text += markdown(["rows", "p", "paper's p"], tests)
    return text + "\n![ARI by number of batches](batches.svg)\n"


P = Experiment(
    "varying-p", "100,000 rows with 60 to 200 variables (table globalmergeresultsP)",
    _p_tasks, _run_p, _p_page,
)  # fmt: skip
SEPARABLE = Experiment(
    "separable", "Less separable clusters, two of them alike (appendix H.2)",
    _separable_tasks, _run_separable, _separable_page,
)  # fmt: skip
CATEGORICAL_MERGE = Experiment(
    "categorical", "Global merge with three levels a variable (table globalmergeresultscat)",
    _categorical_tasks, _run_categorical, _categorical_page,
)  # fmt: skip
NUMBER_OF_BATCHES = Experiment(
    "batches", "Number of batches, and the Kruskal-Wallis test (figure noofshardsboxplot)",
    _batch_tasks, _run_batches, _batch_page,
)  # fmt: skip
