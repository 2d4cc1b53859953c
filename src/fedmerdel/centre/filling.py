"""What the sums of sites stand for: hidden counts filled with what is expected of them.

Taken for none, hidden counts make clusters sure that a rare level does not occur there: on wide
sparse tables at small sites the model is then worse than no clusters at all. So the release
mechanism says what they stand for, given what is known of the clusters: before the first merge
that they are alike, after it the levels of their global cluster, in a round what was sent out.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedmerdel.centre.prior import centre_prior
from fedmerdel.release.mechanisms import mechanism_for
from fedmerdel.release.summary import SiteSummary
from fedmerdel.study.study import Study
from fedmerdel.sums.arrays import IntArray
from fedmerdel.sums.expectations import Expectations, expectations
from fedmerdel.sums.levels import level_shares, sum_levels
from fedmerdel.sums.merging import LocalClusters, local_clusters, merged_sums
from fedmerdel.sums.sums import Sums

STEPS = 10

Summaries = tuple[SiteSummary, ...]


def filled_alike(study: Study, summaries: Summaries) -> LocalClusters:
    """Return the clusters of all sites with hidden counts as if clusters were alike.

    Whether a variable tells clusters apart must not be read off zeros: a rare level is hidden in
    small clusters and told in large ones, also where it is as rare in all.
    """
    return _expected(study, summaries, _alike(study, summaries))


def filled_in_groups(
    study: Study, summaries: Summaries, groups: tuple[IntArray, ...], n_components: int
) -> LocalClusters:
    """Return them with hidden counts as the levels of each one's global cluster suggest.

    Parameters
    ----------
    study : Study
        What the sites agreed on, the policy too.
    summaries : tuple of SiteSummary
        What they sent.
    groups : tuple of int64 arrays
        The local clusters of each global one.
    n_components : int
        Of the centre's prior.
    """
    local = filled_alike(study, summaries)
    if _is_told(local, summaries):
        return local
    owner = np.empty(local.stats.n_clusters, dtype=np.int64)
    for k, group in enumerate(groups):
        owner[group] = k
    ends = np.cumsum([summary.n_clusters for summary in summaries])
    owners = np.split(owner, ends[:-1])
    for _ in range(STEPS):
        stats = merged_sums(local, list(groups))
        theta = expectations(stats, centre_prior(study, n_components, stats.S).described)
        local = _expected(study, summaries, [theta.take(own) for own in owners])
    return local


def filled_replies(
    study: Study, summaries: Summaries, replied: Sequence[bool], sent: Expectations
) -> LocalClusters:
    """Return them with hidden counts of those that replied as the clusters sent out suggest."""
    weights = study.codebook.guide
    if weights is not None:  # what was sent out is what finds clusters: levels to a power
        powers = np.repeat(weights, study.codebook.n_levels)
        sent = sent._replace(log_levels=sent.log_levels / powers)
    known = [
        sent if replies else alike
        for replies, alike in zip(replied, _alike(study, summaries), strict=True)
    ]
    return _expected(study, summaries, known)


def told_alone(filled: Sums, summaries: Summaries, groups: tuple[IntArray, ...]) -> Sums:
    """Return filled sums without entries of a variable that no site has told of a cluster.

    Where a site tells nothing of a cluster, its rows are filled in, with the levels sent out. If
    those that do tell of it never recorded a variable, these levels are the prior's own: with
    them a variable would seem to have been measured. A cluster of which nobody tells is left.

    Parameters
    ----------
    filled : Sums
        Of the global clusters.
    summaries : tuple of SiteSummary
        What the sites sent.
    groups : tuple of int64 arrays
        The local clusters of each global one.
    """
    offsets = summaries[0].codebook.level_offsets
    T = np.concatenate([summary.sums.T for summary in summaries])
    S = np.concatenate([summary.sums.S for summary in summaries])
    told = np.array([sum_levels(S[group].sum(axis=0), offsets) for group in groups])
    known = np.array([T[group].sum() for group in groups])
    never = np.repeat((told == 0) & (known > 0)[:, None], np.diff(offsets), axis=1)
    if not filled.S[never].any():
        return filled
    return filled._replace(S=np.where(never, 0.0, filled.S))


def _alike(study: Study, summaries: Summaries) -> list[Expectations]:
    """Return what is known of clusters that are alike: the levels of all rows."""
    pooled = np.concatenate([summary.sums.S for summary in summaries])
    with np.errstate(divide="ignore"):
        levels = np.log(level_shares(pooled, study.codebook.level_offsets))
        return [
            Expectations(np.log(summary.sums.T), np.tile(levels, (summary.n_clusters, 1)))
            for summary in summaries
        ]


def _expected(study: Study, summaries: Summaries, known: Sequence[Expectations]) -> LocalClusters:
    mechanism, offsets = mechanism_for(study.policy), study.codebook.level_offsets
    return local_clusters(
        [
            mechanism.expected(summary.released, theta, offsets)
            for summary, theta in zip(summaries, known, strict=True)
        ]
    )


def _is_told(local: LocalClusters, summaries: Summaries) -> bool:
    """Whether every count is as it was told."""
    return bool(np.array_equal(local.stats.S, np.concatenate([s.sums.S for s in summaries])))
