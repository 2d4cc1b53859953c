"""What is signed: exact bytes, framed so that no other files have the same, and one spelling."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fedmerdel import FileError, OptionError
from fedmerdel.signatures import (
    DOMAIN,
    FILE,
    canonical,
    read_signature,
    signature_of,
    why_not_signed_by,
)
from tests.signing import CENTRE, STRANGER
from tests.stored import refused

Files = dict[str, bytes]
names = st.text(max_size=3) | st.sampled_from(["a", "b", FILE, "\0", "\x00\x00", "ä", "𝒶"])
files = st.dictionaries(names, st.binary(max_size=4) | st.just(bytes(9)), max_size=4)


def read_back(frame: bytes) -> Files:
    """The files that a frame says, read from its description; nothing may be left over."""
    assert frame.startswith(DOMAIN)
    rest = frame.removeprefix(DOMAIN)

    def take(n: int) -> bytes:
        nonlocal rest
        assert len(rest) >= n
        taken, rest = rest[:n], rest[n:]
        return taken

    def number() -> int:
        return int.from_bytes(take(8), "big")

    found: Files = {}
    for _ in range(number()):
        name = take(number()).decode()
        assert name not in found
        found[name] = take(number())
    assert rest == b""
    assert [name.encode() for name in found] == sorted(name.encode() for name in found)
    return found


def others(given: Files) -> Files:
    return {name: content for name, content in given.items() if name != FILE}


def test_the_frame_of_two_files() -> None:
    expected = (
        b"fedmerdel: signed files, version 1\n"
        b"\0\0\0\0\0\0\0\2"
        b"\0\0\0\0\0\0\0\1a\0\0\0\0\0\0\0\3abc"
        b"\0\0\0\0\0\0\0\2\xc3\xa4\0\0\0\0\0\0\0\0"
    )
    assert canonical({"ä": b"", "a": b"abc", FILE: b"whatever"}) == expected


@given(files)
def test_a_frame_says_all_files_and_nothing_else(given: Files) -> None:
    """So two sets of files never have the same frame: each can be read back from it."""
    assert read_back(canonical(given)) == others(given)


@given(files, files, st.randoms())
@example({"a": b"b"}, {"ab": b""}, None)
@example({"a": b"", "b": b""}, {"a": b"\0\0\0\0\0\0\0\1b\0\0\0\0\0\0\0\0"}, None)
def test_frames_are_the_same_for_the_same_files_only(one: Files, other: Files, random) -> None:
    assert (canonical(one) == canonical(other)) == (others(one) == others(other))
    shuffled = list(one.items())
    if random is not None:
        random.shuffle(shuffled)
    assert canonical(dict(shuffled)) == canonical(one)
    assert canonical({**one, FILE: b"another signature"}) == canonical(one)


# The signature's file

SIGNED = {"a.csv": b"1,2\n", "b.json": b"{}"}
CONTENT = signature_of(SIGNED, CENTRE)
SPELT = json.loads(CONTENT)


def with_signature(content: bytes = CONTENT, **files: bytes) -> Files:
    return {
        **SIGNED,
        **{name.replace("_", "."): text for name, text in files.items()},
        FILE: content,
    }


def test_the_signature_says_who_and_can_be_read() -> None:
    assert list(SPELT) == ["kind", "version", "about", "public_key", "signature"]
    assert (SPELT["kind"], SPELT["version"]) == ("fedmerdel signature", 1)
    assert CONTENT.decode().isascii()
    assert read_signature(CONTENT) == (CENTRE.public, base64.b64decode(SPELT["signature"]))
    assert why_not_signed_by(CENTRE.public, with_signature()) is None


def test_the_same_files_and_key_give_the_same_signature() -> None:
    assert signature_of(dict(reversed(SIGNED.items())), CENTRE) == CONTENT
    assert signature_of(with_signature(b"an earlier one"), CENTRE) == CONTENT
    assert signature_of(SIGNED, STRANGER) != CONTENT
    with refused(OptionError, "give a SigningKey"):
        signature_of(SIGNED, "key.pem")  # type: ignore[arg-type]


def test_why_files_are_not_signed() -> None:
    public = CENTRE.public
    for those, words in (
        (SIGNED, "is not signed"),
        (with_signature(signature_of(SIGNED, STRANGER)), "with another key"),
        (with_signature(signature_of({}, CENTRE)), "was changed after it was signed"),
        (with_signature(a_csv=b"1,3\n"), "was changed"),
        (with_signature(b_json=b""), "was changed"),
        (with_signature(c_txt=b""), "was changed"),
        ({"a.csv": SIGNED["a.csv"], FILE: CONTENT}, "was changed"),
        ({"b.csv": SIGNED["a.csv"], "b.json": b"{}", FILE: CONTENT}, "was changed"),
        ({"a.csv": b"{}", "b.json": SIGNED["a.csv"], FILE: CONTENT}, "was changed"),
    ):
        assert words in str(why_not_signed_by(public, those))


def test_a_strangers_signature_is_not_the_centres_by_saying_so() -> None:
    by_stranger = json.loads(signature_of(SIGNED, STRANGER))
    claimed = {**SPELT, "signature": by_stranger["signature"]}
    content = f"{json.dumps(claimed, indent=1)}\n".encode()
    assert read_signature(content).public_key == CENTRE.public
    assert "was changed" in str(why_not_signed_by(CENTRE.public, with_signature(content)))


def test_a_signature_made_for_something_else_does_not_fit() -> None:
    """Without the domain, or over the frame's bytes as a file."""
    for data in (canonical(SIGNED).removeprefix(DOMAIN), b"".join(SIGNED.values()), b""):
        value = base64.b64encode(CENTRE.sign(data)).decode()
        content = f"{json.dumps({**SPELT, 'signature': value}, indent=1)}\n".encode()
        assert "was changed" in str(why_not_signed_by(CENTRE.public, with_signature(content)))


def dumped(**changed: object) -> bytes:
    return f"{json.dumps({**SPELT, **changed}, indent=1)}\n".encode()


def spare_bits(text: str) -> str:
    """The same bytes: the last letter of 64 has four bits to spare."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    return text[:-3] + alphabet[alphabet.index(text[-3]) + 1] + "=="


VALUE = SPELT["signature"]
LONGER = base64.b64encode(base64.b64decode(VALUE) + b"\0").decode()
SPELLINGS: dict[str, bytes] = {
    "nothing": b"",
    "a number": b"3",
    "a list": b"[]",
    "no entries": b"{}",
    "deep": b"[" * 100_000,
    "not UTF-8": b"\xff" + CONTENT,
    "a mark before it": b"\xef\xbb\xbf" + CONTENT,
    "no line end": CONTENT.rstrip(b"\n"),
    "two line ends": CONTENT + b"\n",
    "Windows' line ends": CONTENT.replace(b"\n", b"\r\n"),
    "other spaces": json.dumps(SPELT).encode(),
    "another order": f"{json.dumps(dict(sorted(SPELT.items())), indent=1)}\n".encode(),
    "escaped": CONTENT.replace(b"ed25519:", b"\\u0065d25519:"),
    "twice": CONTENT.replace(b' "version"', b' "version": 1,\n "version"'),
    "more": dumped(note="row 3"),
    "less": f"{json.dumps({'signature': VALUE}, indent=1)}\n".encode(),
    "another kind": dumped(kind="fedmerdel model"),
    "another version": dumped(version=2),
    "1.0": dumped(version=1.0),
    "true": dumped(version=True),
    "other words": dumped(about="row 3"),
    "key by its bytes": dumped(public_key=base64.b64decode(CENTRE.public[8:]).hex()),
    "key with a space": dumped(public_key=f" {CENTRE.public}"),
    "a weak key": dumped(public_key="ed25519:AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="),
    "no key": dumped(public_key=None),
    "spare bits": dumped(signature=spare_bits(VALUE)),
    "no signs": dumped(signature=VALUE.rstrip("=")),
    "a sign more": dumped(signature=f"{VALUE}="),
    "a line end in it": dumped(signature=f"{VALUE[:40]}\n{VALUE[40:]}"),
    "for addresses": dumped(signature=base64.urlsafe_b64encode(b"\xff" * 64).decode()),
    "hexadecimal": dumped(signature=base64.b64decode(VALUE).hex()),
    "longer": dumped(signature=LONGER),
    "empty": dumped(signature=""),
    "a list of letters": dumped(signature=list(VALUE)),
    "none": dumped(signature=None),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_one_spelling_alone_is_read(spelling: str) -> None:
    assert dumped() == CONTENT
    content = SPELLINGS[spelling]
    assert content != CONTENT
    with refused(FileError, f"'{FILE}' is damaged, or was changed"):
        read_signature(content)
    with refused(FileError, FILE):
        why_not_signed_by(CENTRE.public, with_signature(content))


def test_spare_bits_are_the_same_bytes_to_a_lenient_reader() -> None:
    assert base64.b64decode(spare_bits(VALUE), validate=True) == base64.b64decode(VALUE)


@given(st.integers(0, len(CONTENT) - 1), st.integers(1, 255))
def test_no_byte_of_it_can_be_changed(at: int, by: int) -> None:
    changed = bytearray(CONTENT)
    changed[at] ^= by
    try:
        why = why_not_signed_by(CENTRE.public, with_signature(bytes(changed)))
    except FileError:
        return
    assert why is not None
