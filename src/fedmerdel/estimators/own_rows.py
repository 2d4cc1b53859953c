"""Intervals of one table's clusters, from its own rows: how sure each is of its cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import numpy as np

from fedmerdel.fitting.passes import Workers, responsibilities
from fedmerdel.inference.information import (
    Mixture,
    Rows,
    Worth,
    block_worth,
    observed_information,
    prior_information,
    worth,
)
from fedmerdel.inference.intervals import Intervals, intervals, paper_prior
from fedmerdel.model.intervals import MOST_PARAMETERS, PART
from fedmerdel.records.packing import PackedRows
from fedmerdel.sums.arrays import IntArray
from fedmerdel.sums.expectations import expectations
from fedmerdel.sums.levels import level_means
from fedmerdel.sums.predictive import mean_levels, mean_weights
from fedmerdel.sums.prior import Prior
from fedmerdel.sums.sums import Sums


def own_intervals(rows: PackedRows, stats: Sums, prior: Prior, workers: Workers) -> Intervals:
    """Return the intervals that a table's own rows give."""
    theta = expectations(stats, prior)
    found = Mixture(mean_weights(stats, prior), mean_levels(stats, prior), prior.offsets)
    # Where the likelihood is greatest, its second derivatives tell the information.
    levels = level_means(stats.S + paper_prior(prior.offsets), prior.offsets)
    counted = found._replace(levels=levels)

    def parts() -> Iterator[Rows]:
        for start in range(0, rows.n_rows, PART):
            some = rows.take(np.arange(start, min(start + PART, rows.n_rows)))
            yield Rows(level_numbers(some), responsibilities(some, theta, workers), some.weights)

    known = block_worth(parts(), counted)
    if found.n_parameters <= MOST_PARAMETERS:
        information = observed_information(parts(), counted) + prior_information(counted)
        # With too few rows for so many parameters there is no inverse: blocks are what is left.
        with suppress(np.linalg.LinAlgError):
            whole = worth(information, counted)
            # Second derivatives at 0 rows of a rare level say too much: rows that may have it
            # count. No level is known better than if all others were known.
            known = Worth(whole.shares, np.minimum(whole.levels, known.levels))
    return intervals(stats, found, known)


def level_numbers(rows: PackedRows) -> IntArray:
    """Return level numbers, -1 where an entry is missing: (n, P)."""
    packing = rows.packing
    digits = rows.codes.astype(np.int64)[:, packing.code] // packing.stride % packing.radix
    return np.where(digits == packing.n_levels, -1, digits)
