"""A site's answer under differential privacy: sums to which no row adds more than it may."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np

from fedmerdel.fitting.code_tables import build_table
from fedmerdel.fitting.kernels import log_rho_block
from fedmerdel.fitting.passes import Workers, expect_and_count, log_evidence
from fedmerdel.private.question import Question, to_steps
from fedmerdel.records.packing import PackedRows
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
    if not rows.n_rows:
        return np.zeros(question.size, dtype=np.int64)
    length = np.sqrt(_squared_lengths(question, rows, workers))
    within = np.minimum(1.0, question.limit / np.maximum(length, 1e-300))
    cut = rows._replace(weights=rows.weights * within)
    if question.what == "moments":
        return to_steps(question, [_moments(question, rows, within)])
    theta = Expectations(question.log_weights, question.log_levels)
    found = expect_and_count(cut, theta, workers)
    numbers = question.coding.numbers(question.coding.cells(found.T, found.S))
    parts = [question.row * found.T, numbers @ question.axes if question.axes.size else numbers]
    asked = {name: (outcomes or {})[name] for name, _ in question.outcomes}
    told = count_outcomes(rows, theta, asked, workers)
    return to_steps(question, parts + [question.outcome * cells for cells in told.values()])


def capped_weights(weights: FloatArray, person: IntArray, unit: int) -> FloatArray:
    """Return weights with those of each person cut to sum to the unit of the budget.

    Parameters
    ----------
    weights : float64 array (N,)
        Of the rows.
    person : int64 array (N,)
        Whose row each is, by numbers from 0.
    unit : int
        Most that one person's may sum to at this site.
    """
    each = np.bincount(person, weights)
    return np.asarray(weights * np.minimum(1.0, unit / np.maximum(each, 1e-300))[person])


def _squared_lengths(question: Question, rows: PackedRows, workers: Workers) -> FloatArray:
    """Return the squared length of what each row is written as."""
    if question.axes.size:
        return np.concatenate([(y**2).sum(axis=1) for _, y in _written(question, rows)])
    levels, missing = question.coding.lengths()
    # A missing entry adds nothing to a table of expectations: so what it adds comes first.
    more = levels - np.repeat(missing, question.coding.n_levels)
    theta = Expectations(np.array([missing.sum()]), more[None])
    return np.maximum(log_evidence(rows, theta, workers), 0.0)


def _moments(question: Question, rows: PackedRows, within: FloatArray) -> FloatArray:
    total = np.zeros((question.width, question.width))
    for at, y in _written(question, rows):
        cut = y * within[at, None]
        total += cut.T @ (cut * rows.weights[at, None])
    upper = np.triu_indices(question.width)
    return np.asarray(total[upper] * np.where(upper[0] == upper[1], 1.0, math.sqrt(2.0)))


def _written(question: Question, rows: PackedRows) -> Iterator[tuple[slice, FloatArray]]:
    """Yield what some rows at a time are written as: (n, width), by looking up their codes."""
    coding = question.coding
    of_cell = coding.numbers(np.eye(len(coding.centre)))
    if question.axes.size:
        of_cell = of_cell @ question.axes
    missing = np.zeros((len(coding.n_levels), question.width))
    missing[coding.told] = of_cell[~coding.levels]
    more = of_cell[coding.levels] - np.repeat(missing, coding.n_levels, axis=0)
    table = build_table(missing.sum(axis=0), np.ascontiguousarray(more.T), rows.packing)
    base = rows.packing.state_offsets
    for start in range(0, rows.n_rows, ROWS_AT_ONCE):
        at = slice(start, min(start + ROWS_AT_ONCE, rows.n_rows))
        y = np.empty((at.stop - start, question.width))
        log_rho_block(rows.codes, base, table, start, at.stop, y)
        yield at, y
