"""What arrives at the centre as bytes: taken one by one, and a bad one stops no other."""

from __future__ import annotations

import dataclasses
import io
import json
import struct
import zipfile
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedmerdel import (
    DataError,
    FedMerDelError,
    FileError,
    Reply,
    SiteSummary,
    Study,
    admit,
    fit_site,
    merge_sites,
    reply_site,
)
from fedmerdel.bundles import pack
from fedmerdel.files import MOST_BYTES
from fedmerdel.study.codebook import Codebook
from fedmerdel.study.policy import POLICIES, custom_policy
from tests.parcels import TABLES, Sent, as_reply, sent
from tests.site_tables import study
from tests.stored import assert_identical, content, refused


@cache
def under(policy: str) -> Sent:
    return sent(policy=POLICIES[policy])


@pytest.fixture(params=["none", "opensafely"])
def travelled(request: pytest.FixtureRequest) -> Sent:
    return under(request.param)


def tried(agreed: Study, data: bytes) -> SiteSummary | str:
    """What an engine does with each that arrives: take it, or write down why not."""
    try:
        return admit(agreed, data)
    except FedMerDelError as error:
        return str(error)


def test_summaries_and_replies_are_admitted(travelled: Sent) -> None:
    federation = travelled.federation
    for summary in federation.summaries:
        found = admit(federation.study, summary.to_bytes())
        assert type(found) is SiteSummary
        assert_identical(found, summary)
    reply = admit(federation.study, travelled.reply.to_bytes())
    assert type(reply) is Reply
    assert_identical(reply, travelled.reply)


def test_what_was_admitted_is_as_good_as_what_was_sent(travelled: Sent) -> None:
    """A federation that only ever saw bytes is the one in memory, a round later too."""
    federation = travelled.federation
    agreed = federation.study
    arrived = [admit(agreed, each.to_bytes()) for each in federation.summaries]
    merged = merge_sites(agreed, arrived)
    assert merged.model.to_bytes() == federation.model.to_bytes()
    replies = [reply_site(agreed, federation.broadcast, t, site) for site, t in TABLES.items()]
    direct, brought = federation.step(replies)
    by_bytes, told = merged.step([admit(agreed, each.to_bytes()) for each in replies])
    assert told == brought
    assert by_bytes.model.to_bytes() == direct.model.to_bytes()
    assert by_bytes.broadcast.to_bytes() == direct.broadcast.to_bytes()


def test_what_the_centre_has_sent_is_not_admitted(travelled: Sent) -> None:
    agreed = travelled.federation.study
    for part in (travelled.federation.model, travelled.federation.broadcast):
        with refused(FileError, "no summary and no reply"):
            admit(agreed, part.to_bytes())


# Of another study.


OTHERS: dict[str, dict[str, Any]] = {
    "seed": {"seed": 4},
    "policy": {"policy": POLICIES["ons"]},
    "own policy": {"policy": custom_policy(8, 5)},
    "outcomes": {"outcomes": ()},
    "most clusters": {"max_clusters": 4},
    "shares": {"site_shares": True},
    "levels": {"missing": "level"},
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_another_study_is_refused(travelled: Sent, other: dict[str, Any]) -> None:
    agreed = travelled.federation.study
    changed = dataclasses.replace(agreed, **other)
    for each in (travelled.summary, travelled.reply):
        with refused(DataError, "'hull'", "another study"):
            admit(changed, each.to_bytes())
        # Also where it says that it is of this one.
        if "seed" not in other and "site_shares" not in other:
            with refused(DataError, "'hull'", "let the site fit"):
                admit(changed, dataclasses.replace(each, study_hash=changed.hash).to_bytes())


def test_what_a_site_calls_its_rows_is_its_own() -> None:
    """Labels, and the column that says which row is which, are no part of what is agreed."""
    travelled = under("none")
    own = dataclasses.replace(travelled.federation.study, row_id="note", labels={"a": "Asthma"})
    assert_identical(admit(own, travelled.summary.to_bytes()), travelled.summary)


# Damage on the way.


def edited(change: Callable[[dict[str, Any]], Any]) -> Callable[[SiteSummary], bytes]:
    """Change the document, which a site's own software may have written."""

    def damage(each: SiteSummary) -> bytes:
        files = each.to_files()
        document = json.loads(files[each.DOCUMENT])
        change(document)
        return pack({**files, each.DOCUMENT: json.dumps(document).encode()})

    return damage


def cell(file: str, line: int, column: int, value: str) -> Callable[[SiteSummary], bytes]:
    """Change one cell of a sheet."""

    def damage(each: SiteSummary) -> bytes:
        files = each.to_files()
        lines = files[file].decode().split("\r\n")
        cells = lines[line].split(",")
        cells[column] = value
        lines[line] = ",".join(cells)
        return pack({**files, file: "\r\n".join(lines).encode()})

    return damage


def zipped(files: dict[str, bytes], method: int) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", method) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return written.getvalue()


def garbled(method: int) -> Callable[[SiteSummary], bytes]:
    """Spoil the packed content of the largest file, as a bad line or disk may."""

    def damage(each: SiteSummary) -> bytes:
        files = each.to_files()
        data = bytearray(zipped(files, method))
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entry = max(archive.infolist(), key=lambda found: found.compress_size)
        start = entry.header_offset + 30 + len(entry.filename)
        for at in range(start + 20, start + entry.compress_size, 7):
            data[at] ^= 0xFF
        return bytes(data)

    return damage


def claims_too_much(each: SiteSummary) -> bytes:
    data = each.to_bytes()
    at = data.index(b"PK\x01\x02") + 24
    return data[:at] + struct.pack("<L", MOST_BYTES + 1) + data[at + 4 :]


def lost_directory(each: SiteSummary) -> bytes:
    """The end of a zip says where its directory is: here so far on that files are before it."""
    data = each.to_bytes()
    at = data.rindex(b"PK\x05\x06") + 16
    return data[:at] + struct.pack("<L", len(data) * 1000) + data[at + 4 :]


HUGE = 10**400
DAMAGES: dict[str, tuple[Callable[[SiteSummary], bytes], str]] = {
    "nothing": (lambda _: b"", "damaged"),
    "no zip": (lambda _: b"hello", "damaged"),
    "a page": (lambda _: b"<html>502 Bad Gateway</html>", "damaged"),
    "cut": (lambda each: each.to_bytes()[:-30], "damaged"),
    "half": (lambda each: each.to_bytes()[: len(each.to_bytes()) // 2], "damaged"),
    "garbled, stored": (garbled(zipfile.ZIP_STORED), "damaged"),
    "garbled, deflated": (garbled(zipfile.ZIP_DEFLATED), "damaged"),
    "garbled, bzip2": (garbled(zipfile.ZIP_BZIP2), "damaged"),
    "garbled, lzma": (garbled(zipfile.ZIP_LZMA), "damaged"),
    "lost directory": (lost_directory, "damaged"),
    "too large": (claims_too_much, "too large to be read"),
    "rows inside": (lambda each: pack({**each.to_files(), "rows.csv": b"1"}), "'rows.csv'"),
    "an empty zip": (lambda _: pack({}), "no summary and no reply"),
    "no counts": (
        lambda each: pack({each.DOCUMENT: each.to_files()[each.DOCUMENT]}),
        "no file 'counts.csv'",
    ),
    "earlier format": (edited(lambda d: d.update(version=0)), "version 0 of its format"),
    "later format": (edited(lambda d: d.update(version=9)), "version 9 of its format"),
    "negative rows": (cell("counts.csv", 1, 2, "-40"), "counts.csv"),
    "other rows": (cell("counts.csv", 1, 2, "9999"), "don't sum to the cluster's rows"),
    "other level": (cell("counts.csv", 2, 2, "9999"), "don't sum to the cluster's rows"),
    "a word": (cell("counts.csv", 1, 2, "SECRET"), "row 2: expected"),
    "too large a number": (cell("counts.csv", 1, 2, "1e999"), "too large to be one"),
    "entropy above 0": (cell("overlap.csv", 1, 1, "7"), "h is above 0"),
    "overlap of one": (cell("overlap.csv", 1, -1, "999999"), "not symmetric"),
    "more deaths than rows": (cell("outcomes.csv", 1, 2, "999999"), "more rows than there are"),
    "account is huge": (edited(lambda d: d["disclosure"].update(n_cells=HUGE)), "number too large"),
    "account is large": (
        edited(lambda d: d["disclosure"].update(n_zero=10**30)),
        "number too large",
    ),
    "clusters without end": (edited(lambda d: d.update(n_clusters=HUGE)), "number too large"),
    "other policy": (edited(lambda d: d["disclosure"].update(threshold=3, rounding=0)), "policy"),
    "other codebook": (edited(lambda d: d["codebook"]["variables"].pop()), "codebook"),
    "a path as a name": (edited(lambda d: d.update(site="../york")), "name that a folder can"),
    "two lines as a name": (edited(lambda d: d.update(site="yo\nrk")), "name that a folder can"),
    "half a character": (edited(lambda d: d.update(site="\ud800")), "name that a|damaged"),
    "an unknown variable": (edited(lambda d: d.update(selected=["x"])), "selects variables"),
}


@pytest.mark.parametrize("kind", ["summary", "reply"])
@pytest.mark.parametrize(("damage", "words"), DAMAGES.values(), ids=DAMAGES)
def test_damage_is_refused_in_one_line(
    travelled: Sent, kind: str, damage: Callable[[SiteSummary], bytes], words: str
) -> None:
    data = damage(getattr(travelled, kind))
    with pytest.raises((FileError, DataError), match=words) as caught:
        admit(travelled.federation.study, data)
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 1000
    assert "SECRET" not in message
    assert caught.value.__cause__ is None


def test_counts_that_break_the_policy_are_refused() -> None:
    """Where a site's own software has let them out under another policy's name."""
    agreed, exact = under("opensafely").federation.study, under("none")
    for each in (exact.summary, exact.reply):
        account = dataclasses.replace(under("opensafely").summary.account)
        files = each.to_files()
        document = json.loads(files[each.DOCUMENT])
        document |= {"study_hash": agreed.hash, "disclosure": account.to_dict()}
        with refused(DataError, "'hull'", "policy 'opensafely'"):
            admit(agreed, pack({**files, each.DOCUMENT: json.dumps(document).encode()}))


@settings(max_examples=150, deadline=None)
@given(data=st.data(), method=st.sampled_from([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED]))
def test_wherever_a_byte_is_changed_it_is_refused_or_makes_no_difference(
    data: st.DataObject, method: int
) -> None:
    travelled = under("opensafely")
    each = data.draw(st.sampled_from([travelled.summary, travelled.reply]))
    whole = zipped(each.to_files(), method)
    at = data.draw(st.integers(0, len(whole) - 1))
    value = data.draw(st.integers(0, 255))
    changed = whole[:at] + bytes([value]) + whole[at + 1 :]
    found = tried(travelled.federation.study, changed)
    if isinstance(found, str):
        assert "\n" not in found
    else:
        assert_identical(found, each)


# One by one.


def test_a_bad_one_does_not_stop_the_others() -> None:
    travelled = under("opensafely")
    agreed = travelled.federation.study
    good = [each.to_bytes() for each in travelled.federation.summaries]
    bad = [damage(travelled.summary) for damage, _ in DAMAGES.values()]
    other = fit_site(study(seed=8), TABLES["hull"], "york").to_bytes()
    found = [tried(agreed, data) for data in (bad[0], good[0], *bad[1:], other, good[1])]
    taken = [each for each in found if not isinstance(each, str)]
    assert len(found) - len(taken) == len(bad) + 1
    assert merge_sites(agreed, taken).model.to_bytes() == travelled.federation.model.to_bytes()


def test_nothing_is_written(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    travelled = under("none")
    admit(travelled.federation.study, travelled.summary.to_bytes())
    with pytest.raises(FedMerDelError):
        admit(travelled.federation.study, travelled.summary.to_bytes()[:-9])
    assert content(tmp_path) == {}


def test_a_reply_to_nothing_known_is_admitted_and_refused_by_the_step() -> None:
    """Which broadcast it is to is not for the reader of one to say."""
    travelled = under("none")
    stray = as_reply(travelled.summary, 3)
    found = admit(travelled.federation.study, stray.to_bytes())
    assert_identical(found, stray)
    with refused(DataError, "'hull'", "another broadcast"):
        travelled.federation.step([found])


def test_a_codebook_in_another_order_is_refused() -> None:
    travelled = under("none")
    first, second, *rest = travelled.summary.codebook.variables
    swapped = dataclasses.replace(travelled.summary, codebook=Codebook((second, first, *rest)))
    with refused(DataError, "'hull'", "variables"):
        admit(travelled.federation.study, swapped.to_bytes())
