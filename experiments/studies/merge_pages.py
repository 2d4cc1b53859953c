"""Pages of the global merges: tables beside the paper's, seconds, spread over shuffles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments.published import GLOBAL_MERGE, MERGE_SECONDS
from experiments.tables import COLOURS, by, figure, markdown, median_range

METHODS = {
    "full": "MerDel, paper's recipe (full, par)",
    "greedy": "FedMerDel greedy, paper's recipe",
    "random": "FedMerDel random, paper's recipe",
    "default": "MerDel, our default",
    "frozen": "FedMerDel exact, labels frozen",
    "exact": "FedMerDel exact, our default",
}
BEST = {"best": "best possible", "best pooled": "best possible without the batches"}
SEARCHES = ("greedy", "random", "exact")
MANY_SHUFFLES = 10


def merge_table(rows: pd.DataFrame, scenario: str, published: dict[Any, Any]) -> str:
    """Return the table of one column of scenarios: ours beside the paper's."""
    lines = []
    for (name, n_batches), part in by(rows, scenario, "n_batches"):
        first = f"**{name}**, {n_batches} batches"
        for method, title in BEST.items():
            best = part[part.method == method]
            lines.append([first, title, median_range(best.ari), *[""] * 5])
            first = ""
        for method, title in METHODS.items():
            ours = part[part.method == method]
            theirs = published.get((str(name), n_batches, {"full": "par"}.get(method, method)))
            if len(ours) == 0:
                continue
            lines.append(
                [
                    "",
                    title,
                    median_range(ours.ari),
                    f"{theirs.ari:.3f}" if theirs else "",
                    median_range(ours.n_clusters, 1),
                    f"{theirs.clusters:g}" if theirs else "",
                    f"{ours.seconds.astype(float).median():.2f}",
                    f"{theirs.seconds * theirs.cores:,.0f}" if theirs else "",
                ]
            )
    header = ["rows", "method", "ARI", "paper", "clusters", "paper", "core-s", "paper's core-s"]
    return markdown(header, lines)


def seconds_of_merges(
    rows: pd.DataFrame, scenario: str, published: dict[Any, float], searches: tuple[str, ...]
) -> str:
    """Return the mean seconds of the global merge alone, by search."""
    lines = []
    for (name,), part in by(rows, scenario):
        line = [f"{name:,}"]
        for search in searches:
            ours = part[part.method == search].merge_seconds.astype(float).mean()
            theirs = published.get((name, search))
            line += [f"{ours:.3f}", f"{theirs:g}" if theirs else ""]
        lines.append(line)
    columns = [title for search in searches for title in (search, "paper")]
    return "\nSeconds of the global merge alone, means:\n\n" + markdown([scenario, *columns], lines)


def spread_over_shuffles(rows: pd.DataFrame) -> str:
    """Return the standard deviation of ARI over the shuffles of a data set, from least to most."""
    lines = []
    for (n_rows, n_batches), part in by(rows, "n_rows", "n_batches"):
        line = [f"{n_rows:,}", str(n_batches)]
        for search in SEARCHES:
            ours = part[part.method == search]
            spread = ours.groupby("dataset").ari.std()
            if ours.groupby("dataset").shuffle.nunique().min() < MANY_SHUFFLES:
                break
            line.append(f"{spread.min():.4f} to {spread.max():.4f}")
        else:
            lines.append(line)
    if not lines:
        return ""
    return (
        "\nStandard deviation of the ARI over ten shuffles of a data set, the least and the "
        "greatest of ten data sets. The paper: 0.0003 to 0.005 with 50,000 rows.\n\n"
        + markdown(["rows", "batches", *SEARCHES], lines)
    )


def draw_seconds(axes: Any, rows: pd.DataFrame, along: str) -> None:
    """Draw mean core-seconds of three methods with an approximate 95 % interval, as the paper.

    Mean plus and minus 1.96 standard errors.
    """
    for colour, method in zip(COLOURS, ("full", "random", "exact"), strict=False):
        part = rows[rows.method == method]
        groups = part.assign(seconds=part.seconds.astype(float)).groupby(along).seconds
        mean = groups.mean()
        # One run has no spread, and gets no bar.
        error = (1.96 * groups.std() / np.sqrt(groups.count())).fillna(0.0)
        axes.errorbar(mean.index, mean, yerr=error, fmt="o-", color=colour, capsize=3,
                      markersize=4, label=METHODS[method])  # fmt: skip


def global_page(rows: pd.DataFrame, folder: Path) -> str:
    """Return the page of the global merges of random batches."""
    several = sorted(rows.n_batches.unique())[:2]
    with figure(folder, "global-merge", ncols=len(several), figsize=(10, 4)) as axes:
        for each, n_batches in zip(np.atleast_1d(axes), several, strict=True):
            part = rows[rows.n_batches == n_batches]
            draw_seconds(each, part, "n_rows")
            each.set(xscale="log", yscale="log", xlabel="rows", title=f"{n_batches} batches")
            sizes = sorted(part.n_rows.astype(int).unique())
            each.set_xticks(sizes, [f"{n:,}" for n in sizes])
            each.set_xticks([], minor=True)
        np.atleast_1d(axes)[0].set_ylabel("core-seconds, mean and 95 % interval")
        np.atleast_1d(axes)[0].legend(frameon=False, fontsize=8)
    return (
        merge_table(rows, "n_rows", GLOBAL_MERGE)
        + "\nMedian [quartiles] over data sets and shuffles. The paper's core-seconds: wall-clock "
        "times cores. Best possible: labels by the true parameters, on the same rows.\n"
        + seconds_of_merges(rows, "n_rows", MERGE_SECONDS, SEARCHES)
        + spread_over_shuffles(rows)
        + "\n![Core-seconds against rows](global-merge.svg)\n"
    )


def uneven_page(rows: pd.DataFrame, folder: Path) -> str:
    """Return the page of the same with clusters that differ in size."""
    return (
        merge_table(rows, "n_rows", GLOBAL_MERGE)
        + "\nThe paper does not say how large its clusters are: see [cluster sizes]"
        "(cluster-sizes.md) and, with all alike, [the global merges](global-merge.md).\n"
    )


def kind_page(rows: pd.DataFrame, folder: Path) -> str:
    """Return the page of heterogeneous batches."""
    return merge_table(rows, "kind", GLOBAL_MERGE) + (
        "\n(a): one of the clusters, all of one size, is in one batch only, and nearly half of it. "
        "(a small): it has as many rows as the others have there. The paper does not say which.\n"
    )
