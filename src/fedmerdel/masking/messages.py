"""The messages between sites and centre, what binds them, and what is signed.

A site sends `Join`, `Answer` and `Seed`, the centre `Ask` and `Heads`. What a site says is bound by
its signature, directly or as a hash under it; nothing is taken on the centre's word.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fedmerdel.errors import DataError
from fedmerdel.keys import LENGTH as KEY_LENGTH
from fedmerdel.keys import SigningKey, fits
from fedmerdel.masking.masks import MOST_NUMBERS, SECRET, WORD, digest
from fedmerdel.masking.spelling import frame, spelt
from fedmerdel.masking.work import Agreement

MOST_SMALL = 4096
"""Bytes of a join, a head or a seed as they are spelt, which have a few hundred."""

MOST_SITES = 1000
"""Of a roster."""

MOST_QUESTION = 2**24
"""Bytes of a question."""

MOST_ATTEMPTS = 100
"""At the first opening, each with fewer sites: a seed of the run can hardly be chosen so."""

_DOMAIN = b"fedmerdel: masked sums, version 1"
_RUN, _CONTEXT, _SIGNED, _NONCES = (
    _DOMAIN + each for each in (b", run", b", context", b", signed", b", seed of the run")
)


class Join(NamedTuple):
    """A site takes part: its mask key for this run, and the hash of its nonce."""

    study: str
    site: str
    number: int
    mask_key: bytes
    commitment: bytes
    signature: bytes = b""


class Head(NamedTuple):
    """What a site stands by: hashes of what it has sent and of the seed of its own mask.

    ``number`` rises with each message that a site signs; ``nonce`` is told at the first opening.
    """

    site: str
    number: int
    ctx: bytes
    masked: bytes
    seed: bytes
    nonce: bytes
    signature: bytes = b""


class Answer(NamedTuple):
    """A site's numbers under masks."""

    head: Head
    values: bytes


class Seed(NamedTuple):
    """The seed of a site's own mask; the hash in its head binds it."""

    site: str
    ctx: bytes
    seed: bytes


class Ask(NamedTuple):
    """A question, with what shows that all before it is true; no question: this is the end.

    ``joins`` is the roster, told once, with the first question; ``answers`` and ``seeds`` are
    those of the opening before.
    """

    study: str
    opening: int
    attempt: int
    question: bytes | None
    joins: tuple[Join, ...]
    answers: tuple[Answer, ...]
    seeds: tuple[Seed, ...]


class Heads(NamedTuple):
    """What the whole roster stands by, in the order of the sites' names."""

    opening: int
    attempt: int
    heads: tuple[Head, ...]


END = "end.json"
"""The name of the last message of a run."""


def join_name(site: str) -> str:
    """Return the name of the file in which a site joins."""
    return f"join-{site}.json"


def turn_name(what: str, opening: int, attempt: int, site: str | None = None) -> str:
    """Return the name of a file of an opening, such as ask-000-00.json or seed-003-00-york.json."""
    whose = "" if site is None else f"-{site}"
    return f"{what}-{opening:03d}-{attempt:02d}{whose}.json"


def signed_join(join: Join, key: SigningKey) -> Join:
    """Return a join with its signature."""
    return join._replace(signature=key.sign(_under_join(join)))


def signed_head(head: Head, key: SigningKey) -> Head:
    """Return a head with its signature."""
    return head._replace(signature=key.sign(_under_head(head)))


def run_of(roster: Sequence[Join]) -> bytes:
    """Return the hash of a roster, commitments and all: no two runs have the same."""
    return digest(_RUN, *(spelt(join) for join in roster))


def context(agreement: Agreement, roster: Sequence[Join], ask: Ask, heads: Sequence[Head]) -> bytes:
    """Return the hash of all that an answer is for; ``heads`` are those of the opening before."""
    who = (part for join in roster for part in (join.site.encode(), join.mask_key))
    return digest(
        _CONTEXT,
        agreement.study.encode(),
        run_of(roster),
        agreement.promise.encode(),
        b"%d" % ask.opening,
        b"%d" % ask.attempt,
        digest(ask.question or b""),
        digest(*(spelt(head) for head in heads)),
        *who,
    )


def ctx_of(found: bytes, length: int) -> bytes:
    """Return the hash of all that one vector is for: a context, and how long the vector is."""
    return digest(_CONTEXT, found, b"%d" % length)


def run_seed(heads: Sequence[Head]) -> bytes:
    """Return the seed of a run: the hash of all nonces, to which the sites were bound before."""
    return digest(_NONCES, *(head.nonce for head in heads))


def check_join(join: Join, agreement: Agreement) -> None:
    """Refuse a join for another study, or that the site's key in the study has not signed.

    Raises
    ------
    DataError
        If so.
    """
    if join.study != agreement.study:
        raise DataError(f"site {join.site!r} has joined for another study")
    if join.site not in agreement.keys:
        raise DataError("a site has joined whose key the study does not list")
    if len(join.mask_key) != KEY_LENGTH or len(join.commitment) != SECRET:
        raise DataError(f"site {join.site!r}: its mask key or commitment is no such thing")
    if not fits(agreement.keys[join.site], join.signature, _under_join(join)):
        raise _not_signed(join.site)


def check_roster(roster: Sequence[Join], agreement: Agreement) -> None:
    """Refuse a roster that lists a site or a mask key twice, or whom the study does not."""
    names = [join.site for join in roster]
    keys = {join.mask_key for join in roster} | {join.commitment for join in roster}
    if names != sorted(set(names)) or len(keys) < 2 * len(names) or len(names) > MOST_SITES:
        raise DataError("the roster is not in order, or has something twice")
    for join in roster:
        check_join(join, agreement)


def check_head(
    head: Head, join: Join, ctx: bytes, agreement: Agreement, before: Head | None
) -> None:
    """Refuse a head for anything else than ``ctx``, not signed, or older than the one before.

    Raises
    ------
    DataError
        If so.
    """
    if head.site != join.site:
        raise DataError(f"this is of site {head.site!r}, and not of {join.site!r}")
    if head.ctx != ctx:
        raise DataError(
            f"site {head.site!r} has answered something else: another run, roster, question, "
            "opening or history, or another number of numbers"
        )
    if head.number <= (before or join).number:
        raise DataError(f"site {head.site!r}: its message is older than one before: it was copied")
    if digest(head.nonce) != join.commitment if before is None else head.nonce:
        raise DataError(f"site {head.site!r}: its nonce is not the one that it was bound to")
    if not fits(agreement.keys[head.site], head.signature, _under_head(head)):
        raise _not_signed(head.site)


def check_values(answer: Answer) -> None:
    """Refuse numbers that are not those whose hash the site has signed."""
    if len(answer.values) % WORD or not 0 < len(answer.values) <= MOST_NUMBERS * WORD:
        raise DataError(f"site {answer.head.site!r}: it has sent no vector, or too long a one")
    if digest(answer.values) != answer.head.masked:
        raise DataError(f"site {answer.head.site!r}: its numbers were changed after it signed them")


def check_heads(
    heads: Sequence[Head],
    roster: Sequence[Join],
    ctx: bytes,
    agreement: Agreement,
    before: Sequence[Head],
) -> None:
    """Refuse heads unless they are the whole roster's, and `check_head` refuses none."""
    if [head.site for head in heads] != [join.site for join in roster]:
        raise DataError("the heads are not those of the whole roster, in its order")
    earlier: Sequence[Head | None] = before or [None] * len(roster)
    for head, join, last in zip(heads, roster, earlier, strict=True):
        check_head(head, join, ctx, agreement, last)


def check_seed(seed: Seed, head: Head) -> None:
    """Refuse a seed that is not the one whose hash the site has signed."""
    if (seed.site, seed.ctx) != (head.site, head.ctx) or digest(seed.seed) != head.seed:
        raise DataError(f"site {head.site!r}: this is not the seed that it was bound to")


def _not_signed(site: str) -> DataError:
    return DataError(
        f"site {site!r}: this is not signed with the key that the study lists for it, or was "
        "changed since"
    )


def _under_join(join: Join) -> bytes:
    return frame(_SIGNED, spelt(join._replace(signature=b"")))


def _under_head(head: Head) -> bytes:
    return frame(_SIGNED, head.ctx, spelt(head._replace(signature=b"")))
