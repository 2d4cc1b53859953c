"""Two sites' clusters side by side: the variables in which they are the same, and the others."""

from __future__ import annotations

from math import log
from typing import NamedTuple

import numpy as np

from fedmerdel.centre.state import FederationState
from fedmerdel.errors import OptionError
from fedmerdel.inference.comparison import LevelTest, log_bayes_factors, same_levels
from fedmerdel.sums.arrays import FloatArray

STRONG = log(20.0)
"""Nats from which a variable is called different: odds of 20 to 1."""


class SiteComparison(NamedTuple):
    """What two sites have in the clusters that both have, variable by variable.

    Attributes
    ----------
    site, other : str
        The two.
    variables : tuple of str
        The study's variables.
    clusters : tuple of int
        Global clusters in which both sites have rows; several local clusters of one site in one
        of them are taken together.
    rows : float64 array (2, Z)
        Rows of each site in each of these.
    log_bayes_factors : float64 array (P, Z)
        Logarithm of the odds, in the light of the counts, that both sites have the same levels of
        a variable in a cluster, against levels of their own. Above 0: the same.
    """

    site: str
    other: str
    variables: tuple[str, ...]
    clusters: tuple[int, ...]
    rows: FloatArray
    log_bayes_factors: FloatArray

    @property
    def total(self) -> FloatArray:
        """Sum over the variables of each cluster, (Z,): the levels' part of the merge gain."""
        return np.asarray(self.log_bayes_factors.sum(axis=0))

    @property
    def different(self) -> dict[int, tuple[str, ...]]:
        """Of each cluster the variables that differ with odds of 20 to 1, the surest first."""
        found = {}
        for k, factors in zip(self.clusters, self.log_bayes_factors.T, strict=True):
            order = np.argsort(factors, kind="stable")
            found[k] = tuple(self.variables[j] for j in order if factors[j] < -STRONG)
        return found


def compare_sites(federation: FederationState, site: str, other: str) -> SiteComparison:
    """Compare two sites in the clusters that they share, from what they have released."""
    for name in (site, other):
        if name not in federation.sites:
            raise OptionError(f"site: {name!r} is not in the federation: see its sites")
    if site == other:
        raise OptionError("other: give another site than the first")
    rows, counts = site_counts(federation)
    pair = [federation.sites.index(site), federation.sites.index(other)]
    shared = np.flatnonzero((rows[pair] > 0).all(axis=0))
    factors = log_bayes_factors(counts[pair][:, shared], federation.prior)
    return SiteComparison(
        site,
        other,
        federation.study.codebook.names,
        tuple(int(k) for k in shared),
        rows[pair][:, shared],
        np.ascontiguousarray(factors.T),
    )


def cluster_differences(federation: FederationState, cluster: int) -> LevelTest:
    """Compare all sites that have rows in one global cluster."""
    if not isinstance(cluster, int | np.integer) or not 0 <= cluster < federation.n_clusters:
        raise OptionError(f"cluster: give a number from 0 to {federation.n_clusters - 1}")
    rows, counts = site_counts(federation)
    return same_levels(counts[rows[:, cluster] > 0, cluster], federation.prior)


def site_counts(federation: FederationState) -> tuple[FloatArray, FloatArray]:
    """Return rows of each site in each global cluster, (B, K), and at each level, (B, K, M).

    Counts that disclosure control has hidden are what is expected of them in the global cluster,
    so it makes sites look more alike there, never more different.
    """
    local = federation.filled
    shape = (len(federation.sites), federation.n_clusters)
    rows, counts = np.zeros(shape), np.zeros((*shape, local.stats.S.shape[1]))
    for k, group in enumerate(federation.groups):
        np.add.at(rows[:, k], local.site[group], local.stats.T[group])
        np.add.at(counts[:, k], local.site[group], local.stats.S[group])
    return rows, counts
