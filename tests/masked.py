"""Runs of masked sums for the tests: sites with toy vectors, and a centre, in one process."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from fedmerdel.masking.centre_part import CentreState, begin_run, centre_turn
from fedmerdel.masking.messages import Ask, Heads
from fedmerdel.masking.site_part import join_run, site_turn
from fedmerdel.masking.site_state import SiteState, site_takes
from fedmerdel.masking.spelling import read, spelt
from fedmerdel.masking.work import Agreement, History, Integers, Member, Turn
from tests.toy_keys import key

NAMES = ("hull", "kent", "leeds", "wells", "york")
KEYS = {name: key(40 + i) for i, name in enumerate(NAMES)}
LISTED = {name: each.public for name, each in KEYS.items()}
AGREED = Agreement("s" * 64, "sums, whole numbers", LISTED)
MOST = 2**24


def member(name: str, confirmed: Iterable[str] = LISTED.values()) -> Member:
    return Member(name, KEYS[name], frozenset(confirmed))


def random_of(*words: Any) -> Callable[[int], bytes]:
    """Randomness that is always the same: another for each call and each of the words."""
    calls = iter(range(10**6))

    def found(n: int) -> bytes:
        return hashlib.shake_256(repr((words, next(calls))).encode()).digest(n)

    return found


def no_randomness(n: int) -> bytes:
    raise AssertionError("nothing new is to be made here")


class Toy:
    """Asks three times; a question says how often was asked, and the first number of the totals."""

    def __init__(self, vector: Integers, questions: int = 3) -> None:
        self.vector, self.questions = vector, questions
        self.charged: list[tuple[bytes, int]] = []
        self.looked_at: list[History] = []

    def question(self, history: History) -> bytes | None:
        asked = len(history.openings)
        if asked == self.questions:
            return None
        first = history.openings[-1].totals[0] if asked else 0
        return b"question %d after %d of %s" % (asked, first, history.seed.hex().encode())

    def agrees(self, own: bytes, sent: bytes) -> bool:
        return own == sent

    def answer(self, question: bytes, history: History, sites: int) -> Integers:
        return self.vector * (1 + len(history.openings))

    def check_totals(self, history: History) -> None:
        self.looked_at.append(history)

    def charge(self, ctx: bytes, opening: int) -> None:
        self.charged.append((ctx, opening))


class Run(NamedTuple):
    """States of all, and every message that was sent, by the name of its file."""

    centre: CentreState
    sites: dict[str, SiteState]
    works: dict[str, Toy]
    sent: dict[str, bytes]
    agreed: Agreement = AGREED
    words: Any = ()


def vectors(names: Iterable[str] = NAMES, length: int = 50, seed: int = 0) -> dict[str, Integers]:
    rng = np.random.default_rng(seed)
    return {name: rng.integers(-1000, 1000, length) for name in names}


def begun(
    given: dict[str, Integers] | None = None,
    agreed: Agreement = AGREED,
    words: Any = (),
    questions: int = 3,
) -> Run:
    """All have joined, and the centre has asked its first question."""
    works = {name: Toy(each, questions) for name, each in (given or vectors()).items()}
    sites, sent = {}, {}
    for name in works:
        turn = join_run(agreed, member(name), random=random_of(words, name))
        sites[name] = turn.state
        sent.update(turn.messages)
    asked = centre_turn(begin_run(agreed, list(works)).state, sent, agreed, works[min(works)])
    return Run(asked.state, sites, works, sent | asked.messages, agreed, words)


def at_site(run: Run, name: str, message: bytes, **changed: Any) -> Turn[SiteState]:
    """Return what a site makes of a message."""
    given = {
        "agreement": run.agreed,
        "member": member(name),
        "work": run.works[name],
        "random": random_of(run.words, name, message),
        **changed,
    }
    return site_turn(run.sites[name], message, **given)


def taken(run: Run, names: Iterable[str] = NAMES) -> Run:
    """Let sites take what the centre has sent and they wait for."""
    sites, sent = dict(run.sites), dict(run.sent)
    for name in names:
        for file in sorted(run.sent):
            if file.startswith(("ask", "heads", "end")) and site_takes(sites[name], file):
                turn = at_site(run._replace(sites=sites), name, sent[file])
                sites[name] = turn.state
                sent.update(turn.messages)
    return run._replace(sites=sites, sent=sent)


def gathered(run: Run) -> Run:
    """Let the centre take what sites have sent."""
    turn = centre_turn(run.centre, run.sent, run.agreed, run.works[min(run.works)])
    return run._replace(centre=turn.state, sent=run.sent | turn.messages)


def masked_run(run: Run | None = None) -> Run:
    """All have answered, and the centre has shown all heads."""
    return gathered(taken(begun() if run is None else run))


def opened_run(run: Run | None = None) -> Run:
    """One opening is finished, and the next question is asked; or the run has ended."""
    return gathered(taken(masked_run(run)))


def ask_of(run: Run, opening: int = 0, attempt: int = 0) -> Ask:
    return read(Ask, run.sent[f"ask-{opening:03d}-{attempt:02d}.json"], MOST)


def heads_of(run: Run, opening: int = 0) -> Heads:
    return read(Heads, run.sent[f"heads-{opening:03d}-00.json"], MOST)


def same(one: SiteState, other: SiteState) -> bool:
    return spelt(one) == spelt(other)
