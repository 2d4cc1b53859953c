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
from fedmerdel.release.few import TINY
from fedmerdel.release.mechanisms import mechanism_for
from fedmerdel.release.released import Released
from fedmerdel.release.summary import SiteSummary
from fedmerdel.study.study import Study
from fedmerdel.sums.arrays import FloatArray, IntArray
from fedmerdel.sums.expectations import Expectations, expected_log_weights
from fedmerdel.sums.levels import level_means, level_shares, level_totals, most_frequent, sum_levels
from fedmerdel.sums.merging import LocalClusters, local_clusters, merged_sums
from fedmerdel.sums.sums import Sums

STEPS = 10

RARE = 0.1
"""Levels under this share tell what to expect of others that are rare: frequent ones mark clusters,
and say little of what else their rows have."""

Summaries = tuple[SiteSummary, ...]


def filled_alike(study: Study, summaries: Summaries) -> LocalClusters:
    """Return the clusters of all sites with hidden counts as if clusters were alike.

    Whether a variable tells clusters apart must not be read off zeros: a rare level is hidden in
    small clusters and told in large ones, also where it is as rare in all.
    """
    released = _with_totals(study, summaries)
    return _expected(study, released, _alike(study, released))


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
    local, released = filled_alike(study, summaries), _with_totals(study, summaries)
    if _is_told(local, summaries):
        return local
    owner = np.empty(local.stats.n_clusters, dtype=np.int64)
    for k, group in enumerate(groups):
        owner[group] = k
    ends = np.cumsum([summary.n_clusters for summary in summaries])
    owners = np.split(owner, ends[:-1])
    offsets = study.codebook.level_offsets
    shares = _pooled(released, offsets)
    for _ in range(STEPS):
        stats = merged_sums(local, list(groups))
        prior = centre_prior(study, n_components, stats.S).described
        # The mean levels, not exp E[ln phi]: of counts below 1 that is next to nothing, and what
        # nobody has told would drift into one cluster.
        levels = prior.eps * burden(stats.S, shares, offsets) + stats.S
        theta = Expectations(
            expected_log_weights(stats.T, prior), np.log(level_means(levels, offsets))
        )
        local = _expected(study, released, [theta.take(own) for own in owners])
    return local


def burden(S: FloatArray, shares: FloatArray, offsets: IntArray) -> FloatArray:
    """Return how many times as frequent levels are expected in clusters as in all rows: (K, M).

    A cluster of people with many conditions has more of the rare ones too, of which nobody could
    tell. So against the most frequent level of each variable the odds of all others are
    multiplied by one number for each cluster: that of Mantel and Haenszel from rare levels. One
    row of the population is added, so that a cluster without any has a number too. Where
    variables disagree, or are few, it tells little of the next: its logarithm is shrunk by its
    error when each variable is left out in turn (James and Stein's rule, of the jackknife).

    Parameters
    ----------
    S : float64 array (K, M)
        Counts of the clusters, with hidden ones as expected so far.
    shares : float64 array (M,)
        Of the levels among all rows.
    offsets : int64 array (P + 1,)
        Where each variable's levels start.
    """
    common = most_frequent(shares, offsets)
    rows = S + shares
    usual = level_totals(np.where(common, rows, 0.0), offsets)
    share = level_totals(np.where(common, shares, 0.0), offsets)
    rare = ~common & (shares < RARE)
    more = sum_levels(np.where(rare, rows * share, 0.0), offsets)
    fewer = sum_levels(np.where(rare, usual * shares, 0.0), offsets)
    odds = _log_ratio(more.sum(axis=1), fewer.sum(axis=1))
    without = _log_ratio(
        more.sum(axis=1, keepdims=True) - more, fewer.sum(axis=1, keepdims=True) - fewer
    )
    error = ((without - odds[:, None]) ** 2).sum(axis=1)
    sure = np.maximum(1.0 - error / np.maximum(odds**2, TINY), 0.0)
    return np.where(common, 1.0, np.exp(sure * odds)[:, None])


def _log_ratio(above: FloatArray, below: FloatArray) -> FloatArray:
    return np.log(np.maximum(above, TINY) / np.maximum(below, TINY))


def filled_replies(
    study: Study, summaries: Summaries, replied: Sequence[bool], sent: Expectations
) -> LocalClusters:
    """Return them with hidden counts of those that replied as the clusters sent out suggest."""
    weights = study.codebook.guide
    if weights is not None:  # what was sent out is what finds clusters: levels to a power
        powers = np.repeat(weights, study.codebook.n_levels)
        sent = sent._replace(log_levels=sent.log_levels / powers)
    released = _with_totals(study, summaries)
    known = [
        sent if replies else alike
        for replies, alike in zip(replied, _alike(study, released), strict=True)
    ]
    return _expected(study, released, known)


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


def _with_totals(study: Study, summaries: Summaries) -> list[Released]:
    """Return what the sites released, with hidden totals as those of all sites suggest."""
    mechanism = mechanism_for(study.policy)
    told = [summary.released for summary in summaries]
    return mechanism.with_totals(told, study.codebook.level_offsets)


def _pooled(released: Sequence[Released], offsets: IntArray) -> FloatArray:
    """Return the share of each level among all rows: (M,)."""
    return level_shares(np.concatenate([each.sums.S for each in released]), offsets)


def _alike(study: Study, released: Sequence[Released]) -> list[Expectations]:
    """Return what is known of clusters that are alike: the levels of all rows."""
    with np.errstate(divide="ignore"):
        levels = np.log(_pooled(released, study.codebook.level_offsets))
        return [
            Expectations(np.log(each.sums.T), np.tile(levels, (each.sums.n_clusters, 1)))
            for each in released
        ]


def _expected(
    study: Study, released: Sequence[Released], known: Sequence[Expectations]
) -> LocalClusters:
    mechanism, offsets = mechanism_for(study.policy), study.codebook.level_offsets
    return local_clusters(
        [
            mechanism.expected(each, theta, offsets)
            for each, theta in zip(released, known, strict=True)
        ]
    )


def _is_told(local: LocalClusters, summaries: Summaries) -> bool:
    """Whether every count is as it was told."""
    return bool(np.array_equal(local.stats.S, np.concatenate([s.sums.S for s in summaries])))
