"""Texts that came from anywhere, read within bounds: JSON, TOML and CSV.

A few bytes of text may become hundreds in memory, or take minutes: what a text holds is counted
before it is read. And it is read strictly: what some programs take for a number, and others
don't, is refused, and so is an entry that is there twice, of which each program keeps another.
"""

from __future__ import annotations

import csv
import json
import re
import tomllib
from codecs import getincrementaldecoder
from collections.abc import Iterator
from typing import Any
from unicodedata import category

MOST_VALUES = 2_000_000
"""Values of a JSON document: a number takes thirty bytes once it is read."""

MOST_NAMES = 500_000
"""Texts of a JSON document, keys counted."""

MOST_PARTS = 200_000
"""Lists of a JSON document, and as many objects; of TOML half as many of both together."""

DEEPEST = 20
"""How many lists and objects may be inside each other; ours are six."""

MOST_TOML = 3 * 2**20
"""Bytes of TOML: a study of ten thousand variables has one million."""

MOST_DOTS = 800_000
"""Of keys such as study.name: a square of their dots, as time and memory of reading them are."""

LONGEST_LINE = 2**20
"""Bytes of a line of CSV: a number in each of ten thousand clusters takes a quarter of it."""

LARGEST = 2**63 - 1
"""Of any number: more rows than there are people, and no square of it is too large for a float."""

LARGEST_TOML = 10**300
"""The same for TOML, where whoever asked for a number says best what is wrong with it."""

_LINE = re.compile(rb"[^\r\n]*+(?:\r\n|\r|\n)|[^\r\n]++")

# Dots where a key may begin, unless it is a number. Possessive, and a quote ends where the next
# one is, so that no text makes this slow.
_DOTS = re.compile(
    r"""(?:^|[\[{,])[\ \t]*+(?![-+]?+\d++\.\d++[\dEe+-]*+[\ \t]*+[],}\n])"""
    r"""((?:(?:[\w-]++|"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"|'[^'\n]*+')[\ \t]*+\.[\ \t]*+)++)""",
    re.MULTILINE,
)


class TextError(ValueError):
    """A text is not what it should be; the message says in a few words why, and quotes nothing."""


def json_content(data: bytes, most_bytes: int) -> Any:
    """Return what a JSON document holds: plain dicts, lists, texts and numbers.

    Numbers fit 64 bits. Texts can be written to any file.

    Parameters
    ----------
    data : bytes
        The document, in UTF-8.
    most_bytes : int
        Refuse more than this.

    Raises
    ------
    TextError
        If it is no such document, or a larger one than any of ours.
    """
    bounds = ((b",", MOST_VALUES), (b'"', 2 * MOST_NAMES), (b"[", MOST_PARTS), (b"{", MOST_PARTS))
    if any(data.count(sign) > most for sign, most in bounds):
        raise TextError("it holds too much")
    text = decoded_text(data, most_bytes)
    del data  # it may be large, and no one else's
    try:
        found = json.loads(
            text,
            parse_constant=_no_number,
            object_pairs_hook=_entries,
        )
    except TextError:
        raise
    except (ValueError, RecursionError):
        raise TextError("it is not JSON") from None
    _check_tree(found, LARGEST)
    if "\\u" in text:
        _check_characters(found)
    return found


def toml_content(data: bytes) -> dict[str, Any]:
    """Return what a TOML document holds.

    Raises
    ------
    TextError
        If it is none, or a larger one than any study; a message of TOML's own says where.
    """
    if len(data) > MOST_TOML or sum(map(data.count, (b"[", b"{"))) > MOST_PARTS // 2:
        raise TextError("it holds too much")
    # Some editors begin a file with a byte order mark, which TOML does not know.
    text = decoded_text(data, MOST_TOML * 4)
    if sum((found[1].count(".") + 2) ** 2 for found in _DOTS.finditer(text)) > MOST_DOTS:
        raise TextError("its keys have too many parts")
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        # Its words may quote a key, and that may be long.
        raise TextError(" ".join(str(error).split())[-200:]) from None
    except (ValueError, RecursionError):
        raise TextError("it is not TOML") from None
    _check_tree(found, LARGEST_TOML)
    return found


def sheet_rows(data: bytes, separator: str = ",") -> Iterator[list[str]]:
    """Yield the rows of a CSV in UTF-8, one at a time.

    Raises
    ------
    TextError
        If it is none, or has a line that is longer than any of ours.
    """
    try:
        yield from csv.reader(_lines(data), delimiter=separator, strict=True)
    except csv.Error:
        raise TextError("it is no table, or a quote in it is not closed") from None


def decoded_text(data: bytes, most_bytes: int) -> str:
    """Return the text of a file, without the mark that spreadsheet programs put before it.

    Parameters
    ----------
    data : bytes
        Text in UTF-8.
    most_bytes : int
        Refuse a text that takes more memory: one rare character makes each take four bytes.
    """
    width = 1
    if not data.isascii():
        rare, other = (re.search(lead, data) for lead in (rb"[\xf0-\xff]", rb"[\xc4-\xef]"))
        width = 4 if rare else 2 if other else 1
    if len(data) * width > most_bytes:
        raise TextError("it is too large")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise TextError("it is not UTF-8 text") from None


def is_text(data: bytes) -> bool:
    """Whether bytes are text in UTF-8, looked at piece by piece."""
    decoder = getincrementaldecoder("utf-8")()
    try:
        for at in range(0, len(data) + 1, LONGEST_LINE):
            decoder.decode(data[at : at + LONGEST_LINE], at + LONGEST_LINE >= len(data))
    except UnicodeDecodeError:
        return False
    return True


def is_seen(text: str) -> bool:
    """Whether people see on a screen all that a text holds; spaces may have any width.

    Control characters (U+009B too) can rewrite a screen, and marks of direction its order.
    """
    return text.isprintable() or all(
        character.isprintable() or category(character) == "Zs" for character in text
    )


def _lines(data: bytes) -> Iterator[str]:
    for found in _LINE.finditer(data):
        if found.end() - found.start() > LONGEST_LINE:
            raise TextError("it has a line that is too long")
        try:
            yield found.group().decode("utf-8" if found.start() else "utf-8-sig")
        except UnicodeDecodeError:
            raise TextError("it is not UTF-8 text") from None


def _no_number(word: str) -> float:
    raise TextError(f"it holds {word}, which is no number")


def _entries(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) < len(pairs):
        raise TextError("it has an entry twice")
    return entries


def _check_tree(found: Any, largest: int) -> None:
    """Refuse what is too deep for anyone to walk through, and numbers that are too large."""
    level = [found]
    for _ in range(DEEPEST + 1):
        if any(isinstance(each, int | float) and abs(each) > largest for each in level):
            raise TextError("it holds a number too large to be one")
        outer = [each for each in level if isinstance(each, dict | list)]
        if not outer:
            return
        level = [
            inner for each in outer for inner in (each.values() if isinstance(each, dict) else each)
        ]
    raise TextError("it is too deep")


def _check_characters(found: Any) -> None:
    """Refuse halves of characters, which JSON can spell and no file can hold."""
    try:
        json.dumps(found, ensure_ascii=False).encode()
    except ValueError:
        raise TextError("it holds half a character") from None
