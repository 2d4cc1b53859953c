"""The first merge: which local clusters of all sites are one."""

from __future__ import annotations

import numpy as np

from fedmerdel.centre.summaries import Summaries, side_by_side
from fedmerdel.study.priors import centre_learns, study_prior
from fedmerdel.study.study import Study
from fedmerdel.sums.arrays import IntArray
from fedmerdel.sums.search import Search, search_groups
from fedmerdel.sums.similarity import MergeCriterion


def merge_groups(
    study: Study, summaries: Summaries, search: Search, criterion: MergeCriterion
) -> tuple[IntArray, ...]:
    """Return the local clusters, numbered through all sites, of each global one.

    The largest cluster comes first.
    """
    prior = study_prior(study, sum(summary.n_components for summary in summaries))
    local = side_by_side(summaries)
    rng = np.random.default_rng(study.seed)
    groups = search_groups(search, local, prior, centre_learns(study), criterion, rng)
    by_size = np.argsort([-local.stats.T[group].sum() for group in groups], kind="stable")
    return tuple(groups[k] for k in by_size)
