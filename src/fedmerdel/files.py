"""Readable files with a version: JSON that people can open, written whole or not at all."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from fedmerdel.errors import FileError


def write_json(path: str | Path, kind: str, version: int, content: dict[str, Any]) -> None:
    """Write a document of a kind; an earlier file stays until the new one is complete."""
    target = Path(path)
    document = {"kind": kind, "version": version, **content}
    # Not tempfile, whose files no one else may read.
    part = target.parent / f".{target.name}.{uuid4().hex}"
    try:
        with part.open("x", encoding="utf-8") as file:
            json.dump(document, file, ensure_ascii=False, allow_nan=False)
            file.write("\n")
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
