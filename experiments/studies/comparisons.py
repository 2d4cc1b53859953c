"""FedMerDel against other federated methods, and against methods for pooled rows."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.metrics import adjusted_rand_score

from experiments.data import Federation, federation, random_batches
from experiments.experiment import Experiment, Row, Scale, Task, counts
from experiments.methods.central import Agglomerative, Dbscan, EmBic, KModes, Lca, McaKMeans
from experiments.methods.face import Method
from experiments.methods.fedem import FedEm
from experiments.methods.kfed import KFed
from experiments.methods.ours import PAPER, OneShot
from experiments.methods.shared_classes import SharedClasses
from experiments.methods.snob import Snob
from experiments.published import FEDERATED
from experiments.tables import by, markdown, median_range

# Rows, batches, clients of FedEM, kind.
SCENARIOS: dict[str, tuple[int, int, tuple[int, ...], str]] = {
    "20000": (20_000, 5, (10, 20), "random"),
    "50000": (50_000, 10, (25,), "random"),
    "c": (20_000, 5, (10,), "c"),
}

OURS: dict[str, Callable[[int, int], Method]] = {
    "FedMerDel exact, our default": lambda K, seed: OneShot(seed),
    "FedMerDel, 8 rounds": lambda K, seed: OneShot(seed, options={"rounds": 8}),
    "FedMerDel random": lambda K, seed: OneShot(
        seed, assigned=False, options={**PAPER, "search": "random"}
    ),
}
FEDERATED_METHODS: dict[str, Callable[[int, int], Method]] = {
    "approximate SNOB": Snob,
    "k-FED": KFed,
    "shared classes, tilted": SharedClasses,
    "shared classes, exact": lambda K, seed: SharedClasses(K, seed, surrogate=False),
}
CENTRAL_METHODS: dict[str, Callable[[int, int], Method]] = {
    "k-modes": KModes,
    "agglomerative": Agglomerative,
    "DBSCAN": lambda K, seed: Dbscan(seed),
    "k-means on MCA": lambda K, seed: McaKMeans(K, seed, n_dimensions=20),
    "latent class analysis (StepMix)": Lca,
    "EM with BIC": lambda K, seed: EmBic((K - 2, K, K + 2), seed, n_init=2),
}


def _scenario(name: str, n_rows: int, dataset: int, shuffle: int) -> Federation:
    _, n_batches, _, kind = SCENARIOS[name]
    return federation(n_rows, n_batches, dataset, shuffle, kind=kind)


def _measured(name: str, method: Method, found: Federation) -> Row:
    truth = np.concatenate([found.table.labels[at] for at in found.rows_of_batches])
    batches = found.batches
    began = time.process_time()
    labels, info = method.fit(batches)
    return {
        "method": name,
        "ari": adjusted_rand_score(truth, labels),
        "n_clusters": info["n_clusters"],
        "seconds": time.process_time() - began,
        "rounds": info.get("rounds", ""),
        "released": info.get("released", ""),
    }


def _tasks(scale: Scale, methods: tuple[str, ...]) -> list[Task]:
    return [
        {
            "scenario": name,
            "n_rows": 1500 if scale == "smoke" else n_rows,
            "dataset": dataset,
            "shuffle": shuffle,
            "compared": method,
        }
        for name, (n_rows, *_) in SCENARIOS.items()
        for dataset in counts(scale, 1, 2, 10)
        for shuffle in counts(scale, 1, 1, 1)
        for method in methods
    ]


def _federated_tasks(scale: Scale) -> list[Task]:
    if scale == "smoke":
        return _tasks(scale, ("FedMerDel exact, our default", "k-FED", "FedEM"))[:3]
    return _tasks(scale, (*OURS, *FEDERATED_METHODS, "FedEM"))


def _central_tasks(scale: Scale) -> list[Task]:
    tasks = _tasks(scale, ("FedMerDel exact, our default", *CENTRAL_METHODS))
    return tasks[:4] if scale == "smoke" else tasks


def _run(task: Task) -> list[Row]:
    name, shuffle, compared = str(task["scenario"]), int(task["shuffle"]), str(task["compared"])
    n_rows = int(task["n_rows"])
    found = _scenario(name, n_rows, int(task["dataset"]), shuffle)
    K = found.table.n_clusters
    if compared == "FedEM":
        return [
            _measured(f"FedEM, {n} clients", FedEm(K, shuffle), _clients(found, n, shuffle))
            for n in SCENARIOS[name][2]
        ]
    methods = {**OURS, **FEDERATED_METHODS, **CENTRAL_METHODS}
    return [_measured(compared, methods[compared](K, shuffle), found)]


def _clients(found: Federation, n_clients: int, shuffle: int) -> Federation:
    """Cut the batches into so many clients: each batch into the same number of them."""
    per_batch = max(1, n_clients // (int(found.batch.max()) + 1))
    part = random_batches(len(found.batch), per_batch, shuffle)
    return found._replace(batch=found.batch * per_batch + part)


def _page(rows: pd.DataFrame, folder: Path) -> str:
    lines = []
    for (scenario, method), part in by(rows.sort_values("scenario"), "scenario", "method"):
        published = FEDERATED.get((str(scenario), method))
        told = pd.to_numeric(part.released).median() if "released" in part else np.nan
        lines.append(
            [
                str(scenario),
                method,
                median_range(part.ari),
                f"{published:.3f}" if published else "",
                median_range(part.n_clusters, 1),
                f"{part.seconds.astype(float).median():.1f}",
                *([""] * 2 if np.isnan(told) else
                  [f"{pd.to_numeric(part.rounds).median():,.0f}", f"{told:,.0f}"]),
            ]
        )  # fmt: skip
    header = ["scenario", "method", "ARI", "paper", "clusters", "core-s", "rounds",
              "numbers a site sends"]  # fmt: skip
    return markdown(header, lines)


FEDERATED_COMPARISON = Experiment(
    "federated",
    "Federated methods: k-FED, FedEM, approximate SNOB, shared classes (table comparisontable)",
    _federated_tasks,
    _run,
    _page,
    slow=True,
)
CENTRAL_COMPARISON = Experiment(
    "central",
    "Methods for pooled rows: k-modes, hierarchical, DBSCAN, latent classes (appendix H.2)",
    _central_tasks,
    _run,
    _page,
    slow=True,
)
