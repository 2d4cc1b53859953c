"""What sites and centre agree on, and what is added up: the rest of this room is blind to it.

A question and the numbers that answer it mean something to `Work` and `SiteWork` only.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedmerdel.errors import DataError, OptionError
from fedmerdel.keys import SigningKey, check_is_key

LEAST = 5
"""Sites of a roster of which a person has confirmed the keys, unless the agreement says more."""

FEWEST = 3
"""Sites of any roster: of two, each could take its own numbers from the total."""

Integers = NDArray[np.int64]


class Opened(NamedTuple):
    """A finished opening: what was asked, and the totals over the roster."""

    question: bytes
    totals: Integers


class History(NamedTuple):
    """All finished openings, and the seed of the run that nobody could choose; b"" before one."""

    openings: tuple[Opened, ...] = ()
    seed: bytes = b""


class Agreement(NamedTuple):
    """What all who take part have agreed on; it comes from the study, never from a message.

    Attributes
    ----------
    study : str
        The study's hash.
    promise : str
        What the study promises, and how its numbers are made whole: any text, the same for all.
    keys : mapping of str to str
        The public key of each site that the study lists.
    least : int
        Sites that a roster must have, the confirmed ones counted only.
    """

    study: str
    promise: str
    keys: Mapping[str, str]
    least: int = LEAST

    def check(self) -> None:
        """Refuse an agreement under which a total could be one site's own."""
        if self.least < FEWEST:
            raise OptionError(f"least: of a sum over fewer than {FEWEST} sites each could subtract")
        if len(self.keys) < self.least:
            raise OptionError(
                f"the study lists the keys of {len(self.keys)} sites, and sums need {self.least}"
            )


class Member(NamedTuple):
    """A site.

    Attributes
    ----------
    site : str
        Its name in the study.
    key : SigningKey
        Its secret key.
    confirmed : collection of str
        Public keys whose fingerprints a person here has compared with their owners; its own
        counts without.
    """

    site: str
    key: SigningKey
    confirmed: Collection[str]

    def check(self, agreement: Agreement) -> None:
        """Refuse a site that the study does not list, or a key that is not its own there."""
        check_is_key(self.key)
        agreement.check()
        if agreement.keys.get(self.site) != self.key.public:
            raise DataError(
                f"site {self.site!r}: the study does not list this key for it: check name and key"
            )


class Work(Protocol):
    """What is asked, at the centre."""

    def question(self, history: History) -> bytes | None:
        """Return what is to be added up next; None if all is done."""


class SiteWork(Work, Protocol):
    """What is asked and answered at a site; whatever it raises stops the site before it sends."""

    def agrees(self, own: bytes, sent: bytes) -> bool:
        """Whether a question is the one that was derived here, but for the last bits of numbers."""

    def answer(self, question: bytes, history: History, sites: int) -> Integers:
        """Return the site's own numbers, with its share of the noise; called once for each ctx.

        ``sites`` is how many are in the roster.
        """

    def check_totals(self, history: History) -> None:
        """Raise if the last totals can't be right, or are nearly all of this site's own rows."""

    def charge(self, ctx: bytes, opening: int) -> None:
        """Write down through to the disk that numbers are told, or raise if they may not be.

        Called before they can be read by anyone; after a crash once more with the same ``ctx``,
        which must not count twice.
        """


State = TypeVar("State")


class Turn(NamedTuple, Generic[State]):
    """What a turn has led to.

    Attributes
    ----------
    state : SiteState or CentreState
        To be kept, through to the disk, before any message leaves.
    messages : dict of str to bytes
        What goes out, by names of files.
    waiting : str
        Who is waited for, in a sentence.
    """

    state: State
    messages: dict[str, bytes]
    waiting: str
