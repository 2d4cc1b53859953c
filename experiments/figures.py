"""Every ARI of the paper beside ours: pairs of figures, and whether ours reach the paper's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd

from experiments.published import CATEGORICAL, FREQUENCY, GLOBAL_MERGE, VARYING_P
from experiments.studies.frequency import DEFAULT, NEVER
from experiments.studies.selection import PUBLISHED as SELECTION
from experiments.tables import markdown

NEAR = 0.01
"""An ARI this much below the paper's, or below the best possible, still counts as reproduced."""

DEFAULTS = {"full": "default", "par": "default", "greedy": "exact", "random": "exact"}
"""What our default does where the paper has another method."""

POOLED = ("full", "par")

PAPER_TABLES = 20
"""Tables of each simulation in the paper's frequency study."""


class Figure(NamedTuple):
    """One ARI of the paper (median; mean in the frequency tables), and ours."""

    experiment: str
    scenario: str
    method: str
    paper: float
    ours: float
    default: float
    best: float


def figures(results: dict[str, pd.DataFrame]) -> Iterator[Figure]:
    """Pair every ARI of the paper with ours, from the rows of each experiment."""
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
    best = "best pooled" if method in POOLED and "best pooled" in median else "best"
    return Figure(experiment, scenario, method, paper, ours, default, float(median[best]))


def verdict(ari: float, figure: Figure) -> str:
    """Say whether an ARI reaches the paper's, or the best possible, or neither."""
    if round(figure.paper - NEAR - ari, 3) <= 0:
        return "reached"
    if round(figure.best - NEAR - ari, 3) <= 0:
        return "best possible"
    return f"**{figure.paper - ari:.3f} below**"


def table_of_figures(several: list[Figure]) -> str:
    """Return a line for each figure."""
    header = ["experiment", "scenario", "method", "paper", "ours, same method", "our default",
              "best possible", "same method", "default"]  # fmt: skip
    return markdown(
        header,
        (
            [f.experiment, f.scenario, f.method, f"{f.paper:.3f}", f"{f.ours:.3f}",
             f"{f.default:.3f}", f"{f.best:.3f}", verdict(f.ours, f), verdict(f.default, f)]
            for f in several
        ),
    )  # fmt: skip


def table_of_counts(several: list[Figure]) -> str:
    """Return how many figures of each experiment are reached."""
    lines = []
    for experiment in (*dict.fromkeys(f.experiment for f in several), "all"):
        part = [f for f in several if experiment in (f.experiment, "all")]
        same, default = [verdict(f.ours, f) for f in part], [verdict(f.default, f) for f in part]
        gap = np.mean([f.best - f.default for f in part])
        lines.append([experiment, str(len(part)), *_counts(same), *_counts(default), f"{gap:.3f}"])
    header = ["experiment", "ARIs in the paper", "reached by the same method",
              "or best possible", "reached by our default", "or best possible",
              "default below best possible, mean"]  # fmt: skip
    return markdown(header, lines)


def missed(several: list[Figure]) -> list[Figure]:
    """Return the figures that the same method neither reaches nor shows to be out of reach."""
    return [f for f in several if verdict(f.ours, f).endswith("below**")]


def table_of_errors(rows: pd.DataFrame, several: list[Figure]) -> str:
    """Return how far missed means are from the paper's, beside what tables at random would do.

    ``rows`` are those of the experiment "frequency".
    """
    lines = []
    for f in missed(several):
        if f.experiment != "frequency":
            continue
        laps = NEVER if f.method == "no moves" else int(f.method.removeprefix("laps "))
        part = rows[(rows.simulation.astype(str) == f.scenario) & (rows.laps == str(laps))]
        tables = part.groupby("dataset").ari.mean()
        errors = [f"{tables.std() / np.sqrt(n):.3f}" for n in (PAPER_TABLES, len(tables))]
        lines.append([f.scenario, f.method, f"{f.ours - f.paper:+.3f}", *errors])
    header = ["simulation", "method", "ours less the paper's",
              f"standard error of a mean over {PAPER_TABLES} tables, as the paper's",
              "over ours"]  # fmt: skip
    return markdown(header, lines)


def _counts(verdicts: list[str]) -> tuple[str, str]:
    reached = verdicts.count("reached")
    return str(reached), str(reached + verdicts.count("best possible"))
