"""What the sums of one shot stand for: hidden counts filled with what is expected of them.

Taken for none, hidden counts make clusters sure that a rare level does not occur there: on wide
sparse tables at small sites the model is then worse than no clusters at all. So the release
mechanism says what they stand for: first as if the clusters were alike, then each with its own
global cluster's levels.
"""

from __future__ import annotations

import numpy as np

from fedmerdel.centre.prior import centre_prior
from fedmerdel.release.mechanisms import mechanism_for
from fedmerdel.study.study import Study
from fedmerdel.sums.arrays import IntArray
from fedmerdel.sums.expectations import expectations
from fedmerdel.sums.merging import LocalClusters, merged_sums

STEPS = 10


def expected_local(
    study: Study, local: LocalClusters, groups: tuple[IntArray, ...], n_components: int
) -> LocalClusters:
    """Return what the sites' released sums stand for; the same object if nothing is hidden.

    Parameters
    ----------
    study : Study
        What the sites agreed on, the policy too.
    local : LocalClusters
        What they sent.
    groups : tuple of int64 arrays
        The local clusters of each global one.
    n_components : int
        Of the centre's prior.
    """
    mechanism, offsets = mechanism_for(study.policy), study.codebook.level_offsets
    owner = np.empty(local.stats.n_clusters, dtype=np.int64)
    for k, group in enumerate(groups):
        owner[group] = k
    none = np.zeros(len(owner), dtype=bool)
    own = mechanism.expected_alike(local.stats, offsets)
    if own is local.stats:
        return local
    for _ in range(STEPS):
        stats = merged_sums(local._replace(stats=own), list(groups))
        theta = expectations(stats, centre_prior(study, n_components, stats.S))
        own = mechanism.expected(local.stats, theta.take(owner), offsets, none)
    return local._replace(stats=own)
