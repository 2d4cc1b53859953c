"""One site's part in an exchange: count its rows in the clusters it was sent, and protect."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from fedmerdel.errors import DataError
from fedmerdel.mixture.cuts import FirstHalves
from fedmerdel.mixture.elbo import elbo
from fedmerdel.mixture.passes import Workers, expect_and_count
from fedmerdel.mixture.prior import FloatArray, IntArray
from fedmerdel.mixture.statistics import Statistics
from fedmerdel.model.broadcast import Broadcast
from fedmerdel.model.global_model import GlobalModel
from fedmerdel.options import thread_count
from fedmerdel.records.packing import PackedRows
from fedmerdel.release.answer import Answer
from fedmerdel.release.cells import HardCounts, OutcomeCounts
from fedmerdel.release.disclosure import Protected, coarse, protect, releases_exactly, too_small
from fedmerdel.release.halves import protect_halves
from fedmerdel.release.summary import SiteSummary, check_site_name, make_summary
from fedmerdel.site.fit_site import Release
from fedmerdel.site.people import count_people, count_people_of_halves, own_rows, soft_outcomes
from fedmerdel.site.reply import Counted, count_reply, reply_seed, total_evidence
from fedmerdel.site.site_table import open_site_table, site_outcomes, site_weights, study_rows


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
    everyone = np.arange(sent.n_clusters)
    counted = count_reply(rows, sent, everyone, workers, reply_seed(sent, site))
    hard = HardCounts(counted.stats.T, counted.stats.S)
    protected = protect(counted.stats, hard, counted.overlap, sent.prior, sent.study.policy)
    evidence = total_evidence(rows, sent.clusters, workers)
    answer = Answer(sent.hash, counted.halves, counted.cost, evidence)
    return make_summary(sent.study, site, protected, sent.selected, answer)


def _release(
    sent: Broadcast,
    rows: PackedRows,
    outcomes: dict[str, FloatArray],
    site: str,
    workers: Workers,
) -> Release:
    policy, prior = sent.study.policy, sent.prior
    told, people, absorbed, withheld = _large_enough(sent, rows, outcomes, workers)
    used = told if withheld == 0 else np.arange(sent.n_clusters)
    counted = count_reply(rows, sent, used, workers, reply_seed(sent, site))
    theta = sent.clusters.take(used)
    soft = soft_outcomes(rows, theta, outcomes, workers)
    half_people = count_people_of_halves(rows, theta, counted.cuts, workers)
    cost = 0.0
    if absorbed:
        whole = expect_and_count(rows, sent.clusters, workers)
        cost = max(elbo(whole, prior) - elbo(counted.stats, prior), 0.0)
    if withheld:
        counted, people, soft = _only(told, counted, people, soft)
        half_people = tuple(_taken(part, told) for part in half_people)  # type: ignore[assignment]
    protected = protect(
        counted.stats,
        people,
        counted.overlap,
        prior,
        policy,
        outcomes=soft,
        absorbed=absorbed,
        withheld=withheld,
        cost_so_far=cost,
    )
    halves = protect_halves(
        counted.halves, counted.stats, half_people, protected.statistics, prior, policy
    )
    evidence = np.array(total_evidence(rows, sent.clusters, workers))
    costs = counted.cost
    if not releases_exactly(policy):
        evidence, costs = coarse(evidence, policy, np.floor), coarse(costs, policy, np.floor)
    answer = Answer(sent.hash, halves, costs, float(evidence))
    summary = _spread(sent, site, protected, answer, told)
    return Release(summary, protected.changes)


def _large_enough(
    sent: Broadcast, rows: PackedRows, outcomes: dict[str, FloatArray], workers: Workers
) -> tuple[IntArray, HardCounts, int, int]:
    """Return the clusters whose counts may be told, the people in them, absorbed and withheld.

    Those too small are left out one by one, the smallest first, and their rows go to the
    others; or all at once, and their rows are not told.
    """
    study = sent.study
    used = np.arange(sent.n_clusters)
    while True:
        theta = sent.clusters.take(used)
        T = expect_and_count(rows, theta, workers).T
        people = count_people(rows, theta, outcomes, workers)
        small = too_small(T, np.minimum(people.T, own_rows(rows, theta, workers)), study.policy)
        if small.all():
            raise DataError(
                f"no cluster has {study.policy.smallest} rows of this site, the least that policy "
                f"{study.policy.name!r} releases: the site is too small to take part alone"
            )
        if not small.any():
            return used, people, sent.n_clusters - len(used), 0
        if study.small_clusters == "withhold":
            return used[~small], people, 0, int(small.sum())
        used = np.delete(used, np.flatnonzero(small)[np.argmin(T[small])])


def _only(
    told: IntArray, counted: Counted, people: HardCounts, soft: dict[str, OutcomeCounts]
) -> tuple[Counted, HardCounts, dict[str, OutcomeCounts]]:
    """Leave out clusters that are withheld."""
    return (
        Counted(
            counted.stats.take(told),
            counted.overlap[np.ix_(told, told)],
            counted.cost[told],
            counted.cuts.take(told),
            counted.halves.take(told),
        ),
        _taken(people, told),
        {n: OutcomeCounts(c.positive[told], c.observed[told]) for n, c in soft.items()},
    )


def _taken(people: HardCounts, told: IntArray) -> HardCounts:
    outcomes = {
        name: OutcomeCounts(c.positive[told], c.observed[told])
        for name, c in people.outcomes.items()
    }
    return HardCounts(people.T[told], people.S[told], outcomes)


def _spread(
    sent: Broadcast, site: str, protected: Protected, answer: Answer, told: IntArray
) -> SiteSummary:
    """Return the summary with all clusters that were sent, 0 where nothing is told."""
    K = sent.n_clusters

    def spread(part: FloatArray) -> FloatArray:
        whole = np.zeros((K, *part.shape[1:]))
        whole[told] = part
        return whole

    overlap = np.zeros((K, K))
    overlap[np.ix_(told, told)] = protected.overlap
    stats = Statistics(*(spread(part) for part in protected.statistics))
    halves = FirstHalves(*(spread(part) for part in answer.halves))
    outcomes = {
        name: OutcomeCounts(*(spread(part) for part in counts))
        for name, counts in protected.outcomes.items()
    }
    answer = answer._replace(halves=halves, cost=spread(answer.cost))
    whole = protected._replace(statistics=stats, overlap=overlap, outcomes=outcomes)
    summary = make_summary(sent.study, site, whole, sent.selected, answer)
    cells = summary.cells()
    # The counts of the halves are told too.
    report = replace(
        summary.report,
        n_cells=cells.size,
        n_zero=int((cells == 0).sum()),
        smallest_cell=float(cells[cells > 0].min()),
    )
    return replace(summary, report=report)
