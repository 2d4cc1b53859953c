"""Counts of rows with which a model is checked. Stay at the site until they are protected."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from fedmerdel.fitting.passes import Workers, responsibilities
from fedmerdel.inference.check_counts import N_BINS, CheckCounts, cell_offsets
from fedmerdel.records.packing import PackedRows
from fedmerdel.site.people import PEOPLE_ROWS
from fedmerdel.study.codebook import Codebook
from fedmerdel.study.conditions import condition_levels
from fedmerdel.study.study import Study
from fedmerdel.sums.arrays import FloatArray, IntArray
from fedmerdel.sums.expectations import Expectations


def study_checks(
    study: Study, rows: PackedRows, theta: Expectations, workers: Workers
) -> tuple[CheckCounts, Callable[[], CheckCounts]] | None:
    """Return the tables that a study asks for, and who counts the people in them."""
    if not study.checks:
        return None
    checked = tuple(study.codebook.names.index(name) for name in study.checked)
    people = rows._replace(weights=(rows.weights > 0).astype(np.float64))
    return (
        count_checks(rows, theta, study.codebook, checked, workers),
        lambda: count_checks(people, theta, study.codebook, checked, workers),
    )


def count_checks(
    rows: PackedRows,
    theta: Expectations,
    codebook: Codebook,
    checked: tuple[int, ...],
    workers: Workers,
) -> CheckCounts:
    """Count rows in the tables with which a model is checked.

    Parameters
    ----------
    rows : PackedRows
        The rows.
    theta : Expectations
        The clusters.
    codebook : Codebook
        Variables and levels.
    checked : tuple of int
        Positions of the variables that are paired.
    workers : Workers
        The threads to work with.
    """
    present = condition_levels(codebook)
    cells = cell_offsets(codebook.n_levels, checked)
    found = CheckCounts(
        checked,
        tuple(present),
        np.zeros((int(cells[-1]),) * 2),
        np.zeros(len(present) + 1),
        np.zeros(N_BINS),
        np.zeros(theta.n_clusters),
        np.zeros(theta.n_clusters),
    )
    for start in range(0, rows.n_rows, PEOPLE_ROWS):
        part = rows.take(np.arange(start, min(start + PEOPLE_ROWS, rows.n_rows)))
        found.pairs[:] += _together(part, checked, cells)
        number = _conditions(part, codebook, present)
        found.conditions[:] += np.bincount(number, part.weights, len(found.conditions))
        r = responsibilities(part, theta, workers)
        label, most = r.argmax(axis=1), r.max(axis=1)
        found.certainty[:] += np.histogram(most, N_BINS, (0.0, 1.0), weights=part.weights)[0]
        found.own[:] += np.bincount(label, part.weights, theta.n_clusters)
        found.belonging[:] += np.bincount(label, part.weights * most, theta.n_clusters)
    for start, end in pairwise(cells):
        found.pairs[start:, start:end] = 0.0  # each pair once, and no variable with itself
    return found


def _digits(rows: PackedRows, j: int) -> IntArray:
    """Return the level of each row; missing is one more than the last."""
    packing = rows.packing
    codes = rows.codes[:, packing.code[j]].astype(np.int64)
    return np.asarray(codes // packing.stride[j] % packing.radix[j])


def _together(rows: PackedRows, checked: tuple[int, ...], cells: IntArray) -> FloatArray:
    """Return the rows in each two cells."""
    has = np.zeros((rows.n_rows, int(cells[-1])))
    for j, start in zip(checked, cells[:-1], strict=True):
        has[np.arange(rows.n_rows), start + _digits(rows, j)] = 1.0
    return np.asarray((has * rows.weights[:, None]).T @ has)


def _conditions(rows: PackedRows, codebook: Codebook, present: list[int]) -> IntArray:
    """Return how many conditions each row has."""
    number = np.zeros(rows.n_rows, dtype=np.int64)
    starts = codebook.level_offsets
    for level in present:
        j = int(np.searchsorted(starts, level, side="right")) - 1
        number += _digits(rows, j) == level - starts[j]
    return number
