"""What removing emptied clusters leaves out: two small simulations (appendix E.2).

A cluster that a move has emptied stays in the model with q(pi) and q(phi) at the prior, and its
responsibilities are set to 0. How far is that from what an E step would give it?
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import digamma
from sklearn.metrics import adjusted_rand_score

from experiments.experiment import Experiment, Row, Scale, Task, counts
from experiments.methods.modes import level_offsets, one_hot
from experiments.studies.frequency import SIMULATIONS, fitted, table_of
from experiments.tables import by, markdown

NAMES = ("1.2", "1.3")
LAPS = 5
MORE_PASSES = 20
ALPHA, EPS = 0.01, 0.5
LN_10 = np.log(10.0)

Doubles = NDArray[np.float64]


def _tasks(scale: Scale) -> list[Task]:
    return [
        {"simulation": name, "dataset": dataset}
        for name in (NAMES[:1] if scale == "smoke" else NAMES)
        for dataset in counts(scale, 1, 4, 20)
    ]


def log_responsibilities(rows: Doubles, log_r: Doubles) -> Doubles:
    """Return what an M and an E step make of responsibilities, empty clusters included.

    Written out with all K_init components (appendix C), unlike the software's passes.
    """
    r = np.exp(log_r)
    alpha = ALPHA + r.sum(axis=0)
    eps = EPS + r.T @ rows
    log_pi = digamma(alpha) - digamma(alpha.sum())
    pairs = eps.reshape(len(eps), -1, 2)
    log_phi = (digamma(pairs) - digamma(pairs.sum(axis=2, keepdims=True))).reshape(eps.shape)
    log_rho = log_pi + rows @ log_phi.T
    top = log_rho.max(axis=1, keepdims=True)
    total = top + np.log(np.exp(log_rho - top).sum(axis=1, keepdims=True))
    return np.asarray(log_rho - total)


def _run(task: Task) -> list[Row]:
    name, dataset = str(task["simulation"]), int(task["dataset"])
    table = table_of(name, dataset)
    model, _ = fitted(table, name, LAPS, 0)
    rows = one_hot(table.X, level_offsets([table.X])).astype(np.float64)
    n_all = SIMULATIONS[name].max_clusters
    log_r = np.full((len(rows), n_all), -np.inf)
    log_r[:, : model.n_clusters_] = np.log(np.maximum(model.predict_proba(table.X), 1e-300))
    removed = slice(model.n_clusters_, n_all)
    log_r = log_responsibilities(rows, log_r)
    highest = log_r[:, removed].max(axis=1) / LN_10
    for _ in range(MORE_PASSES):
        log_r = log_responsibilities(rows, log_r)
    back = np.exp(log_r[:, removed]).sum()
    labels = log_r.argmax(axis=1)
    return [
        {
            "removed": n_all - model.n_clusters_,
            "median": float(np.median(highest)),
            "highest": float(highest.max()),
            "back": float(back),
            "moved": float(np.mean(labels != model.predict(table.X))),
            "ari": adjusted_rand_score(model.predict(table.X), labels),
        }
    ]


def _page(rows: pd.DataFrame, folder: Path) -> str:
    lines = [
        [
            str(name),
            str(len(part)),
            f"{part.removed.astype(float).mean():.1f}",
            f"{part['median'].astype(float).median():.0f}",
            f"{part.highest.astype(float).min():.0f} to {part.highest.astype(float).max():.0f}",
            f"{part.back.astype(float).max():.1e}",
            f"{part.moved.astype(float).max():.4f}",
        ]
        for (name,), part in by(rows, "simulation")
    ]
    header = ["simulation", "fits", "clusters removed", "log10 r, median row", "highest of a fit",
              "rows that came back, most", "labels changed, most"]  # fmt: skip
    return (
        markdown(header, lines)
        + f"\nFits by the paper's recipe (laps {LAPS}). log10 r: of the removed cluster that a row "
        "is most likely in, by an E step with all components, the removed ones at their prior. "
        f"Then {MORE_PASSES} more passes with all components: rows that the removed ones got back, "
        "and the share of labels that changed. The paper: 1e-70 to 1e-100, and virtually no "
        "effect.\n"
    )


REMOVED = Experiment(
    "removed-clusters",
    "What removing emptied clusters leaves out: two small simulations (appendix E.2)",
    _tasks,
    _run,
    _page,
)
