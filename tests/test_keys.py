"""Secret keys stay secret, and a public key has one spelling."""

from __future__ import annotations

import base64
import os
import re
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from fedmerdel import FileError, OptionError, SigningKey, Study, key_fingerprint
from fedmerdel.keys import check_signer, fits, public_bytes
from tests.signing import CENTRE, LISTED, STRANGER, key
from tests.site_tables import study
from tests.stored import refused

PEM = serialization.Encoding.PEM
PKCS8 = serialization.PrivateFormat.PKCS8


def spelt(raw: bytes) -> str:
    return "ed25519:" + base64.b64encode(raw).decode()


# Signing


def test_the_first_example_of_rfc_8032() -> None:
    secret = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"
    public = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
    found = SigningKey(Ed25519PrivateKey.from_private_bytes(bytes.fromhex(secret)))
    assert found.public == spelt(bytes.fromhex(public))
    assert found.sign(b"").hex() == (
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701c"
        "f9b46bd25bf5f0595bbe24655141438e7a100b"
    )


def test_a_signature_fits_its_key_and_its_bytes() -> None:
    signature = CENTRE.sign(b"bytes")
    assert fits(CENTRE.public, signature, b"bytes")
    assert not fits(STRANGER.public, signature, b"bytes")
    assert not fits(CENTRE.public, signature, b"byteS")
    for at in range(64):
        changed = bytearray(signature)
        changed[at] ^= 1
        assert not fits(CENTRE.public, bytes(changed), b"bytes")
    assert not fits(CENTRE.public, signature[:-1], b"bytes")
    assert not fits(CENTRE.public, signature + b"\0", b"bytes")


def test_the_same_signature_with_a_larger_number_does_not_fit() -> None:
    """S and S + L are the same on the curve: only one of them may be taken."""
    order = 2**252 + 27742317777372353535851937790883648493
    signature = CENTRE.sign(b"bytes")
    larger = int.from_bytes(signature[32:], "little") + order
    assert not fits(CENTRE.public, signature[:32] + larger.to_bytes(32, "little"), b"bytes")


def test_new_keys_differ() -> None:
    assert len({SigningKey.new().public for _ in range(5)}) == 5


# Public keys


@given(st.binary(min_size=32, max_size=32))
def test_a_public_key_has_one_spelling(raw: bytes) -> None:
    y = int.from_bytes(raw, "little") % 2**255
    text = spelt(raw)
    if y < 2**255 - 19 and y not in {point[1] for point in small_points()}:
        assert public_bytes(text) == raw
    body = text.removeprefix("ed25519:")
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    # The last letter before the sign has two bits to spare.
    last = alphabet.index(body[-2])
    spare = [alphabet[last + more] for more in (1, 2, 3)]
    others = [
        *(f"ed25519:{body[:-2]}{letter}=" for letter in spare),
        *(body, f"ED25519:{body}", f"ed25519: {body}", f" {text}", f"{text} ", f"{text}\n"),
        *(text[:-1], f"{text}=", f"{text}==", f"ed25519:{body[:20]}\n{body[20:]}"),
        *(f"ed25519:{raw.hex()}", f"ed25519:{raw.hex().upper()}", f"ed25519:{body}{body}"),
        *(f"ed25519:{base64.b64encode(raw[:31]).decode()}", "ed25519:", ""),
        text.replace("=", "\u2005="),
    ]
    assert base64.b64decode(f"{body[:-2]}{spare[0]}=", validate=True) == raw  # it is lenient
    for other in others:
        with refused(OptionError, "as fedmerdel key shows it"):
            public_bytes(other)


@pytest.mark.parametrize("given", [None, 3, b"ed25519:", ["x"], CENTRE])
def test_what_is_no_text_is_no_public_key(given: Any) -> None:
    with refused(OptionError, "as fedmerdel key shows it"):
        public_bytes(given)


P = 2**255 - 19
D = -121665 * pow(121666, -1, P) % P


def added(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    """The sum of two points of the curve, by the formula of RFC 8032 in plain fractions."""
    (x1, y1), (x2, y2) = one, other
    both = D * x1 * x2 * y1 * y2
    x = (x1 * y2 + x2 * y1) * pow(1 + both, -1, P)
    y = (y1 * y2 + x1 * x2) * pow(1 - both, -1, P)
    return x % P, y % P


def points_at(y: int) -> list[tuple[int, int]]:
    """The points with this y, none to two."""
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    root = pow(square, (P + 3) // 8, P)
    if (root * root - square) % P:
        root = root * pow(2, (P - 1) // 4, P) % P
    return [] if (root * root - square) % P else sorted({(root, y), (-root % P, y)})


def small_points() -> list[tuple[int, int]]:
    """All eight points whose order divides eight, from any point: times the large prime order."""
    if not _SMALL:
        order = 2**252 + 27742317777372353535851937790883648493
        y = 2
        while len(_SMALL) < 8:
            for point in points_at(y):
                total, double, left = (0, 1), point, order
                while left:
                    total = added(total, double) if left & 1 else total
                    double, left = added(double, double), left >> 1
                multiple = (0, 1)
                for _ in range(8):
                    multiple = added(multiple, total)
                    if multiple not in _SMALL:
                        _SMALL.append(multiple)
            y += 1
    return _SMALL


_SMALL: list[tuple[int, int]] = []


def encodings(point: tuple[int, int]) -> Iterator[bytes]:
    """All spellings of a point: y may be one prime larger, and zero has two signs."""
    x, y = point
    for number in (y, y + P):
        for sign in {x & 1, 1} if x == 0 else {x & 1}:
            if number < 2**255:
                yield (number | sign << 255).to_bytes(32, "little")


def test_keys_under_which_anyone_can_sign_are_refused() -> None:
    assert len(small_points()) == 8
    weak = [raw for point in small_points() for raw in encodings(point)]
    assert len(weak) == len(set(weak)) > 8
    forged = 0
    for raw in weak:
        with refused(OptionError, "others could sign in its name"):
            public_bytes(spelt(raw))
        # Anyone's signature: R a small point, S = 0.
        for point in small_points():
            for R in encodings(point):
                try:
                    Ed25519PublicKey.from_public_bytes(raw).verify(R + bytes(32), b"any message")
                    forged += 1
                except InvalidSignature:
                    pass
    assert forged  # so the package itself takes such keys


def test_a_key_spelt_one_prime_larger_is_refused() -> None:
    for y in range(19):
        for point in points_at(y):
            for raw in encodings(point):
                if int.from_bytes(raw, "little") % 2**255 >= P:
                    with refused(OptionError, "make one with fedmerdel key"):
                        public_bytes(spelt(raw))


def test_fingerprints() -> None:
    found = [key_fingerprint(key(number).public) for number in range(20)]
    assert len(set(found)) == 20
    assert all(re.fullmatch(r"\d{5}( \d{5}){5}", each) for each in found)
    # People compare what different versions of the software show.
    assert found[1] == "44230 63097 94035 32414 69789 00350"
    with refused(OptionError, "give a public key"):
        key_fingerprint("ed25519:x")


# Files of secret keys


def test_a_secret_key_comes_back_and_is_its_owners_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        CENTRE.save(tmp_path / "key.pem")
    finally:
        os.umask(before)
    assert SigningKey.load(str(tmp_path / "key.pem")).public == CENTRE.public
    if os.name == "posix":
        assert stat.S_IMODE((tmp_path / "key.pem").stat().st_mode) == 0o600
    content = (tmp_path / "key.pem").read_bytes()
    assert content.startswith(b"-----BEGIN PRIVATE KEY-----\n")
    loaded = serialization.load_pem_private_key(content, password=None)
    assert isinstance(loaded, Ed25519PrivateKey)
    assert loaded.private_bytes_raw() == bytes([100]) * 32


def test_nothing_is_written_over(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("mine")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    CENTRE.save(tmp_path / "key")
    for name in ("there", "folder", "link", "key"):
        with refused(FileError, repr(str(tmp_path / name)), "is there already", "name another"):
            STRANGER.save(tmp_path / name)
    assert (tmp_path / "there").read_text() == "mine"
    assert not (tmp_path / "nowhere").exists()
    assert SigningKey.load(tmp_path / "key").public == CENTRE.public
    for name in ("no/key", "there/key", "a\0b"):
        with refused(FileError, "can't be written"):
            CENTRE.save(tmp_path / name)


def test_a_key_is_written_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError("no space")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with refused(FileError, "key.pem", "can't be written"):
            CENTRE.save(tmp_path / "key.pem")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.name != "posix", reason="files have no such modes")
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666, 0o610, 0o602])
def test_a_secret_that_others_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    CENTRE.save(tmp_path / "key.pem")
    (tmp_path / "key.pem").chmod(mode)
    with refused(FileError, "key.pem", "others than its owner may read", "chmod 600"):
        SigningKey.load(tmp_path / "key.pem")
    (tmp_path / "key.pem").chmod(0o400)
    assert SigningKey.load(tmp_path / "key.pem").public == CENTRE.public


def no_keys() -> dict[str, bytes]:
    secret, plain = Ed25519PrivateKey.from_private_bytes(b"S" * 32), serialization.NoEncryption()
    whole = secret.private_bytes(PEM, PKCS8, plain)
    locked = serialization.BestAvailableEncryption(b"SECRET")
    public = serialization.PublicFormat.SubjectPublicKeyInfo
    other = X25519PrivateKey.from_private_bytes(b"S" * 32)
    return {
        "empty": b"",
        "text": b"SECRET",
        "cut": whole[:60],
        "changed": whole.replace(b"MC4C", b"MC5C"),
        "locked": secret.private_bytes(PEM, PKCS8, locked),
        "public": secret.public_key().public_bytes(PEM, public),
        "of another kind": other.private_bytes(PEM, PKCS8, plain),
    }


@pytest.mark.parametrize(("name", "content"), no_keys().items(), ids=list(no_keys()))
def test_what_is_no_secret_key_is_refused(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / "key.pem").write_bytes(content)
    (tmp_path / "key.pem").chmod(0o600)
    with pytest.raises(FileError, match=r"key\.pem' holds no secret key") as caught:
        SigningKey.load(tmp_path / "key.pem")
    assert caught.value.__cause__ is None
    assert "SECRET" not in str(caught.value)


def test_a_key_that_is_not_there_is_said_in_one_line(tmp_path: Path) -> None:
    with refused(FileError, "does not exist"):
        SigningKey.load(tmp_path / "none")
    with refused(FileError, "is a folder"):
        SigningKey.load(tmp_path)


def test_a_secret_is_not_shown() -> None:
    secret = CENTRE._secret.private_bytes_raw()
    shown = f"{CENTRE!r} {CENTRE} {vars(CENTRE)}"
    assert CENTRE.public in repr(CENTRE)
    for spelling in (secret.hex(), base64.b64encode(secret).decode(), repr(secret)):
        assert spelling not in shown


# The key that the study lists


def test_who_must_sign_gives_the_right_key_and_others_none() -> None:
    check_signer(CENTRE, CENTRE.public, "the centre")
    check_signer(None, None, "the centre")
    with refused(OptionError, "the secret key of site 'leeds'", "--key FILE"):
        check_signer(None, CENTRE.public, "site 'leeds'")
    with refused(OptionError, "not the key that the study lists for site 'leeds'"):
        check_signer(STRANGER, CENTRE.public, "site 'leeds'")
    with refused(OptionError, "the study lists no keys"):
        check_signer(CENTRE, None, "the centre")
    with refused(OptionError, "give a SigningKey"):
        check_signer("key.pem", CENTRE.public, "the centre")  # type: ignore[arg-type]


def test_without_the_package_one_line_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    CENTRE.save(tmp_path / "key.pem")
    signature = CENTRE.sign(b"x")
    for part in list(sys.modules):
        if part.partition(".")[0] == "cryptography":
            monkeypatch.setitem(sys.modules, part, None)  # type: ignore[arg-type]
    for act in (
        SigningKey.new,
        lambda: SigningKey.load(tmp_path / "key.pem"),
        lambda: CENTRE.save(tmp_path / "other.pem"),
        lambda: fits(CENTRE.public, signature, b"x"),
    ):
        with refused(OptionError, "cryptography", "pip install 'fedmerdel[keys]'"):
            act()
    # All else works, also with a study that lists keys.
    listed = study(**LISTED)
    assert Study.from_bytes(listed.to_text().encode()) == listed
    assert key_fingerprint(LISTED["centre_key"])
