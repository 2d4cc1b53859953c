"""Files and folders written whole or not at all; text, and JSON with a version."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from fedmerdel.errors import FileError


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
    # Not tempfile, whose files no one else may read.
    part = target.parent / f".{target.name}.{uuid4().hex}"
    try:
        yield part
        if part.is_dir():
            _replace_folder(part, target)
        else:
            part.replace(target)
    except OSError:
        raise unwritable(target, noun) from None
    finally:
        shutil.rmtree(part, ignore_errors=True)
        with suppress(OSError):
            part.unlink()


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


def read_json(path: str | Path, kind: str, version: int) -> dict[str, Any]:
    """Read a document and check that it is of this kind and version."""
    source = Path(path)
    try:
        document = json.loads(source.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FileError(f"file {str(source)!r} does not exist") from None
    except (OSError, ValueError, RecursionError):
        raise FileError(f"file {str(source)!r} can't be read as JSON") from None
    if not isinstance(document, dict) or document.get("kind") != kind:
        raise FileError(f"file {str(source)!r} holds no {kind}")
    if document.get("version") != version:
        raise FileError(
            f"file {str(source)!r} is version {document.get('version')!r} of its format, and this "
            f"software reads version {version}: use the software that wrote it, or fit again"
        )
    return document


def _replace_folder(part: Path, target: Path) -> None:
    """Put a new folder in the place of an old one, which is back if that fails."""
    if not target.exists():
        part.rename(target)
        return
    old = target.parent / f".{target.name}.{uuid4().hex}"
    target.rename(old)
    try:
        part.rename(target)
    except OSError:
        old.rename(target)
        raise
    shutil.rmtree(old, ignore_errors=True)
