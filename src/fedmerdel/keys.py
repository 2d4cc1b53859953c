"""Keys: a secret one that stays where it was made, and a public one that the study lists.

Ed25519 (RFC 8032), by the package cryptography. It is imported where it is first needed, so that
all else works without it; a study that lists keys can be read without it too.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import stat
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedmerdel.errors import FileError, OptionError
from fedmerdel.files import read_plain, unwritable

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

PREFIX = "ed25519:"
"""How the text of a public key begins."""

LENGTH = 32
"""Bytes of a public key."""

MOST_BYTES = 2**16
"""Of the file of a secret key, which has a hundred."""

OWNER_ONLY = 0o600
"""Who may read a secret key, where files have such modes: whoever made it."""

_PRIME = 2**255 - 19
"""Of the field that the curve is over."""

_OF_ORDER_8 = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
"""A root of d y^4 + 2 y^2 = 1: y of the points whose double has y = 0."""

_WEAK = frozenset({0, 1, _PRIME - 1, _OF_ORDER_8, _PRIME - _OF_ORDER_8})
"""y of the points of order 1, 2, 4 and 8: under such a key one signature fits many messages."""

_GROUPS, _DIGITS = 6, 5
"""Of a fingerprint: 30 digits, of which there are nearly 2^100."""


class SigningKey:
    """A secret key, with which its owner signs what it sends.

    Made by `SigningKey.new`, or read by `SigningKey.load` from the file that ``fedmerdel key``
    has made. Whoever has it can sign in the owner's name: it never leaves its machine.

    Parameters
    ----------
    secret : Ed25519PrivateKey
        Of the package cryptography.
    """

    def __init__(self, secret: Ed25519PrivateKey) -> None:
        self._secret = secret

    @classmethod
    def new(cls) -> SigningKey:
        """Make a key from the randomness of the operating system."""
        return cls(cryptography_part(_ED25519).Ed25519PrivateKey.generate())

    @classmethod
    def load(cls, path: str | Path) -> SigningKey:
        """Read a secret key from its file.

        Raises
        ------
        FileError
            If it holds no secret key of this kind, or others than its owner may read it.
        """
        where = f"file {str(path)!r}"
        content = read_plain(path, where, MOST_BYTES)
        if os.name == "posix" and stat.S_IMODE(os.stat(path).st_mode) & 0o077:
            raise FileError(
                f"{where} is a secret that others than its owner may read: make a new key, or, if "
                "nobody has read it, chmod 600"
            )
        try:
            secret = cryptography_part(_PEM).load_pem_private_key(content, password=None)
        except OptionError:
            raise
        except Exception:  # not PEM, damaged, with a password, of a kind that it does not know
            secret = None
        if not isinstance(secret, cryptography_part(_ED25519).Ed25519PrivateKey):
            raise FileError(
                f"{where} holds no secret key (Ed25519, PEM, no password): make one with "
                "fedmerdel key"
            )
        return cls(secret)

    def save(self, path: str | Path) -> None:
        """Write the secret to a new file (PEM, PKCS #8) that none but its owner may read.

        Raises
        ------
        FileError
            If anything is there already, or nothing can be written there.
        """
        pem, target = cryptography_part(_PEM), Path(path)
        content = self._secret.private_bytes(
            pem.Encoding.PEM, pem.PrivateFormat.PKCS8, pem.NoEncryption()
        )
        try:
            # With its mode from the start, and only if nothing is there, not even a link.
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
            opened = os.open(target, flags, OWNER_ONLY)
        except FileExistsError:
            raise FileError(
                f"file {str(target)!r} is there already, and no key is written over anything: "
                "name another"
            ) from None
        except (OSError, ValueError):  # a name with a zero byte
            raise unwritable(target, "file") from None
        try:
            with open(opened, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(opened)
        except OSError:
            target.unlink(missing_ok=True)
            raise unwritable(target, "file") from None

    @property
    def public(self) -> str:
        """The public key: the text that the study lists."""
        raw: bytes = self._secret.public_key().public_bytes_raw()
        return PREFIX + base64.b64encode(raw).decode()

    def sign(self, data: bytes) -> bytes:
        """Return the signature of some bytes, 64 bytes long."""
        return self._secret.sign(data)

    def __repr__(self) -> str:
        return f"SigningKey(public={self.public!r})"


def public_bytes(public: Any) -> bytes:
    """Return the bytes of a public key's text; every key has one text only.

    Raises
    ------
    OptionError
        If it is another spelling, or a key that does not bind its owner.
    """
    text = public if isinstance(public, str) else ""
    raw = exact_bytes(text.removeprefix(PREFIX), LENGTH) if text.startswith(PREFIX) else None
    if raw is None:
        raise OptionError(
            f"give a public key as fedmerdel key shows it: {PREFIX} and 44 characters"
        )
    y = int.from_bytes(raw, "little") % 2**255  # without the sign of x
    if y >= _PRIME or y in _WEAK:
        raise OptionError(
            "no software gives out this key, for others could sign in its name: make one with "
            "fedmerdel key"
        )
    return raw


def exact_bytes(text: str, length: int) -> bytes | None:
    """Return the bytes that a text spells in base64, if so many, and in the one right way."""
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    # The last character has bits to spare, which must be 0.
    return raw if len(raw) == length and base64.b64encode(raw).decode() == text else None


def key_fingerprint(public: str) -> str:
    """Return a public key's fingerprint: 30 digits, to be compared by telephone.

    Parameters
    ----------
    public : str
        The public key, as ``fedmerdel key`` shows it and the study lists it.
    """
    number = int.from_bytes(hashlib.sha256(public_bytes(public)).digest(), "big")
    digits = f"{number % 10 ** (_GROUPS * _DIGITS):0{_GROUPS * _DIGITS}d}"
    return " ".join(digits[at : at + _DIGITS] for at in range(0, len(digits), _DIGITS))


def fits(public: str, signature: bytes, data: bytes) -> bool:
    """Whether a signature of some bytes was made with the secret of this public key."""
    key = cryptography_part(_ED25519).Ed25519PublicKey.from_public_bytes(public_bytes(public))
    try:
        key.verify(signature, data)
    except cryptography_part("exceptions").InvalidSignature:
        return False
    return True


def check_is_key(given: Any) -> None:
    """Refuse anything but a secret key, such as the path of its file."""
    if not isinstance(given, SigningKey):
        raise OptionError("key: give a SigningKey, such as SigningKey.load reads")


def check_signer(key: SigningKey | None, listed: str | None, who: str) -> None:
    """Refuse a secret key that is not the one that the study lists, or to do without one.

    Parameters
    ----------
    key : SigningKey or None
        The secret key, if one was given.
    listed : str or None
        The public key that the study lists for its owner.
    who : str
        What messages call its owner.

    Raises
    ------
    OptionError
        If they do not belong together.
    """
    if key is None and listed is not None:
        raise OptionError(
            f"key: the study lists keys, so what is written must be signed: give the secret key "
            f"of {who} (--key FILE, key in a site's file, or key=SigningKey.load(FILE) in Python)"
        )
    if key is None:
        return
    check_is_key(key)
    if listed is None:
        raise OptionError(
            "key: the study lists no keys, so nobody would look at a signature: leave the key out, "
            "or agree on a study with keys"
        )
    if key.public != listed:
        raise OptionError(f"key: this is not the key that the study lists for {who}")


def signer(path: str | Path | None, listed: str | None, who: str) -> SigningKey | None:
    """Read a secret key, if there is a file of one; refuse what `check_signer` refuses."""
    key = None if path is None else SigningKey.load(path)
    check_signer(key, listed, who)
    return key


_ED25519 = "hazmat.primitives.asymmetric.ed25519"
_PEM = "hazmat.primitives.serialization"


def cryptography_part(part: str) -> Any:
    """Import a module of the package cryptography, or say how to install it."""
    try:
        return import_module(f"cryptography.{part}")
    except ImportError:
        raise OptionError(
            "keys need the package cryptography, which is not installed: "
            "pip install 'fedmerdel[keys]'"
        ) from None
