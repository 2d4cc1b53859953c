"""One site's part in a round: count its rows in the clusters of a broadcast, and protect."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from fedmerdel.errors import OptionError
from fedmerdel.fitting.halving import count_halves, propose_halves
from fedmerdel.fitting.passes import Workers, delete_costs
from fedmerdel.model.broadcast import Broadcast
from fedmerdel.options import thread_count
from fedmerdel.records.packing import PackedRows
from fedmerdel.release.mechanism import MoveSums, People
from fedmerdel.release.mechanisms import mechanism_for
from fedmerdel.release.protection import protect
from fedmerdel.release.reply import Reply
from fedmerdel.site.check_rows import study_checks
from fedmerdel.site.local_fit import count_clusters
from fedmerdel.site.outcome_rows import site_outcomes
from fedmerdel.site.people import count_outcomes, count_people
from fedmerdel.site.release import Release, summary_fields
from fedmerdel.site.site_table import (
    check_one_row_each,
    open_site_table,
    site_weights,
    study_rows,
)
from fedmerdel.study.priors import study_prior
from fedmerdel.study.site_keys import check_site_name
from fedmerdel.study.study import Study, check_is_study
from fedmerdel.sums.arrays import FloatArray
from fedmerdel.sums.prior import Prior
from fedmerdel.sums.sums import Sums


def reply_site(
    study: Study,
    broadcast: Broadcast,
    table: Any,
    site: str,
    *,
    sample_weight: Any = None,
    n_jobs: int | None = None,
) -> Reply:
    """Give one site's rows to the clusters of a broadcast and return what may leave.

    Parameters
    ----------
    study : Study
        The site's own: a broadcast of another study is refused.
    broadcast : Broadcast
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
    Reply
        The site's counts in these clusters, after disclosure control, for `Federation.step`.
        Nothing else leaves the site.
    """
    released = prepare_reply(
        study, broadcast, table, site, sample_weight=sample_weight, n_jobs=n_jobs
    )
    assert isinstance(released.summary, Reply)
    return released.summary


def prepare_reply(
    study: Study,
    broadcast: Broadcast,
    table: Any,
    site: str,
    *,
    sample_weight: Any = None,
    n_jobs: int | None = None,
) -> Release:
    """Count as `reply_site` does; return the reply, and the exact account that stays."""
    if not isinstance(broadcast, Broadcast):
        raise OptionError("broadcast: give a Broadcast, such as Broadcast.load reads")
    # Before the work, not after.
    check_is_study(study)
    study.check_counts()
    broadcast.check_study(study)
    check_site_name(site)
    study.key_of(site)
    threads = thread_count(n_jobs)
    opened = open_site_table(table)
    check_one_row_each(study, opened)
    rows = study_rows(study, opened, site_weights(study, opened, sample_weight))
    outcomes = site_outcomes(study, opened)
    with Workers(threads) as workers:
        return release_reply(study, broadcast, site, rows, outcomes, workers)


def release_reply(
    study: Study,
    broadcast: Broadcast,
    site: str,
    rows: PackedRows,
    outcomes: dict[str, FloatArray],
    workers: Workers,
) -> Release:
    """Count rows in the clusters of a broadcast, and protect the counts."""
    theta, prior = broadcast.clusters, _prior(study, broadcast)
    mechanism = mechanism_for(study.policy)
    sums = count_clusters(rows, theta, workers)
    sums = sums._replace(outcomes=count_outcomes(rows, theta, outcomes, workers))

    @cache
    def people() -> People:
        return count_people(rows, theta, outcomes, workers, study.parts)

    checks = study_checks(study, rows, theta, workers)
    protected = protect(sums, people, prior, study.policy, checks=checks)
    reply = Reply(
        **summary_fields(study, site, protected, broadcast.selected),
        broadcast=broadcast.hash,
        moves=mechanism.protect_moves(lambda: _moves(study, broadcast, site, rows, sums, workers)),
    )
    return Release(reply, protected.changes)


def _prior(study: Study, broadcast: Broadcast) -> Prior:
    """Return the centre's prior for a site of this study."""
    prior = study_prior(study, study.n_components)._replace(eps=broadcast.eps)
    if broadcast.selected is None:
        return prior
    told = np.isin(study.codebook.names, broadcast.selected).astype(np.float64)
    return prior._replace(inclusion=told)


def _moves(
    study: Study, broadcast: Broadcast, site: str, rows: PackedRows, sums: Sums, workers: Workers
) -> MoveSums:
    """Count halves along the cuts that were sent, or as the rows suggest where none was."""
    theta, uncut = broadcast.clusters, broadcast.uncut
    halves = None if uncut.all() else count_halves(rows, theta, broadcast.cuts, workers)
    if uncut.any():
        # Sites draw different numbers from one seed, each the same ones every time.
        seed = np.random.SeedSequence([study.seed, broadcast.number, *site.encode("utf-8")])
        rng = np.random.default_rng(seed)
        proposed = propose_halves(rows, theta, sums, _prior(study, broadcast), workers, rng)
        halves = proposed if halves is None else proposed.where(uncut, halves)
    assert halves is not None
    return MoveSums(halves, delete_costs(rows, theta, workers))
