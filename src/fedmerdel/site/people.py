"""The people behind a cluster's sums: what a policy's threshold is about."""

from __future__ import annotations

import numpy as np

from fedmerdel.fitting.passes import (
    Workers,
    count_together,
    label_rows,
    responsibilities,
)
from fedmerdel.records.packing import PackedRows
from fedmerdel.release.mechanism import People
from fedmerdel.sums.arrays import FloatArray
from fedmerdel.sums.expectations import Expectations
from fedmerdel.sums.sums import Sums

LEAST_SHARE = 0.1
"""A row stands behind a cluster's sums if it belongs to the cluster by this much."""

PEOPLE_ROWS = 65_536
"""Rows whose shares in all clusters are held at a time."""


def count_people(
    rows: PackedRows,
    theta: Expectations,
    outcomes: dict[str, FloatArray],
    workers: Workers,
    parts: frozenset[str] = frozenset(),
) -> People:
    """Count the people behind each sum: rows that belong to the cluster by a tenth at least.

    Whatever their weight; but a row of weight 0 is in no sum, so it is not behind one. Dust
    does not count, so few sure rows can't hide in it. Where clusters overlap, a row counts
    in each: a sum of many small shares is no small group.
    """
    T, S = np.zeros(theta.n_clusters), np.zeros_like(theta.log_levels)
    named = {name: np.zeros((len(T), cells.shape[1] + 1)) for name, cells in outcomes.items()}
    for start in range(0, rows.n_rows, PEOPLE_ROWS):
        at = np.arange(start, min(start + PEOPLE_ROWS, rows.n_rows))
        part = rows.take(at)
        shares = responsibilities(part, theta, workers)
        behind = (shares >= LEAST_SHARE) & (part.weights > 0)[:, None]
        for k in range(theta.n_clusters):
            people = part._replace(weights=behind[:, k].astype(np.float64))
            found = count_together(people, workers)
            T[k] += found.T[0]
            S[k] += found.S[0]
        for name, cells in outcomes.items():
            named[name] += behind.astype(np.float64).T @ _stands_behind(cells[at])
    labels = label_rows(rows, theta, workers)[rows.weights > 0]
    own = np.bincount(labels, minlength=theta.n_clusters).astype(np.float64)
    return People(
        Sums(T, S, np.zeros_like(T), outcomes=named),
        own,
        count_all(rows, outcomes, workers),
        count_all(
            rows._replace(weights=(rows.weights > 0).astype(np.float64)),
            {name: _stands_behind(cells) for name, cells in outcomes.items()},
            workers,
        ),
        parts,
    )


def count_all(rows: PackedRows, outcomes: dict[str, FloatArray], workers: Workers) -> Sums:
    """Return the sums of all rows as one cluster: they depend on the table alone."""
    found = count_together(rows, workers)
    named = {name: _sums(rows.weights[:, None], cells) for name, cells in outcomes.items()}
    return Sums(found.T, found.S, np.zeros(1), outcomes=named)


def count_outcomes(
    rows: PackedRows, theta: Expectations, outcomes: dict[str, FloatArray], workers: Workers
) -> dict[str, FloatArray]:
    """Sum the shares of the rows in each cell of each outcome: (K, C)."""
    found = {n: np.zeros((theta.n_clusters, cells.shape[1])) for n, cells in outcomes.items()}
    for start in range(0, rows.n_rows if outcomes else 0, PEOPLE_ROWS):
        at = np.arange(start, min(start + PEOPLE_ROWS, rows.n_rows))
        part = rows.take(at)
        shares = responsibilities(part, theta, workers) * part.weights[:, None]
        for name, cells in outcomes.items():
            found[name] += _sums(shares, cells[at])
    return found


def _sums(shares: FloatArray, cells: FloatArray) -> FloatArray:
    # Not a product of matrices: its sums may depend on the number of threads.
    return np.asarray(np.einsum("nk,nc->kc", shares, cells))


def _stands_behind(cells: FloatArray) -> FloatArray:
    """Return 1 where a row belongs to a cell by a tenth at least; last where it is in none."""
    unknown = 1.0 - cells.sum(axis=1)
    return (np.column_stack([cells, unknown]) >= LEAST_SHARE).astype(np.float64)
