"""What travels between a site and the centre: a few readable files, in a folder, a zip or bytes.

The same content gives the same bytes: no dates, no names of machines or users, and a zip
without compression, whose result would depend on the library. What is read is bounded before
it is read: names, and the size of all files together.
"""

from __future__ import annotations

import io
import json
import zipfile
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar, Self

from fedmerdel.errors import DataError, FileError
from fedmerdel.files import check_place, is_empty_folder, replacement

Files = dict[str, bytes]
"""The content of each file by its name."""

MOST_BYTES = 64 * 2**20
"""All files of a parcel together; none comes near."""

# What desktops leave behind, besides names that start with a dot.
IGNORED = ("Thumbs.db", "desktop.ini")


class Parcel(ABC):
    """Something that is sent as readable files.

    A class says what it is called (`NOUN`), which JSON document names its kind and version
    (`DOCUMENT`), and which other files it must or may have.
    """

    NOUN: ClassVar[str]
    KIND: ClassVar[str]
    VERSION: ClassVar[int]
    DOCUMENT: ClassVar[str]
    NEEDED: ClassVar[tuple[str, ...]] = ()
    OPTIONAL: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def to_files(self) -> Files:
        """Return the content of each file by its name."""

    @classmethod
    @abstractmethod
    def from_files(cls, files: Files) -> Self:
        """Read what `to_files` returned.

        Raises
        ------
        FileError
            Without the name of the folder: the file, and what is wrong with it.
        DataError
            If all can be read, and the numbers are impossible.
        """

    def save(self, path: str | Path) -> None:
        """Write a folder of readable files, or one zip of them if the name ends in .zip.

        One of this kind that is there already is replaced, whole or not at all; anything else
        stays, and is refused.
        """
        files = self.to_files()
        self.check_place(path)
        with replacement(path, self.NOUN) as part:
            if _is_zip(Path(path)):
                part.write_bytes(pack(files))
            else:
                write_folder(part, files)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` wrote; every number is the same to the last bit.

        Raises
        ------
        FileError
            If a file is missing, damaged, or does not belong there.
        DataError
            If the numbers are impossible.
        """
        where = f"{cls.NOUN} {str(path)!r}"
        return cls.read(read_files(path, where), where)

    def to_bytes(self) -> bytes:
        """Return the files as the bytes of a zip."""
        return pack(self.to_files())

    @classmethod
    def from_bytes(cls, data: bytes, most_bytes: int = MOST_BYTES) -> Self:
        """Read what `to_bytes` returned.

        Parameters
        ----------
        data : bytes
            A zip of the files.
        most_bytes : int
            Refuse more than this, of the zip or of its files together.
        """
        return cls.read(unpack(data, cls.NOUN, most_bytes), cls.NOUN)

    @classmethod
    def read(cls, files: Files, where: str) -> Self:
        """Read files that came from somewhere, which messages name."""
        try:
            cls._check_files(files)
            return cls.from_files(files)
        except FileError as error:
            raise FileError(f"{where}: {error}") from None
        except DataError as error:
            raise DataError(f"{where}: {error}") from None

    @classmethod
    def _check_files(cls, files: Files) -> None:
        """Refuse another kind or version, then what is missing or does not belong here."""
        if cls.DOCUMENT in files:
            cls._read_document(files)
        needed = (cls.DOCUMENT, *cls.NEEDED)
        for name in needed:
            if name not in files:
                raise FileError(f"it has no file {name!r}: copy it again, whole")
        for name in files:
            if name not in (*needed, *cls.OPTIONAL):
                raise FileError(f"it holds {name!r}, which is no part of it: take it out")

    @classmethod
    def _read_document(cls, files: Files) -> dict[str, Any]:
        """Return the document that says what this is, without its kind and version."""
        try:
            found = json.loads(files[cls.DOCUMENT])
        except (ValueError, RecursionError):
            raise FileError(damaged(cls.DOCUMENT, "it is not JSON")) from None
        try:
            json.dumps(found, ensure_ascii=False).encode()
        except ValueError:
            raise FileError(damaged(cls.DOCUMENT, "it holds half a character")) from None
        if not isinstance(found, dict) or found.get("kind") != cls.KIND:
            raise FileError(f"file {cls.DOCUMENT!r} holds no {cls.KIND}")
        if found.get("version") != cls.VERSION:
            raise FileError(
                f"it is version {found.get('version')!r} of its format, and this software reads "
                f"version {cls.VERSION}: use the software that wrote it, or make it again"
            )
        return {name: value for name, value in found.items() if name not in ("kind", "version")}

    @classmethod
    def _document_bytes(cls, content: dict[str, Any]) -> bytes:
        """Return the bytes of the document that says what this is."""
        head = {"kind": cls.KIND, "version": cls.VERSION}
        text = json.dumps({**head, **content}, ensure_ascii=False, indent=1, allow_nan=False)
        return f"{text}\n".encode()

    @classmethod
    def check_place(cls, path: str | Path) -> None:
        """Refuse to write over anything but an empty folder or an earlier one of this kind.

        `save` asks this too; a command asks it before the work.

        Raises
        ------
        FileError
            If something else is there, or nothing can be written there.
        """
        target = Path(path)
        check_place(target, cls.NOUN)
        if not target.exists() or (not _is_zip(target) and is_empty_folder(target)):
            return
        kept = FileError(
            f"{str(target)!r} is there already and is no {cls.NOUN}: name another, or move it away"
        )
        if target.is_dir() == _is_zip(target):
            raise kept
        try:
            files = read_files(target, cls.NOUN)
            content = json.loads(files[cls.DOCUMENT])
            whole = set(files) <= {cls.DOCUMENT, *cls.NEEDED, *cls.OPTIONAL}
            if not (whole and content["kind"] == cls.KIND):
                raise kept
        except (FileError, KeyError, TypeError, ValueError, RecursionError):
            raise kept from None


def damaged(name: str, why: str) -> str:
    """Word what is wrong with a file."""
    return f"file {name!r} is damaged, {why}: copy it again"


def decoded(files: Files, name: str) -> str:
    """Return the text of a file."""
    try:
        # Spreadsheet programs put a mark before the text.
        return files[name].decode("utf-8-sig")
    except UnicodeDecodeError:
        raise FileError(damaged(name, "it is not UTF-8 text")) from None


def write_folder(folder: Path, files: Files) -> None:
    """Write files into a new folder."""
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)


def read_files(path: str | Path, where: str, most_bytes: int = MOST_BYTES) -> Files:
    """Read the files of a folder or a zip, but for what desktops leave behind."""
    source = Path(path)
    try:
        if not source.is_dir():
            if not source.exists():
                raise FileError(f"{where} does not exist")
            if source.stat().st_size > 2 * most_bytes:
                raise FileError(f"{where} is too large to be read")
            return unpack(source.read_bytes(), where, most_bytes)
        entries = [entry for entry in sorted(source.iterdir()) if _counts(entry.name)]
        if sum(entry.stat().st_size for entry in entries if entry.is_file()) > most_bytes:
            raise FileError(f"{where} is too large to be read")
        return {entry.name: entry.read_bytes() if entry.is_file() else b"" for entry in entries}
    except FileError:
        raise
    except OSError:
        raise FileError(f"{where} can't be read") from None


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
        raise FileError(f"{where} is too large to be read")
    found: Files = {}
    left = most_bytes
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for entry in archive.infolist():
                *folders, name = entry.filename.split("/")
                if entry.is_dir() or not _counts(name) or "__MACOSX" in folders:
                    continue
                # Zipped by hand, the files may lie in a folder of the zip; but in one only.
                if name in found:
                    raise FileError(f"{where} holds {name!r} twice: zip one")
                left -= entry.file_size
                if left < 0:
                    raise FileError(f"{where} is too large to be read")
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


def _is_zip(path: Path) -> bool:
    return path.suffix.lower() == ".zip"


def _counts(name: str) -> bool:
    return not name.startswith(".") and name not in IGNORED
