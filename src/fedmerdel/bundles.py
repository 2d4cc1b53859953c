"""A few files by their names: in a folder, in a zip, or as the bytes of a zip.

The same content gives the same bytes: no dates, no names of machines or users, and a zip without
compression, whose result would depend on the library. What is read is bounded before it is read:
what kinds of files there are, how many, and the size of all together.
"""

from __future__ import annotations

import io
import os
import re
import zipfile
from collections.abc import Collection
from pathlib import Path

from fedmerdel.errors import FileError
from fedmerdel.files import MOST_BYTES, read_plain, too_large
from fedmerdel.swap import clear_leftovers

Files = dict[str, bytes]
"""The content of each file by its name."""

MOST_ENTRIES = 1000
"""In a folder or a zip: those that are written have ten."""

ENTRY = b"PK\x01\x02"
"""What an entry of a zip's directory begins with."""

DESKTOP = frozenset({".DS_Store", "Thumbs.db", "desktop.ini"})
"""What desktops leave behind. Nothing is lost with it; of other hidden files one can't know."""

_MAC = re.compile(r"(^|/)__MACOSX/(.*/)?\._[^/]*$")
"""What macOS puts beside each file of a zip."""


def damaged(name: str, why: str) -> str:
    """Word what is wrong with a file."""
    return f"file {name!r} is damaged, {why}: copy it again"


def write_folder(folder: Path, files: Files) -> None:
    """Write files into a new folder."""
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)


def read_files(path: str | Path, where: str, most_bytes: int = MOST_BYTES) -> Files:
    """Read the files of a folder or a zip, but for what desktops leave behind.

    Nothing is read before all of it is known to be plain files, few, and not too large.
    """
    source = Path(path)
    if not source.exists():
        clear_leftovers(source)  # it may have been set aside by a process that was killed
    if not source.is_dir():
        return unpack(read_plain(source, where, most_bytes), where, most_bytes)
    found, left = {}, most_bytes
    for entry in _plain_entries(source, where):
        found[entry] = b""
        if (source / entry).is_dir():
            continue
        found[entry] = read_plain(source / entry, where, left)
        left -= len(found[entry])
    return found


def _plain_entries(folder: Path, where: str) -> list[str]:
    """Return the names in a folder, sorted; refuse what is neither file nor folder."""
    names: list[str] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if not _counts(entry.name):
                    continue
                if not (
                    entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False)
                ):
                    raise FileError(
                        f"{where} holds {entry.name!r}, which is a link or no plain file: take "
                        "it out"
                    )
                names.append(entry.name)
                if len(names) > MOST_ENTRIES:
                    raise FileError(f"{where} holds too many files: it is none of ours")
    except FileError:
        raise
    except OSError:
        raise FileError(f"{where} can't be read: check its rights") from None
    return sorted(names)


def pack(files: Files) -> bytes:
    """Return the bytes of a zip of these files."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_STORED) as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
            # Else the system that it is written on would show.
            entry.create_system = 3
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content)
    return written.getvalue()


def unpack(data: bytes, where: str, most_bytes: int = MOST_BYTES) -> Files:
    """Return the files of a zip, its own or one that people made by hand."""
    if len(data) > most_bytes:
        raise too_large(where)
    # Before it is opened: that makes an object of each.
    if data.count(ENTRY) > MOST_ENTRIES:
        raise FileError(f"{where} holds too many files: it is none of ours")
    found: Files = {}
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = [
                entry for entry in archive.infolist() if not entry.is_dir() and _is_meant(entry)
            ]
            if sum(entry.file_size for entry in entries) > most_bytes:
                raise too_large(where)
            for entry in entries:
                # Zipped by hand, the files may lie in a folder of the zip; but in one only.
                name = entry.filename.rpartition("/")[2]
                if name in found:
                    raise FileError(f"{where} holds {name!r} twice: zip one")
                # Others, and a plain read, unpack all that there is before its size is looked at.
                if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                    raise zipfile.BadZipFile
                with archive.open(entry) as packed:
                    found[name] = packed.read(entry.file_size)
                    if len(found[name]) < entry.file_size or packed.read(1):
                        raise zipfile.BadZipFile
    except FileError:
        raise
    except Exception:  # a damaged zip makes zipfile raise of any kind
        raise FileError(f"{where} is neither a folder nor a zip, or is damaged") from None
    return found


def is_zip(path: Path) -> bool:
    """Whether a name is that of a zip."""
    return path.suffix.lower() == ".zip"


def _is_meant(entry: zipfile.ZipInfo) -> bool:
    *folders, name = entry.filename.split("/")
    return _counts(name) and "__MACOSX" not in folders


def _counts(name: str) -> bool:
    return not name.startswith(".") and name not in DESKTOP


def holds_only(source: Path, names: Collection[str]) -> bool:
    """Whether a folder or zip holds plain files of these names, and what desktops leave, alone.

    Of a zip, what `unpack` passes over counts too; it must have read it before.
    """
    known = {*names, *DESKTOP}
    if not source.is_dir():
        with zipfile.ZipFile(source) as archive:
            return all(
                name.endswith("/") or _MAC.search(name) or name.rpartition("/")[2] in known
                for name in archive.namelist()
            )
    with os.scandir(source) as entries:
        return all(
            entry.is_file(follow_symlinks=False) and entry.name in known for entry in entries
        )
