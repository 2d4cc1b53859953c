"""One exchange at the centre: what the sites replied, merged onto the model that was sent."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import inf, isfinite

import numpy as np

from fedmerdel.centre.lineage import Exchange
from fedmerdel.centre.rounds import (
    Course,
    Plan,
    Replies,
    begin,
    go_on,
    make_plan,
    placed,
)
from fedmerdel.centre.summaries import answers, check_summaries, in_order, side_by_side
from fedmerdel.errors import DataError, OptionError
from fedmerdel.model.global_model import GlobalModel
from fedmerdel.model.names import carried
from fedmerdel.release.disclosure import releases_exactly
from fedmerdel.release.summary import SiteSummary
from fedmerdel.sums.arrays import FloatArray, IntArray
from fedmerdel.sums.cuts import FirstHalves
from fedmerdel.sums.elbo import elbo
from fedmerdel.sums.sums import Sums

DUST = 1e-6
"""A cluster with fewer rows than this, at all sites together, has none."""

ROUNDING = 1e-12
"""Share of the ELBO by which it may differ where only the order of sums has changed."""


def merge_onto(model: GlobalModel, summaries: Iterable[SiteSummary]) -> GlobalModel:
    """Take what the sites replied to a model into the next one.

    Parameters
    ----------
    model : GlobalModel
        The model whose clusters were sent out.
    summaries : iterable of SiteSummary
        What sites replied (`update_site`), in any order. A site of the model without a reply is
        carried with what it sent last; a site that is new takes part from now on.

    Returns
    -------
    GlobalModel
        The next model: with the replies or, if they are worse than what was known and the
        clusters sent out were a guess, without. Its `record` says what has happened.

    Raises
    ------
    DataError
        If a summary is of another study, answers another model, or none answers this one.
    """
    if not isinstance(model, GlobalModel):
        raise OptionError("model: give a GlobalModel, such as merge_sites returns")
    sent = in_order(summaries)
    check_summaries(model.study, sent)
    _check_answers(model, sent)
    names = {summary.site for summary in sent}
    everyone = in_order((*sent, *(s for s in model.summaries if s.site not in names)))
    replied = [summary for summary in everyone if answers(summary, model.broadcast)]
    stale = tuple(summary.site for summary in everyone if not answers(summary, model.broadcast))
    groups, order = _aligned(model, everyone)
    course = model.course.take(order)
    found = replace(
        model,
        summaries=everyone,
        groups=tuple(groups),
        next_course=None,
        asked=model.broadcast,
        names=carried(model.names, course.parents),
    )
    exact = releases_exactly(model.study.policy)
    reached, gained = _progress(model, found, replied)
    step = Exchange(
        course.number + 1,
        reached,
        gained if isfinite(gained) else None,
        found.n_clusters,
        _moved_share(model, found, course),
        stale,
    )
    if exact and gained < -ROUNDING * abs(model.lower_bound):
        return _taken_back(model, step)
    stats, prior = found.statistics, found.row_prior
    replies = _replies(replied, order, complete=not stale)
    if replies is None:
        following = begin(stats, prior, step.number)
        return replace(found, next_course=following, record=(*model.record, step))
    plan = make_plan(
        side_by_side(everyone),
        groups,
        stats,
        prior,
        course.age,
        replies,
        gained=gained,
        most_clusters=max(model.study.max_clusters, model.n_clusters),
    )
    following = go_on(course, stats, prior, replies, plan)
    if plan.move == "merge":
        # A merge needs no exchange to be sure of: the model has it.
        found, following = _merged(found, plan, following)
    record = (*model.record, step._replace(move=plan.move))
    return replace(found, next_course=following, record=record)


def take_out(model: GlobalModel, site: str) -> GlobalModel:
    """Return the model without a site's counts; the other sites' clusters stay."""
    leaves = np.concatenate([np.full(s.n_clusters, s.site == site) for s in model.summaries])
    owner = np.empty(len(leaves), dtype=np.int64)
    for k, group in enumerate(model.groups):
        owner[group] = k
    summaries = tuple(summary for summary in model.summaries if summary.site != site)
    if not summaries:
        raise DataError("no site would be left in the model")
    rows = side_by_side(summaries).stats.T
    groups, order = _largest_first(owner[~leaves], rows, model.n_clusters)
    found = replace(
        model,
        summaries=summaries,
        groups=tuple(groups),
        next_course=None,
        names=carried(model.names, order),
    )
    course = begin(found.statistics, found.row_prior, model.course.number)
    return replace(found, next_course=course)


def _check_answers(model: GlobalModel, sent: tuple[SiteSummary, ...]) -> None:
    """Refuse replies to other clusters than those that this model sent out."""
    for summary in sent:
        if summary.answer is not None and not answers(summary, model.broadcast):
            raise DataError(
                f"site {summary.site!r}: its reply is to another model than this one: let the site "
                "update with this model, or merge onto the one that it was sent"
            )
    if not any(answers(summary, model.broadcast) for summary in sent):
        raise DataError("no site has replied to this model: let sites update with it first")


def _aligned(
    model: GlobalModel, everyone: tuple[SiteSummary, ...]
) -> tuple[list[IntArray], IntArray]:
    """Return the local clusters of each cluster sent out, the largest first, and their order.

    Replies have the clusters that were sent; what other sites sent earlier goes where it
    gains most. Clusters that no row is told of are dropped, and their zeros go to the first.
    """
    local, n_sent = side_by_side(everyone), model.broadcast.n_clusters
    owner = np.concatenate(
        [np.arange(s.n_clusters) if answers(s, model.broadcast) else np.full(s.n_clusters, -1)
         for s in everyone]
    )  # fmt: skip
    here = np.flatnonzero(owner >= 0)
    T, S = np.zeros(n_sent), np.zeros((n_sent, local.stats.S.shape[1]))
    np.add.at(T, owner[here], local.stats.T[here])
    np.add.at(S, owner[here], local.stats.S[here])
    carried = np.flatnonzero(owner < 0)
    replied = Sums(T, S, np.zeros(n_sent))
    owner[carried] = placed(replied, model.row_prior, local.stats.take(carried))
    return _largest_first(owner, local.stats.T, n_sent)


def _largest_first(
    owner: IntArray, rows: FloatArray, n_clusters: int
) -> tuple[list[IntArray], IntArray]:
    """Return the local clusters of each cluster that has rows, and which these are."""
    total = np.bincount(owner, rows, minlength=n_clusters)
    order = np.argsort(-total, kind="stable")
    order = order[total[order] > DUST]
    owner = np.where(np.isin(owner, order), owner, order[0])
    return [np.flatnonzero(owner == k) for k in order], order


def _progress(
    model: GlobalModel, found: GlobalModel, replied: list[SiteSummary]
) -> tuple[float | None, float]:
    """Return the ELBO that is known now, and what it has gained; infinity if that is unknown.

    Counts that disclosure control has changed tell little of the rows' ELBO. What was sent
    out has one that the sites know, and tell: their evidence, less the divergence of what was
    sent from the prior.
    """
    same = found.sites == model.sites  # else it is of other rows
    if releases_exactly(model.study.policy):
        reached = elbo(found.statistics, found.row_prior)
        return reached, reached - elbo(model.statistics, model.row_prior) if same else inf
    divergence = model.course.divergence
    if len(replied) < len(found.sites) or divergence is None:
        return None, inf
    told = sum(s.answer.evidence for s in replied if s.answer is not None) - divergence
    last = model.record[-1].elbo if model.record else None
    return told, told - last if same and last is not None else inf


def _moved_share(model: GlobalModel, found: GlobalModel, course: Course) -> float:
    """Return the share of rows that changed cluster, at least: what clusters lost at each site."""
    lost, total = 0.0, 0.0
    for site, rows in zip(found.sites, found.site_rows, strict=True):
        if site in model.sites:
            now = np.bincount(course.parents, rows, minlength=model.n_clusters)
            before = model.site_rows[model.sites.index(site)]
            lost += np.abs(now - before).sum() / 2
            total += rows.sum()
    return float(lost / total) if total > 0 else 0.0


def _replies(replied: list[SiteSummary], order: IntArray, complete: bool) -> Replies | None:
    """Put the parts of the replies that serve moves together, in the order of the clusters."""
    prospects = [s.answer.prospects for s in replied if s.answer is not None]
    told = [each for each in prospects if each is not None]
    if len(told) < len(prospects):
        return None
    halves = [each.halves.take(order) for each in told]
    summed = FirstHalves(*(np.sum(parts, axis=0) for parts in zip(*halves, strict=True)))
    own = [summary.statistics.take(order) for summary in replied]
    cost = np.sum([each.cost[order] for each in told], axis=0) if complete else None
    return Replies(summed, list(zip(own, halves, strict=True)), cost)


def _merged(found: GlobalModel, plan: Plan, following: Course) -> tuple[GlobalModel, Course]:
    groups = [np.concatenate([found.groups[k] for k in parts]) for parts in plan.clusters]
    rows = side_by_side(found.summaries).stats.T
    order = np.argsort([-rows[group].sum() for group in groups], kind="stable")
    merged = replace(
        found,
        groups=tuple(np.sort(groups[k]) for k in order),
        # Clusters are in order of size: the first of those merged is the largest.
        names=carried(found.names, plan.parents[order]),
    )
    fresh = begin(merged.statistics, merged.row_prior, following.number)
    cuts = following.take(order)
    return merged, fresh._replace(cuts=cuts.cuts, age=cuts.age)


def _taken_back(model: GlobalModel, step: Exchange) -> GlobalModel:
    """Return the model as it was, with its own clusters to be sent out next, nothing guessed."""
    course = begin(model.statistics, model.row_prior, step.number)
    if model.course.parents.tolist() == course.parents.tolist():
        course = course._replace(cuts=model.course.cuts, age=model.course.age)
    step = step._replace(n_clusters=model.n_clusters, gain=None, move="taken back")
    return replace(model, next_course=course, record=(*model.record, step))
