"""Bytes, edited without a look at what they mean."""

from __future__ import annotations

import codecs
from random import Random

EDITS = (
    *("flip", "flip", "cut", "cut", "insert", "splice", "drop", "double", "mark", "encoding"),
    *("zero", "empty", "tail", "latin", "swap"),
)


def edit_bytes(data: bytes, rng: Random, other: bytes) -> tuple[bytes, str]:
    """Return bytes with one edit, and what it was; ``other`` is some other file."""
    if not data:
        return other, "another file"
    what = rng.choice(EDITS)
    at = rng.randrange(len(data))
    size = rng.choice((1, 2, 4, 16, 100))
    if what == "flip":
        changed = bytearray(data)
        for place in [at, *(rng.randrange(len(data)) for _ in range(rng.choice((0, 0, 5))))]:
            changed[place] ^= 1 << rng.randrange(8)
        data = bytes(changed)
    elif what == "cut":
        data = data[:at]
    elif what == "insert":
        data = data[:at] + rng.randbytes(size) + data[at:]
    elif what == "splice":
        data = data[:at] + other[rng.randint(0, max(len(other) - 1, 0)) :]
    elif what == "drop":
        data = data[:at] + data[at + size :]
    elif what == "double":
        data = data[:at] + data[max(at - 200, 0) :]
    elif what == "mark":
        marks = (codecs.BOM_UTF8, codecs.BOM_UTF8 * 2, codecs.BOM_UTF16_LE, codecs.BOM_UTF32_BE)
        data = rng.choice(marks) + data
    elif what == "encoding":
        codec = rng.choice(("utf-16", "utf-16-le", "utf-32", "utf-7"))
        data = data.decode("utf-8", "replace").encode(codec, "replace")
    elif what == "zero":
        data = data[:at] + b"\x00" * size + data[at + size :]
    elif what == "empty":
        data = rng.choice((b"", b"\n", b"\x00", b"{}", b"[]", b" " * 1000))
    elif what == "tail":
        data += rng.choice((b"\x00", b"}", b"\n\n\n", b"x", rng.randbytes(size)))
    elif what == "latin":
        data = (
            data[:at] + rng.choice((b"\xe9", b"\xff\xfe", b"\xed\xa0\x80", b"\xc0\x80")) + data[at:]
        )
    elif what == "swap" and len(data) > 2 * size:
        place = rng.randrange(len(data) - size)
        data = data[:place] + data[place : place + size][::-1] + data[place + size :]
    return data, f"{what} at {at}"
