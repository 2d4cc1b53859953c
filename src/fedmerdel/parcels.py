"""What travels between a site and the centre: things that are sent as a few readable files."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from copy import copy
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

from fedmerdel.bundles import (
    Files,
    damaged,
    holds_only,
    is_zip,
    pack,
    read_files,
    unpack,
    write_folder,
)
from fedmerdel.errors import DataError, FileError
from fedmerdel.files import (
    MOST_BYTES,
    check_place,
    is_empty_folder,
    replacement,
    version_text,
)
from fedmerdel.keys import SigningKey
from fedmerdel.signatures import FILE as SIGNATURE
from fedmerdel.signatures import read_signature, signature_of, why_not_signed_by
from fedmerdel.texts import TextError, is_text, json_content

MOST_DOCUMENT = MOST_BYTES // 4
"""Bytes of the document that says what a parcel is: its long columns of numbers are in sheets."""


class Signed(NamedTuple):
    """What was signed, kept byte by byte.

    Attributes
    ----------
    files : dict of str to bytes
        The files that were signed, and their signature.
    made : dict of str to bytes
        What this software made of the parcel then: if it makes the same, nothing was changed.
    """

    files: Files
    made: Files


class Parcel(ABC):
    """Something that is sent as readable files.

    A class says what it is called (`NOUN`), which JSON document names its kind and version
    (`DOCUMENT`), and which other files it must or may have. Every parcel may be signed.
    """

    NOUN: ClassVar[str]
    KIND: ClassVar[str]
    VERSION: ClassVar[int]
    DOCUMENT: ClassVar[str]
    NEEDED: ClassVar[tuple[str, ...]] = ()
    OPTIONAL: ClassVar[tuple[str, ...]] = ()
    KEEPS: ClassVar[dict[str, str]] = {}
    """Attributes in which one must agree with another to take its place unasked, in words."""

    _signed: Signed | None = None
    """Not a field: what a copy with other fields says was signed by nobody."""

    @abstractmethod
    def _made_files(self) -> Files:
        """Return the content of each file by its name, as this software writes it."""

    @classmethod
    @abstractmethod
    def _from_made_files(cls, files: Files) -> Self:
        """Read what `_made_files` returned; errors are those of `from_files`."""

    def to_files(self) -> Files:
        """Return the content of each file by its name; if it is signed, the bytes that were."""
        made, signed = self._made_files(), self._signed
        return dict(signed.files) if signed is not None and signed.made == made else made

    @classmethod
    def from_files(cls, files: Files) -> Self:
        """Read what `to_files` returned.

        Raises
        ------
        FileError
            Without the name of the folder: the file, and what is wrong with it.
        DataError
            If all can be read, and the numbers are impossible.
        """
        found = cls._from_made_files({n: text for n, text in files.items() if n != SIGNATURE})
        if SIGNATURE not in files:
            return found
        read_signature(files[SIGNATURE])  # anything might stand there
        return found._carrying(files)

    def signed(self, key: SigningKey) -> Self:
        """Return the same with a signature, which is one more file: ``signature.json``.

        Whatever is changed later, in a copy or in place, is no longer signed.

        Parameters
        ----------
        key : SigningKey
            The secret key of whoever signs.
        """
        files = {name: text for name, text in self.to_files().items() if name != SIGNATURE}
        return self._carrying({**files, SIGNATURE: signature_of(files, key)})

    def signed_by(self, public_key: str) -> bool:
        """Whether it is signed with the secret of this key, and nothing was changed since."""
        return why_not_signed_by(public_key, self.to_files()) is None

    def check_signed(self, public_key: str | None, who: str) -> None:
        """Refuse what is not signed with a key that the study lists; all is well if it has none.

        Parameters
        ----------
        public_key : str or None
            The key.
        who : str
            Whose it is, for messages.

        Raises
        ------
        DataError
            If it is not signed, with another key, or changed since.
        """
        why = None if public_key is None else why_not_signed_by(public_key, self.to_files())
        if why is not None:
            raise DataError(f"{who}: its {self.NOUN} {why}")

    def _carrying(self, files: Files) -> Self:
        """Return a copy that carries files which were signed."""
        same, made = copy(self), self._made_files()
        # A folder has another order than a zip, and the same content is to give the same bytes.
        ordered = {name: files[name] for name in made if name in files} | files
        object.__setattr__(same, "_signed", Signed(ordered, made))
        return same

    def save(self, path: str | Path, *, replace: bool = False) -> None:
        """Write a folder of readable files, or one zip of them if the name ends in .zip.

        Parameters
        ----------
        path : str or Path
            Where. One of this kind that is there already is replaced, whole or not at all;
            anything else stays, and is refused.
        replace : bool
            Replace also one that holds what this one does not, such as that of another site.
        """
        files = self.to_files()
        own = {name: getattr(self, name) for name in self.KEEPS}
        self.check_place(path, replace=replace, **own)
        with replacement(path, self.NOUN) as part:
            if is_zip(Path(path)):
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
        for name in (cls.DOCUMENT, *cls.NEEDED):
            if name not in files:
                raise FileError(f"it has no file {name!r}: copy it again, whole")
        for name, content in files.items():
            if name not in cls.file_names():
                raise FileError(f"it holds {name!r}, which is no part of it: take it out")
            if not is_text(content):
                raise FileError(damaged(name, "it is not UTF-8 text"))

    @classmethod
    def _read_document(cls, files: Files) -> dict[str, Any]:
        """Return the document that says what this is, without its kind and version."""
        try:
            found = json_content(files[cls.DOCUMENT], MOST_DOCUMENT)
        except TextError as why:
            raise FileError(damaged(cls.DOCUMENT, str(why))) from None
        if not isinstance(found, dict) or found.get("kind") != cls.KIND:
            raise FileError(f"file {cls.DOCUMENT!r} holds no {cls.KIND}")
        if found.get("version") != cls.VERSION:
            raise FileError(
                f"it is version {version_text(found.get('version'))} of its format, and this "
                f"software reads version {cls.VERSION}: use the software that wrote it, or make it "
                "again"
            )
        return {name: value for name, value in found.items() if name not in ("kind", "version")}

    @classmethod
    def _document_bytes(cls, content: dict[str, Any]) -> bytes:
        """Return the bytes of the document that says what this is."""
        head = {"kind": cls.KIND, "version": cls.VERSION}
        text = json.dumps({**head, **content}, ensure_ascii=False, indent=1, allow_nan=False)
        return f"{text}\n".encode()

    @classmethod
    def file_names(cls) -> frozenset[str]:
        """Return the names of the files that it has, or may have."""
        return frozenset({cls.DOCUMENT, *cls.NEEDED, *cls.OPTIONAL, SIGNATURE})

    @classmethod
    def check_place(cls, path: str | Path, *, replace: bool = False, **own: Any) -> None:
        """Refuse to write over anything but an empty folder or an earlier one of this kind.

        `save` asks this too; a command asks it before the work.

        Parameters
        ----------
        path : str or Path
            The place.
        replace : bool
            Whether an earlier one may be lost that differs in what is its own.
        **own
            What the new one has of `KEEPS`, as far as it is known.

        Raises
        ------
        FileError
            If something else is there, or nothing can be written there.
        """
        target = Path(path)
        check_place(target, cls.NOUN)
        if not target.exists() or (not is_zip(target) and is_empty_folder(target)):
            return
        if not cls._is_one(target):
            raise FileError(
                f"{str(target)!r} is there already and is no {cls.NOUN}, or holds more: name "
                "another, or move it away"
            )
        if not replace and own:
            cls._check_own(target, own)

    @classmethod
    def _is_one(cls, target: Path) -> bool:
        """Whether something is one of this kind, and nothing else."""
        names = cls.file_names()
        try:
            if target.is_dir() == is_zip(target):
                return False
            files = read_files(target, cls.NOUN)
            kind = json_content(files[cls.DOCUMENT], MOST_DOCUMENT)["kind"]
            # What is replaced is gone: hidden files, links and folders count.
            return bool(kind == cls.KIND) and set(files) <= names and holds_only(target, names)
        except (OSError, KeyError, TypeError, TextError):
            return False

    @classmethod
    def _check_own(cls, target: Path, own: dict[str, Any]) -> None:
        """Refuse to lose one that differs in what is its own."""
        try:
            earlier = cls.load(target)
        except (FileError, DataError):  # damaged, or of another version: nobody can read it
            return
        for name, value in own.items():
            if cls._loses(getattr(earlier, name), value):
                raise would_lose(target, f"is a {cls.NOUN} with {cls.KEEPS[name]}")

    @staticmethod
    def _loses(earlier: Any, new: Any) -> bool:
        """Whether something is lost where one attribute takes the place of another."""
        return bool(earlier != new)


def would_lose(path: str | Path, what: str) -> FileError:
    """Word the error for a place where something else would be overwritten."""
    return FileError(
        f"{str(path)!r} {what}, which would be lost: name another, or say --replace "
        "(replace=True in Python)"
    )
