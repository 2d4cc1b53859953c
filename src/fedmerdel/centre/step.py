"""One round at the centre: what the sites replied, taken into the next state."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from math import inf, isfinite
from typing import TypeVar

import numpy as np

from fedmerdel.centre.filling import filled_replies
from fedmerdel.centre.lineage import Round
from fedmerdel.centre.rounds import (
    Plan,
    RoundState,
    SummedMoves,
    best_clusters,
    first_state,
    next_state,
    plan_moves,
)
from fedmerdel.centre.state import FederationState
from fedmerdel.centre.summaries import (
    Summaries,
    check_summaries,
    in_order,
    replies_to,
)
from fedmerdel.errors import DataError
from fedmerdel.model.broadcast import Broadcast
from fedmerdel.model.names import carried
from fedmerdel.release.bounds import impossible_clusters
from fedmerdel.release.cells import all_cells
from fedmerdel.release.reply import Reply
from fedmerdel.release.summary import SiteSummary
from fedmerdel.sums.arrays import FloatArray, IntArray
from fedmerdel.sums.elbo import elbo
from fedmerdel.sums.halves import FirstHalves
from fedmerdel.sums.sums import Sums

DUST = 1e-6
"""A cluster with fewer rows than this, at all sites together, has none."""

State = TypeVar("State", bound=FederationState)


def step(
    last: State, replies: Iterable[SiteSummary], look: Callable[[State], None] | None = None
) -> tuple[State, Round]:
    """Take the sites' replies into the next state; see `Federation.step`.

    ``look`` is shown the state with the replies, also where they are taken back then.
    """
    sent = in_order(replies)
    check_summaries(last.study, sent)
    _check_replies(last, sent)
    names = {summary.site for summary in sent}
    everyone = in_order((*sent, *(s for s in last.summaries if s.site not in names)))
    replied = [s for s in everyone if isinstance(s, Reply) and replies_to(s, last.broadcast)]
    stale = tuple(s.site for s in everyone if not replies_to(s, last.broadcast))
    groups, order = _aligned(last, everyone)
    state = last.round_state.take(order)
    found = replace(
        last,
        summaries=everyone,
        groups=tuple(groups),
        next_round=None,
        asked=last.broadcast,
        names=carried(last.names, state.parents),
    )
    if look is not None:
        look(found)
    reached, gained = _progress(last, found)
    brought = Round(
        state.number + 1,
        reached,
        gained if isfinite(gained) else None,
        found.n_clusters,
        _moved_share(last, found, state),
        stale,
    )
    if found.mechanism.is_worse(gained, last.lower_bound):
        return _taken_back(last, brought)
    stats, prior = found.sums, found.row_prior
    moves = _summed_moves(replied, order, complete=not stale)
    if moves is None:
        following = first_state(stats, prior, brought.number)
        return _recorded(found, following, brought)
    plan = plan_moves(
        found.local,
        groups,
        stats,
        prior,
        state.age,
        moves,
        gained=gained,
        most_clusters=max(last.study.n_components, last.n_clusters),
    )
    following = next_state(state, stats, prior, moves, plan)
    if plan.move == "merge":
        # A merge needs no round to be sure of: the model has it.
        found, following = _merged(found, plan, following)
    return _recorded(found, following, brought._replace(move=plan.move))


def take_out(last: State, site: str) -> State:
    """Return the state without a site's counts; the other sites' clusters stay."""
    leaves = np.concatenate([np.full(s.n_clusters, s.site == site) for s in last.summaries])
    owner = np.empty(len(leaves), dtype=np.int64)
    for k, group in enumerate(last.groups):
        owner[group] = k
    summaries = tuple(summary for summary in last.summaries if summary.site != site)
    if not summaries:
        raise DataError("no site would be left in the federation")
    rows = last.local.stats.T[~leaves]
    groups, order = _largest_first(owner[~leaves], rows, last.n_clusters)
    found = replace(
        last,
        summaries=summaries,
        groups=tuple(groups),
        next_round=None,
        names=carried(last.names, order),
    )
    following = first_state(found.sums, found.row_prior, last.round_state.number)
    return replace(found, next_round=following)


def _recorded(found: State, following: RoundState, brought: Round) -> tuple[State, Round]:
    return replace(found, next_round=following, record=(*found.record, brought)), brought


def _check_replies(last: FederationState, sent: Summaries) -> None:
    """Refuse replies to other clusters than those that were sent out, and impossible ones."""
    before = {summary.site: summary for summary in last.summaries}
    for summary in sent:
        if isinstance(summary, Reply) and not replies_to(summary, last.broadcast):
            raise DataError(
                f"site {summary.site!r}: its reply is to another broadcast than this one: let the "
                "site reply to this one, or step from the state that sent it"
            )
        if isinstance(summary, Reply):
            _check_possible(summary, last.broadcast)
        if summary.site in before:
            _check_totals(summary, before[summary.site])
    if not any(replies_to(summary, last.broadcast) for summary in sent):
        raise DataError("no site has replied to this broadcast: let sites reply to it first")


def _check_possible(reply: Reply, sent: Broadcast) -> None:
    """Refuse counts that no rows have in these clusters."""
    if impossible_clusters(reply.sums, sent.clusters, reply.unknown):
        raise DataError(
            f"site {reply.site!r}: its counts don't fit the clusters that were sent: let the site "
            "reply again"
        )


def _check_totals(summary: SiteSummary, before: SiteSummary) -> None:
    """Refuse other totals than those that the site sent before, in whatever clusters."""
    offsets = summary.codebook.level_offsets
    one, other = (all_cells(each.sums.total(), offsets) for each in (before, summary))
    if not np.allclose(one, other, rtol=DUST, atol=DUST):
        raise DataError(
            f"site {summary.site!r}: its counts don't sum to those that it sent before: if its "
            "rows have changed, take the site out first, and let it join anew"
        )


def _aligned(last: FederationState, everyone: Summaries) -> tuple[list[IntArray], IntArray]:
    """Return the local clusters of each cluster sent out, the largest first, and their order.

    Replies have the clusters that were sent; what other sites sent earlier goes where it
    gains most. Clusters that no row is told of are dropped, and their zeros go to the first.
    """
    sent, n_sent = last.broadcast, last.broadcast.n_clusters
    who = [replies_to(summary, sent) for summary in everyone]
    local = filled_replies(last.study, everyone, who, sent.clusters)
    owner = np.concatenate(
        [np.arange(s.n_clusters) if replies_to(s, last.broadcast) else np.full(s.n_clusters, -1)
         for s in everyone]
    )  # fmt: skip
    here = np.flatnonzero(owner >= 0)
    T, S = np.zeros(n_sent), np.zeros((n_sent, local.stats.S.shape[1]))
    np.add.at(T, owner[here], local.stats.T[here])
    np.add.at(S, owner[here], local.stats.S[here])
    carried = np.flatnonzero(owner < 0)
    replied = Sums(T, S, np.zeros(n_sent))
    owner[carried] = best_clusters(replied, last.row_prior, local.stats.take(carried))
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


def _progress(last: FederationState, found: FederationState) -> tuple[float | None, float]:
    """Return the ELBO that is known now, and what it has gained; infinity if that is unknown."""
    before, reached = (
        each.mechanism.elbo(elbo(each.sums, each.row_prior)) for each in (last, found)
    )
    if found.sites != last.sites or reached is None or before is None:  # it is of other rows
        return reached, inf
    return reached, reached - before


def _moved_share(last: FederationState, found: FederationState, state: RoundState) -> float:
    """Return the share of rows that changed cluster, at least: what clusters lost at each site."""
    lost, total = 0.0, 0.0
    for site, rows in zip(found.sites, found.site_rows, strict=True):
        if site in last.sites:
            now = np.bincount(state.parents, rows, minlength=last.n_clusters)
            before = last.site_rows[last.sites.index(site)]
            lost += np.abs(now - before).sum() / 2
            total += rows.sum()
    return float(lost / total) if total > 0 else 0.0


def _summed_moves(replied: list[Reply], order: IntArray, complete: bool) -> SummedMoves | None:
    """Put what the replies tell of moves together, in the order of the clusters."""
    told = [reply.moves for reply in replied if reply.moves is not None]
    if len(told) < len(replied):
        return None
    halves = [each.halves.take(order) for each in told]
    summed = FirstHalves(*(np.sum(parts, axis=0) for parts in zip(*halves, strict=True)))
    own = [reply.sums.take(order) for reply in replied]
    cost = np.sum([each.cost[order] for each in told], axis=0) if complete else None
    return SummedMoves(summed, list(zip(own, halves, strict=True)), cost)


def _merged(found: State, plan: Plan, following: RoundState) -> tuple[State, RoundState]:
    groups = [np.concatenate([found.groups[k] for k in parts]) for parts in plan.clusters]
    rows = found.local.stats.T
    order = np.argsort([-rows[group].sum() for group in groups], kind="stable")
    merged = replace(
        found,
        groups=tuple(np.sort(groups[k]) for k in order),
        # Clusters are in order of size: the first of those merged is the largest.
        names=carried(found.names, plan.parents[order]),
    )
    fresh = first_state(merged.sums, merged.row_prior, following.number)
    cuts = following.take(order)
    return merged, fresh._replace(cuts=cuts.cuts, age=cuts.age)


def _taken_back(last: State, brought: Round) -> tuple[State, Round]:
    """Return the state as it was, with its own clusters to be sent out next, nothing guessed."""
    following = first_state(last.sums, last.row_prior, brought.number)
    if last.round_state.parents.tolist() == following.parents.tolist():
        following = following._replace(cuts=last.round_state.cuts, age=last.round_state.age)
    brought = brought._replace(n_clusters=last.n_clusters, gain=None, move="taken back")
    return _recorded(last, following, brought)
