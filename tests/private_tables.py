"""Small tables, codings and questions for the tests of differential privacy, and slow oracles."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

import numpy as np

from fedmerdel.private.coding import Coding, coding_around
from fedmerdel.private.question import Question, answer_size, grid_for
from fedmerdel.records.packing import PackedRows, pack_levels, plan_packing
from fedmerdel.sums.arrays import FloatArray, IntArray


def packed(levels: IntArray, n_levels: IntArray) -> PackedRows:
    """Rows of level numbers, -1 where missing."""
    return pack_levels(levels, plan_packing(n_levels, (levels < 0).any(axis=0)))


def every_row(n_levels: IntArray, missing: bool) -> IntArray:
    """All rows that there can be."""
    first = -1 if missing else 0
    return np.array(list(product(*(range(first, n) for n in n_levels))), dtype=np.int64)


def random_coding(n_levels: IntArray, rng: np.random.Generator) -> Coding:
    told = rng.random(len(n_levels)) < 0.5
    shares = np.concatenate([rng.dirichlet(np.full(n, 0.7)) for n in n_levels + told])
    return coding_around(n_levels, told, shares, 0.01, rng.choice([0.0, 0.25, 0.5]))


def random_question(
    coding: Coding,
    rng: np.random.Generator,
    n_clusters: int = 3,
    *,
    n_axes: int = 0,
    moments: bool = False,
    cells: Mapping[str, int] | None = None,
) -> Question:
    """A question with clusters that tell rows apart to some degree; the limit cuts some rows."""
    levels = [np.log(rng.dirichlet(np.full(n, 0.3), n_clusters) + 1e-9) for n in coding.n_levels]
    axes = np.linalg.qr(rng.normal(size=(coding.size, max(n_axes, 1))))[0][:, :n_axes]
    width = n_axes or coding.size
    limit = float(np.sqrt(coding.expected_length() * width / coding.size * rng.uniform(0.5, 2)))
    clusters = 0 if moments else n_clusters
    outcomes = tuple((cells or {}).items())
    size = answer_size("moments" if moments else "clusters", clusters, width, outcomes)
    return Question(
        what="moments" if moments else "clusters",
        log_weights=np.log(rng.dirichlet(np.ones(n_clusters)))[:clusters],
        log_levels=np.concatenate(levels, axis=1)[:clusters],
        coding=coding,
        axes=axes,
        limit=limit,
        row=0.4 * limit,
        outcomes=outcomes,
        outcome=0.3 * limit,
        grid=grid_for(limit**2 if moments else limit, size),
        share=0.0,
    )


def plain_written(coding: Coding, row: IntArray) -> list[FloatArray]:
    """What a row's cells are, centred and weighed, variable by variable: from the formula."""
    found, start = [], 0
    for j, n in enumerate(coding.n_cells):
        cells = np.zeros(n)
        at = row[j] if row[j] >= 0 else (coding.n_levels[j] if coding.told[j] else -1)
        own = slice(start, start + n)
        if at >= 0:
            cells[at] = 1.0
            cells -= coding.centre[own]
        found.append(cells * coding.weight[own])
        start += n
    return found


def plain_sums(
    question: Question,
    levels: IntArray,
    weights: FloatArray,
    outcomes: Mapping[str, FloatArray],
) -> list[FloatArray]:
    """T, weighed cells and outcomes, row by row; axes and moments are for `numbers` to turn."""
    K, coding = len(question.log_weights), question.coding
    T, cells = np.zeros(K), np.zeros((K, len(coding.centre)))
    told = [np.zeros((K, n)) for _, n in question.outcomes]
    offsets = np.concatenate(([0], np.cumsum(coding.n_levels)))
    for n, row in enumerate(levels):
        z = np.concatenate(plain_written(coding, row))
        within = min(1.0, question.limit / np.linalg.norm(z))
        log_rho = question.log_weights.copy()
        for j, level in enumerate(row):
            if level >= 0:
                log_rho += question.log_levels[:, offsets[j] + level]
        r = np.exp(log_rho - log_rho.max())
        r *= weights[n] / r.sum()
        T += within * r
        cells += within * np.outer(r, z)
        for i, (name, _) in enumerate(question.outcomes):
            told[i] += np.outer(r, outcomes[name][n])
    return [T, cells, *told]
