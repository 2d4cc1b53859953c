"""Rows that stand for those of a federation's sites: made up from what the sites released."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fedmerdel.centre.state import FederationState
from fedmerdel.model.made_up import observed_shares
from fedmerdel.records.packing import PackedRows, pack_levels, plan_packing, states_that_pay
from fedmerdel.sums.arrays import FloatArray
from fedmerdel.sums.predictive import draw_from, draw_levels, mean_levels, mean_weights
from fedmerdel.sums.prior import Prior
from fedmerdel.sums.sums import Sums

PART = 8192
"""Rows that are made up at once: memory alone."""

COMPLETE = 1.0 - 1e-9
"""Share of rows with an entry that is all of them, but for rounding."""


class Source(NamedTuple):
    """Where rows are drawn from.

    Attributes
    ----------
    clusters : Sums
        Clusters, and how many rows each has.
    prior : Prior
        Under which they are described.
    observed : float64 array (K, P)
        How often each variable has an entry in each cluster.
    """

    clusters: Sums
    prior: Prior
    observed: FloatArray

    def rows_again(self, rng: np.random.Generator) -> PackedRows:
        """Make as many rows up, with levels that are drawn from their posterior first.

        Posterior means are nearer to each other than clusters are that few rows tell of: rows
        drawn from them would be harder to tell apart than those that they stand for.
        """
        levels = draw_levels(self.clusters, self.prior, rng)
        return self._rows(max(round(float(self.clusters.T.sum())), 1), levels, rng)

    def rows(self, n_rows: int, rng: np.random.Generator) -> PackedRows:
        """Make rows up from the posterior means."""
        return self._rows(n_rows, mean_levels(self.clusters, self.prior), rng)

    def _rows(self, n_rows: int, levels: FloatArray, rng: np.random.Generator) -> PackedRows:
        """Make rows up, packed as those of a table are."""
        weights = mean_weights(self.clusters, self.prior)
        lacking = np.asarray((self.observed < 1.0).any(axis=0))
        packing = plan_packing(self.prior.n_levels, lacking, states_that_pay(n_rows))
        codes = np.empty((n_rows, packing.n_codes), dtype=np.uint8)
        for start in range(0, n_rows, PART):
            stop = min(start + PART, n_rows)
            X, drawn = draw_from(weights, levels, self.prior, stop - start, rng)
            if lacking.any():
                X[rng.random(X.shape) >= self.observed[drawn]] = -1
            codes[start:stop] = pack_levels(X, packing).codes
        return PackedRows(codes, np.ones(n_rows), packing)


def everyone(federation: FederationState) -> Source:
    """Return where rows as those of all sites together are drawn from: the common clusters."""
    return _source(federation.sums, federation.prior)


def site_sources(federation: FederationState) -> list[Source]:
    """Return where rows as those of each site are drawn from: its own clusters.

    As the site released them, with hidden counts filled with what is expected of them, and
    under the centre's prior: as they are, clusters of few rows would seem sharper than they are.
    """
    local = federation.local_expected
    return [
        _source(local.stats.take(np.flatnonzero(local.site == b)), federation.prior)
        for b in range(local.n_sites)
    ]


def _source(clusters: Sums, prior: Prior) -> Source:
    told = clusters.take(np.flatnonzero(clusters.T > 0))
    observed = observed_shares(told, prior.offsets)
    # Sums of parts may miss the rows by a last digit.
    return Source(told, prior, np.where(observed > COMPLETE, 1.0, observed))
