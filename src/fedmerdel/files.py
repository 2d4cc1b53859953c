"""Readable files: text, and JSON with a version, written whole or not at all."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO
from uuid import uuid4

from fedmerdel.errors import FileError


def write_text(path: str | Path, text: str) -> None:
    """Write a text file; an earlier one stays until the new one is complete."""
    with _replacement(Path(path)) as file:
        file.write(text)


def write_json(path: str | Path, kind: str, version: int, content: dict[str, Any]) -> None:
    """Write a document of a kind; an earlier file stays until the new one is complete."""
    document = {"kind": kind, "version": version, **content}
    with _replacement(Path(path)) as file:
        json.dump(document, file, ensure_ascii=False, allow_nan=False)
        file.write("\n")


@contextmanager
def _replacement(target: Path) -> Iterator[TextIO]:
    """Open a file beside the target, which takes its place if all goes well."""
    # Not tempfile, whose files no one else may read.
    part = target.parent / f".{target.name}.{uuid4().hex}"
    try:
        # The same bytes on every system.
        with part.open("x", encoding="utf-8", newline="\n") as file:
            yield file
        part.replace(target)
    except OSError:
        raise FileError(
            f"file {str(target)!r} can't be written: check its name, folder and free space"
        ) from None
    finally:
        with suppress(OSError):
            part.unlink()


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


def replace_folder(part: Path, target: Path) -> None:
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
