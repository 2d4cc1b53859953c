"""The people behind a cluster's sums: what a policy's threshold is about."""

from __future__ import annotations

import numpy as np

from fedmerdel.fitting.passes import (
    Workers,
    count_together,
    expect_and_count,
    label_rows,
    responsibilities,
)
from fedmerdel.records.packing import PackedRows
from fedmerdel.release.mechanism import People
from fedmerdel.sums.arrays import FloatArray
from fedmerdel.sums.expectations import Expectations
from fedmerdel.sums.sums import OutcomeCounts, Sums

LEAST_SHARE = 0.1
"""A row stands behind a cluster's sums if it belongs to the cluster by this much."""

PEOPLE_ROWS = 65_536
"""Rows whose shares in all clusters are held at a time."""


def count_people(
    rows: PackedRows, theta: Expectations, outcomes: dict[str, FloatArray], workers: Workers
) -> People:
    """Count the people behind each sum: rows that belong to the cluster by a tenth at least.

    Whatever their weight; but a row of weight 0 is in no sum, so it is not behind one. Dust
    does not count, so few sure rows can't hide in it. Where clusters overlap, a row counts
    in each: a sum of many small shares is no small group.
    """
    T, S = np.zeros(theta.n_clusters), np.zeros_like(theta.log_levels)
    named = {name: OutcomeCounts(T.copy(), T.copy()) for name in outcomes}
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
            for name, values in outcomes.items():
                named[name].positive[k] += np.sum(behind[:, k] & (values[at] == 1))
                named[name].observed[k] += np.sum(behind[:, k] & ~np.isnan(values[at]))
    labels = label_rows(rows, theta, workers)[rows.weights > 0]
    own = np.bincount(labels, minlength=theta.n_clusters).astype(np.float64)
    return People(
        Sums(T, S, np.zeros_like(T), outcomes=named),
        own,
        count_all(rows, outcomes, workers),
        count_all(rows._replace(weights=(rows.weights > 0).astype(np.float64)), outcomes, workers),
    )


def count_all(rows: PackedRows, outcomes: dict[str, FloatArray], workers: Workers) -> Sums:
    """Return the sums of all rows as one cluster: they depend on the table alone."""
    found = count_together(rows, workers)
    named = {
        name: OutcomeCounts(
            *(np.array([rows.weights[at].sum()]) for at in (values == 1, ~np.isnan(values)))
        )
        for name, values in outcomes.items()
    }
    return Sums(found.T, found.S, np.zeros(1), outcomes=named)


def count_outcomes(
    rows: PackedRows, theta: Expectations, outcomes: dict[str, FloatArray], workers: Workers
) -> dict[str, OutcomeCounts]:
    """Sum the shares of the rows with each outcome, and of those where it is known."""
    found = {}
    for name, values in outcomes.items():
        sums = []
        for counted in (values == 1, ~np.isnan(values)):
            part = rows._replace(weights=np.where(counted, rows.weights, 0.0))
            sums.append(expect_and_count(part, theta, workers).T)
        found[name] = OutcomeCounts(*sums)
    return found
