"""FedMerDel against MerDel on pooled rows: global merges of random and heterogeneous batches."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.metrics import adjusted_rand_score

from experiments.data import Federation, federation
from experiments.experiment import Experiment, Row, Scale, Task, counts
from experiments.methods.face import Labels
from experiments.methods.ours import PAPER, Pooled, fit_batches, merged_again
from experiments.studies.merge_pages import global_page, kind_page, uneven_page
from fedmerdel import bayes_labels
from fedmerdel.sums.search import Search

N_CLUSTERS = 12
PAPER_SEARCHES: tuple[Search, ...] = ("greedy", "random")
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
# Rows, batches, shuffles of each of ten data sets.
KINDS = {
    "a": (50_000, 10, 10),
    "a small": (50_000, 10, 2),
    "b": (50_000, 5, 10),
    "c": (20_000, 5, 10),
}
RUNS = ((50_000, 10, 10), (200_000, 10, 2), (1_000_000, 10, 1))
"""Data sets, and shuffles of each, up to so many rows. The paper has ten and ten of all, and sees
that ARIs differ by data set and hardly by shuffle."""

UNEVEN_RUNS = ((50_000, 10, 2), (200_000, 10, 1), (1_000_000, 3, 1))
UNEVEN = 2
"""Uneven clusters have from one part in so many of their mean size to so many times it."""


def compare(
    found: Federation, seed: int, *, max_clusters: int = 20, criterion: str = "correlation",
    **options: Any,
) -> list[Row]:  # fmt: skip
    """Fit one federation by every method, and return a row for each.

    "best" are the labels of someone who knows the parameters and the batch of each row; "best
    pooled" of someone who does not know the batch, as a method on pooled rows does not.
    """
    batches = found.batches
    table = found.table
    truth = np.concatenate([table.labels[at] for at in found.rows_of_batches])
    rows: list[Row] = [
        {"method": name, "ari": adjusted_rand_score(table.labels, labels),
         "n_clusters": table.n_clusters}
        for name, labels in (("best", found.best_labels()), ("best pooled", bayes_labels(table)))
    ]  # fmt: skip

    def note(method: str, labels: Labels, info: dict[str, float], seconds: float) -> None:
        ari = adjusted_rand_score(truth, labels)
        rows.append({"method": method, "ari": ari, **info, "seconds": seconds})

    paper = {**PAPER, "max_clusters": max_clusters, "merge_criterion": criterion, **options}
    ours = {"max_clusters": max_clusters, **options}
    for method, chosen in (("full", paper), ("default", ours)):
        labels, info = Pooled(seed, chosen).fit(batches)
        note(method, labels, {k: info[k] for k in ("n_clusters", "elbo")}, info["seconds"])
    model, local = fit_batches(batches, seed, {**paper, "search": "greedy"})
    for search in PAPER_SEARCHES:
        _, labels, info = merged_again(model, batches, search, criterion)
        note(search, labels, info, local["seconds"])
    model, local = fit_batches(batches, seed, ours)
    _, labels, info = merged_again(model, batches, "exact")
    note("frozen", labels, info, local["seconds"])
    note("exact", model.labels_, info, local["seconds"])
    return rows


def _tasks(scale: Scale) -> list[Task]:
    return _size_tasks(scale, RUNS)


def _uneven_tasks(scale: Scale) -> list[Task]:
    return _size_tasks(scale, UNEVEN_RUNS)


def _size_tasks(scale: Scale, runs: tuple[tuple[int, int, int], ...]) -> list[Task]:
    sizes = {"smoke": ((2000, 2),), "small": SIZES[:3], "paper": SIZES}[scale]
    several = {n: next((d, s) for most, d, s in runs if n <= most) for n, _ in sizes}
    return [
        {"n_rows": n_rows, "n_batches": n_batches, "dataset": dataset, "shuffle": shuffle}
        for n_rows, n_batches in sizes
        for dataset in counts(scale, 1, 2, several[n_rows][0])
        for shuffle in counts(scale, 1, 2, several[n_rows][1])
    ]


def _run(task: Task) -> list[Row]:
    n_rows, n_batches, shuffle = (int(task[k]) for k in ("n_rows", "n_batches", "shuffle"))
    return compare(federation(n_rows, n_batches, int(task["dataset"]), shuffle), shuffle)


def _run_uneven(task: Task) -> list[Row]:
    n_rows, n_batches, shuffle = (int(task[k]) for k in ("n_rows", "n_batches", "shuffle"))
    mean = n_rows / N_CLUSTERS
    limits = int(mean / UNEVEN), int(mean * UNEVEN)
    found = federation(
        n_rows, n_batches, int(task["dataset"]), shuffle, kind="uneven", size_range=limits
    )
    return compare(found, shuffle)


def _kind_tasks(scale: Scale) -> list[Task]:
    return [
        {"kind": kind, "n_rows": 2000 if scale == "smoke" else n_rows, "n_batches": n_batches,
         "dataset": dataset, "shuffle": shuffle}
        for kind, (n_rows, n_batches, shuffles) in KINDS.items()
        if scale != "smoke" or kind == "c"
        for dataset in counts(scale, 1, 2, 10)
        for shuffle in counts(scale, 1, 2, shuffles)
    ]  # fmt: skip


def _run_kind(task: Task) -> list[Row]:
    n_rows, n_batches, shuffle = (int(task[k]) for k in ("n_rows", "n_batches", "shuffle"))
    found = federation(n_rows, n_batches, int(task["dataset"]), shuffle, kind=str(task["kind"]))
    return compare(found, shuffle)


GLOBAL = Experiment(
    "global-merge",
    "Global merge simulations: 20,000 to 1,000,000 rows in random batches "
    "(table globalmergeresultsfull, figure Nlines)",
    _tasks,
    _run,
    global_page,
)
UNEVEN_SIZES = Experiment(
    "global-merge-uneven",
    "The same with clusters of half to twice the mean size",
    _uneven_tasks,
    _run_uneven,
    uneven_page,
)
HETEROGENEOUS = Experiment(
    "heterogeneous",
    "Heterogeneous batches (a), (b), (c) (table globalmergeresults)",
    _kind_tasks,
    _run_kind,
    kind_page,
)
