"""Files that are small or plain, and cost much to read: many of something, or one that is long."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable
from functools import cache
from random import Random

import pyarrow as pa
from pyarrow import parquet

Make = Callable[[], bytes]

MUCH = 60 * 10**6
"""Bytes of a large file: a little under what is read at all."""

MUCH_TABLE = 4 * 10**6
"""Bytes of a large table of rows: these may be of any size, and need memory accordingly."""


def large(suffix: str, head: bytes, rng: Random, *, rows: bool) -> tuple[bytes, str]:
    """Return a file that is large, or becomes so, and what it holds.

    Parameters
    ----------
    suffix : str
        How the file's name ends.
    head : bytes
        How a real one begins: its first line.
    rng : Random
        Draws which.
    rows : bool
        Whether it is a table of rows.
    """
    made = _made(suffix, head, MUCH_TABLE if rows else MUCH)
    what = rng.choice(sorted(made))
    return made[what](), f"large: {what}"


def _made(suffix: str, head: bytes, much: int) -> dict[str, Make]:
    if suffix == ".json":
        return _json()
    if suffix == ".toml":
        return _toml()
    if suffix == ".parquet":
        return {"many rows": _many_rows}
    if suffix == ".gz":
        return {"many lines": _many_lines, "zeros": lambda: gzip.compress(b"\0" * 2**26, 1)}
    return _sheet(head, much)


def _json() -> dict[str, Make]:
    def of(part: bytes, n_bytes: int = MUCH) -> Make:
        return lambda: b'{"kind": [' + part * (n_bytes // len(part)) + b"0]}"

    return {
        "numbers": of(b"0,"),
        "fractions": of(b"0.12345678901234567,"),
        "lists": of(b"[],"),
        "objects": of(b'{"":0},'),
        "texts": of(b'"ab",'),
        "whole numbers": of(b"1234567,"),
        "spaces": lambda: b"{" + b" " * MUCH + b"}",
        "keys": lambda: b"{" + b",".join(b'"%d":0' % n for n in range(10**6)) + b"}",
        "text": lambda: b'{"kind": "' + b"x" * MUCH + b'"}',
        "wide text": lambda: b'{"kind": "' + "\U0001f600".encode() + b"x" * MUCH + b'"}',
        "digits": lambda: b'{"kind": ' + b"9" * MUCH + b"}",
        "depth": lambda: b"[" * MUCH,
        "version": lambda: b'{"kind": "fedmerdel model", "version": "' + b"x" * 10**7 + b'"}',
    }


def _toml() -> dict[str, Make]:
    return {
        "dots": lambda: b".".join([b"a"] * 10**6) + b" = 1",
        "quoted dots": lambda: b'"!".' * 10**6 + b"a = 1",
        "header of dots": lambda: b"[" + b"a." * 10**6 + b"a]",
        "headers": lambda: b"\n".join(b"[a%d]" % n for n in range(10**6)),
        "lists": lambda: b"\n".join(b"a%d=[]" % n for n in range(10**6)),
        "dotted keys": lambda: b"\n".join(b"a%d.b.c.d.e=1" % n for n in range(4 * 10**5)),
        "numbers": lambda: b"x = [" + b"0," * (MUCH // 2) + b"]",
        "lines": lambda: b"\n" * MUCH,
        "comments": lambda: b"#\n" * (MUCH // 2),
        "variables": lambda: b'[[variable]]\nname = "a"\nlevels = ["0"]\n' * 90_000,
        "text": lambda: b'[study]\nname = "' + b"x" * (3 * 10**6) + b'"',
    }


def _sheet(head: bytes, much: int) -> dict[str, Make]:
    width = head.count(b",") + 1
    row = b"1," * (width - 1)
    return {
        "empty lines": lambda: head + b"\n" * (much // 6),
        "one line": lambda: b"x" * much,
        "one line of cells": lambda: head + b"1," * (much // 2),
        "columns": lambda: b",".join(b"c%d" % n for n in range(much // 600)) + b"\n",
        "too many columns": lambda: b"c," * (much // 6) + b"c\n",
        "short lines": lambda: head + b"1\n" * (much // 2),
        "lines": lambda: head + (row + b"1\n") * (much // (2 * width)),
        "wide cells": lambda: head + (row + b"12345678901\n") * (much // (2 * width + 10)),
        "one long number": lambda: head + b"1" * 10**6 + b"," + b"1," * 10**4 + b"\n",
        "quote": lambda: head + b'"' + b"x\n" * (much // 2),
        "zeros": lambda: b"\0" * much,
        "wide text": lambda: head + "\U0001f600".encode() + b"x" * much,
    }


@cache
def _many_rows() -> bytes:
    """Return hundreds of millions of rows in a small file."""
    part = pa.table({"x": pa.array(["a", "b"]).dictionary_encode().take(pa.array([0] * 10**6))})
    written = io.BytesIO()
    with parquet.ParquetWriter(written, part.schema) as writer:
        for _ in range(300):
            writer.write_table(part)
    return written.getvalue()


@cache
def _many_lines() -> bytes:
    """Return gigabytes of short lines in a small file."""
    return gzip.compress(b"x,y\n", 9, mtime=0) + gzip.compress(b"0,1\n" * 2**22, 9, mtime=0) * 200
