"""Masks: a vector of whole numbers that means nothing alone, and the total of a roster's.

Numbers are added modulo 2^64. A site adds its own mask, which it lifts with a seed of 32 bytes,
and one mask shared with each other site, which the two add with opposite signs. X25519 (RFC 7748),
HKDF-SHA256 (RFC 5869) and ChaCha20 (RFC 8439) are the package cryptography's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedmerdel.errors import DataError
from fedmerdel.keys import cryptography_part
from fedmerdel.masking.spelling import frame
from fedmerdel.masking.work import Integers

SECRET = 32
"""Bytes of a secret, of a public mask key, a seed, a nonce and a hash."""

WORD = 8
"""Bytes of a number."""

MOST_NUMBERS = 2**20
"""Of a vector: 200 clusters of 2,000 levels take less than half."""

_OWN, _PAIR = b"fedmerdel: own mask, version 1", b"fedmerdel: pair mask, version 1"
_START = bytes(16)
"""Where a stream begins: counter and nonce are 0, for no key makes two streams."""


def digest(*parts: bytes) -> bytes:
    """Return the SHA-256 of a frame."""
    return hashlib.sha256(frame(*parts)).digest()


def mask_key(secret: bytes) -> bytes:
    """Return the public mask key of 32 secret bytes."""
    own = _x25519().X25519PrivateKey.from_private_bytes(secret)
    public: bytes = own.public_key().public_bytes_raw()
    return public


def own_mask(seed: bytes, ctx: bytes, length: int) -> NDArray[np.uint64]:
    """Return a site's own mask, which whoever has its seed can take off."""
    return _stream(_derived(seed, ctx, _OWN), length)


def masked(
    vector: Integers, seed: bytes, secret: bytes, site: str, keys: Mapping[str, bytes], ctx: bytes
) -> bytes:
    """Return a vector under the site's own mask and those that it shares, lowest byte first.

    Parameters
    ----------
    vector : array of int64
        The numbers.
    seed, secret : bytes
        Of the own mask; of the site's mask key.
    site : str
        Its name.
    keys : mapping of str to bytes
        The public mask keys of the roster, the site's own included.
    ctx : bytes
        What all masks are for: there are no two vectors under the same.

    Raises
    ------
    DataError
        If a mask key is one with which nothing is secret.
    """
    found = vector.astype(np.uint64) + own_mask(seed, ctx, len(vector))
    own = _x25519().X25519PrivateKey.from_private_bytes(secret)
    for other, public in keys.items():
        if other == site:
            continue
        try:
            shared = own.exchange(_x25519().X25519PublicKey.from_public_bytes(public))
        except ValueError:
            raise DataError(f"site {other!r}: its mask key hides nothing: join again") from None
        low, high = sorted((site, other))
        mask = _stream(
            _derived(shared, ctx, frame(_PAIR, low.encode(), high.encode())), len(vector)
        )
        found = found + mask if site == low else found - mask
    return found.astype("<u8").tobytes()


def checked_vector(vector: Integers) -> Integers:
    """Refuse what is no vector of whole numbers, or too long a one."""
    if not isinstance(vector, np.ndarray) or vector.dtype != np.int64 or vector.ndim != 1:
        raise DataError("an answer is one vector of int64")
    if not 0 < len(vector) <= MOST_NUMBERS:
        raise DataError(f"an answer has 1 to {MOST_NUMBERS:,} numbers")
    return vector


def total(values: Sequence[bytes], seeds: Sequence[bytes], ctx: bytes) -> Integers:
    """Return the sum over a roster, from all its masked vectors and the seeds of own masks."""
    length = len(values[0]) // WORD
    found = np.zeros(length, dtype=np.uint64)
    for each, seed in zip(values, seeds, strict=True):
        found += np.frombuffer(each, dtype="<u8")
        found -= own_mask(seed, ctx, length)
    return found.view(np.int64)


def _x25519() -> Any:
    return cryptography_part("hazmat.primitives.asymmetric.x25519")


def _derived(secret: bytes, ctx: bytes, what: bytes) -> bytes:
    hashes = cryptography_part("hazmat.primitives.hashes")
    hkdf = cryptography_part("hazmat.primitives.kdf.hkdf")
    key: bytes = hkdf.HKDF(hashes.SHA256(), SECRET, salt=ctx, info=what).derive(secret)
    return key


def _stream(key: bytes, length: int) -> NDArray[np.uint64]:
    ciphers = cryptography_part("hazmat.primitives.ciphers")
    stream = ciphers.Cipher(ciphers.algorithms.ChaCha20(key, _START), mode=None).encryptor()
    return np.frombuffer(stream.update(bytes(length * WORD)), dtype="<u8")
