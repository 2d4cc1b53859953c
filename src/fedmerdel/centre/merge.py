"""The first merge: which local clusters of all sites are one, and without each site in turn."""

from __future__ import annotations

import numpy as np

from fedmerdel.centre.filling import filled_alike
from fedmerdel.centre.prior import centre_prior
from fedmerdel.centre.standing import LeftOut
from fedmerdel.centre.summaries import Summaries
from fedmerdel.study.priors import centre_learns, study_prior
from fedmerdel.study.study import Study
from fedmerdel.sums.agreement import best_jaccard
from fedmerdel.sums.arrays import IntArray
from fedmerdel.sums.elbo import elbo
from fedmerdel.sums.merging import LocalClusters, merged_sums
from fedmerdel.sums.search import Search, search_groups
from fedmerdel.sums.similarity import MergeCriterion
from fedmerdel.sums.sums import Sums

MOST_SITES = 30
"""Leaving out each of more sites than this would take long."""


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
) -> tuple[LeftOut, ...]:
    """Find the clusters anew without each site in turn, from the summaries alone.

    Empty for two sites or one, and for more than `MOST_SITES`.
    """
    if not 2 < len(summaries) <= MOST_SITES:
        return ()
    return tuple(
        _without(study, summaries, groups, search, criterion, b) for b in range(len(summaries))
    )


def _without(
    study: Study,
    summaries: Summaries,
    groups: tuple[IntArray, ...],
    search: Search,
    criterion: MergeCriterion,
    b: int,
) -> LeftOut:
    """Find the clusters anew without the site of this number."""
    sites = np.repeat(np.arange(len(summaries)), [each.n_clusters for each in summaries])
    others = tuple(each for at, each in enumerate(summaries) if at != b)
    anew = merge_groups(study, others, search, criterion)
    local, own = filled_alike(study, others), _owners(groups)[sites != b]
    present = np.bincount(own, minlength=len(groups)) > 0
    # Every cluster needs a place in the table, also one of this site alone.
    alike = best_jaccard(own, _owners(anew)[None, :], local.stats.T)[0]
    likeness = np.full(len(groups), np.nan)
    likeness[: len(alike)] = alike
    likeness[~present] = np.nan
    prior = centre_prior(
        study,
        sum(each.n_components for each in others),
        merged_sums(local, list(anew)).S,
    )
    # What this site's clusters keep apart is not its pull: clusters may be too small to tell.
    apart = np.unique(np.stack([own, _owners(anew)]), axis=1, return_inverse=True)[1].reshape(-1)
    loss = elbo(_joined(local, apart), prior) - elbo(_joined(local, own), prior)
    return LeftOut(summaries[b].site, len(anew), likeness, loss / float(local.stats.T.sum()))


def _joined(local: LocalClusters, owner: IntArray) -> Sums:
    """Return the sums of local clusters that have the same owner."""
    return merged_sums(local, [np.flatnonzero(owner == k) for k in np.unique(owner)])


def _owners(groups: tuple[IntArray, ...]) -> IntArray:
    """Return the group of each local cluster."""
    owner = np.empty(sum(map(len, groups)), dtype=np.int64)
    for k, group in enumerate(groups):
        owner[group] = k
    return owner
