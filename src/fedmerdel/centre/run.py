"""Rounds one after the other: a loop over whoever asks the sites."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal, TypeVar

from fedmerdel.centre.doubts import doubts_of, warn_of
from fedmerdel.centre.lineage import Round
from fedmerdel.centre.state import FederationState
from fedmerdel.centre.step import step
from fedmerdel.model.broadcast import Broadcast
from fedmerdel.release.summary import SiteSummary

QUIET = 1e-5
"""Nats a row that a round must gain, or it is a quiet one."""

QUIET_ROUNDS = 6
"""Quiet rounds in a row after which more don't pay: a cut may still need a few."""

Rounds = int | Literal["auto"]

Joined = TypeVar("Joined", bound=FederationState)


def run_rounds(
    federation: Joined,
    ask: Callable[[Broadcast], Iterable[SiteSummary]],
    rounds: Rounds = "auto",
    watch: Callable[[Round], None] | None = None,
) -> Joined:
    """Let the sites reply to the federation's broadcast, step, and so on.

    Parameters
    ----------
    federation : Federation
        Where to begin, such as after one shot.
    ask : callable
        Takes a `Broadcast` to the sites, wherever they are, and returns their replies; sites
        that do not reply are carried with what they sent last.
    rounds : int or "auto"
        How many, or until more don't pay; no more than the study allows in all.
    watch : callable, optional
        Called with each `Round`.

    Returns
    -------
    Federation
        After the last round.

    Warns
    -----
    OddSiteWarning
        If a site's counts are odd then, compared with those of the others; see
        `Federation.doubts`.
    """
    replied = list[Joined]()
    found = run_trusted(federation, ask, rounds, watch, replied.append)
    for last in replied[-1:]:
        warn_of(doubts_of(last), stacklevel=3)
    return found


def run_trusted(
    federation: Joined,
    ask: Callable[[Broadcast], Iterable[SiteSummary]],
    rounds: Rounds,
    watch: Callable[[Round], None] | None = None,
    look: Callable[[Joined], None] | None = None,
) -> Joined:
    """Run rounds as `run_rounds` does; who looks for odd sites is shown each state."""
    left = max(federation.study.rounds - len(federation.record), 0)
    for _ in range(left if rounds == "auto" else rounds):
        federation, brought = step(federation, ask(federation.broadcast), look)
        if watch is not None:
            watch(brought)
        if rounds == "auto" and has_settled(federation.record, float(federation.site_rows.sum())):
            break
    return federation


def has_settled(record: tuple[Round, ...], total: float) -> bool:
    """Whether the last rounds were all quiet: no move, and next to nothing gained."""
    last = record[-QUIET_ROUNDS:]
    return len(last) == QUIET_ROUNDS and all(
        each.move == "taken back"
        or (each.move == "" and each.gain is not None and each.gain < QUIET * total)
        for each in last
    )
