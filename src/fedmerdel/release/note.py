"""A summary in plain words: the note for an output checker, and tables to look through."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

import numpy as np

from fedmerdel.release.cells import missing_counts
from fedmerdel.release.summary import SiteSummary

WIDTH = 88


@dataclass(frozen=True)
class ClusterSize:
    """One cluster: its number, its rows, and its share of the site's rows."""

    cluster: int
    rows: float
    share: float


@dataclass(frozen=True)
class Cell:
    """One count: what it counts, in which cluster, and the count."""

    what: str
    level: str
    cluster: int
    rows: float


@dataclass(frozen=True)
class Contrast:
    """The level whose share of the observed rows differs most between two clusters.

    Attributes
    ----------
    variable, level : str
        Which level.
    lowest, highest : float
        The least and the greatest share of it in a cluster.
    lowest_cluster, highest_cluster : int
        The clusters.
    """

    variable: str
    level: str
    lowest: float
    highest: float
    lowest_cluster: int
    highest_cluster: int


@dataclass(frozen=True)
class Review:
    """What a person looks at before a summary leaves.

    Attributes
    ----------
    facts : list of (str, str)
        Name and value, in plain words.
    sizes : list of ClusterSize
        Every cluster.
    smallest : list of Cell
        The smallest counts that are not 0.
    contrasts : list of Contrast
        One for each variable, the greatest difference first.
    """

    facts: list[tuple[str, str]]
    sizes: list[ClusterSize]
    smallest: list[Cell]
    contrasts: list[Contrast]


def review_tables(summary: SiteSummary, n_smallest: int = 10) -> Review:
    """Return tables of a summary for a person to look through.

    Parameters
    ----------
    summary : SiteSummary
        The summary.
    n_smallest : int
        How many of the smallest counts to list.
    """
    report, T = summary.report, summary.statistics.T
    facts = [
        ("site", summary.site),
        ("study", summary.study_hash),
        ("clusters", str(summary.n_clusters)),
        ("rows that they stand for", _count(summary.n_rows)),
        ("variables", str(len(summary.codebook.variables))),
        ("outcomes", ", ".join(summary.outcomes) or "none"),
        ("policy", _policy(summary)),
        ("counts told or implied", str(report.n_cells)),
        ("of these 0", f"{report.n_zero} ({_zero(summary)})"),
        ("smallest count that is not 0", _count(report.smallest_cell)),
        ("clusters absorbed", str(report.absorbed)),
        ("clusters withheld", str(report.withheld)),
        (
            "cost of this",
            f"at most {report.cost_at_most:.6g} nats of ELBO, "
            f"{report.cost_per_row_at_most:.3g} for each row",
        ),
    ]
    sizes = [ClusterSize(k, float(rows), float(rows) / summary.n_rows) for k, rows in enumerate(T)]
    listed = [cell for cell in _cells(summary) if cell.rows > 0]
    smallest = sorted(listed, key=lambda cell: cell.rows)[:n_smallest]
    return Review(facts, sizes, smallest, _contrasts(summary))


def checkers_note(summary: SiteSummary) -> str:
    """Return the text of ``README.txt``."""
    report = summary.report
    title = f"Summary of site {summary.site!r} for a federated cluster analysis"
    rows = _count(summary.n_rows)
    files = [
        (
            "counts.csv",
            "The first line has the number of rows of each cluster. Every other line has the "
            "number of these rows at one level of one variable, or with no entry there "
            "(missing). For each variable, the lines sum to the first line.",
        ),
        (
            "overlap.csv",
            "How blurred the border between two clusters is, summed over all rows (in nats; a "
            "row half in one and half in the other adds 0.69). Column h is the same for one "
            "cluster against all others, as a negative number.",
        ),
        (
            "summary.json",
            "Names of site, study and software, the list of variables and levels that the study "
            "gave to all sites, how well the clusters fit as one number (elbo, computed from the "
            "released counts), the variables that tell clusters apart if the study asks for "
            "them (selected), and the account of disclosure control.",
        ),
    ]
    if summary.outcomes:
        files.insert(
            2,
            (
                "outcomes.csv",
                "The number of rows of each cluster with an outcome that the study names "
                "(positive), and for which it is known (observed).",
            ),
        )
    parts = [
        title + "\n" + "=" * len(title),
        _wrap(
            f"These files hold sums over groups of rows. There is no row, no identifier, no date "
            f"and no free text of a person inside. {rows} rows are described by "
            f"{summary.n_clusters} clusters, the smallest of {_count(summary.statistics.T.min())} "
            "rows. A cluster is a group of rows with similar entries, found by a statistical "
            "model; a row may belong to several in part, so counts are sums of parts."
        ),
        "Files\n-----",
        *(f"{name}\n{_wrap(text, '  ')}" for name, text in files),
        "Disclosure control\n------------------",
        _wrap(_what_was_done(summary)),
        _wrap(
            f"Of {report.n_cells} counts that are told here, or follow by subtraction, "
            f"{report.n_zero} are 0 and the smallest other is {_count(report.smallest_cell)}. A 0 "
            f"means: {_zero(summary)}. Clusters too small to be told: {report.absorbed} absorbed "
            f"(their rows count in other clusters), {report.withheld} withheld (their rows are "
            "not in these files)."
        ),
        _wrap(
            f"Policy: {_policy(summary)}. Software: {summary.software}. "
            f"Study: {summary.study_hash}."
        ),
    ]
    return "\n\n".join(parts) + "\n"


def _what_was_done(summary: SiteSummary) -> str:
    report = summary.report
    if report.smallest == 0:
        return (
            "None: the study sets no rule, and the numbers are as they are, with their decimals. "
            "This is meant for simulated and public tables only."
        )
    step = f"multiples of {report.rounding}" if report.rounding > 1 else "whole numbers"
    return (
        f"Every count is 0 or at least {report.smallest}, and so is every sum of counts within "
        "a variable, and what it leaves of the cluster's rows. Counts below "
        f"{max(report.threshold, 1)} were set to 0 and their rows added to the variable's largest "
        "count in the same cluster; a count had to pass twice, as a sum of parts and with each "
        f"row counted whole that belongs to the cluster by a tenth at least. Counts are {step}. "
        "Overlaps are rounded up, and column h towards 0, in steps that stand for as many rows as "
        "the smallest count."
    )


def _policy(summary: SiteSummary) -> str:
    report = summary.report
    if report.smallest == 0:
        return f"{report.policy}, no rule"
    rounding = f"rounded to {report.rounding}" if report.rounding > 1 else "whole numbers"
    return f"{report.policy}, no count from 1 to {report.smallest - 1}, {rounding}"


def _zero(summary: SiteSummary) -> str:
    smallest = summary.report.smallest
    return f"0 to {smallest - 1} rows" if smallest > 1 else "no rows"


def _count(rows: float) -> str:
    return f"{rows:,.0f}" if float(rows).is_integer() else f"{rows:,.4g}"


def _wrap(text: str, indent: str = "") -> str:
    return textwrap.fill(
        text, WIDTH, initial_indent=indent, subsequent_indent=indent, break_long_words=False
    )


def _cells(summary: SiteSummary) -> list[Cell]:
    T, S, _ = summary.statistics
    cells = [Cell("all rows", "", k, float(rows)) for k, rows in enumerate(T)]
    missing = missing_counts(T, S, summary.codebook)
    at = 0
    for j, variable in enumerate(summary.codebook.variables):
        columns = [*((level, S[:, at + i]) for i, level in enumerate(variable.levels))]
        for level, counts in [*columns, ("(missing)", missing[:, j])]:
            cells += [Cell(variable.name, level, k, float(n)) for k, n in enumerate(counts)]
        at += len(variable.levels)
    for name, outcome in summary.outcomes.items():
        for level, counts in zip(("no", "yes", "(missing)"), outcome.cells(T).T, strict=True):
            cells += [Cell(name, level, k, float(n)) for k, n in enumerate(counts)]
    return cells


def _contrasts(summary: SiteSummary) -> list[Contrast]:
    S, offsets = summary.statistics.S, summary.codebook.level_offsets
    found = []
    for variable, start, end in zip(
        summary.codebook.variables, offsets[:-1], offsets[1:], strict=True
    ):
        levels = S[:, start:end]
        told = np.flatnonzero(levels.sum(axis=1) > 0)
        if len(told) == 0:
            continue
        share = levels[told] / levels[told].sum(axis=1, keepdims=True)
        spread = share.max(axis=0) - share.min(axis=0)
        # Of two levels that mirror each other, the later one: "yes" and not "no".
        level = len(spread) - 1 - int(spread[::-1].round(9).argmax())
        low, high = int(share[:, level].argmin()), int(share[:, level].argmax())
        found.append(
            Contrast(
                variable.name,
                variable.levels[level],
                float(share[low, level]),
                float(share[high, level]),
                int(told[low]),
                int(told[high]),
            )
        )
    return sorted(found, key=lambda each: each.lowest - each.highest)
