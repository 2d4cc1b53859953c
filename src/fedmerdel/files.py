"""Files and folders written whole or not at all; text, and JSON with a version."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any

from fedmerdel.errors import FileError
from fedmerdel.swap import beside, put
from fedmerdel.texts import TextError, json_content

MOST_BYTES = 64 * 2**20
"""Of one file, or of all files of a parcel together; none that is written comes near."""

FIRST = 4096
"""Bytes of a file that tell whether it is one of ours."""

LONGEST_VERSION = 40
"""Characters of a version that a message quotes."""

_BINARY = getattr(os, "O_BINARY", 0)


def write_text(path: str | Path, text: str) -> None:
    """Write a text file; an earlier one stays until the new one is complete."""
    # The same bytes on every system.
    with replacement(path) as part, part.open("x", encoding="utf-8", newline="\n") as file:
        file.write(text)


def write_json(path: str | Path, kind: str, version: int, content: dict[str, Any]) -> None:
    """Write a document of a kind; an earlier file stays until the new one is complete."""
    document = {"kind": kind, "version": version, **content}
    with replacement(path) as part, part.open("x", encoding="utf-8", newline="\n") as file:
        json.dump(document, file, ensure_ascii=False, allow_nan=False)
        file.write("\n")


@contextmanager
def replacement(path: str | Path, noun: str = "file") -> Iterator[Path]:
    """Name a place beside the target: what is put there takes the target's if all goes well.

    Parameters
    ----------
    path : str or Path
        The target, a file or a folder; an earlier one stays until the new one is complete.
    noun : str
        What a message calls it.

    Yields
    ------
    Path
        Where to write; nothing is there yet.
    """
    target = Path(path)
    try:
        with beside(target) as part:
            yield part
            put(part, target)
    except OSError:
        raise unwritable(target, noun) from None


def check_place(path: str | Path, noun: str = "file", *, make_parents: bool = False) -> None:
    """Refuse a target that `replacement` could not write, before the work for it is done.

    Parameters
    ----------
    path : str or Path
        The target.
    noun : str
        What a message calls it.
    make_parents : bool
        Folders on the way to it may be missing: whoever writes makes them.

    Raises
    ------
    FileError
        In the words of `replacement`.
    """
    target = Path(path)
    folder = target.parent
    while make_parents and not folder.exists() and folder != folder.parent:
        folder = folder.parent
    named = target.name not in ("", "..")
    if not (named and folder.is_dir() and os.access(folder, os.W_OK)):
        raise unwritable(target, noun)
    if target.is_symlink():
        raise FileError(f"{noun} {str(target)!r} is a link: name the place that it leads to")


def check_earlier(path: str | Path, noun: str, is_ours: Callable[[bytes], bool]) -> None:
    """Refuse to write over a file that is not ours; its first bytes tell.

    Parameters
    ----------
    path : str or Path
        The target.
    noun : str
        What a message calls one of ours.
    is_ours : callable
        Told the first bytes of what is there, says whether it is one.

    Raises
    ------
    FileError
        If another file is there, or something that is no plain file.
    """
    target = Path(path)
    if not target.exists():
        return
    known = target.is_file()  # a pipe would be waited for
    try:
        if known:
            with target.open("rb") as file:
                first = file.read(FIRST)
                known = not first or is_ours(first)  # nothing is lost with an empty one
    except OSError:
        known = False
    if not known:
        raise FileError(
            f"file {str(target)!r} is there already and is no {noun}: name another, or move it away"
        )


def is_empty_folder(path: Path) -> bool:
    """Whether it is a folder with nothing in it, so that nothing is lost with it."""
    try:
        return path.is_dir() and not any(path.iterdir())
    except OSError:
        return False


def unwritable(target: Path, noun: str) -> FileError:
    """Word the error for a place where nothing can be written."""
    return FileError(
        f"{noun} {str(target)!r} can't be written: check its name, folder and free space"
    )


def read_plain(path: str | Path, where: str, most_bytes: int = MOST_BYTES) -> bytes:
    """Read a plain file that is not too large; nothing else is opened, or waited for.

    Parameters
    ----------
    path : str or Path
        The file.
    where : str
        What messages call it.
    most_bytes : int
        Refuse more than this.

    Raises
    ------
    FileError
        If it is no plain file (but a folder, a pipe, a device), too large, or can't be read.
    """
    with open_plain(path, where) as file:
        try:
            large = os.fstat(file.fileno()).st_size > most_bytes
            content = b"" if large else file.read(most_bytes + 1)
        except OSError:
            raise FileError(f"{where} can't be read: check its name and rights") from None
    if large or len(content) > most_bytes:
        raise too_large(where)
    return content


def open_plain(path: str | Path, where: str) -> BufferedReader:
    """Open a plain file to be read; nothing else is opened, or waited for.

    Raises
    ------
    FileError
        If it is no plain file (but a folder, a pipe, a device), or can't be opened.
    """
    try:
        # A pipe without a writer would be waited for.
        opened = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | _BINARY)
    except FileNotFoundError:
        raise FileError(f"{where} does not exist: check its name and folder") from None
    except (OSError, ValueError):  # a name with a zero byte
        raise FileError(f"{where} can't be read: check its name and rights") from None
    kind = os.fstat(opened).st_mode
    if stat.S_ISREG(kind):
        return open(opened, "rb")
    os.close(opened)
    if stat.S_ISDIR(kind):
        raise FileError(f"{where} is a folder: name a file")
    raise FileError(f"{where} is no plain file: give one that was copied whole")


def too_large(where: str) -> FileError:
    """Word the error for something that is larger than any of ours."""
    return FileError(f"{where} is too large to be read: it is none that this software wrote")


def read_json(path: str | Path, kind: str, version: int) -> dict[str, Any]:
    """Read a document and check that it is of this kind and version."""
    where = f"file {str(path)!r}"
    try:
        document = json_content(read_plain(path, where), MOST_BYTES)
    except TextError as why:
        raise FileError(f"{where} can't be read as JSON: {why}") from None
    if not isinstance(document, dict) or document.get("kind") != kind:
        raise FileError(f"{where} holds no {kind}")
    if document.get("version") != version:
        raise FileError(
            f"{where} is version {version_text(document.get('version'))} of its format, and this "
            f"software reads version {version}: use the software that wrote it, or fit again"
        )
    return document


def version_text(version: Any) -> str:
    """Return what a document calls its version, which may be anything."""
    text = repr(version)
    return text if len(text) < LONGEST_VERSION else f"{text[:LONGEST_VERSION]}..."
