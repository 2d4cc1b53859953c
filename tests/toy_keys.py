"""Keys for the tests, the same each time."""

from __future__ import annotations

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fedmerdel.keys import SigningKey


def key(number: int) -> SigningKey:
    """A key that is always the same, and no secret."""
    return SigningKey(Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32))
