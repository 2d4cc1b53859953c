"""What a site keeps of a run, what it has to send by now, and which files it waits for."""

from __future__ import annotations

import re
from typing import NamedTuple

from fedmerdel.masking.messages import (
    END,
    MOST_QUESTION,
    MOST_SITES,
    MOST_SMALL,
    Answer,
    Head,
    Join,
    Seed,
    join_name,
    turn_name,
)
from fedmerdel.masking.spelling import spelt
from fedmerdel.masking.work import History

JOINED, MASKED, OPENED, ENDED = "joined", "masked", "opened", "ended"
"""Where a site is: it waits for a question, for the heads, for the next question, for nothing."""


class SiteState(NamedTuple):
    """What a site keeps of a run, and shows to nobody.

    Attributes
    ----------
    stage : str
        Where it is.
    join : Join
        What it has joined with.
    secret, nonce : bytes
        Of its mask key; what its commitment is the hash of.
    number : int
        The last one that it has signed.
    roster : tuple of Join
        Who takes part; none before the first question.
    opening, attempt : int
        Of the last question that it has answered.
    asked : bytes
        Hash of the message that asked it.
    question : bytes
        The question.
    answer : Answer or None
        What it has answered: it answers with nothing else.
    seed : bytes
        Of its own mask.
    heads : tuple of Head
        What the roster stood by when it last opened its mask.
    history : History
        The finished openings.
    """

    stage: str
    join: Join
    secret: bytes
    nonce: bytes
    number: int
    roster: tuple[Join, ...] = ()
    opening: int = 0
    attempt: int = 0
    asked: bytes = b""
    question: bytes = b""
    answer: Answer | None = None
    seed: bytes = b""
    heads: tuple[Head, ...] = ()
    history: History = History()


def site_messages(state: SiteState) -> dict[str, bytes]:
    """Return what a site has to send by now; the same bytes each time."""
    site = state.join.site
    found = {join_name(site): spelt(state.join)}
    if state.answer is not None:
        name = turn_name("answer", state.opening, state.attempt, site)
        found[name] = spelt(state.answer)
        if state.stage == OPENED:
            seed = Seed(site, state.answer.head.ctx, state.seed)
            found[turn_name("seed", state.opening, state.attempt, site)] = spelt(seed)
    return found


def site_waits(state: SiteState) -> str:
    """Say in a sentence whom a site waits for."""
    waits = {
        JOINED: "for the centre's roster and first question",
        MASKED: f"for the centre to show that all have answered question {state.opening}",
        OPENED: f"for the totals of question {state.opening}, with the centre's next message",
    }
    if state.stage == ENDED:
        return f"The run has ended with {len(state.history.openings)} totals."
    return f"Site {state.join.site!r} waits {waits[state.stage]}."


def site_takes(state: SiteState, name: str) -> bool:
    """Whether a file of this name is one that a site waits for."""
    if state.stage == ENDED:
        return False
    if name == END:
        return state.stage != JOINED
    if state.stage == OPENED:
        return name == turn_name("ask", state.opening + 1, 0)
    if state.stage == MASKED and name == turn_name("heads", state.opening, state.attempt):
        return True
    found = re.fullmatch(r"ask-000-(\d\d)\.json", name)
    if found is None or state.opening > 0:
        return False
    return state.stage == JOINED or int(found[1]) > state.attempt


def most_bytes(state: SiteState) -> int:
    """Return the most bytes that a message to a site may have, of those that it waits for."""
    values = 0 if state.answer is None else len(state.answer.values)
    spelt_bytes = 2 * MOST_SMALL + 4 * (values // 3 + 1)
    sites = len(state.roster) if state.heads or state.stage == OPENED else MOST_SITES
    return (sites + 1) * spelt_bytes + 4 * (MOST_QUESTION // 3 + 1)
