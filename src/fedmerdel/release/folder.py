"""A summary on disk: a folder, or one zip, of files that a person can read.

The same summary gives the same bytes: no dates, no names of machines or users, and a zip
without compression, whose result would depend on the library.
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

from fedmerdel.errors import DataError, FileError
from fedmerdel.files import check_place, is_empty_folder, replacement
from fedmerdel.release.note import checkers_note
from fedmerdel.release.sheets import from_sheets, to_sheets
from fedmerdel.release.summary import SiteSummary

KIND = "fedmerdel site summary"
VERSION = 2

NEEDED = ("summary.json", "counts.csv", "overlap.csv")
ALLOWED = (*NEEDED, "outcomes.csv", "halves.csv", "README.txt")

# What desktops leave behind, besides names that start with a dot.
IGNORED = ("Thumbs.db", "desktop.ini")

# No summary comes near; a zip that unfolds to more is no summary.
LARGEST_FILE = 64 * 2**20


def save_summary(summary: SiteSummary, path: str | Path) -> None:
    """Write a folder, or a zip if the name ends in .zip."""
    files = summary_files(summary)
    check_summary_place(path)
    with replacement(path, "summary") as part:
        if _is_zip(Path(path)):
            _write_zip(part, files)
        else:
            part.mkdir()
            for name, content in files.items():
                (part / name).write_bytes(content)


def load_summary(path: str | Path) -> SiteSummary:
    """Read a folder or a zip; refuse what is missing, damaged or does not belong there."""
    source = Path(path)
    files = _read_files(source)
    for name in NEEDED:
        if name not in files:
            raise FileError(f"summary {str(source)!r} has no file {name!r}: copy it again, whole")
    document = _document(source, files)
    texts = {}
    for name, content in files.items():
        try:
            # Spreadsheet programs put a mark before the text.
            texts[name] = content.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise _damaged(source, name, "it is not UTF-8 text") from None
    try:
        return from_sheets(document, texts)
    except FileError as error:
        raise FileError(f"summary {str(source)!r}: {error}") from None
    except DataError as error:
        raise DataError(f"{str(source)!r}: {error}") from None


def summary_files(summary: SiteSummary) -> dict[str, bytes]:
    """Return the content of each file by its name."""
    document, sheets = to_sheets(summary)
    text = json.dumps(
        {"kind": KIND, "version": VERSION, **document},
        ensure_ascii=False,
        indent=1,
        allow_nan=False,
    )
    texts = {"summary.json": text + "\n", **sheets, "README.txt": checkers_note(summary)}
    return {name: content.encode("utf-8") for name, content in texts.items()}


def _document(source: Path, files: dict[str, bytes]) -> dict[str, object]:
    try:
        document = json.loads(files["summary.json"])
    except (ValueError, RecursionError):
        raise _damaged(source, "summary.json", "it is not JSON") from None
    if not isinstance(document, dict) or document.get("kind") != KIND:
        raise FileError(f"summary {str(source)!r}: 'summary.json' holds no {KIND}")
    if document.get("version") != VERSION:
        raise FileError(
            f"summary {str(source)!r} is version {document.get('version')!r} of its format, and "
            f"this software reads version {VERSION}: use the software that wrote it, or fit again"
        )
    return {name: value for name, value in document.items() if name not in ("kind", "version")}


def _damaged(source: Path, name: str, why: str) -> FileError:
    return FileError(f"summary {str(source)!r}: file {name!r} is damaged, {why}: copy it again")


def _is_zip(path: Path) -> bool:
    return path.suffix.lower() == ".zip"


def _read_files(source: Path) -> dict[str, bytes]:
    try:
        if source.is_dir():
            found = {
                entry.name: entry.read_bytes() if entry.is_file() else b""
                for entry in sorted(source.iterdir())
                if _counts(entry.name)
            }
        elif source.exists():
            found = _read_zip(source)
        else:
            raise FileError(f"summary {str(source)!r} does not exist")
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError):
        raise FileError(f"summary {str(source)!r} is neither a folder nor a zip") from None
    except FileError:
        raise
    except OSError:
        raise FileError(f"summary {str(source)!r} can't be read") from None
    for name in found:
        if name not in ALLOWED:
            raise FileError(
                f"summary {str(source)!r} holds {name!r}, which is no part of it: take it out"
            )
    return found


def _counts(name: str) -> bool:
    return not name.startswith(".") and name not in IGNORED


def _read_zip(source: Path) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    with zipfile.ZipFile(source) as archive:
        for entry in archive.infolist():
            *folders, name = entry.filename.split("/")
            if entry.is_dir() or not _counts(name) or "__MACOSX" in folders:
                continue
            # Zipped by hand, the files may lie in a folder of the zip; but in one only.
            if name in found:
                raise FileError(f"summary {str(source)!r} holds {name!r} twice: zip one summary")
            if entry.file_size > LARGEST_FILE:
                raise FileError(f"summary {str(source)!r} holds {name!r}, too large to be read")
            found[name] = archive.read(entry)
    return found


def _write_zip(part: Path, files: dict[str, bytes]) -> None:
    with zipfile.ZipFile(part, "x", zipfile.ZIP_STORED) as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
            # Else the system that it is written on would show.
            entry.create_system = 3
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content)


def check_summary_place(path: str | Path) -> None:
    """Refuse to write over anything but an empty folder or an earlier summary.

    `save_summary` asks this too; a fit asks it before the work.

    Raises
    ------
    FileError
        If something else is there, or nothing can be written there.
    """
    target = Path(path)
    check_place(target, "summary")
    if not target.exists() or (not _is_zip(target) and is_empty_folder(target)):
        return
    kept = FileError(
        f"{str(target)!r} is there already and is no summary: name another, or move it away"
    )
    if target.is_dir() == _is_zip(target):
        raise kept
    try:
        _document(target, _read_files(target))
    except (FileError, KeyError):
        raise kept from None
