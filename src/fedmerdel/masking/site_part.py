"""A site's part: it joins, answers each question once, and opens its mask when all stand by theirs.

Pure: what is kept and what has arrived in, what is to be kept and what goes out.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from fedmerdel.errors import DataError
from fedmerdel.masking.masks import SECRET, checked_vector, digest, mask_key, masked, total
from fedmerdel.masking.messages import (
    MOST_ATTEMPTS,
    MOST_SITES,
    MOST_SMALL,
    Answer,
    Ask,
    Head,
    Heads,
    Join,
    check_heads,
    check_roster,
    check_seed,
    check_values,
    context,
    ctx_of,
    run_seed,
    signed_head,
    signed_join,
)
from fedmerdel.masking.site_state import (
    ENDED,
    JOINED,
    MASKED,
    OPENED,
    SiteState,
    most_bytes,
    site_messages,
    site_waits,
)
from fedmerdel.masking.spelling import is_kind, read
from fedmerdel.masking.work import Agreement, History, Member, Opened, SiteWork, Turn

Random = Callable[[int], bytes]


def join_run(
    agreement: Agreement, member: Member, number: int = 0, random: Random = os.urandom
) -> Turn[SiteState]:
    """Begin a run at a site.

    Parameters
    ----------
    agreement, member
        What was agreed on, and who this is.
    number : int
        The last number that it has signed in earlier runs.
    random : callable
        Returns so many bytes that nobody can foresee.
    """
    member.check(agreement)
    secret, nonce = random(SECRET), random(SECRET)
    join = Join(agreement.study, member.site, number + 1, mask_key(secret), digest(nonce))
    return _turn(SiteState(JOINED, signed_join(join, member.key), secret, nonce, number + 1))


def site_turn(
    state: SiteState,
    message: bytes,
    agreement: Agreement,
    member: Member,
    work: SiteWork,
    random: Random = os.urandom,
) -> Turn[SiteState]:
    """Do what a message of the centre asks for, or refuse it.

    Parameters
    ----------
    state : SiteState
        What was kept.
    message : bytes
        An `Ask` or `Heads`.
    agreement, member
        What was agreed on, and who this is.
    work : SiteWork
        What is asked and answered.
    random : callable
        Returns so many bytes that nobody can foresee.

    Raises
    ------
    DataError
        If the message breaks a rule; the state that was kept still holds.
    """
    member.check(agreement)
    if (state.join.study, state.join.site) != (agreement.study, member.site):
        raise DataError("what is kept here is of another study or site: give each a folder")
    if state.stage == ENDED:
        raise DataError("this run has ended")
    if is_kind(Heads, message):
        heads = read(Heads, message, MOST_SITES * MOST_SMALL)
        return _turn(_opened(state, heads, agreement, work))
    ask = read(Ask, message, most_bytes(state))
    if digest(message) == state.asked:
        return _turn(state)
    if ask.study != agreement.study:
        raise DataError("this is asked for another study")
    if ask.question is None and state.stage != JOINED and ask.opening == state.opening > 0:
        return _turn(_ended(state))  # someone is missing: what was opened before stays
    if state.stage == OPENED and (ask.opening, ask.attempt) == (state.opening + 1, 0):
        state = _with_totals(state, ask)
        work.check_totals(state.history)
    else:
        state = _with_roster(state, ask, agreement, member)
    return _turn(_answered(state, ask, digest(message), agreement, member, work, random))


def _turn(state: SiteState) -> Turn[SiteState]:
    return Turn(state, site_messages(state), site_waits(state))


def _with_roster(state: SiteState, ask: Ask, agreement: Agreement, member: Member) -> SiteState:
    """Take a roster with the first question; a later one only with fewer sites, and unopened."""
    if ask.opening > 0 or state.opening > 0 or state.stage == OPENED:
        raise DataError(
            "this is asked out of order: a question is asked once, after the one before was "
            "opened, and no other roster once one was"
        )
    if ask.attempt >= MOST_ATTEMPTS or ask.answers or ask.seeds:
        raise DataError("this is no first question")
    if state.stage == MASKED:
        if ask.attempt <= state.attempt:
            raise DataError("this attempt was answered already: its answer can be sent again")
        if ask.question != state.question:
            raise DataError("another question was asked before: an opening has one")
        if not set(ask.joins) <= set(state.roster):
            raise DataError("a later attempt may have fewer sites, and no others")
    check_roster(ask.joins, agreement)
    if state.join not in ask.joins:
        raise DataError(f"the roster has not what site {member.site!r} has joined with")
    confirmed = {*member.confirmed, member.key.public}
    known = sum(agreement.keys[join.site] in confirmed for join in ask.joins)
    if known < agreement.least:
        raise DataError(
            f"of {len(ask.joins)} sites in the roster {known} have keys that were confirmed here, "
            f"and sums need {agreement.least}: compare fingerprints with more of them"
        )
    return state._replace(roster=ask.joins)


def _with_totals(state: SiteState, ask: Ask) -> SiteState:
    """Add up the totals of what was opened last, from what the roster stood by then."""
    if ask.joins or tuple(answer.head for answer in ask.answers) != state.heads:
        raise DataError("the totals are not of what the roster stood by: ask the centre")
    if len(ask.seeds) != len(state.heads):
        raise DataError("a seed is missing")
    for answer, seed in zip(ask.answers, ask.seeds, strict=True):
        check_values(answer)
        check_seed(seed, answer.head)
    values, seeds = [each.values for each in ask.answers], [each.seed for each in ask.seeds]
    if len({len(each) for each in values}) > 1:
        raise DataError("the sites' vectors have different lengths")
    opened = Opened(state.question, total(values, seeds, state.heads[0].ctx))
    seed_of_run = state.history.seed or run_seed(state.heads)
    return state._replace(history=History((*state.history.openings, opened), seed_of_run))


def _answered(
    state: SiteState,
    ask: Ask,
    asked: bytes,
    agreement: Agreement,
    member: Member,
    work: SiteWork,
    random: Random,
) -> SiteState:
    """Answer a question if it is the one that follows from the history."""
    if ask.question is None:
        if ask.opening == 0:
            raise DataError("nothing is asked")
        return _ended(state)
    own = work.question(state.history)
    if own is None or not work.agrees(own, ask.question):
        raise DataError(
            "the question is not the one that follows from the study and the totals: nothing was "
            "answered; ask the centre, and compare versions of the software"
        )
    vector = checked_vector(work.answer(ask.question, state.history, len(state.roster)))
    ctx = ctx_of(context(agreement, state.roster, ask, state.heads), len(vector))
    seed = random(SECRET)
    keys = {join.site: join.mask_key for join in state.roster}
    values = masked(vector, seed, state.secret, member.site, keys, ctx)
    nonce = state.nonce if ask.opening == 0 else b""
    number = state.number + 1
    head = Head(member.site, number, ctx, digest(values), digest(seed), nonce)
    return state._replace(
        stage=MASKED,
        number=number,
        opening=ask.opening,
        attempt=ask.attempt,
        asked=asked,
        question=ask.question,
        answer=Answer(signed_head(head, member.key), values),
        seed=seed,
    )


def _opened(state: SiteState, heads: Heads, agreement: Agreement, work: SiteWork) -> SiteState:
    """Tell the seed of the own mask, once the whole roster stands by answers to the same."""
    answered = (heads.opening, heads.attempt) == (state.opening, state.attempt)
    if answered and state.stage == OPENED and heads.heads == state.heads:
        return state
    if not answered or state.stage != MASKED or state.answer is None:
        raise DataError("these heads are not of what was answered last: no mask is opened for them")
    own = state.answer.head
    check_heads(heads.heads, state.roster, own.ctx, agreement, state.heads)
    if own not in heads.heads:
        raise DataError("the heads have not what was answered here: no mask is opened for them")
    work.charge(own.ctx, state.opening)
    return state._replace(stage=OPENED, heads=heads.heads)


def _ended(state: SiteState) -> SiteState:
    """Forget what is secret."""
    return state._replace(stage=ENDED, secret=b"", seed=b"", nonce=b"")
