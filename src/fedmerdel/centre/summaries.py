"""What sites sent, checked and put side by side."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from fedmerdel.centre.copies import check_copies
from fedmerdel.errors import DataError, OptionError
from fedmerdel.model.broadcast import Broadcast
from fedmerdel.release.reply import Reply, release_from_bytes
from fedmerdel.release.summary import SiteSummary
from fedmerdel.study.study import Study, check_is_study

Summaries = tuple[SiteSummary, ...]
"""What sites sent last: summaries, or replies to a broadcast."""


def admit(study: Study, data: bytes) -> SiteSummary:
    """Read and check what one site has sent, as bytes.

    So that an engine can take each as it arrives, and one that is damaged, or of another study,
    does not stop the others.

    Parameters
    ----------
    study : Study
        What the sites agreed on.
    data : bytes
        What `SiteSummary.to_bytes` or `Reply.to_bytes` returned at the site.

    Returns
    -------
    SiteSummary
        The summary, or the `Reply`, which is one too.

    Raises
    ------
    FileError
        If it can't be read, or is too large.
    DataError
        If its numbers are impossible, it is of another study, or its site has not signed it
        though the study lists keys.
    """
    check_is_study(study)
    found = release_from_bytes(data)
    check_summary(study, found)
    return found


def in_order(summaries: Any) -> Summaries:
    """Return the summaries by the names of their sites, and refuse anything else."""
    listed = tuple(summaries) if isinstance(summaries, Iterable) else (None,)
    if not all(isinstance(summary, SiteSummary) for summary in listed):
        raise OptionError(
            "summaries: give a list of SiteSummary, such as fit_site returns or SiteSummary.load "
            "reads from a folder"
        )
    return tuple(sorted(listed, key=lambda summary: summary.site))


def replies_to(summary: SiteSummary, asked: Broadcast | None) -> bool:
    """Whether this is a reply to these clusters."""
    return (
        asked is not None
        and isinstance(summary, Reply)
        and summary.broadcast == asked.hash
        and summary.n_clusters == asked.n_clusters
    )


def sites_used_up(summaries: Summaries) -> list[str]:
    """Return the sites whose fits have used all clusters that they might."""
    return [
        summary.site
        for summary in summaries
        if not isinstance(summary, Reply) and summary.n_clusters >= summary.n_components
    ]


def check_summaries(study: Study, summaries: Summaries) -> None:
    """Refuse summaries that can't be merged, with the reason."""
    study.check_counts()
    if not summaries:
        raise DataError("no summary was given: at least one site must send one")
    for summary in summaries:
        check_summary(study, summary)
    for first, second in pairwise(summaries):
        if first.site == second.site:
            raise DataError(f"site {first.site!r} is there twice: keep one of its summaries")
    check_copies(summaries)


def check_summary(study: Study, summary: SiteSummary) -> None:
    """Refuse a summary that is not of this study, or not signed by its site if it must be."""
    site = f"site {summary.site!r}"
    if summary.study_hash != study.hash:
        raise DataError(
            f"{site}: its summary is of another study or another version of this one: let the "
            "site fit with this study file"
        )
    summary.check_signed(study.key_of(summary.site), site)
    if summary.codebook != study.codebook or dict(summary.tables) != study.tables:
        raise DataError(
            f"{site}: its summary has other variables or outcomes than its study: let the site "
            "fit again"
        )
    told = summary.checks and tuple(study.codebook.names[j] for j in summary.checks.checked)
    if (told is not None) != study.checks or (told or ()) != study.checked:
        raise DataError(
            f"{site}: its summary has other tables to check the model with than its study asks "
            "for: let the site fit again"
        )
    if summary.n_components != study.n_components:
        raise DataError(
            f"{site}: its fit began with {summary.n_components} components, and the study says "
            f"{study.n_components}: let the site fit again"
        )
    account, policy = summary.account, study.policy
    used = (account.policy, account.threshold, account.rounding)
    if used != (policy.name, policy.threshold, policy.rounding):
        raise DataError(
            f"{site}: its counts were not released under the study's policy {policy.name!r}: let "
            "the site fit again"
        )
