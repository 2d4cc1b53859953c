"""What clusters look like: the numbers of a heatmap of clusters by levels.

A cluster may have rows of sites alone that never recorded a variable. What the prior says of it
there is no finding, so it is *not measured*: nan in all that is shown. `measured` decides it. It
asks for rows with an entry at any level, and not for each level: a level that is hidden because
it is rare has its rows counted at another level, and is measured.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.cluster.hierarchy import leaves_list, linkage, optimal_leaf_ordering
from scipy.special import xlogy

from fedmerdel.sums.arrays import BoolArray, FloatArray, IntArray
from fedmerdel.sums.levels import level_totals, sum_levels
from fedmerdel.sums.predictive import mean_levels, mean_weights
from fedmerdel.sums.prior import Prior
from fedmerdel.sums.sums import Sums

ONE_ROW = 1.0
"""Entries of less than a row: a few rows' shares in a cluster that is not theirs."""


class Profile(NamedTuple):
    """Every level in every cluster; nan where its variable was not measured.

    Attributes
    ----------
    weights : float64 array (K,)
        Share of all rows in each cluster.
    prevalence : float64 array (K, M)
        Share of the cluster's rows at the level; nan if not measured there.
    overall : float64 array (M,)
        Share of all rows at the level, of the clusters where it was measured; nan if in none.
    exclusivity : float64 array (K, M)
        Share of all rows at the level that are in the cluster, of the same clusters.
    """

    weights: FloatArray
    prevalence: FloatArray
    overall: FloatArray
    exclusivity: FloatArray

    @property
    def ratio(self) -> FloatArray:
        """Observed over expected: prevalence over that of all rows, (K, M); 1 of nothing."""
        known = self.overall > 0
        ratio = np.where(known, self.prevalence / np.where(known, self.overall, 1.0), 1.0)
        return np.where(self.measured, ratio, np.nan)

    @property
    def measured(self) -> BoolArray:
        """Whether each level was measured in each cluster: (K, M)."""
        return np.asarray(~np.isnan(self.prevalence))

    def information(self, offsets: IntArray) -> FloatArray:
        """Return what each variable tells of a row's cluster: mutual information in nats, (P,)."""
        seen, p = self.measured, np.nan_to_num(self.prevalence)
        overall = np.nan_to_num(self.overall)
        told = self.weights @ xlogy(p, p) / _part_of(self.weights, seen)
        told = told - xlogy(overall, overall)
        return np.asarray(np.add.reduceat(told, offsets[:-1]).clip(min=0.0))

    def alike(self) -> IntArray:
        """Return an order of the clusters in which those beside each other are alike, (K,)."""
        if len(self.weights) < 3:
            return np.arange(len(self.weights))
        # Distances between square roots of shares are Hellinger's. What was not measured is taken
        # for what it is elsewhere, so that it makes nobody alike or different.
        roots = np.sqrt(np.nan_to_num(np.where(self.measured, self.prevalence, self.overall)))
        return np.asarray(leaves_list(optimal_leaf_ordering(linkage(roots, "average"), roots)))


def measured(stats: Sums, offsets: IntArray) -> BoolArray:
    """Return which variables were measured in which clusters, (K, P): a row's worth of entries.

    Of a cluster that is itself hardly more than a row, half of it is enough.
    """
    entries = sum_levels(stats.S, offsets)
    needed = np.minimum(ONE_ROW, stats.T / 2)[:, None]
    return np.asarray((entries > 0) & (entries >= needed))


def profile(stats: Sums, prior: Prior) -> Profile:
    """Return the posterior means of a mixture, and of all rows together.

    What was not `measured` is nan.
    """
    seen = np.repeat(measured(stats, prior.offsets), prior.n_levels, axis=1)
    return mixed(mean_weights(stats, prior), np.where(seen, mean_levels(stats, prior), np.nan))


def mixed(weights: FloatArray, prevalence: FloatArray) -> Profile:
    """Return the profile of clusters with these weights and shares of levels."""
    seen = ~np.isnan(prevalence)
    joint = weights[:, None] * np.nan_to_num(prevalence)
    overall = np.where(seen.any(axis=0), joint.sum(axis=0) / _part_of(weights, seen), np.nan)
    return Profile(weights, prevalence, overall, _shares_of(joint, seen))


def counted_profile(stats: Sums, offsets: IntArray) -> Profile:
    """Return the same from counts alone: shares of the rows with an entry."""

    def shares(counts: FloatArray) -> FloatArray:
        total = level_totals(counts, offsets)
        return np.asarray(counts / np.where(total > 0, total, np.nan))

    seen = np.repeat(measured(stats, offsets), np.diff(offsets), axis=1)
    weights, counts = stats.T / stats.T.sum(), np.where(seen, stats.S, 0.0)
    return Profile(weights, shares(counts), shares(counts.sum(axis=0)), _shares_of(counts, seen))


def _part_of(weights: FloatArray, seen: BoolArray) -> FloatArray:
    """Return the share of all rows in the clusters where a level was measured; 1 for none."""
    part = np.where(seen.all(axis=0), 1.0, weights @ seen)
    return np.where(part > 0, part, 1.0)


def _shares_of(joint: FloatArray, seen: BoolArray) -> FloatArray:
    """Return each cluster's share of a column's sum; 0 of nothing, nan if not measured."""
    total = joint.sum(axis=0)
    return np.where(seen, joint / np.where(total > 0, total, 1.0), np.nan)
