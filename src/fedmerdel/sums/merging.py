"""The state of a global merge: groups of local clusters, and what joining two would gain.

All that is known of the rows are the sites' statistics and, inside each site, the overlaps
Q of its clusters. For clusters of different sites Q is 0. For groups that hold several
clusters of one site,

    sum of Q_ij over i in a, j in b of the same site  >=  Q(a, b)

since g(x, y) = (x+y) ln(x+y) - x ln x - y ln y is concave in each argument with
g(0, y) = 0, hence subadditive in each. So every gain here is a lower bound of the true
one, and a merge that is accepted never lowers the true ELBO: that of the counts given. Where a
policy has changed these, the ELBO of the rows is another, and may fall.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedmerdel.sums.arrays import FloatArray, IntArray
from fedmerdel.sums.elbo import cluster_evidence, joined_evidence
from fedmerdel.sums.prior import Prior
from fedmerdel.sums.sums import Sums


class LocalClusters(NamedTuple):
    """The clusters of all sites, one site after the other.

    Attributes
    ----------
    stats : Sums
        T, S and h of all C local clusters.
    site : int64 array (C,)
        The site of each, numbered from 0.
    overlaps : list of float64 arrays (K_b, K_b)
        Q inside each site, symmetric.
    """

    stats: Sums
    site: IntArray
    overlaps: list[FloatArray]

    @property
    def n_sites(self) -> int:
        """Sites, also those without a cluster."""
        return len(self.overlaps)


def local_clusters(sites: list[Sums]) -> LocalClusters:
    """Put the clusters of all sites side by side."""
    site = np.repeat(np.arange(len(sites)), [sums.n_clusters for sums in sites])
    return LocalClusters(sites[0].joined(*sites[1:]), site, [sums.Q for sums in sites])


class Merging:
    """Groups of local clusters on the way from all apart to merged.

    Parameters
    ----------
    local : LocalClusters
        What the sites sent.
    prior : Prior
        The centre's prior.
    groups : list of int64 arrays, optional
        Groups to start from; every local cluster alone by default.
    """

    def __init__(
        self, local: LocalClusters, prior: Prior, groups: list[IntArray] | None = None
    ) -> None:
        self.local, self.prior = local, prior
        if groups is None:
            groups = [np.array([i]) for i in range(local.stats.n_clusters)]
        self.members = groups
        self.alive = np.ones(len(groups), dtype=bool)
        self.T = np.array([local.stats.T[group].sum() for group in groups])
        self.S = np.array([local.stats.S[group].sum(axis=0) for group in groups])
        self.sites = np.zeros((len(groups), local.n_sites), dtype=bool)
        for at, group in enumerate(groups):
            self.sites[at, local.site[group]] = True
        self.evidence = cluster_evidence(self.T, self.S, prior)
        self._first = np.searchsorted(local.site, np.arange(local.n_sites))

    def gains(self, a: int, others: IntArray) -> FloatArray:
        """Return at least what merging group ``a`` with each of others adds to the ELBO."""
        gains = self.gains_without_overlap(a, others)
        for at in np.flatnonzero((self.sites[others] & self.sites[a]).any(axis=1)):
            gains[at] -= self.overlap(a, int(others[at]))
        return gains

    def gains_without_overlap(self, a: int, others: IntArray) -> FloatArray:
        """Return what each of these merges would gain if no row were in both groups."""
        stats, added = Sums(self.T, self.S, self.T), np.ones(len(others))
        joined = joined_evidence(self.T[a], self.S[a], stats, others, added, self.prior)
        return np.asarray(joined - (self.evidence[a] + self.evidence[others]))

    def overlap(self, a: int, b: int) -> float:
        """Return at least Q(a, b): the sum over clusters of a and b at the same site."""
        A, B, site = self.members[a], self.members[b], self.local.site
        i, j = np.nonzero(site[A][:, None] == site[B])
        here = site[A[i]]
        at = zip(here, A[i] - self._first[here], B[j] - self._first[here], strict=True)
        return float(sum(self.local.overlaps[b][k_a, k_b] for b, k_a, k_b in at))

    def apart(self) -> NDArray[np.bool_]:
        """Return which groups share no site with which: (groups, groups)."""
        sites = self.sites.astype(np.float32)
        return np.asarray(sites @ sites.T == 0)

    def merge(self, a: int, b: int) -> None:
        """Pour group ``b`` into group ``a``."""
        self.T[a] += self.T[b]
        self.S[a] += self.S[b]
        self.sites[a] |= self.sites[b]
        self.members[a] = np.concatenate((self.members[a], self.members[b]))
        self.alive[b] = False
        self.evidence[a] = cluster_evidence(self.T[a : a + 1], self.S[a : a + 1], self.prior)[0]

    @property
    def groups(self) -> list[IntArray]:
        """The local clusters of each group that is left, in ascending order."""
        return [np.sort(self.members[at]) for at in np.flatnonzero(self.alive)]


def merged_sums(local: LocalClusters, groups: list[IntArray]) -> Sums:
    """Return the statistics of the groups; h is at least the true one (from the Q bound)."""
    first = np.searchsorted(local.site, np.arange(local.n_sites))
    T, S, h = [], [], []
    for group in groups:
        T.append(local.stats.T[group].sum())
        S.append(local.stats.S[group].sum(axis=0))
        joined = local.stats.h[group].sum()
        here, times = np.unique(local.site[group], return_counts=True)
        for site in here[times > 1]:
            inside = group[local.site[group] == site] - first[site]
            overlap: NDArray[np.float64] = local.overlaps[site][np.ix_(inside, inside)]
            joined += np.triu(overlap, k=1).sum()
        h.append(min(joined, 0.0))  # bounds of Q may add up to more than there can be
    return Sums(np.array(T), np.array(S), np.array(h))
