"""A target replaced whole: at every moment the old one or the new one is there.

What is new is written beside the target, through to the disk, and then takes its place: a file by
one rename, a folder by an exchange of the two names, which Linux and macOS do in one step. Where
that is not to be had (Windows, some network disks) the old folder is set aside for the moment of
two renames; a process killed between them leaves no target, and `clear_leftovers`, which every
later write and read of that target calls, puts the old one back.

Whoever writes holds a lock beside the target. What lies there without one was left by a process
that was killed, and is removed by the next one.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO
from uuid import uuid4

PART, OLD, LOCK = "part", "old", "lock"
"""How names of what lies beside a target end: the new one, the old one, and who writes."""

_EXCHANGE = 2
"""RENAME_EXCHANGE of Linux, and RENAME_SWAP of macOS."""

_HERE = -100
"""AT_FDCWD: names are as the process sees them."""


@contextmanager
def beside(target: Path) -> Iterator[Path]:
    """Name a place beside a target, for what is to take its own; leftovers of others are removed.

    Parameters
    ----------
    target : Path
        A file or folder, or where one is to be.

    Yields
    ------
    Path
        Where to write. Nothing is there yet, and nothing is there at the end.
    """
    clear_leftovers(target)
    stem = f".{target.name}.{uuid4().hex}"
    part, lock = (target.parent / f"{stem}.{end}" for end in (PART, LOCK))
    try:
        with lock.open("xb") as file:
            take_lock(file)
            try:
                yield part
            finally:
                _remove(part)
    finally:
        _remove(lock)


def put(part: Path, target: Path) -> None:
    """Give a file or folder the place of a target, which is replaced whole.

    Raises
    ------
    OSError
        If that can't be done; the target is then as it was.
    """
    write_through(part)
    if not part.is_dir():
        part.replace(target)
    elif not target.exists():
        part.rename(target)
    elif not _exchanged(part, target):
        old = part.with_suffix(f".{OLD}")
        target.rename(old)
        try:
            part.rename(target)
        except OSError:
            old.rename(target)
            raise
        _remove(old)
    sync_folder(target.parent)


def clear_leftovers(target: Path) -> None:
    """Remove what killed processes left beside a target, and put back what they had set aside."""
    name = re.compile(rf"\.{re.escape(target.name)}\.([0-9a-f]{{32}})\.({PART}|{OLD}|{LOCK})")
    try:
        left = {entry.name for entry in os.scandir(target.parent)}
    except OSError:
        return
    stems = {found[1] for each in left if (found := name.fullmatch(each))}
    for stem in stems:
        part, old, lock = (
            target.parent / f".{target.name}.{stem}.{end}" for end in (PART, OLD, LOCK)
        )
        with suppress(OSError), open(lock, "ab", opener=not_following) as file:
            if not take_lock(file):
                continue  # someone is writing
            if not os.path.lexists(target) and old.is_dir():
                old.rename(target)
            _remove(part)
            _remove(old)
        _remove(lock)


def not_following(path: str, flags: int) -> int:
    """Open a file as `open` does, but never one that a link leads to, where systems can do that."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)


def write_through(path: Path) -> None:
    """Have the disk take all of a file, or of a folder and what is in it."""
    if path.is_dir():
        for inner in path.iterdir():
            write_through(inner)
        sync_folder(path)
        return
    with path.open("r+b") as file:
        os.fsync(file.fileno())


def sync_folder(path: Path) -> None:
    """Have the disk take the names in a folder, where the system can be asked for that."""
    if not hasattr(os, "O_DIRECTORY"):  # Windows writes names at once
        return
    with suppress(OSError):  # not every network disk can
        opened = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


def _exchanged(one: Path, other: Path) -> bool:
    """Exchange two names in one step; say whether the system could."""
    call, names = None, (os.fsencode(one), os.fsencode(other))
    library = ctypes.CDLL(None, use_errno=True) if os.name == "posix" else None
    if sys.platform == "linux":
        call, arguments = getattr(library, "renameat2", None), (_HERE, names[0], _HERE, names[1])
    elif sys.platform == "darwin":
        call, arguments = getattr(library, "renamex_np", None), names
    if call is None:
        return False
    if call(*arguments, _EXCHANGE) == 0:
        return True
    why = ctypes.get_errno()
    if why in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EXDEV):  # not on this disk
        return False
    raise OSError(why, os.strerror(why))


def take_lock(file: IO[bytes]) -> bool:
    """Take a lock that ends with the process; say whether nobody else has it."""
    try:
        if os.name == "posix":
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        else:
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
    except OSError:
        return False
    return True


def _remove(path: Path) -> None:
    """Remove a file or folder that is ours, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink(missing_ok=True)
