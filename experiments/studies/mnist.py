"""Handwritten digits in six batches (appendix I): clusters, classification rates, pictures."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from experiments.data import FOLDER, mnist, random_batches
from experiments.experiment import Experiment, Row, Scale, Task, counts
from experiments.methods.central import EmBic, McaKMeans
from experiments.methods.face import Batch, Labels, Method
from experiments.methods.ours import PAPER, Pooled, fit_batches, merged_again
from experiments.published import MNIST
from experiments.studies.mnist_pictures import draw_alike, draw_clusters, draw_preprocessing
from experiments.tables import by, markdown
from fedmerdel import FedMerDel

N_BATCHES = 6
OURS: dict[str, dict[str, Any]] = {
    "FedMerDel_20": {**PAPER, "max_clusters": 20, "search": "greedy"},
    "FedMerDel_30": {**PAPER, "max_clusters": 30, "search": "greedy"},
    "exact_20": {"max_clusters": 20},
    "exact_30": {"max_clusters": 30},
    "rounds_20": {"max_clusters": 20, "rounds": 30},
}
BEST = "exact_20"
"""The fits of which the best by ELBO is drawn."""

TEST = "test_35"
"""MerDel on the test digits, to see whether merging makes the clusters many."""
MOST_ON_TEST = 35

CENTRAL = {
    "kmeans_10_20": (10, 20),
    "kmeans_10_35": (10, 35),
    "kmeans_17_20": (17, 20),
    "kmeans_17_35": (17, 35),
    "EM_20": (0, 20),
    "EM_35": (0, 35),
}


def _tasks(scale: Scale) -> list[Task]:
    if not (FOLDER / "mnist16_train.npz").exists() and scale != "paper":
        return []
    n_rows = {"smoke": 600, "small": 12_000, "paper": 60_000}[scale]
    if scale == "smoke":
        return [{"fit": fit, "run": 0, "n_rows": n_rows} for fit in (BEST, TEST, "kmeans_10_20")]
    tasks: list[Task] = []
    for method in OURS:
        runs = counts(scale, 1, 2, 3 if method.endswith("30") else 5)
        tasks += [{"fit": method, "run": run, "n_rows": n_rows} for run in runs]
    n_test = {"small": 2000, "paper": 10_000}[scale]
    tasks += [{"fit": TEST, "run": run, "n_rows": n_test} for run in counts(scale, 1, 2, 5)]
    return tasks + [{"fit": method, "run": 0, "n_rows": n_rows} for method in CENTRAL]


def _fit(
    fit: str, run: int, n_rows: int
) -> tuple[FedMerDel, dict[str, float], list[Batch], Labels]:
    """Return one of our fits, what it took, its batches, and the digits in their order."""
    X, digits, _ = mnist()
    X, digits = X[:n_rows], digits[:n_rows]
    batch = random_batches(n_rows, N_BATCHES, run)
    order = [np.flatnonzero(batch == b) for b in range(N_BATCHES)]
    batches: list[Batch] = [X[at] for at in order]
    model, info = fit_batches(batches, run, OURS[fit])
    return model, info, batches, digits[np.concatenate(order)]


def _run(task: Task) -> list[Row]:
    fit, run, n_rows = str(task["fit"]), int(task["run"]), int(task["n_rows"])
    if fit in CENTRAL:
        return [_run_central(fit, n_rows)]
    if fit == TEST:
        return [_run_test(run, n_rows)]
    model, info, batches, digits = _fit(fit, run, n_rows)
    if not fit.startswith("FedMerDel"):
        return [_row(fit, model.labels_, digits, info)]
    _, labels, merged = merged_again(model, batches, "random")
    return [
        _row(f"{fit}g", model.frozen_labels_, digits, info),
        _row(f"{fit}r", labels, digits, {**info, **merged}),
    ]


def _run_test(run: int, n_rows: int) -> Row:
    X, digits, _ = mnist("test")
    method = Pooled(run, {**PAPER, "max_clusters": MOST_ON_TEST})
    labels, info = method.fit([X[:n_rows]])
    row = _row(TEST, labels, digits[:n_rows], info)
    return {**row, "proposed": info["proposed"], "accepted": info["accepted"]}


def _run_central(fit: str, n_rows: int) -> Row:
    X, digits, _ = mnist()
    n_dimensions, n_clusters = CENTRAL[fit]
    method: Method = (
        McaKMeans(n_dimensions=n_dimensions, n_clusters=n_clusters, seed=0)
        if n_dimensions
        else EmBic(n_clusters=(n_clusters,), seed=0)
    )
    began = time.process_time()
    labels, info = method.fit([X[:n_rows]])
    return _row(fit, labels, digits[:n_rows], {**info, "seconds": time.process_time() - began})


def classification_rates(labels: Labels, digits: Labels) -> NDArray[np.float64]:
    """Return for each digit the share of its rows in clusters that are mostly this digit."""
    table = np.zeros((int(labels.max()) + 1, 10))
    np.add.at(table, (labels, digits), 1)
    mostly = table.argmax(axis=1)
    right = np.array([table[mostly == digit, digit].sum() for digit in range(10)])
    return np.asarray(right / np.maximum(table.sum(axis=0), 1))


def _row(method: str, labels: Labels, digits: Labels, info: dict[str, float]) -> Row:
    rates = classification_rates(labels, digits)
    return {
        "method": method,
        "n_clusters": int(info["n_clusters"]),
        "elbo": info.get("elbo", ""),
        "seconds": info["seconds"],
        **{f"rate_{digit}": float(rate) for digit, rate in enumerate(rates)},
    }


def _page(rows: pd.DataFrame, folder: Path) -> str:
    if len(rows) == 0:
        return "The digits were not found.\n"
    lines = []
    for (method,), part in by(rows, "method"):
        for number, (_, row) in enumerate(part.iterrows(), start=1):
            rates = [100 * float(row[f"rate_{digit}"]) for digit in range(10)]
            seconds = f"{float(row.seconds):.0f}"
            lines.append([method, str(number), str(row.n_clusters), f"{np.mean(rates):.1f}",
                          *(f"{rate:.1f}" for rate in rates), seconds])  # fmt: skip
    for (method, run), published in MNIST.items():
        mean = f"{np.mean(published):.1f}"
        lines.append([f"*paper: {method}*", str(run), "", mean, *map(str, published), ""])
    header = ["method", "run", "clusters", "mean", *map(str, range(10)), "core-s"]
    ours = rows[rows["fit"] == BEST]
    best = ours.loc[ours.elbo.astype(float).idxmax()]
    model, _, batches, digits = _fit(BEST, int(best.run), int(best.n_rows))
    draw_clusters(model, np.concatenate(batches), digits, folder)
    draw_preprocessing(folder)
    draw_alike(folder)
    return (
        markdown(header, lines)
        + "\nPer cent of each digit in clusters that are mostly this digit. The paper's models "
        "have 27 to 33 clusters (20 a batch) and 52 to 70 (30 a batch).\n\n"
        + _on_test(rows)
        + f"Below: the fit `{BEST}` with the highest ELBO of its runs.\n\n"
        "![Digits in clusters](mnist-heatmap.svg)\n\n![Digits and drawings](mnist-digits.svg)\n\n"
        "Preprocessing: digits as they are (28 x 28), shrunk (16 x 16), and as zeros and ones.\n\n"
        "![Preprocessing](mnist-preprocessing.svg)\n\n"
        "Ten digits each of 4, 7 and 9, drawn at random, which are hard to tell apart.\n\n"
        "![4, 7 and 9](mnist-479.svg)\n"
    )


def _on_test(rows: pd.DataFrame) -> str:
    """Return what MerDel found on the test digits, in words."""
    part = rows[rows["fit"] == TEST]
    clusters = part.n_clusters.astype(int)
    moves = ", ".join(f"{int(row.accepted)} of {int(row.proposed)}" for row in part.itertuples())
    return (
        f"MerDel by the paper's recipe on {int(part.n_rows.iloc[0]):,} test digits, at most "
        f"{MOST_ON_TEST} clusters, {len(part)} starts: {clusters.min()} to {clusters.max()} "
        f"clusters; moves accepted: {moves}. The paper: 33 to 35 clusters, most moves rejected."
        "\n\n"
    )


DIGITS = Experiment(
    "mnist",
    "MNIST in six batches: classification rates, heatmap, generated digits (appendix I)",
    _tasks,
    _run,
    _page,
)
