"""Two sites' clusters side by side: the variables in which they are the same, and the others."""

from __future__ import annotations

from itertools import pairwise
from math import log
from typing import NamedTuple

import numpy as np

from fedmerdel.centre.state import FederationState
from fedmerdel.centre.summaries import replies_to
from fedmerdel.errors import OptionError
from fedmerdel.inference.comparison import (
    LevelTest,
    log_bayes_factors,
    most_alike,
    same_levels,
)
from fedmerdel.release.cells import with_missing
from fedmerdel.release.summary import SiteSummary
from fedmerdel.sums.arrays import FloatArray, IntArray

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
        a variable in a cluster, against levels of their own. Above 0: the same. Where disclosure
        control leaves open what the counts are, they are taken as alike as they may be.
    same_clusters : bool
        Whether both sites have counted their rows in the very same clusters, as after a round.
        Clusters that each site has found for itself have borders of their own too, and that looks
        like a difference of their levels.
    """

    site: str
    other: str
    variables: tuple[str, ...]
    clusters: tuple[int, ...]
    rows: FloatArray
    log_bayes_factors: FloatArray
    same_clusters: bool

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
    pair = [federation.sites.index(site), federation.sites.index(other)]
    rows = federation.site_rows[pair]
    shared = np.flatnonzero((rows > 0).all(axis=0))
    counts = _alike_counts(federation, pair, shared)
    return SiteComparison(
        site,
        other,
        federation.study.codebook.names,
        tuple(int(k) for k in shared),
        rows[:, shared],
        np.ascontiguousarray(log_bayes_factors(counts, federation.prior).T),
        all(replies_to(federation.summaries[b], federation.asked) for b in pair),
    )


def cluster_differences(federation: FederationState, cluster: int) -> LevelTest:
    """Compare all sites that have rows in one global cluster."""
    if not isinstance(cluster, int | np.integer) or not 0 <= cluster < federation.n_clusters:
        raise OptionError(f"cluster: give a number from 0 to {federation.n_clusters - 1}")
    here = np.flatnonzero(federation.site_rows[:, cluster] > 0).tolist()
    counts = _alike_counts(federation, here, np.array([cluster]))
    return same_levels(counts[:, 0], federation.prior)


def _alike_counts(federation: FederationState, sites: list[int], clusters: IntArray) -> FloatArray:
    """Return counts of some sites in some global clusters, (B, Z, M), as alike as may be.

    Disclosure control has moved rows between levels, and that must not look like a difference: of
    all counts that may be behind those released, these are the most alike.
    """
    local, offsets = federation.local, federation.study.codebook.level_offsets
    shape = (len(sites), len(clusters), int(offsets[-1]))
    known, least, most = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    for at, b in enumerate(sites):
        own = np.flatnonzero(local.site == b)
        fewest, greatest = _possible_counts(federation.summaries[b], offsets)
        for z, k in enumerate(clusters):
            inside = np.flatnonzero(np.isin(own, federation.groups[k]))
            known[at, z] = local.stats.S[own[inside]].sum(axis=0)
            least[at, z] = fewest[inside].sum(axis=0)
            most[at, z] = greatest[inside].sum(axis=0)
    return most_alike(known, least, most, offsets)


def _possible_counts(summary: SiteSummary, offsets: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return the fewest and the most rows that may be behind each count of a release: (K, M)."""
    T, S = summary.sums[:2]
    least, most = np.empty_like(S), np.empty_like(S)
    for start, end in pairwise(offsets):
        cells = with_missing(T, S[:, start:end])
        bounds = summary.mechanism.possible(cells, summary.rest)
        least[:, start:end], most[:, start:end] = (bound[:, :-1] for bound in bounds)
    return least, most
