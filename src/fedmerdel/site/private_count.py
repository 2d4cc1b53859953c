"""A site's answer under differential privacy: sums to which no row adds more than it may."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from fedmerdel.fitting.passes import Workers, expect_and_count, log_evidence
from fedmerdel.private.coding import Coding
from fedmerdel.private.question import Question, to_steps
from fedmerdel.records.packing import PackedRows, unpack_levels
from fedmerdel.site.people import count_outcomes
from fedmerdel.sums.arrays import FloatArray, IntArray
from fedmerdel.sums.expectations import Expectations

ROWS_AT_ONCE = 8192
"""Rows that are written out as numbers at a time."""


def count(
    question: Question,
    rows: PackedRows,
    workers: Workers,
    outcomes: Mapping[str, FloatArray] | None = None,
) -> IntArray:
    """Return a site's sums on the grid: rows cut off, and no noise yet.

    Parameters
    ----------
    question : Question
        What is asked for.
    rows : PackedRows
        The site's rows. A person's weights sum to no more than the unit of the budget; rows of
        several people may be joined.
    workers : Workers
        Threads.
    outcomes : mapping of str to float64 array (N, C), optional
        Share of each row in each cell, where outcomes are asked for: they sum to 1 at most.
    """
    length = np.sqrt(squared_lengths(question.coding, rows, workers))
    within = np.minimum(1.0, question.limit / np.maximum(length, 1e-300))
    cut = rows._replace(weights=rows.weights * within)
    if question.what == "moments":
        return to_steps(question, [_moments(question, rows, within)])
    theta = Expectations(question.log_weights, question.log_levels)
    found = expect_and_count(cut, theta, workers)
    numbers = question.coding.numbers(question.coding.cells(found.T, found.S))
    parts = [question.row * found.T, numbers]
    asked = {name: (outcomes or {})[name] for name, _ in question.outcomes}
    told = count_outcomes(rows, theta, asked, workers)
    return to_steps(question, parts + [question.outcome * cells for cells in told.values()])


def squared_lengths(coding: Coding, rows: PackedRows, workers: Workers) -> FloatArray:
    """Return the squared length of what each row is written as."""
    levels, missing = coding.lengths()
    # A missing entry adds nothing to a table of expectations: so what it adds comes first.
    more = levels - np.repeat(missing, coding.n_levels)
    theta = Expectations(np.array([missing.sum()]), more[None])
    return np.maximum(log_evidence(rows, theta, workers), 0.0)


def _moments(question: Question, rows: PackedRows, within: FloatArray) -> FloatArray:
    coding, size = question.coding, question.coding.size
    total = np.zeros((size, size))
    for start in range(0, rows.n_rows, ROWS_AT_ONCE):
        at = np.arange(start, min(start + ROWS_AT_ONCE, rows.n_rows))
        y = row_numbers(coding, unpack_levels(rows.take(at))) * within[at, None]
        total += y.T @ (y * rows.weights[at, None])
    upper = np.triu_indices(size)
    return np.asarray(total[upper] * np.where(upper[0] == upper[1], 1.0, math.sqrt(2.0)))


def row_numbers(coding: Coding, levels: IntArray) -> FloatArray:
    """Return what rows of level numbers, -1 where missing, are written as: (N, size)."""
    cells = np.zeros((len(levels), len(coding.centre)))
    for j, start in enumerate(coding.starts[:-1]):
        at = np.where(levels[:, j] < 0, coding.n_levels[j] if coding.told[j] else -1, levels[:, j])
        known = np.flatnonzero(at >= 0)
        cells[known, start + at[known]] = 1.0
    return coding.numbers(cells)
