"""Texts from anywhere: read strictly, and counted before they are read."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedmerdel.texts import (
    DEEPEST,
    LARGEST,
    LONGEST_LINE,
    MOST_TOML,
    TextError,
    decoded_text,
    is_text,
    json_content,
    sheet_rows,
    toml_content,
)

MUCH = 10**7


def refused(read: Callable[[], Any], words: str) -> None:
    with pytest.raises(TextError, match=words) as caught:
        read()
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) <= 200


plain = st.recursive(
    st.none() | st.booleans() | st.integers(-LARGEST, LARGEST) | st.floats(-1e18, 1e18)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner),
)  # fmt: skip


@settings(max_examples=50, deadline=None)
@given(content=plain, escaped=st.booleans(), mark=st.booleans())
def test_what_json_holds_comes_back(content: Any, escaped: bool, mark: bool) -> None:
    text = json.dumps(content, ensure_ascii=escaped)
    assert json_content(text.encode("utf-8-sig" if mark else "utf-8"), MUCH) == content


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b'{"a": 1, "a": 1}', "an entry twice"),
        (b'[{"": {"a": 1, "b": 2, "a": 3}}]', "an entry twice"),
        (b"NaN", "NaN, which is no number"),
        (b"[Infinity]", "Infinity, which is no number"),
        (b"-Infinity", "-Infinity, which is no number"),
        (b"1e400", "too large"),
        (b"[-1e19]", "too large"),
        (b'{"a": 9223372036854775808}', "too large"),
        (b"9" * 5000, "not JSON"),
        (b'"\\ud800"', "half a character"),
        (b'{"a\\udc00": 1}', "half a character"),
        (b'"\xed\xa0\x80"', "not UTF-8"),
        (b'"\xff"', "not UTF-8"),
        ('{"a": 1}'.encode("utf-16"), "not UTF-8"),
        (b"[" * (DEEPEST + 1) + b"]" * (DEEPEST + 1), "too deep"),
        (b"[" * 900 + b"]" * 900, "too deep"),
        (b"[" * 100_000, "not JSON"),
        (b'{"a":' * 100_000, "not JSON"),
    ],
    ids=lambda each: str(each)[:30],
)
def test_json_is_strict(text: bytes, words: str) -> None:
    refused(lambda: json_content(text, MUCH), words)


def test_json_as_deep_as_may_be() -> None:
    assert json_content(b"[" * DEEPEST + b"]" * DEEPEST, MUCH)


@pytest.mark.parametrize("part", [b"0,", b"[],", b'{"":0},', b'"a",'])
def test_json_that_holds_too_much_is_not_read(part: bytes) -> None:
    """A few bytes of it would be hundreds in memory."""
    data = b"[" + part * 2_100_000 + b"0]"
    tracemalloc.start()
    try:
        refused(lambda: json_content(data, 10 * MUCH), "too much")
        assert tracemalloc.get_traced_memory()[1] < 10**5
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("sign", "width"), [("a", 1), ("é", 1), ("ł", 2), ("水", 2), ("😀", 4)])
def test_a_text_may_take_so_much_memory_and_no_more(sign: str, width: int) -> None:
    data = sign.encode() + b"x" * 1000
    assert decoded_text(data, width * len(data)) == sign + "x" * 1000
    refused(lambda: decoded_text(data, width * len(data) - 1), "too large")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"a = ", "at end of document"),
        (b"a = 1\na = 2", "Cannot overwrite"),
        (b"a = 0x" + b"f" * 5000, "too large"),
        (b"a = " + b"9" * 5000, "not TOML"),
        (b"a = " + b"[" * 5000, "not TOML"),
        (b"a = " + b"[" * 50 + b"]" * 50, "too deep"),
        (b".".join([b"a"] * 30) + b" = 1", "too deep"),
        (b".".join([b"a"] * 2000) + b" = 1", "too many parts"),
        (b'"!".' * 2000 + b"a = 1", "too many parts"),
        (b"'.,='.\t" * 2000 + b"a = 1", "too many parts"),
        (b"x = [1, {" + b'"\\"" . ' * 2000 + b"a = 1}]", "too many parts"),
        (b"[" + b"a." * 2000 + b"a]", "too many parts"),
        (b"[[ " + b"a . " * 2000 + b"a]]", "too many parts"),
        (b"\n".join(b"a%d.b.c.d=1" % n for n in range(40_000)), "too many parts"),
        (b"\n".join(b"[a%d]" % n for n in range(110_000)), "too much"),
        (b"#\n" * (MOST_TOML // 2 + 1), "too much"),
        (b"a = '\xff'", "not UTF-8"),
        (b'"' + b"x" * 500 + b'" = [1, ', "at end of document"),
    ],
    ids=lambda each: str(each)[:30],
)
def test_toml_has_an_end(text: bytes, words: str) -> None:
    refused(lambda: toml_content(text), words)


def test_toml_that_people_write_is_read() -> None:
    numbers = ", ".join(["0.125", "1.5e-7", "2.0"] * 20_000)
    labels = "\n".join(
        f'l{n} = "of some kind, e.g. a.b.c, or www.example.org"' for n in range(5000)
    )
    text = f"\ufeffstudy.name = 'x'\nprior = [{numbers}]\n{labels}\n"
    found = toml_content(text.encode())
    assert found["study"] == {"name": "x"}
    assert len(found["prior"]) == 60_000
    assert len(found) == 5002


@settings(max_examples=100, deadline=None)
@given(
    rows=st.lists(
        st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\x00")), min_size=1)
    ),
    ends=st.sampled_from(["\n", "\r\n", "\r"]),
)
def test_rows_come_back(rows: list[list[str]], ends: str) -> None:
    quoted = [",".join('"' + cell.replace('"', '""') + '"' for cell in row) for row in rows]
    assert list(sheet_rows((ends.join([*quoted, ""])).encode())) == rows


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b'a,"b', "a quote in it is not closed"),
        (b'a,"b"c', "no table"),
        (b"a\xff", "not UTF-8"),
        (b"x" * (LONGEST_LINE + 1), "too long"),
        (b"1," * LONGEST_LINE, "too long"),
        (b'"' + b"x\n" * 200_000, "no table"),
    ],
    ids=lambda each: str(each)[:30],
)
def test_sheets_have_an_end(text: bytes, words: str) -> None:
    refused(lambda: list(sheet_rows(text)), words)


def test_a_sheet_is_read_row_by_row() -> None:
    data = b"\n" * MUCH
    tracemalloc.start()
    try:
        rows = sheet_rows(data)
        assert [next(rows) for _ in range(1000)] == [[]] * 1000
        assert tracemalloc.get_traced_memory()[1] < 10**6
    finally:
        tracemalloc.stop()


def test_text_is_told_from_bytes_across_pieces() -> None:
    for before in range(4):
        text = b"x" * (LONGEST_LINE - before) + "😀".encode()
        assert is_text(text)
        assert not is_text(text[:-1])
    assert is_text(b"")
    assert not is_text(b"\xff")
