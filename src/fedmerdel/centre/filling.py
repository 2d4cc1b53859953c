"""Counts that sites could not tell in one shot, filled with what is expected of them.

Taken for none, hidden counts make clusters sure that a rare level does not occur there: on wide
sparse tables at small sites the model is then worse than no clusters at all. So they are filled
by EM for censored counts (`federation.hidden`): first as if the clusters were alike, then each
with its own global cluster's levels.
"""

from __future__ import annotations

import numpy as np

from fedmerdel.centre.centre_prior import centre_prior
from fedmerdel.release.hidden import filled, filled_alike
from fedmerdel.study.protocol import Study
from fedmerdel.sums.arrays import IntArray
from fedmerdel.sums.expectations import expectations
from fedmerdel.sums.merging import LocalClusters, merged_statistics
from fedmerdel.sums.sums import Sums

STEPS = 10


def filled_in(
    study: Study, local: LocalClusters, groups: list[IntArray], n_components: int
) -> Sums:
    """Return the statistics of the global clusters with the sites' hidden counts filled in.

    Parameters
    ----------
    study : Study
        What the sites agreed on, the policy too.
    local : LocalClusters
        What they sent.
    groups : list of int64 arrays
        The local clusters of each global one.
    n_components : int
        Of the centre's prior.
    """
    offsets, policy = study.codebook.level_offsets, study.policy
    owner = np.empty(local.stats.n_clusters, dtype=np.int64)
    for k, group in enumerate(groups):
        owner[group] = k
    none = np.zeros(len(owner), dtype=bool)
    own = filled_alike(local.stats, offsets, policy)
    for _ in range(STEPS):
        stats = merged_statistics(local._replace(stats=own), groups)
        theta = expectations(stats, centre_prior(study, n_components, stats.S))
        own = filled(local.stats, theta.take(owner), offsets, policy, none)
    return merged_statistics(local._replace(stats=own), groups)
