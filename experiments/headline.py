"""The paper's main tables with our columns, and every figure of ours against the paper's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from experiments.catalogue import EXPERIMENTS
from experiments.published import (
    CATEGORICAL,
    FEDERATED,
    FREQUENCY,
    GLOBAL_MERGE,
    VARYING_P,
)
from experiments.studies.frequency import DEFAULT, NEVER
from experiments.studies.selection import PUBLISHED as SELECTION
from experiments.tables import markdown, median_range

NEAR = 0.01
"""An ARI this much below the paper's still counts as reproduced."""

DEFAULTS = {"full": "default", "par": "default", "greedy": "exact", "random": "exact"}
"""What our default does where the paper has another method."""


class Figure(NamedTuple):
    """One ARI of the paper (median; mean in the frequency tables), and ours."""

    experiment: str
    scenario: str
    method: str
    paper: float
    ours: float
    default: float
    best: float


def headline(folder: Path) -> dict[str, str]:
    """Return the tables of ``docs/results/README.md`` by name, from the CSV files in a folder."""
    results = {path.stem: pd.read_csv(path) for path in sorted(folder.glob("*.csv"))}
    figures = list(_figures(results))
    return {
        "table 1": _heterogeneous(results["heterogeneous"]),
        "table 2": _federated(results["federated"]),
        "million": _million(results["global-merge"]),
        "figures": _every(figures),
        "reached": _reached(figures),
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
                ]
            )
    return markdown(["data", "method", "paper's ARI", "ours", "clusters", "core-s"], lines)


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


def _figures(results: dict[str, pd.DataFrame]) -> Iterator[Figure]:
    """Pair every ARI of the paper with ours."""
    for (scenario, n_batches, method), theirs in GLOBAL_MERGE.items():
        if scenario.isdigit():
            rows = results["global-merge"]
            part = rows[(rows.n_rows == int(scenario)) & (rows.n_batches == n_batches)]
            name = f"{int(scenario):,} rows, {n_batches} batches"
            yield _figure("global-merge", name, method, theirs.ari, part)
        else:
            rows = results["heterogeneous"]
            name = f"({scenario})"
            yield _figure("heterogeneous", name, method, theirs.ari, rows[rows.kind == scenario])
    for (variables, method), theirs in VARYING_P.items():
        rows = results["varying-p"]
        part = rows[rows.variables == variables]
        yield _figure("varying-p", f"P = {variables}", method, theirs.ari, part)
    for (n_rows, method), theirs in CATEGORICAL.items():
        rows = results["categorical"]
        part = rows[rows["rows"] == n_rows]
        yield _figure("categorical", f"{n_rows:,} rows", method, theirs.ari, part)
    for (n_rows, method), told in SELECTION.items():
        rows = results["selection"]
        part = rows[rows["rows"] == n_rows]
        both = {"full": "exact", "greedy": "exact"}
        yield _figure("selection", f"{n_rows:,} rows", method, told[0], part, both)
    rows = results["frequency"]
    for (simulation, laps), means in FREQUENCY.items():
        part = rows[rows.simulation.astype(str) == simulation]
        of = {who: part[part.laps.astype(str) == str(who)].ari for who in (laps, DEFAULT, "best")}
        title = "no moves" if laps == NEVER else f"laps {laps}"
        ours, default, best = (float(of[who].mean()) for who in (laps, DEFAULT, "best"))
        yield Figure("frequency", simulation, title, means.ari, ours, default, best)


def _figure(
    experiment: str, scenario: str, method: str, paper: float, part: pd.DataFrame,
    defaults: dict[str, str] = DEFAULTS,
) -> Figure:  # fmt: skip
    median = part.groupby("method").ari.median()
    ours = float(median[{"par": "full"}.get(method, method)])
    default = float(median[defaults[method]])
    return Figure(experiment, scenario, method, paper, ours, default, float(median["best"]))


def _every(figures: list[Figure]) -> str:
    header = ["experiment", "scenario", "method", "paper", "ours, same method", "our default",
              "best possible", "same method", "default"]  # fmt: skip
    return markdown(
        header,
        (
            [f.experiment, f.scenario, f.method, f"{f.paper:.3f}", f"{f.ours:.3f}",
             f"{f.default:.3f}", f"{f.best:.3f}", _verdict(f.ours, f), _verdict(f.default, f)]
            for f in figures
        ),
    )  # fmt: skip


def _verdict(ari: float, figure: Figure) -> str:
    short = figure.paper - NEAR - ari
    if round(short, 3) <= 0:
        return "reached"
    return f"**{figure.paper - ari:.3f} below**"


def _reached(figures: list[Figure]) -> str:
    lines = []
    for experiment in dict.fromkeys(f.experiment for f in figures):
        part = [f for f in figures if f.experiment == experiment]
        same = sum(_verdict(f.ours, f) == "reached" for f in part)
        default = sum(_verdict(f.default, f) == "reached" for f in part)
        gap = np.mean([f.best - f.default for f in part])
        lines.append([experiment, str(len(part)), str(same), str(default), f"{gap:.3f}"])
    header = ["experiment", "ARIs in the paper", "reached by the same method",
              "reached by our default", "default below best possible, mean"]  # fmt: skip
    return markdown(header, lines)


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
        if "task_seconds" in rows:
            seconds, what = rows.drop_duplicates(of_a_task).task_seconds.sum(), ""
        else:  # methods that share a fit say the same seconds
            seconds, what = (
                rows.drop_duplicates([*of_a_task, "seconds"]).seconds.sum(),
                ", fits alone",
            )
        total += 0.0 if experiment.slow else float(seconds)
        lines.append([f"{name}{' (slow)' * experiment.slow}{what}", f"{seconds / 120:.1f}"])
    lines.append(["**all but the slow ones**", f"**{total / 120:.1f}**"])
    return markdown(["experiment", "minutes on two cores"], lines)
