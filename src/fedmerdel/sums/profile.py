"""What clusters look like: the numbers of a heatmap of clusters by levels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.cluster.hierarchy import leaves_list, linkage, optimal_leaf_ordering
from scipy.special import xlogy

from fedmerdel.sums.arrays import FloatArray, IntArray
from fedmerdel.sums.levels import level_totals
from fedmerdel.sums.predictive import mean_levels, mean_weights
from fedmerdel.sums.prior import Prior
from fedmerdel.sums.sums import Sums


class Profile(NamedTuple):
    """Every level in every cluster.

    Attributes
    ----------
    weights : float64 array (K,)
        Share of all rows in each cluster.
    prevalence : float64 array (K, M)
        Share of the cluster's rows at the level.
    overall : float64 array (M,)
        Share of all rows at the level.
    exclusivity : float64 array (K, M)
        Share of all rows at the level that are in the cluster.
    """

    weights: FloatArray
    prevalence: FloatArray
    overall: FloatArray
    exclusivity: FloatArray

    @property
    def ratio(self) -> FloatArray:
        """Observed over expected: prevalence over that of all rows, (K, M); 1 of nothing."""
        known = self.overall > 0
        return np.where(known, self.prevalence / np.where(known, self.overall, 1.0), 1.0)

    def information(self, offsets: IntArray) -> FloatArray:
        """Return what each variable tells of a row's cluster: mutual information in nats, (P,)."""
        told = self.weights @ xlogy(self.prevalence, self.prevalence)
        told = told - xlogy(self.overall, self.overall)
        return np.asarray(np.add.reduceat(told, offsets[:-1]).clip(min=0.0))

    def alike(self) -> IntArray:
        """Return an order of the clusters in which those beside each other are alike, (K,)."""
        if len(self.weights) < 3:
            return np.arange(len(self.weights))
        # Distances between square roots of shares are Hellinger's.
        roots = np.sqrt(self.prevalence)
        return np.asarray(leaves_list(optimal_leaf_ordering(linkage(roots, "average"), roots)))


def profile(stats: Sums, prior: Prior) -> Profile:
    """Return the posterior means of a mixture, and of all rows together."""
    return mixed(mean_weights(stats, prior), mean_levels(stats, prior))


def mixed(weights: FloatArray, prevalence: FloatArray) -> Profile:
    """Return the profile of clusters with these weights and shares of levels."""
    joint = weights[:, None] * prevalence
    return Profile(weights, prevalence, joint.sum(axis=0), _shares_of(joint))


def counted_profile(stats: Sums, offsets: IntArray) -> Profile:
    """Return the same from counts alone: shares of the rows with an entry, 0 where none has."""

    def shares(counts: FloatArray) -> FloatArray:
        total = level_totals(counts, offsets)
        return np.asarray(counts / np.where(total > 0, total, 1.0))

    weights, overall = stats.T / stats.T.sum(), shares(stats.S.sum(axis=0))
    return Profile(weights, shares(stats.S), overall, _shares_of(stats.S))


def _shares_of(joint: FloatArray) -> FloatArray:
    """Return each cluster's share of a column's sum; 0 of nothing."""
    total = joint.sum(axis=0)
    return np.asarray(joint / np.where(total > 0, total, 1.0))
