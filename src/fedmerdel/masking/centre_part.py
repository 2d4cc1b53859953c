"""The centre's part: it gathers joins, answers and seeds, adds up, and asks the next question.

Pure: what is kept and what has arrived in, what is to be kept and what goes out. It keeps no
secret. What a site has sent and can't be used is left where it is, and told in the sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple, TypeVar

from fedmerdel.errors import DataError
from fedmerdel.masking.masks import MOST_NUMBERS, WORD, total
from fedmerdel.masking.messages import (
    END,
    MOST_ATTEMPTS,
    MOST_QUESTION,
    MOST_SMALL,
    Answer,
    Ask,
    Head,
    Heads,
    Join,
    Seed,
    check_head,
    check_join,
    check_seed,
    check_values,
    context,
    ctx_of,
    join_name,
    run_seed,
    turn_name,
)
from fedmerdel.masking.spelling import read, spelt
from fedmerdel.masking.work import Agreement, History, Opened, Turn, Work

JOINING, ASKING, OPENING, ENDED = "joining", "asking", "opening", "ended"
"""What the centre gathers: joins, answers, seeds, nothing more."""

MOST_BYTES = 4 * (MOST_NUMBERS * WORD // 3 + 1) + 2 * MOST_SMALL
"""Of a message of a site."""


class CentreState(NamedTuple):
    """What the centre keeps of a run.

    Attributes
    ----------
    stage : str
        What it gathers.
    sites : tuple of str
        Who is to take part, in the order of their names.
    joins : tuple of Join
        Who has joined; in the order of their names once all have.
    ask : Ask or None
        What it has asked last.
    answers : tuple of Answer
        What has arrived; in the order of the sites once all has. Likewise the seeds.
    seeds : tuple of Seed
        The same of seeds.
    history : History
        The finished openings.
    """

    stage: str
    sites: tuple[str, ...]
    joins: tuple[Join, ...] = ()
    ask: Ask | None = None
    answers: tuple[Answer, ...] = ()
    seeds: tuple[Seed, ...] = ()
    history: History = History()


def begin_run(agreement: Agreement, sites: Collection[str] | None = None) -> Turn[CentreState]:
    """Begin a run at the centre.

    Parameters
    ----------
    agreement : Agreement
        What was agreed on.
    sites : collection of str, optional
        Who is to take part; all that the study lists if it is not given.
    """
    agreement.check()
    named = tuple(sorted(set(agreement.keys if sites is None else sites)))
    _check_sites(named, agreement)
    return _turn(CentreState(JOINING, named))


def centre_turn(
    state: CentreState, messages: Mapping[str, bytes], agreement: Agreement, work: Work
) -> Turn[CentreState]:
    """Take what has arrived, and go on as far as it allows.

    Parameters
    ----------
    state : CentreState
        What was kept.
    messages : mapping of str to bytes
        What has arrived, by names of files; what nobody waits for is not looked at.
    agreement : Agreement
        What was agreed on.
    work : Work
        What is asked.
    """
    refused: list[str] = []
    bound = b""
    if state.ask is not None and state.stage == ASKING:
        bound = context(agreement, state.joins, state.ask, _heads(state.ask.answers))
    for site, name in missing(state).items():
        if name not in messages:
            continue
        try:
            state = _taken(state, site, messages[name], agreement, bound)
        except DataError as why:
            refused.append(f" File {name!r} was not taken: {why}.")
    if not missing(state) and state.stage != ENDED:
        try:
            state = _gone_on(state, work)
        except DataError as why:
            refused.append(f" It can't go on: {why}.")
    return _turn(state, refused)


def without(state: CentreState, sites: Collection[str], agreement: Agreement) -> Turn[CentreState]:
    """Go on without some sites, which can be done until the first heads have been sent.

    Raises
    ------
    DataError
        If it is too late for that, or too few are left.
    """
    left = tuple(site for site in state.sites if site not in set(sites))
    _check_sites(left, agreement)
    joins = tuple(join for join in state.joins if join.site in left)
    if state.stage == JOINING:
        return _turn(state._replace(sites=left, joins=joins))
    if state.stage != ASKING or state.ask is None or state.ask.opening > 0:
        raise DataError(
            "the roster stays as it is once the heads of the first question have been sent: wait "
            "for who is missing, or end the run with what was opened last"
        )
    if left == state.sites:
        return _turn(state)
    if state.ask.attempt + 1 >= MOST_ATTEMPTS:
        raise DataError("there were too many attempts: begin another run")
    ask = state.ask._replace(attempt=state.ask.attempt + 1, joins=joins)
    return _turn(state._replace(sites=left, joins=joins, ask=ask, answers=()))


def ended(state: CentreState) -> Turn[CentreState]:
    """End a run with what was opened last."""
    if state.ask is None or state.ask.opening == 0:
        raise DataError("nothing was opened yet: there is nothing to end with")
    return _turn(state._replace(stage=ENDED, ask=state.ask._replace(question=None)))


def centre_messages(state: CentreState) -> dict[str, bytes]:
    """Return what the centre has to send by now; the same bytes each time."""
    if state.ask is None:
        return {}
    if state.stage == ENDED:
        return {END: spelt(state.ask)}
    opening, attempt = state.ask.opening, state.ask.attempt
    found = {turn_name("ask", opening, attempt): spelt(state.ask)}
    if state.stage == OPENING:
        found[turn_name("heads", opening, attempt)] = spelt(
            Heads(opening, attempt, _heads(state.answers))
        )
    return found


def missing(state: CentreState) -> dict[str, str]:
    """Return the file that each site has to send yet."""
    if state.stage == JOINING:
        here = {join.site for join in state.joins}
        return {site: join_name(site) for site in state.sites if site not in here}
    if state.ask is None or state.stage == ENDED:
        return {}
    asking = state.stage == ASKING
    here = {a.head.site for a in state.answers} if asking else {s.site for s in state.seeds}
    what, opening, attempt = "answer" if asking else "seed", state.ask.opening, state.ask.attempt
    return {
        site: turn_name(what, opening, attempt, site) for site in state.sites if site not in here
    }


def centre_waits(state: CentreState) -> str:
    """Say in a sentence whom the centre waits for."""
    if state.stage == ENDED:
        return f"The run has ended with {len(state.history.openings)} totals."
    opening = 0 if state.ask is None else state.ask.opening
    what = {
        JOINING: "to join",
        ASKING: f"to answer question {opening}",
        OPENING: f"to open their masks of question {opening}",
    }
    late = missing(state)
    if not late:
        return "The centre has all that it waited for."
    return (
        f"The centre waits for {len(late)} of {len(state.sites)} sites {what[state.stage]}: "
        f"{', '.join(late)}."
    )


Found = TypeVar("Found")


def _turn(state: CentreState, refused: Collection[str] = ()) -> Turn[CentreState]:
    return Turn(state, centre_messages(state), centre_waits(state) + "".join(refused))


def _check_sites(sites: Collection[str], agreement: Agreement) -> None:
    unknown = sorted(set(sites) - set(agreement.keys))
    if unknown:
        raise DataError(f"site {unknown[0]!r}: the study lists no key of it")
    if len(sites) < agreement.least:
        raise DataError(f"{len(sites)} sites are left, and sums need {agreement.least}")


def _heads(answers: Iterable[Answer]) -> tuple[Head, ...]:
    return tuple(answer.head for answer in answers)


def _taken(
    state: CentreState, site: str, message: bytes, agreement: Agreement, bound: bytes
) -> CentreState:
    """Take what one site has sent, if it is what it had to send."""
    if state.ask is None:
        join = read(Join, message, MOST_SMALL)
        _check_owner(join.site, site)
        check_join(join, agreement)
        return state._replace(joins=_with(state, state.joins, join, lambda each: each.site))
    at = state.sites.index(site)
    if state.stage == ASKING:
        answer = read(Answer, message, MOST_BYTES)
        _check_owner(answer.head.site, site)
        check_values(answer)
        before = _heads(state.ask.answers)
        ctx = ctx_of(bound, len(answer.values) // WORD)
        check_head(answer.head, state.joins[at], ctx, agreement, before[at] if before else None)
        answers = _with(state, state.answers, answer, lambda each: each.head.site)
        return state._replace(answers=answers)
    seed = read(Seed, message, MOST_SMALL)
    _check_owner(seed.site, site)
    check_seed(seed, state.answers[at].head)
    return state._replace(seeds=_with(state, state.seeds, seed, lambda each: each.site))


def _check_owner(said: str, site: str) -> None:
    if said != site:
        raise DataError(f"it is not of site {site!r}")


def _with(
    state: CentreState, here: tuple[Found, ...], new: Found, site: Callable[[Found], str]
) -> tuple[Found, ...]:
    return tuple(sorted((*here, new), key=lambda each: state.sites.index(site(each))))


def _gone_on(state: CentreState, work: Work) -> CentreState:
    """Do what follows once nobody is missing."""
    ask = state.ask
    if ask is None:
        return _asking(state, work, Ask(state.joins[0].study, 0, 0, None, state.joins, (), ()))
    values = [answer.values for answer in state.answers]
    if state.stage == ASKING:
        lengths = sorted({len(each) // WORD for each in values})
        if len(lengths) > 1:
            raise DataError(
                f"the sites' vectors have different lengths ({lengths}): compare versions of the "
                "software"
            )
        return state._replace(stage=OPENING)
    heads, answers, seeds = _heads(state.answers), state.answers, state.seeds
    found = total(values, [each.seed for each in seeds], heads[0].ctx)
    openings = (*state.history.openings, Opened(ask.question or b"", found))
    history = History(openings, state.history.seed or run_seed(heads))
    state = state._replace(history=history, answers=(), seeds=())
    return _asking(state, work, Ask(ask.study, ask.opening + 1, 0, None, (), answers, seeds))


def _asking(state: CentreState, work: Work, ask: Ask) -> CentreState:
    question = work.question(state.history)
    if question is None and ask.opening == 0:
        raise DataError("nothing is to be asked")
    if question is not None and len(question) > MOST_QUESTION:
        raise DataError(f"a question has {MOST_QUESTION:,} bytes at most")
    stage = ENDED if question is None else ASKING
    return state._replace(stage=stage, ask=ask._replace(question=question))
