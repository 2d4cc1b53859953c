"""Who made some files: their signature, in one more file beside them.

What is signed is all other files, name by name and byte by byte, in a frame that no other set of
files has. The signature's own file has one spelling: whatever else says the same is refused.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import NamedTuple

from fedmerdel.bundles import Files, damaged
from fedmerdel.errors import FileError
from fedmerdel.keys import SigningKey, check_is_key, exact_bytes, fits, public_bytes
from fedmerdel.texts import json_content

FILE = "signature.json"
"""The name of the signature's own file."""

DOMAIN = b"fedmerdel: signed files, version 1\n"
"""What every frame begins with, so that a signature made for anything else does not fit."""

LENGTH = 64
"""Bytes of a signature."""

MOST_BYTES = 4096
"""Of the signature's own file, which has a tenth of it."""

_ABOUT = (
    "A signature of all other files here: it tells who made them, and holds nothing about any row"
)


class Signature(NamedTuple):
    """What the signature's file says; nothing is checked yet.

    Attributes
    ----------
    public_key : str
        The key that it claims to be made with.
    value : bytes
        The signature.
    """

    public_key: str
    value: bytes


def canonical(files: Mapping[str, bytes]) -> bytes:
    """Return the bytes under a signature: an exact frame of all files but that of the signature.

    The domain; the number of files; then for each, in the order of their names in UTF-8, the
    length of the name, the name, the length of the content, the content. Numbers are 8 bytes, the
    highest first.
    """
    named = sorted((name.encode(), content) for name, content in files.items() if name != FILE)
    parts = [DOMAIN, _number(len(named))]
    for name, content in named:
        parts += [_number(len(name)), name, _number(len(content)), content]
    return b"".join(parts)


def signature_of(files: Files, key: SigningKey) -> bytes:
    """Return the content of the signature's file."""
    check_is_key(key)
    return _written(Signature(key.public, key.sign(canonical(files))))


def read_signature(content: bytes) -> Signature:
    """Read the signature's file, if it is spelt exactly as it is written here.

    Raises
    ------
    FileError
        If it says anything else, or the same in other bytes.
    """
    try:
        found = json_content(content, MOST_BYTES)
        value = exact_bytes(found["signature"], LENGTH)
        public_bytes(found["public_key"])
        if value is not None and _written(Signature(found["public_key"], value)) == content:
            return Signature(found["public_key"], value)
    except (ValueError, KeyError, TypeError):
        pass
    raise FileError(damaged(FILE, "or was changed"))


def why_not_signed_by(public: str, files: Files) -> str | None:
    """Return why files are not signed with the key that a study lists; None if they are."""
    if FILE not in files:
        return "is not signed, and the study lists keys: have it signed (--key FILE)"
    found = read_signature(files[FILE])
    if found.public_key != public:
        return "is signed with another key than the study lists: ask who has sent it"
    if not fits(public, found.value, canonical(files)):
        return "was changed after it was signed, or has the signature of another: get it again"
    return None


def _written(signature: Signature) -> bytes:
    content = {
        "kind": "fedmerdel signature",
        "version": 1,
        "about": _ABOUT,
        "public_key": signature.public_key,
        "signature": base64.b64encode(signature.value).decode(),
    }
    return f"{json.dumps(content, indent=1)}\n".encode()


def _number(number: int) -> bytes:
    return number.to_bytes(8, "big")
