"""The paper's main tables with our columns, and every figure of ours against the paper's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from experiments.catalogue import EXPERIMENTS
from experiments.figures import (
    Figure,
    missed,
    table_of_counts,
    table_of_errors,
    table_of_figures,
)
from experiments.published import FEDERATED, GLOBAL_MERGE
from experiments.studies.sizes import stated_table
from experiments.tables import markdown, median_range


def read_results(folder: Path) -> dict[str, pd.DataFrame]:
    """Return the rows of each experiment, from the CSV files in a folder."""
    return {path.stem: pd.read_csv(path) for path in sorted(folder.glob("*.csv"))}


def headline(results: dict[str, pd.DataFrame], several: list[Figure]) -> dict[str, str]:
    """Return the tables of ``docs/results/README.md`` by name, from rows and figures."""
    return {
        "missed": table_of_figures(missed(several)),
        "errors": table_of_errors(results["frequency"], several),
        "stated sizes": stated_table(results["stated-sizes"], results["frequency"]),
        "table 1": _heterogeneous(results["heterogeneous"]),
        "table 2": _federated(results["federated"]),
        "million": _million(results["global-merge"]),
        "figures": table_of_figures(several),
        "reached": table_of_counts(several),
        "methods": _methods(results["federated"], results["central"]),
        "time": _time(results),
    }


def _heterogeneous(rows: pd.DataFrame) -> str:
    lines = []
    for kind, n_batches in (("a", 10), ("b", 5), ("c", 5)):
        part = rows[rows.kind == kind]
        best = median_range(part[part.method == "best"].ari)
        lines.append([f"({kind}), {n_batches} batches", "best possible", "", best, *[""] * 4])
        for published, method, title in (
            ("par", "full", "MerDel on all rows"),
            ("random", "random", "FedMerDel, random search"),
            ("", "exact", "**FedMerDel, our default**"),
        ):
            ours = part[part.method == method]
            theirs = GLOBAL_MERGE.get((kind, n_batches, published))
            lines.append(
                [
                    "",
                    title,
                    f"{theirs.ari:.3f}" if theirs else "",
                    median_range(ours.ari),
                    f"{theirs.clusters:g}" if theirs else "",
                    f"{ours.n_clusters.median():g}",
                    f"{theirs.seconds * theirs.cores:,.0f}" if theirs else "",
                    f"{ours.seconds.median():.2f}",
                ]
            )
    header = ["scenario", "method", "paper's ARI", "ours", "paper's clusters", "ours",
              "paper's core-s", "ours"]  # fmt: skip
    return markdown(header, lines)


def _federated(rows: pd.DataFrame) -> str:
    lines = []
    for scenario, title in (("20000", "N = 20,000"), ("50000", "N = 50,000"), ("c", "(c)")):
        part = rows[rows.scenario.astype(str) == scenario]
        for method in dict.fromkeys(part.method):
            ours = part[part.method == method]
            theirs = FEDERATED.get((scenario, method))
            lines.append(
                [
                    title,
                    method,
                    f"{theirs:.3f}" if theirs else "",
                    median_range(ours.ari),
                    f"{ours.n_clusters.median():g}",
                    f"{ours.seconds.median():,.1f}",
                    f"{ours.rounds.median():,.0f}",
                    f"{ours.released.median():,.0f}",
                ]
            )
    header = ["data", "method", "paper's ARI", "ours", "clusters", "core-s", "rounds",
              "numbers a site sends"]  # fmt: skip
    return markdown(header, lines)


def _million(rows: pd.DataFrame) -> str:
    part = rows[rows.n_rows == 1_000_000]
    lines = []
    for method, title in (
        ("random", "FedMerDel, random search, paper's recipe"),
        ("exact", "FedMerDel, our default"),
        ("default", "MerDel on all rows, our default"),
    ):
        ours = part[part.method == method]
        published = GLOBAL_MERGE["1000000", 20, "par" if method == "default" else "random"]
        paper = published.seconds * published.cores
        seconds = ours.seconds.median()
        lines.append([title, f"{paper:,.0f}", f"{seconds:.1f}", f"{paper / seconds:,.0f}"])
    return markdown(["method", "paper's core-s", "ours", "times fewer"], lines)


def _methods(federated: pd.DataFrame, central: pd.DataFrame) -> str:
    """Compare our default with every other method on the same tables."""
    lines: list[list[Any]] = []
    for scenario in ("20000", "50000", "c"):
        for rows in (federated, central):
            part = rows[rows.scenario.astype(str) == scenario]
            of = {m: p.ari.median() for m, p in part.groupby("method", sort=False)}
            own = of["FedMerDel exact, our default"]
            lines += [
                [scenario, method, f"{ari:.3f}", f"{own:.3f}", f"{own - ari:+.3f}"]
                for method, ari in of.items()
                if not method.startswith("FedMerDel")
            ]
    return markdown(["data", "method", "its ARI", "our default's", "difference"], lines)


def _time(results: dict[str, pd.DataFrame]) -> str:
    lines, total = [], 0.0
    for name, rows in results.items():
        experiment = EXPERIMENTS[name]
        of_a_task = list(experiment.tasks("paper")[0])
        seconds = rows.drop_duplicates(of_a_task).task_seconds.sum()
        total += 0.0 if experiment.slow else float(seconds)
        lines.append([f"{name}{' (slow)' * experiment.slow}", f"{seconds / 120:.1f}"])
    lines.append(["**all but the slow ones**", f"**{total / 120:.1f}**"])
    return markdown(["experiment", "minutes on two cores"], lines)
