"""Simulate a table with known clusters, cluster it, and show what was found."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.metrics import adjusted_rand_score

from fedmerdel import MerDel, bayes_labels, simulate

OUTPUT = Path("demo-output")


def main() -> None:
    """Run the demonstration."""
    console = Console()
    console.print("Simulating 20,000 rows of 100 binary variables from 12 clusters ...")
    table = simulate(20_000, 100, 12, size_range=(500, 3000), random_state=1)
    console.print("Compiling (the first time only) and clustering, at most 20 clusters ...")
    MerDel(random_state=1).fit(table.X[:1000])
    began = time.perf_counter()
    model = MerDel(max_clusters=20, random_state=1, verbose=1).fit(table.X)
    took = time.perf_counter() - began

    console.print(found(model, table.labels))
    reached = adjusted_rand_score(table.labels, model.labels_)
    best = adjusted_rand_score(table.labels, bayes_labels(table))
    console.print(
        f"{model.n_clusters_} clusters in {took:.2f} s, {model.n_iter_} passes over all rows. "
        f"Agreement with the truth (ARI): {reached:.3f}; the best possible, with the true "
        f"parameters known, is {best:.3f}."
    )
    OUTPUT.mkdir(exist_ok=True)
    model.save(OUTPUT / "model.json")
    console.print(f"The model is in {OUTPUT / 'model.json'}: readable, and without any row.")


def found(model: MerDel, truth: np.ndarray) -> Table:
    """Return a table of the clusters: size, the true one inside, and what marks them."""
    ones = np.stack([levels[:, 1] for levels in model.level_probabilities_], axis=1)
    overall = model.weights_ @ ones
    table = Table(title="What was found")
    for heading in ("cluster", "rows", "true cluster", "share", "marked by (overall)"):
        table.add_column(heading, justify="left" if heading.startswith("mark") else "right")
    for k in range(model.n_clusters_):
        inside = np.bincount(truth[model.labels_ == k], minlength=truth.max() + 1)
        mark = np.argsort(-(ones[k] / overall), kind="stable")[:2]
        table.add_row(
            str(k),
            f"{(model.labels_ == k).sum():,}",
            str(inside.argmax()),
            f"{inside.max() / inside.sum():.0%}",
            ", ".join(f"x{j} {ones[k, j]:.0%} ({overall[j]:.0%})" for j in mark),
        )
    return table


if __name__ == "__main__":
    main()
