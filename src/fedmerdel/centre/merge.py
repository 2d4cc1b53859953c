"""The first merge: which local clusters of all sites are one, and without each site in turn."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fedmerdel.centre.filling import filled_alike
from fedmerdel.centre.summaries import Summaries
from fedmerdel.study.priors import centre_learns, study_prior
from fedmerdel.study.study import Study
from fedmerdel.sums.agreement import best_jaccard
from fedmerdel.sums.arrays import FloatArray, IntArray
from fedmerdel.sums.search import Search, search_groups
from fedmerdel.sums.similarity import MergeCriterion

MOST_SITES = 30
"""Leaving out each of more sites than this would take long."""


class LeftOut(NamedTuple):
    """The clusters without one site, found anew.

    Attributes
    ----------
    site : str
        The site that is left out.
    n_clusters : int
        Clusters of the others.
    likeness : float64 array (K,)
        How alike each cluster of the model is to the most alike one of these, by rows of the
        other sites (Jaccard); nan for a cluster of this site alone.
    """

    site: str
    n_clusters: int
    likeness: FloatArray


def merge_groups(
    study: Study, summaries: Summaries, search: Search, criterion: MergeCriterion
) -> tuple[IntArray, ...]:
    """Return the local clusters, numbered through all sites, of each global one.

    The largest cluster comes first.
    """
    prior = study_prior(study, sum(summary.n_components for summary in summaries))
    local = filled_alike(study, summaries)
    rng = np.random.default_rng(study.seed)
    groups = search_groups(search, local, prior, centre_learns(study), criterion, rng)
    by_size = np.argsort([-local.stats.T[group].sum() for group in groups], kind="stable")
    return tuple(groups[k] for k in by_size)


def leave_out(
    study: Study,
    summaries: Summaries,
    groups: tuple[IntArray, ...],
    search: Search,
    criterion: MergeCriterion,
) -> list[LeftOut]:
    """Find the clusters anew without each site in turn, from the summaries alone.

    Empty for two sites or one, and for more than `MOST_SITES`.
    """
    if not 2 < len(summaries) <= MOST_SITES:
        return []
    local = filled_alike(study, summaries)
    own, found = _owners(groups), []
    for b, summary in enumerate(summaries):
        others = tuple(each for each in summaries if each is not summary)
        anew = merge_groups(study, others, search, criterion)
        stay = local.site != b
        present = np.bincount(own[stay], minlength=len(groups)) > 0
        # Every cluster needs a place in the table, also one of this site alone.
        alike = best_jaccard(own[stay], _owners(anew)[None, :], local.stats.T[stay])[0]
        likeness = np.full(len(groups), np.nan)
        likeness[: len(alike)] = alike
        likeness[~present] = np.nan
        found.append(LeftOut(summary.site, len(anew), likeness))
    return found


def _owners(groups: tuple[IntArray, ...]) -> IntArray:
    """Return the group of each local cluster."""
    owner = np.empty(sum(map(len, groups)), dtype=np.int64)
    for k, group in enumerate(groups):
        owner[group] = k
    return owner
