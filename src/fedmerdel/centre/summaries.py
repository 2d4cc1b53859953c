"""What sites sent, checked and put side by side."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import numpy as np

from fedmerdel.errors import DataError, OptionError
from fedmerdel.model.broadcast import Broadcast
from fedmerdel.release.disclosure import releases_exactly
from fedmerdel.release.hidden import filled
from fedmerdel.release.summary import SiteSummary
from fedmerdel.study.protocol import Study
from fedmerdel.sums.merging import LocalClusters, local_clusters


def in_order(summaries: Any) -> tuple[SiteSummary, ...]:
    """Return the summaries by the names of their sites, and refuse anything else."""
    listed = tuple(summaries) if isinstance(summaries, Iterable) else (None,)
    if not all(isinstance(summary, SiteSummary) for summary in listed):
        raise OptionError(
            "summaries: give a list of SiteSummary, such as fit_site returns or SiteSummary.load "
            "reads from a folder"
        )
    return tuple(sorted(listed, key=lambda summary: summary.site))


def answers(summary: SiteSummary, sent: Broadcast) -> bool:
    """Whether a summary is a reply to these clusters."""
    return (
        summary.answer is not None
        and summary.answer.broadcast == sent.hash
        and summary.n_clusters == sent.n_clusters
    )


def side_by_side(
    summaries: tuple[SiteSummary, ...], asked: Broadcast | None = None
) -> LocalClusters:
    """Return the clusters of all sites, one site after the other; hidden counts filled in."""
    sites = {summary.site: (summary.statistics, summary.overlap) for summary in summaries}
    if asked is not None and not releases_exactly(asked.study.policy):
        replied = [summary for summary in summaries if answers(summary, asked)]
        alive = np.any([summary.statistics.T > 0 for summary in replied], axis=0)
        offsets, policy = asked.study.codebook.level_offsets, asked.study.policy
        for summary in replied:
            stats = filled(summary.statistics, asked.clusters, offsets, policy, alive)
            sites[summary.site] = stats, summary.overlap
    return local_clusters(list(sites.values()))


def check_summaries(study: Study, summaries: tuple[SiteSummary, ...]) -> None:
    """Refuse summaries that can't be merged, with the reason."""
    if not summaries:
        raise DataError("no summary was given: at least one site must send one")
    for summary in summaries:
        if summary.study_hash != study.hash:
            raise DataError(
                f"site {summary.site!r}: its summary is of another study or another version of "
                "this one: let the site fit with this study file"
            )
        if summary.codebook != study.codebook or set(summary.outcomes) != set(study.outcomes):
            raise DataError(
                f"site {summary.site!r}: its summary has other variables or outcomes than its "
                "study: let the site fit again"
            )
        if summary.n_components != study.max_clusters:
            raise DataError(
                f"site {summary.site!r}: its fit began with {summary.n_components} components, and "
                f"the study says {study.max_clusters}: let the site fit again"
            )
        report, policy = summary.report, study.policy
        used = (report.policy, report.threshold, report.rounding)
        if used != (policy.name, policy.threshold, policy.rounding):
            raise DataError(
                f"site {summary.site!r}: its counts were not released under the study's policy "
                f"{policy.name!r}: let the site fit again"
            )
    for first, second in pairwise(summaries):
        if first.site == second.site:
            raise DataError(f"site {first.site!r} is there twice: keep one of its summaries")
