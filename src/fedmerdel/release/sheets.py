"""Sums as CSV sheets, and back.

Sheets are read by position against the codebook, so a level may be called "(missing)"; the
names beside the numbers are for people, and are checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from fedmerdel.errors import FileError
from fedmerdel.release.cells import DUST, missing_counts
from fedmerdel.release.grid import check_names, number_text, read_grid, write_grid
from fedmerdel.study.codebook import Codebook
from fedmerdel.sums.arrays import FloatArray

COUNTS, OVERLAP, OUTCOMES, HALVES = "counts.csv", "overlap.csv", "outcomes.csv", "halves.csv"

ROWS = "(rows)"
MISSING = "(missing)"


def cluster_columns(n_clusters: int) -> list[str]:
    """Return the names of the columns that hold clusters."""
    return [f"cluster_{k}" for k in range(n_clusters)]


def counts_sheet(codebook: Codebook, T: FloatArray, S: FloatArray) -> str:
    """Return rows and levels of each cluster as a sheet, with missing entries where there are."""
    return write_grid(["variable", "level", *cluster_columns(len(T))], _count_rows(codebook, T, S))


def _count_rows(codebook: Codebook, T: FloatArray, S: FloatArray) -> Iterable[list[str]]:
    yield [ROWS, "", *map(number_text, T)]
    missing = missing_counts(T, S, codebook)
    at = 0
    for j, variable in enumerate(codebook.variables):
        for level in variable.levels:
            yield [variable.name, level, *map(number_text, S[:, at])]
            at += 1
        if missing[:, j].any():
            yield [variable.name, MISSING, *map(number_text, missing[:, j])]


def read_counts(
    file: str, data: bytes, n_clusters: int, codebook: Codebook
) -> tuple[FloatArray, FloatArray]:
    """Return T and S of a sheet."""
    names, numbers = read_grid(file, data, ["variable", "level"], cluster_columns(n_clusters))
    check_names(file, names[:1], [[ROWS, ""]])
    T, at = numbers[0].copy(), 1
    levels = []
    for variable in codebook.variables:
        end = at + len(variable.levels)
        check_names(file, names[at:end], [[variable.name, level] for level in variable.levels])
        levels.append(numbers[at:end])
        told = numbers[at:end].sum(axis=0)
        # Two variables have two names, so one row more of this name is the missing one.
        if end < len(names) and names[end][0] == variable.name:
            check_names(file, [names[end]], [[variable.name, MISSING]])
            told, end = told + numbers[end], end + 1
        if not np.all(np.abs(told - T) <= DUST * np.maximum(T, 1.0)):
            raise FileError(
                f"file {file!r}: the rows of {variable.name!r} don't sum to the cluster's rows: "
                "it was changed, copy it again"
            )
        at = end
    check_names(file, names[at:], [])
    return T, np.ascontiguousarray(np.concatenate(levels).T)


def overlap_sheet(single: Mapping[str, FloatArray], Q: FloatArray) -> str:
    """Return a line for each cluster: some numbers of its own, then its overlap with each."""
    clusters = cluster_columns(len(Q))
    numbers = np.column_stack([*single.values(), Q])
    return write_grid(
        ["cluster", *single, *clusters],
        ([name, *map(number_text, row)] for name, row in zip(clusters, numbers, strict=True)),
    )


def read_overlap(
    data: bytes, single: list[str], n_clusters: int
) -> tuple[dict[str, FloatArray], FloatArray]:
    """Return the numbers of single clusters by their names, and the overlaps."""
    clusters = cluster_columns(n_clusters)
    names, numbers = read_grid(OVERLAP, data, ["cluster"], [*single, *clusters])
    check_names(OVERLAP, names, [[name] for name in clusters])
    found = {name: numbers[:, i].copy() for i, name in enumerate(single)}
    return found, numbers[:, len(single) :].copy()


def outcomes_sheet(
    outcomes: Mapping[str, FloatArray], tables: Mapping[str, Sequence[str]], n_clusters: int
) -> str:
    """Return the rows in each cell of each outcome as a sheet.

    Parameters
    ----------
    outcomes : mapping of str to float64 array (K, C)
        Rows in each cell.
    tables : mapping of str to sequence of str
        Names of the cells.
    n_clusters : int
        Clusters.
    """
    return write_grid(
        ["outcome", "rows", *cluster_columns(n_clusters)],
        (
            [name, cell, *map(number_text, array)]
            for name, cells in tables.items()
            for cell, array in zip(cells, outcomes[name].T, strict=True)
        ),
    )


def read_outcomes(
    data: bytes | None, tables: Mapping[str, Sequence[str]], n_clusters: int
) -> dict[str, FloatArray]:
    """Return the rows in the cells that a document names."""
    if (data is not None) != bool(tables):
        raise FileError(f"file {OUTCOMES!r} and the outcomes that are named don't fit: copy again")
    if data is None:
        return {}
    names, numbers = read_grid(OUTCOMES, data, ["outcome", "rows"], cluster_columns(n_clusters))
    check_names(OUTCOMES, names, [[name, cell] for name, cells in tables.items() for cell in cells])
    ends = np.cumsum([len(cells) for cells in tables.values()])
    parts = np.split(numbers, ends[:-1])
    return {name: part.T.copy() for name, part in zip(tables, parts, strict=True)}
