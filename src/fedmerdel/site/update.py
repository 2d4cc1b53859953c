"""One site's part in an exchange: count its rows in the clusters it was sent, and protect."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedmerdel.errors import DataError, OptionError
from fedmerdel.fitting.passes import Workers
from fedmerdel.model.broadcast import Broadcast
from fedmerdel.model.global_model import GlobalModel
from fedmerdel.options import thread_count
from fedmerdel.records.packing import PackedRows
from fedmerdel.release.cells import HardCounts, OutcomeCounts
from fedmerdel.release.disclosure import Protected, protect, too_small
from fedmerdel.release.summary import SiteSummary, check_site_name, make_summary
from fedmerdel.site.fit_site import Release
from fedmerdel.site.people import count_people, own_rows, soft_outcomes
from fedmerdel.site.reply import count_clusters, make_answer
from fedmerdel.site.site_table import open_site_table, site_outcomes, site_weights, study_rows
from fedmerdel.sums.arrays import FloatArray, IntArray
from fedmerdel.sums.sums import Sums


def update_site(
    model: GlobalModel | Broadcast,
    table: Any,
    site: str,
    *,
    sample_weight: Any = None,
    n_jobs: int | None = None,
) -> SiteSummary:
    """Give one site's rows to a model's clusters and return what may leave.

    Parameters
    ----------
    model : GlobalModel or Broadcast
        What the centre sent out. Whether the site took part before makes no difference.
    table : array, frame, Arrow table or path of a CSV or Parquet file
        The site's rows. Columns that the study does not name are not looked at.
    site : str
        The site's name.
    sample_weight : array (N,), optional
        Weight of each row, where the study names no column for it.
    n_jobs : int or None
        Threads; the result does not depend on it.

    Returns
    -------
    SiteSummary
        The site's counts in these clusters, after disclosure control, for `merge_onto`.
        Nothing else leaves the site.
    """
    return prepare_update(model, table, site, sample_weight=sample_weight, n_jobs=n_jobs).summary


def prepare_update(
    model: GlobalModel | Broadcast,
    table: Any,
    site: str,
    *,
    sample_weight: Any = None,
    n_jobs: int | None = None,
) -> Release:
    """Count as `update_site` does; return the summary, and the exact account that stays."""
    sent = model.broadcast if isinstance(model, GlobalModel) else model
    if not isinstance(sent, Broadcast):
        raise OptionError("model: give a GlobalModel or a Broadcast, such as Broadcast.load reads")
    study = sent.study
    # Before the work, not after.
    check_site_name(site)
    threads = thread_count(n_jobs)
    opened = open_site_table(table)
    rows = study_rows(study, opened, site_weights(study, opened, sample_weight))
    outcomes = site_outcomes(study, opened)
    with Workers(threads) as workers:
        return _release(sent, rows, outcomes, site, workers)


def exact_reply(sent: Broadcast, rows: PackedRows, site: str, workers: Workers) -> SiteSummary:
    """Return the reply of a site in the same process: nothing leaves, nothing is protected."""
    stats, overlap = count_clusters(rows, sent.clusters, workers)
    protected = protect(stats, HardCounts(stats.T, stats.S), overlap, sent.prior, sent.study.policy)
    return make_summary(
        sent.study, site, protected, sent.selected, make_answer(rows, sent, site, workers)
    )


def _release(
    sent: Broadcast,
    rows: PackedRows,
    outcomes: dict[str, FloatArray],
    site: str,
    workers: Workers,
) -> Release:
    policy, theta = sent.study.policy, sent.clusters
    stats, overlap = count_clusters(rows, theta, workers)
    people = count_people(rows, theta, outcomes, workers)
    small = too_small(stats.T, np.minimum(people.T, own_rows(rows, theta, workers)), policy)
    if small.all():
        raise DataError(
            f"no cluster has {policy.smallest} rows of this site, the least that policy "
            f"{policy.name!r} releases: the site is too small to take part alone"
        )
    # Nothing is told of small clusters, and their rows stay out of the others, also where a fit
    # would absorb them: clusters that are small everywhere would be gone after an exchange.
    told = np.flatnonzero(~small)
    soft = {
        name: OutcomeCounts(counts.positive[told], counts.observed[told])
        for name, counts in soft_outcomes(rows, theta, outcomes, workers).items()
    }
    protected = protect(
        stats.take(told),
        _taken(people, told),
        overlap[np.ix_(told, told)],
        sent.prior,
        policy,
        outcomes=soft,
        withheld=int(small.sum()),
    )
    answer = make_answer(rows, sent, site, workers)
    whole = _spread(protected, told, sent.n_clusters)
    return Release(make_summary(sent.study, site, whole, sent.selected, answer), protected.changes)


def _taken(people: HardCounts, told: IntArray) -> HardCounts:
    outcomes = {
        name: OutcomeCounts(c.positive[told], c.observed[told])
        for name, c in people.outcomes.items()
    }
    return HardCounts(people.T[told], people.S[told], outcomes)


def _spread(protected: Protected, told: IntArray, n_clusters: int) -> Protected:
    """Return all clusters that were sent, 0 where nothing is told."""

    def spread(part: FloatArray) -> FloatArray:
        whole = np.zeros((n_clusters, *part.shape[1:]))
        whole[told] = part
        return whole

    overlap = np.zeros((n_clusters, n_clusters))
    overlap[np.ix_(told, told)] = protected.overlap
    return protected._replace(
        statistics=Sums(*(spread(part) for part in protected.statistics)),
        overlap=overlap,
        outcomes={
            name: OutcomeCounts(*(spread(part) for part in counts))
            for name, counts in protected.outcomes.items()
        },
    )
