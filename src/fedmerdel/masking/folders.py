"""Turns by files: a folder of what has arrived, one of what goes out, one of what is kept.

What is kept goes through to the disk before a file is put where it may leave. So a process that is
killed at any moment sends the same bytes when it goes on, or has not sent any.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fedmerdel.errors import DataError, FileError
from fedmerdel.files import read_plain, replacement
from fedmerdel.keys import OWNER_ONLY
from fedmerdel.masking.centre_part import MOST_BYTES as MOST_OF_SITE
from fedmerdel.masking.centre_part import (
    CentreState,
    begin_run,
    centre_turn,
    ended,
    missing,
    without,
)
from fedmerdel.masking.messages import END
from fedmerdel.masking.site_part import join_run, site_turn
from fedmerdel.masking.site_state import (
    SiteState,
    most_bytes,
    site_messages,
    site_takes,
    site_waits,
)
from fedmerdel.masking.spelling import Item, read, spelt
from fedmerdel.masking.work import Agreement, History, Member, SiteWork, Turn, Work
from fedmerdel.swap import not_following, take_lock

STATE, LOCK = "state.json", "lock"
"""Names of what is kept, and of the file that whoever takes a turn holds."""

MOST_STATE = 2**31
"""Bytes of what is kept: it is read only where it was written."""


def take_site_turn(
    folder: Path,
    inbox: Path,
    outbox: Path,
    agreement: Agreement,
    member: Member,
    work: SiteWork,
    number: int = 0,
) -> str:
    """Take a site's turn, as far as the files that have arrived allow.

    Parameters
    ----------
    folder : Path
        What the site keeps of this run; nobody else may read it, and no older copy may be put
        back. It is made for the first turn, in which the site joins.
    inbox, outbox : Path
        Where the centre's files arrive; where files for the centre are put.
    agreement, member, work
        What was agreed on, who this is, and what is asked and answered.
    number : int
        The last number that the site has signed in earlier runs.

    Returns
    -------
    str
        Whom it waits for.

    Raises
    ------
    DataError
        If a file breaks a rule; nothing is sent for it.
    FileError
        If something can't be read or written, or what is kept was damaged.
    """
    with _kept(folder):
        state = _state(SiteState, folder)
        if state is None:
            state = join_run(agreement, member, number).state
            _keep(folder, state)
        _send(outbox, site_messages(state))
        while name := _next(state, inbox):
            message = read_plain(inbox / name, f"file {name!r}", most_bytes(state))
            try:
                turn = site_turn(state, message, agreement, member, work)
            except DataError as why:
                raise DataError(f"file {name!r}: {why}") from None
            state = turn.state
            _keep(folder, state)
            _send(outbox, turn.messages)
        return site_waits(state)


def take_centre_turn(
    folder: Path,
    inbox: Path,
    outbox: Path,
    agreement: Agreement,
    work: Work,
    sites: Collection[str] | None = None,
    leave_out: Collection[str] = (),
    end: bool = False,
) -> Turn[CentreState]:
    """Take the centre's turn, as far as the files that have arrived allow.

    Parameters
    ----------
    folder : Path
        What the centre keeps of this run; it is made for the first turn.
    inbox, outbox : Path
        Where the sites' files arrive; where files for all sites are put.
    agreement, work
        What was agreed on, and what is asked.
    sites : collection of str, optional
        Who is to take part; all that the study lists if it is not given. For the first turn.
    leave_out : collection of str
        Sites to go on without.
    end : bool
        End with what was opened last.

    Returns
    -------
    Turn
        Whom it waits for, and in its state the history.

    Raises
    ------
    DataError
        If sites can't be left out, or the run not be ended.
    FileError
        If something can't be read or written, or what is kept was damaged.
    """
    with _kept(folder):
        kept = _state(CentreState, folder)
        if kept is None:
            turn = begin_run(agreement, sites)
            _keep(folder, turn.state)
        else:
            turn = centre_turn(kept, {}, agreement, work)
        if leave_out:
            turn = without(turn.state, leave_out, agreement)
            _keep(folder, turn.state)
        if end:
            turn = ended(turn.state)
            _keep(folder, turn.state)
        _send(outbox, turn.messages)
        while True:
            unread: list[str] = []
            names = missing(turn.state).values()
            messages = dict(_arrived(inbox, names, unread))
            before = turn.state
            turn = centre_turn(before, messages, agreement, work)
            if turn.state is before:
                return turn._replace(waiting=turn.waiting + "".join(unread))
            _keep(folder, turn.state)
            _send(outbox, turn.messages)


def _next(state: SiteState, inbox: Path) -> str | None:
    """Name the file to take next: that of the end comes last."""
    try:
        names = {entry.name for entry in os.scandir(inbox)}
    except OSError:
        raise FileError(f"folder {str(inbox)!r} can't be read: check its name and rights") from None
    wanted = (name for name in names if site_takes(state, name))
    return min(wanted, key=lambda name: (name == END, name), default=None)


def _arrived(inbox: Path, names: Iterable[str], unread: list[str]) -> Iterator[tuple[str, bytes]]:
    for name in names:
        if os.path.lexists(inbox / name):
            try:
                yield name, read_plain(inbox / name, f"file {name!r}", MOST_OF_SITE)
            except FileError as why:
                unread.append(f" It was not taken: {why}.")


@contextmanager
def _kept(folder: Path) -> Iterator[None]:
    """Hold the folder of a state, so that no two processes take the same turn."""
    try:
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        file = open(folder / LOCK, "ab", opener=not_following)  # noqa: SIM115
    except OSError:
        raise FileError(
            f"folder {str(folder)!r} can't be used: check its name, rights and free space"
        ) from None
    with file:
        if not take_lock(file):
            raise FileError(f"folder {str(folder)!r} is in use: try again")
        yield


def _state(kind: type[Item], folder: Path) -> Item | None:
    where = f"file {str(folder / STATE)!r}"
    if not os.path.lexists(folder / STATE):
        return None
    try:
        return read(kind, read_plain(folder / STATE, where, MOST_STATE), MOST_STATE)
    except DataError:
        raise FileError(
            f"{where} is damaged: nothing may leave before someone has looked into it; a new run "
            "needs an empty folder"
        ) from None


def _keep(folder: Path, state: SiteState | CentreState) -> None:
    _write(folder / STATE, spelt(state))


def _send(outbox: Path, messages: dict[str, bytes]) -> None:
    for name, content in messages.items():
        target = outbox / name
        with suppress(FileError):
            if read_plain(target, name) == content:
                continue
        _write(target, content, 0o666)


def _write(target: Path, content: bytes, mode: int = OWNER_ONLY) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    with replacement(target) as part, open(os.open(part, flags, mode), "wb") as file:
        file.write(content)


def site_history(folder: Path) -> History:
    """Return the totals that a site has seen so far."""
    state = _state(SiteState, folder)
    return History() if state is None else state.history
