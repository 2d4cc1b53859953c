"""Zips, edited: other compression, wrong sizes, odd names, twice the same, links, bombs."""

from __future__ import annotations

import io
import struct
import warnings
import zipfile
from functools import cache
from random import Random

Files = dict[str, bytes]

METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)

EDITS = (
    *("plain", "plain", "method", "stream", "stream", "twice", "folder", "climb", "directory"),
    *("encrypted", "size", "size", "header", "header", "link", "case", "many", "comment", "cut"),
    *("before", "after", "two", "zip64", "nested", "bomb", "nameless", "checksum", "directories"),
)


def edit_zip(files: Files, rng: Random) -> tuple[bytes, str]:
    """Return the bytes of a zip of these files with one edit, and what it was."""
    what = rng.choice(EDITS)
    method = rng.choice(METHODS) if what in ("method", "stream") else rng.choice(METHODS[:2])
    entries = [(zipfile.ZipInfo(name), content) for name, content in files.items()]
    at = rng.randrange(len(entries)) if entries else 0
    if entries:
        _edit_entries(entries, at, what, rng)
    data = _packed(entries, method, zip64=what == "zip64")
    if what == "stream":
        place = rng.randrange(len(data))
        data = data[:place] + rng.randbytes(rng.choice((1, 4, 20))) + data[place + 1 :]
    elif what in ("size", "header", "checksum", "encrypted"):
        data = _edit_headers(data, what, rng)
    elif what == "comment":
        data += b"x" * rng.choice((1, 10, 65_535, 70_000))
    elif what == "cut":
        data = data[: rng.randrange(len(data))]
    elif what == "before":
        data = rng.randbytes(rng.choice((1, 100, 5000))) + data
    elif what == "after":
        data += rng.randbytes(rng.choice((1, 21, 100)))
    elif what == "two":
        data += _packed(entries[::-1], method)
    elif what == "nested":
        data = _packed([(zipfile.ZipInfo("inner.zip"), data)], method)
    elif what == "directories":
        at = data.find(b"PK\x01\x02")
        data = data[:at] + data[at : at + 60] * rng.choice((2, 50, 5000)) + data[at:]
    elif what == "bomb":
        data = _bomb(rng.choice(("counts.csv", "README.txt", "model.json", "x")))
    return data, f"zip: {what}, method {method}"


def _edit_entries(
    entries: list[tuple[zipfile.ZipInfo, bytes]], at: int, what: str, rng: Random
) -> None:
    info, content = entries[at]
    if what == "twice":
        entries.append((zipfile.ZipInfo(info.filename), content))
    elif what == "folder":
        for each, _ in entries:
            each.filename = f"{rng.choice(('a', 'a', 'b', 'a/b', '__MACOSX'))}/{each.filename}"
    elif what == "climb":
        start = rng.choice(("/", "../", "../../", "C:\\", "\\", "./", "//", "a/../"))
        info.filename = start + info.filename
    elif what == "directory":
        name = rng.choice((info.filename + "/", "a/", "/", "../"))
        entries.append((zipfile.ZipInfo(name), b""))
    elif what == "link":
        info.external_attr = 0o120777 << 16
    elif what == "case":
        names = (info.filename.upper(), "é.csv", "e\u0301.csv", " " + info.filename, "a\x00b", "😀")
        info.filename = rng.choice(names)
    elif what == "many":
        entries += [(zipfile.ZipInfo(f"{n}"), b"") for n in range(rng.choice((10, 999, 2000)))]
    elif what == "nameless":
        info.filename = ""


def _packed(
    entries: list[tuple[zipfile.ZipInfo, bytes]], method: int, *, zip64: bool = False
) -> bytes:
    written = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names that are there twice
        with zipfile.ZipFile(written, "w") as archive:
            for info, content in entries:
                info.compress_type = method
                with archive.open(info, "w", force_zip64=zip64) as entry:
                    entry.write(content)
    return written.getvalue()


def _edit_headers(data: bytes, what: str, rng: Random) -> bytes:
    """Change a field in the head of an entry, in the directory or where the entry is."""
    fields = {
        # Offsets in the directory and at the entry, and the format.
        "size": ((24, 22, "<L"), (20, 18, "<L")),
        "checksum": ((16, 14, "<L"),),
        "encrypted": ((8, 6, "<H"),),
        "header": tuple((at, at - 2, "<H") for at in (8, 10, 28, 30, 32, 34, 36, 38, 42)),
    }
    there, here, form = rng.choice(fields[what])
    changed = bytearray(data)
    value = rng.choice((0, 1, 2, 9, 12, 99, 255, 1000, 65_535, 2**26, 2**31, 2**32 - 1))
    if what == "encrypted":
        value = rng.choice((1, 0x41, 0x800, 0x20, 8))
    value %= 256 ** struct.calcsize(form)
    for sign, offset in ((b"PK\x01\x02", there), (b"PK\x03\x04", here)):
        if rng.random() < 0.3:
            continue
        places = [at for at in range(len(data)) if data.startswith(sign, at)]
        if places:
            at = rng.choice(places) + offset
            changed[at : at + struct.calcsize(form)] = struct.pack(form, value)
    return bytes(changed)


@cache
def _bomb(name: str) -> bytes:
    """Return a hundred megabytes of zeros in a hundred thousand bytes."""
    return _packed(
        [(zipfile.ZipInfo(name if n == 0 else f"{n}"), b"0" * 2**24) for n in range(6)],
        zipfile.ZIP_DEFLATED,
    )
