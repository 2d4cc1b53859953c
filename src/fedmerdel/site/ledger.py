"""A site's ledger: what has left, beside the site's file. It stays at the site.

One line of JSON for each release: a release is written down, through to the disk, before it may
leave. A line carries the digest of the line before it. So it is noticed if a line was changed, put
in or taken out while others stand after it. It is not noticed if the last lines were taken out, or
all, or if someone has written all of it anew: a ledger protects a site from others, and from its
own mistakes, not from its own people. A line that a crash cut off is no entry: what it was for has
not left. One that lacks nothing but its end is an entry.

The same release may be made again, to the last byte; anything else about the same rows is one
more, and counts whatever its study is called.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal

from fedmerdel.errors import DataError, FileError
from fedmerdel.files import open_plain, read_plain
from fedmerdel.swap import not_following, sync_folder, take_lock
from fedmerdel.texts import TextError, json_content

FILE = "ledger.jsonl"

MOST_LEDGER, MOST_LINE = 2**24, 2**14
"""Bytes of a ledger, and of one of its lines: tens of thousands of releases."""

BEGINS = b'{"at": "'
"""How every line begins."""

What = Literal["summary", "reply", "validation"]


@dataclass(frozen=True)
class Entry:
    """One release.

    Attributes
    ----------
    at : str
        When it was made: date and time, UTC.
    what : {"summary", "reply", "validation"}
        A first release, one in a round, or how well a model fits the site.
    study, study_hash : str
        Name and hash of the study.
    round : int
        The round that it replies in; 0 if it is no reply.
    broadcast : str
        Hash of what it replies to, or of the model that it validates, or "".
    policy : str
        Name of the study's policy.
    table, table_digest : str
        Name of the table's file, and SHA-256 of its bytes.
    rows : int
        Rows of the table.
    release : str
        SHA-256 of what left.
    rows_changed : bool
        Whether someone agreed to release although the table had changed.
    """

    at: str
    what: What
    study: str
    study_hash: str
    round: int
    broadcast: str
    policy: str
    table: str
    table_digest: str
    rows: int
    release: str
    rows_changed: bool = False

    def asks_the_same(self, other: Entry) -> bool:
        """Whether the other is of the same rows, for the same study and broadcast."""
        return all(
            getattr(self, name) == getattr(other, name)
            for name in ("what", "study_hash", "round", "broadcast", "table_digest")
        )


class Ledger:
    """What has left a site.

    Parameters
    ----------
    folder : Path
        Where the site's file is.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE

    def entries(self) -> tuple[Entry, ...]:
        """Return what has left, the earliest first.

        Raises
        ------
        FileError
            If a line is damaged, or was changed or taken out.
        """
        return tuple(entry for entry, _ in _read(self._bytes(), self.path))

    def others(self, table_digest: str, release: str) -> int:
        """Return how many other summaries and replies of a table have left."""
        return sum(
            each.table_digest == table_digest and each.release != release
            for each in self.entries()
            if each.what != "validation"
        )

    def add(self, entry: Entry, study_rounds: int, most_rounds: int) -> None:
        """Write down a release, if it may be made; one that is there already is not again.

        Raises
        ------
        DataError
            If it may not; see `check_release`.
        FileError
            If it can't be written, or another process is writing.
        """
        try:
            self._check_plain()
            with open(self.path, "ab+", opener=not_following) as file:
                if not take_lock(file):
                    raise FileError(f"ledger {str(self.path)!r} is in use: try again")
                content = self._bytes()
                lines = _read(content, self.path)
                past = [found for found, _ in lines]
                check_release(past, entry, study_rounds, most_rounds)
                if any(entry.asks_the_same(found) for found in past):
                    return
                whole = sum(len(line) + 1 for _, line in lines)
                if whole < len(content):  # a crash cut a line off: what it was for has not left
                    os.ftruncate(file.fileno(), whole)
                elif whole > len(content):  # the last line lacks its end
                    file.write(b"\n")
                file.write(_line(entry, lines[-1][1] if lines else b"") + b"\n")
                file.flush()
                os.fsync(file.fileno())
            sync_folder(self.path.parent)
        except FileError:
            raise
        except OSError:
            raise FileError(
                f"ledger {str(self.path)!r} can't be written, so nothing may leave: check its "
                "rights and free space"
            ) from None

    def _check_plain(self) -> None:
        if self.path.is_symlink():
            raise FileError(
                f"ledger {str(self.path)!r} is a link: put the ledger itself there; nothing may "
                "leave before someone has looked into it"
            )

    def _bytes(self) -> bytes:
        self._check_plain()
        if not self.path.exists():
            return b""
        return read_plain(self.path, f"ledger {str(self.path)!r}", MOST_LEDGER)


def check_release(past: Sequence[Entry], new: Entry, study_rounds: int, most_rounds: int) -> None:
    """Refuse a release that the site has not agreed to.

    Parameters
    ----------
    past : sequence of Entry
        What has left.
    new : Entry
        What is to leave; its `release` may be "", before it is made.
    study_rounds, most_rounds : int
        Rounds that the study asks for, and that the site agrees to for all studies together.

    Raises
    ------
    DataError
        If it is one more than agreed, a second first release or validation, a second broadcast of
        one round, or of a table that has changed and nobody said yes to that.
    """
    for earlier in past:
        if new.asks_the_same(earlier):
            if new.release not in ("", earlier.release):
                raise DataError(
                    f"this {new.what} is not the one that left on {_day(earlier)}, though study "
                    "and table are the same (another version of the software may count otherwise): "
                    "send the earlier one again"
                )
            return
    if past and past[-1].table_digest != new.table_digest and not new.rows_changed:
        raise DataError(_changed(past[-1], new))
    same_rows = [each for each in past if each.table_digest == new.table_digest]
    if new.what != "reply":
        noun = "first release" if new.what == "summary" else new.what
        for earlier in same_rows:
            if earlier.what == new.what:
                raise DataError(
                    f"a {noun} of this table left on {_day(earlier)}, for study "
                    f"{earlier.study!r}: a second, in other clusters, would tell more of the same "
                    "rows than was agreed"
                )
        return
    replies = [each for each in past if each.what == "reply"]
    for earlier in replies:
        if (earlier.study_hash, earlier.round) == (new.study_hash, new.round):
            raise DataError(
                f"round {new.round} of this study had its reply on {_day(earlier)}, to another "
                "broadcast or of another table: a round has one"
            )
    of_study = sum(each.study_hash == new.study_hash for each in replies)
    for made, limit, who in (
        (of_study, study_rounds, "study"),
        (len(replies), most_rounds, "site"),
    ):
        if made >= limit:
            raise DataError(
                f"{made} {'reply' if made == 1 else 'replies'} about this table left already, and "
                f"the {who} agrees to {limit} at most"
            )


def table_digest(path: Path) -> str:
    """Return the SHA-256 of a file's bytes."""
    with open_plain(path, f"file {str(path)!r}") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def releases_known(folder: Path, table: Path) -> bool:
    """Whether a folder has a ledger that can be read, and knows of releases of this table."""
    try:
        past = Ledger(folder).entries()
        return bool(past) and table_digest(table) in {each.table_digest for each in past}
    except FileError:
        return False


def _changed(before: Entry, now: Entry) -> str:
    few = abs(now.rows - before.rows)
    return (
        f"table {now.table!r} is not as it was on {_day(before)}, when a {before.what} left: it "
        f"had {before.rows:,} rows and has {now.rows:,}. Whoever compares the two releases sees "
        f"what the rows that were added or withdrawn ({few:,} at least) add to each count, to "
        "within the policy's rounding: if these people may be told of, say --rows-changed"
    )


def _day(entry: Entry) -> str:
    return entry.at[:10]


def _line(entry: Entry, before: bytes) -> bytes:
    digest = hashlib.sha256(before).hexdigest() if before else ""
    text = json.dumps({**asdict(entry), "previous": digest}, ensure_ascii=True, allow_nan=False)
    return text.encode("ascii")


def _read(content: bytes, path: Path) -> list[tuple[Entry, bytes]]:
    """Return each entry and its line; a last line that was cut off is none."""
    found: list[tuple[Entry, bytes]] = []
    for at, ended in enumerate(io.BytesIO(content), start=1):
        line = ended.removesuffix(b"\n")
        entry = _entry(line)
        # What begins otherwise is no part of a ledger, and must not be cut off.
        if entry is None and line == ended and line[: len(BEGINS)] == BEGINS[: len(line)]:
            break
        if entry is None or _line(entry, found[-1][1] if found else b"") != line:
            raise FileError(
                f"ledger {str(path)!r}: line {at} is damaged, or lines before it were changed: "
                "nothing may leave before someone has looked into it"
            )
        found.append((entry, line))
    return found


def _entry(line: bytes) -> Entry | None:
    try:
        document: Any = json_content(line, MOST_LINE)
        document.pop("previous")
        entry = Entry(**document)
    except (TextError, TypeError, KeyError, AttributeError):
        return None
    kinds = {"str": str, "int": int, "bool": bool, "What": str}
    fits = all(type(getattr(entry, each.name)) is kinds[str(each.type)] for each in fields(Entry))
    return entry if fits else None
