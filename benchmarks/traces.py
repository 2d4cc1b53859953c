"""A picture: how the ELBO climbs in plain variational inference and in both recipes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

from benchmarks.measure import Finding, Report, one_core
from fedmerdel import MerDel, simulate

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "results" / "traces.svg"
N_ROWS = 20_000

# Okabe and Ito's colours, which colour-blind people can tell apart.
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "plain variational inference": ("#999999", {"recipe": "paper", "laps": None}),
    "the paper's recipe": ("#0072B2", {"recipe": "paper"}),
    "the default recipe": ("#D55E00", {}),
}


def run() -> Report:
    """Fit one table by each method from several starts and draw how far each is from the best."""
    table = simulate(N_ROWS, 100, 12, size_range=(500, 3000), random_state=1)
    fits: dict[str, list[MerDel]] = {}
    MerDel(random_state=0).fit(table.X)
    with one_core():
        for name, (_, options) in METHODS.items():
            fits[name] = [
                MerDel(max_clusters=20, tol=1e-6, random_state=seed, **options).fit(table.X)
                for seed in range(5)
            ]
    best = max(model.lower_bound_ for models in fits.values() for model in models)
    _draw(fits, best)
    rows = [
        [
            name,
            f"{np.median([model.lower_bound_seconds_[-1] for model in models]):.2f}",
            f"{np.mean([model.n_clusters_ for model in models]):.1f}",
            f"{np.mean([(best - model.lower_bound_) / N_ROWS for model in models]):.5f}",
        ]
        for name, models in fits.items()
    ]
    found = [model.n_clusters_ for model in fits["the default recipe"]]
    return Report(
        [
            Finding(
                "clusters by the default recipe, five starts",
                "12 each",
                ", ".join(map(str, found)),
                all(count == 12 for count in found),
            )
        ],
        ["method", "median seconds", "mean clusters (12 true)", "nats per row below the best"],
        rows,
        "![ELBO over time](traces.svg)",
    )


def _draw(fits: dict[str, list[MerDel]], best: float) -> None:
    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "fedmerdel"  # the same picture gives the same file
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
    for name, models in fits.items():
        for i, model in enumerate(models):
            below = np.maximum((best - model.lower_bounds_) / N_ROWS, 1e-7)
            axes.plot(
                model.lower_bound_seconds_,
                below,
                color=METHODS[name][0],
                label=name if i == 0 else None,
                linewidth=1.4,
            )
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="seconds, one core",
        ylabel="nats per row below the best",
        title="20,000 rows, 100 variables, 12 clusters: five starts each",
    )
    axes.legend(frameon=False, loc="upper right")
    axes.set_xticks([0.05, 0.1, 0.2, 0.5, 1.0], ["0.05", "0.1", "0.2", "0.5", "1"])
    axes.tick_params(axis="x", which="minor", bottom=False, labelbottom=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(PICTURE, metadata={"Date": None})
    plt.close(figure)
