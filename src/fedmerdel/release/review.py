"""Tables of a summary for a person to look through before it leaves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedmerdel.release.cells import missing_counts, with_missing
from fedmerdel.release.check_sheet import BELONGING, sheet_rows
from fedmerdel.release.note import count_text
from fedmerdel.release.reply import Reply
from fedmerdel.release.risk import Risk, release_risks
from fedmerdel.release.summary import SiteSummary


@dataclass(frozen=True)
class ClusterSize:
    """One cluster: its number, its rows, and its share of the site's rows."""

    cluster: int
    rows: float
    share: float


@dataclass(frozen=True)
class Cell:
    """One count: what it counts, in which cluster (None: the whole site), and the count."""

    what: str
    level: str
    cluster: int | None
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
    risks : tuple of Risk
        How well membership of each cluster can be guessed, the greatest first.
    """

    facts: list[tuple[str, str]]
    sizes: list[ClusterSize]
    smallest: list[Cell]
    contrasts: list[Contrast]
    risks: tuple[Risk, ...]


def review_tables(summary: SiteSummary, n_smallest: int = 10) -> Review:
    """Return tables of a summary for a person to look through.

    Parameters
    ----------
    summary : SiteSummary
        The summary.
    n_smallest : int
        How many of the smallest counts to list.
    """
    account, mechanism, T = summary.account, summary.mechanism, summary.sums.T
    facts = [
        ("site", summary.site),
        ("study", summary.study_hash),
        ("clusters", str(summary.n_clusters)),
        *([("reply to broadcast", summary.broadcast)] if isinstance(summary, Reply) else []),
        ("rows that they stand for", count_text(summary.n_rows)),
        ("variables", str(len(summary.codebook.variables))),
        ("outcomes", ", ".join(summary.sums.outcomes) or "none"),
        *_checks(summary),
        ("policy", f"{account.policy}, {mechanism.rule}"),
        ("counts told or implied", str(account.n_cells)),
        ("of these 0", f"{account.n_zero} ({mechanism.zero})"),
        ("smallest count that is not 0", count_text(account.smallest_cell)),
        *(
            [("what the others leave", f"cluster {summary.rest}")]
            if summary.rest is not None
            else []
        ),
    ]
    sizes = [ClusterSize(k, float(rows), float(rows) / summary.n_rows) for k, rows in enumerate(T)]
    listed = [cell for cell in _cells(summary) if cell.rows > 0]
    smallest = sorted(listed, key=lambda cell: cell.rows)[:n_smallest]
    return Review(facts, sizes, smallest, _contrasts(summary), release_risks(summary))


def _checks(summary: SiteSummary) -> list[tuple[str, str]]:
    if summary.checks is None:
        return []
    n = len(summary.checks.checked)
    return [
        (
            "tables to check the model with",
            f"{n * (n - 1) // 2} of two variables of the whole site, and histograms of conditions "
            "and certainty",
        )
    ]


def _check_cells(summary: SiteSummary) -> list[Cell]:
    if summary.checks is None:
        return []
    return [
        Cell(
            " and ".join(filter(None, (what, other))), ", ".join(filter(None, (level, at))), None, n
        )
        for (what, level, other, at), n in sheet_rows(summary.codebook, summary.checks)
        if what != BELONGING
    ]


def _cells(summary: SiteSummary) -> list[Cell]:
    T, S = summary.sums.T, summary.sums.S
    cells = [Cell("all rows", "", k, float(rows)) for k, rows in enumerate(T)]
    missing = missing_counts(T, S, summary.codebook)
    at = 0
    for j, variable in enumerate(summary.codebook.variables):
        columns = [*((level, S[:, at + i]) for i, level in enumerate(variable.levels))]
        for level, counts in [*columns, ("(missing)", missing[:, j])]:
            cells += [Cell(variable.name, level, k, float(n)) for k, n in enumerate(counts)]
        at += len(variable.levels)
    for name, outcome in summary.sums.outcomes.items():
        names = (*summary.tables[name], "(missing)")
        for level, counts in zip(names, with_missing(T, outcome).T, strict=True):
            cells += [Cell(name, level, k, float(n)) for k, n in enumerate(counts)]
    return cells + _check_cells(summary)


def _contrasts(summary: SiteSummary) -> list[Contrast]:
    S, offsets = summary.sums.S, summary.codebook.level_offsets
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
