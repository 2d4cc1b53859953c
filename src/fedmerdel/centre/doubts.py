"""Sites whose counts the others find odd: who may be wrong, or lie, from the counts alone.

Honest sites differ, in the kinds of rows that they have and in how many. So a site is not odd for
clusters of its own, nor for being large: what is looked for is what counting rows hardly ever
gives. Limits were set on some honest federations and measured on others: see the page "Odd sites"
of the documentation.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator

import numpy as np

from fedmerdel.centre.filling import filled_alike
from fedmerdel.centre.merge import merge_groups
from fedmerdel.centre.standing import Doubt
from fedmerdel.centre.state import FederationState
from fedmerdel.centre.summaries import Summaries, replies_to
from fedmerdel.errors import OddSiteWarning
from fedmerdel.inference.margins import misfits
from fedmerdel.inference.outlying import outlying
from fedmerdel.release.cells import missing_counts
from fedmerdel.release.summary import SiteSummary
from fedmerdel.study.priors import study_prior
from fedmerdel.study.study import Study
from fedmerdel.sums.arrays import IntArray
from fedmerdel.sums.between import between
from fedmerdel.sums.merging import merged_sums
from fedmerdel.sums.sums import Sums

Z = 1.96
"""Standard errors on both sides of a 95 % interval."""

YES_NO = ("no", "yes")
"""Cells of an outcome that a site may have coded the wrong way round."""

LEAST_SITES = 3
"""Of two sites that differ nobody can say which is odd."""

ON_THE_LINE = 0.075
"""Squared distance from a line, over that from its nearer end, up to which a cluster is on it."""

NEAR_THE_LINE = 0.15
"""The same where more than half of a site's rows are so near."""

MIDDLE = 0.2
"""Share of a line from each of its ends that is not between them."""

LEAST_SHARE = 0.05
"""Of a site's rows: of many small clusters, one is on some line by chance."""

MISSED = 10.0
"""Nats that a split must add to the ELBO for a fit not to miss it."""

MANY_TIMES = 30.0
"""Times the rows of all other sites together that are too many."""

EMPTY = 1 / 3
"""Share of entries that are missing, in every variable, from which that may be odd."""

MORE_EMPTY = 3.0
"""And how many times that of other sites it is then."""

FAR = 4.0
"""Spreads of the others' log odds of an outcome from which a site's are odd."""

SPREAD = 0.75
"""Least spread: rates of hospitals that differ by two or three times are nothing odd."""

EACH_ALONE = 8
"""Sites up to which each is looked at by all others."""

PARTS = 4
"""Parts of more sites, each of which is looked at by sites of the other parts."""

JUDGES = 12
"""Sites that a part is looked at by, at most: their clusters have to be merged."""


def doubts_of(federation: FederationState) -> tuple[Doubt, ...]:
    """Return what is odd about sites, from what they sent last.

    Of two sites that differ nothing is; but a reply may not fit what it replies to.
    """
    found = [*_misfits(federation)]
    if len(federation.summaries) >= LEAST_SITES:
        look = _before_the_merge if federation.asked is None else _in_common_clusters
        found += [*look(federation), *_plain_doubts(federation.summaries)]
        found += _odd_outcomes(federation.summaries)
    return tuple(sorted(found, key=lambda doubt: doubt.site))


def _before_the_merge(federation: FederationState) -> Iterator[Doubt]:
    """Compare each site's clusters with those that others would have without it."""
    study, summaries = federation.study, federation.summaries
    how = federation.search, federation.criterion
    for judged, judges in _juries(len(summaries)):
        sent = tuple(summaries[b] for b in judges)
        others = merged_sums(filled_alike(study, sent), list(merge_groups(study, sent, *how)))
        for b in judged:
            own = federation.local.stats.take(np.flatnonzero(federation.local.site == b))
            yield from _lies_between(study, summaries[b].site, own, others)


def _in_common_clusters(federation: FederationState) -> Iterator[Doubt]:
    """Compare each site's rows in the clusters with those of all others in the same."""
    local = federation.local
    owner = np.empty(local.stats.n_clusters, dtype=np.int64)
    for k, group in enumerate(federation.groups):
        owner[group] = k
    T, S = (
        federation.site_rows.sum(axis=0),
        np.zeros((federation.n_clusters, local.stats.S.shape[1])),
    )
    np.add.at(S, owner, local.stats.S)
    for b, summary in enumerate(federation.summaries):
        own = np.zeros_like(S)
        np.add.at(own, owner[local.site == b], local.stats.S[local.site == b])
        others = Sums(T - federation.site_rows[b], np.maximum(S - own, 0.0), T)
        yield from _lies_between(
            federation.study,
            summary.site,
            local.stats.take(np.flatnonzero(local.site == b)),
            others.take(np.flatnonzero(others.T > 0)),
        )


def _misfits(federation: FederationState) -> Iterator[Doubt]:
    """Look for rows that are told of other clusters than those sent out that they belong to.

    With counts that are as they are this is refused. Else hidden ones are filled, and what fills
    them fits: the cluster that is what the others leave, and those that nothing is told of, are
    no witnesses.
    """
    local, asked = federation.local, federation.asked
    for b, summary in enumerate(federation.summaries):
        if asked is None or not replies_to(summary, asked):
            continue
        own = local.stats.take(np.flatnonzero(local.site == b))
        odd = misfits(own, asked.clusters, summary.mechanism.smallest).any(axis=1)
        odd &= (summary.sums.T > 0) & (np.arange(own.n_clusters) != summary.rest)
        share = float(own.T[odd].sum() / own.T.sum())
        if share >= LEAST_SHARE:
            text = (
                f"{odd.sum()} of its {own.n_clusters} clusters, with {share:.0%} of its rows, do "
                "not fit the clusters that were sent"
            )
            yield Doubt(summary.site, "misfit", share, text)


def warn_of(doubts: Iterable[Doubt], stacklevel: int) -> None:
    """Warn of odd sites, by name, all in one warning."""
    told = [f"{doubt.site!r}: {doubt.text}" for doubt in doubts]
    if told:
        warnings.warn(
            f"odd, compared with the other sites: {'; '.join(told)}: ask them, and see what "
            "changes without them (merge with --leave-out, or Federation.remove)",
            OddSiteWarning,
            stacklevel=stacklevel,
        )


def _juries(n_sites: int) -> Iterator[tuple[IntArray, IntArray]]:
    """Return sites to be judged, and those that judge them: all others, or some."""
    n_parts = n_sites if n_sites <= EACH_ALONE else PARTS
    part = np.arange(n_sites) % n_parts
    for each in range(n_parts):
        yield np.flatnonzero(part == each), np.flatnonzero(part != each)[:JUDGES]


def _lies_between(study: Study, site: str, own: Sums, others: Sums) -> list[Doubt]:
    """Look for clusters of a site that lie between clusters of the others."""
    told = own.take(np.flatnonzero(own.T > 0))
    here = between(told, others, study_prior(study, study.n_components))
    shares = told.T / told.T.sum()
    odd = (np.abs(here.weight - 0.5) < 0.5 - MIDDLE) & (here.gain > MISSED)
    odd &= here.off < NEAR_THE_LINE
    if shares[odd].sum() <= 0.5:
        odd &= here.off < ON_THE_LINE
    share = float(shares[odd].sum())
    if share < LEAST_SHARE:
        return []
    text = (
        f"{odd.sum()} of its {len(odd)} clusters, with {share:.0%} of its rows, lie between "
        "clusters that others tell apart"
    )
    return [Doubt(site, "between", share, text)]


def _plain_doubts(summaries: Summaries) -> Iterator[Doubt]:
    """Look for far too many rows, and for rows of which nothing is known."""
    rows = np.array([summary.n_rows for summary in summaries])
    empty = np.array([_least_missing(summary) for summary in summaries])
    for b, summary in enumerate(summaries):
        times = float(rows[b] / (rows.sum() - rows[b]))
        if times > MANY_TIMES:
            text = f"it tells of {times:,.0f} times the rows of all others together"
            yield Doubt(summary.site, "size", times, text)
        usual = float(np.median(np.delete(empty, b)))
        # Three standard errors, at most: of a few rows many may be empty by chance.
        chance = 1.5 / np.sqrt(rows[b])
        if empty[b] - chance > max(EMPTY, MORE_EMPTY * usual):
            text = (
                f"{empty[b]:.0%} of the entries or more are missing in each of its variables, "
                f"elsewhere {usual:.0%}"
            )
            yield Doubt(summary.site, "missing", float(empty[b]), text)


def _odd_outcomes(summaries: Summaries) -> Iterator[Doubt]:
    """Look for outcomes that are far more or less frequent at one site, as if coded wrongly."""
    for name, cells in summaries[0].tables.items():
        if tuple(cells) != YES_NO:
            continue
        told = np.array([summary.sums.outcomes[name].sum(axis=0) for summary in summaries])
        known = np.flatnonzero(told.sum(axis=1) > 0)
        if len(known) < LEAST_SITES:
            continue
        mechanism = summaries[0].mechanism
        blurred = mechanism.variance(told[known], None)
        # A hidden count is taken for half of what it may be.
        rows = told[known] + np.where(told[known] == 0, np.sqrt(3 * blurred), 0.0) + 0.5
        odds = np.log(rows[:, 1] / rows[:, 0])
        error = Z * np.sqrt((1 / rows + blurred / rows**2).sum(axis=1))
        shares = told[known, 1] / told[known].sum(axis=1)
        away = outlying(odds - error, odds, odds + error, SPREAD)
        for at in np.flatnonzero(away > FAR):
            usual = float(np.median(np.delete(shares, at)))
            text = f"outcome {name!r} is in {shares[at]:.0%} of its rows, elsewhere {usual:.0%}"
            yield Doubt(summaries[known[at]].site, "outcome", float(away[at]), text)


def _least_missing(summary: SiteSummary) -> float:
    """Return the share of missing entries in the variable that has the fewest."""
    missing = missing_counts(summary.sums.T, summary.sums.S, summary.codebook)
    return float(missing.sum(axis=0).min() / summary.n_rows)
