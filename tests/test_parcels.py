"""What travels: the same bytes each time, every number to the last bit, and nothing else read."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import struct
import tracemalloc
import zipfile
from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedmerdel import Broadcast, Federation, FileError, GlobalModel, Reply, SiteSummary, merge_sites
from fedmerdel.bundles import pack
from fedmerdel.files import MOST_BYTES
from fedmerdel.parcels import Parcel
from fedmerdel.release.reply import load_release
from tests.drawn import seeds
from tests.federations import Federation as Drawn
from tests.federations import federations
from tests.parcels import KINDS, Sent, as_reply, sent
from tests.stored import assert_identical, content, refused
from tests.summaries import make


@pytest.fixture(scope="module")
def travelled() -> Sent:
    return sent()


# There and back.


def saved(parcel: Any, folder: Path, name: str) -> Any:
    parcel.save(folder / name)
    return type(parcel).load(str(folder / name))


WAYS: dict[str, Callable[[Any, Path], Any]] = {
    "files": lambda parcel, _: type(parcel).from_files(parcel.to_files()),
    "bytes": lambda parcel, _: type(parcel).from_bytes(parcel.to_bytes()),
    "folder": lambda parcel, folder: saved(parcel, folder, "there"),
    "zip": lambda parcel, folder: saved(parcel, folder, "there.zip"),
    "capitals": lambda parcel, folder: saved(parcel, folder, "there.ZIP"),
}


def check_ways(parcel: Any, folder: Path) -> None:
    data = parcel.to_bytes()
    for way in WAYS.values():
        found = way(parcel, folder)
        assert_identical(found, parcel)
        assert found.to_bytes() == data
    assert content(folder / "there") == parcel.to_files()
    assert (folder / "there.zip").read_bytes() == (folder / "there.ZIP").read_bytes() == data
    assert {entry.name for entry in folder.iterdir()} == {"there", "there.zip", "there.ZIP"}


@settings(max_examples=20, deadline=None)
@given(
    drawn=federations(sites=st.integers(1, 3)),
    prior=st.sampled_from(["learned", None]),
    site_shares=st.booleans(),
    seed=seeds,
)
@pytest.mark.filterwarnings("ignore::fedmerdel.errors.OddSiteWarning")
def test_whatever_the_numbers_are_they_come_back(
    tmp_path_factory: pytest.TempPathFactory, drawn: Drawn, prior: Any, site_shares: bool, seed: int
) -> None:
    options = {"site_shares": site_shares, "prior": prior or drawn.study.prior}
    drawn = drawn._replace(study=dataclasses.replace(drawn.study, **options))
    summaries = drawn.summaries()
    federation = merge_sites(drawn.study, summaries)
    reply = as_reply(summaries[0], seed)
    for parcel in (summaries[0], reply, federation.broadcast, federation.model):
        check_ways(parcel, tmp_path_factory.mktemp("parcel"))


@pytest.mark.parametrize(
    "options",
    [{}, {"variable_selection": True}, {"site_shares": True}, {"missing": "level"}],
    ids=str,
)
@pytest.mark.parametrize("kind", KINDS)
def test_what_sites_and_centre_send_comes_back(
    tmp_path: Path, kind: type[Parcel], options: dict[str, Any]
) -> None:
    check_ways(sent(**options).parcel(kind), tmp_path)


finite = st.floats(-1e18, 1e18)


@settings(max_examples=100, deadline=None)
@given(
    q=st.floats(0, 50), cost=st.floats(0, 1000), blur=st.floats(0.0, 1.0)
)  # fmt: skip
def test_odd_numbers_come_back(q: float, cost: float, blur: float) -> None:
    """Too small to be normal, minus zero, whole and too large for an integer: all of them."""
    summary = make(policy="none")
    summary.sums.h[:], summary.sums.Q[:] = 0.0, 0.0
    summary.sums.h[[0, 2]] = -q / 2
    summary.sums.Q[0, 2] = summary.sums.Q[2, 0] = q
    reply = as_reply(summary, 1)
    assert reply.moves is not None
    reply.moves.cost[0] -= cost
    reply.moves.halves.blur[2] = blur
    for parcel in (summary, reply):
        assert_identical(type(parcel).from_bytes(parcel.to_bytes()), parcel)


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_work_gives_the_same_bytes(travelled: Sent, kind: type[Parcel]) -> None:
    """Nothing in them tells when they were written, or on which system."""
    data = travelled.parcel(kind).to_bytes()
    assert sent().parcel(kind).to_bytes() == data
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        entries = archive.infolist()
    assert {entry.date_time for entry in entries} == {(1980, 1, 1, 0, 0, 0)}
    assert {entry.create_system for entry in entries} == {3}
    assert {entry.compress_type for entry in entries} == {zipfile.ZIP_STORED}
    assert not any(entry.extra or entry.comment for entry in entries)


# No more is read than there may be.


def nothing_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def too_late(*_: Any, **__: Any) -> bytes:
        raise AssertionError

    monkeypatch.setattr(zipfile.ZipFile, "read", too_late)
    monkeypatch.setattr(zipfile.ZipFile, "open", too_late)
    monkeypatch.setattr(Path, "read_bytes", too_late)


def claiming(data: bytes, size: int) -> bytes:
    """A zip whose directory says that its first file has this size."""
    at = data.index(b"PK\x01\x02") + 24
    return data[:at] + struct.pack("<L", size) + data[at + 4 :]


@pytest.mark.parametrize("kind", KINDS)
def test_a_zip_that_claims_too_much_is_not_read(
    travelled: Sent, kind: type[Parcel], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = claiming(travelled.parcel(kind).to_bytes(), MOST_BYTES + 1)
    (tmp_path / "there.zip").write_bytes(data)
    with refused(FileError, "there.zip", "too large to be read"):
        kind.load(tmp_path / "there.zip")
    nothing_is_read(monkeypatch)
    with refused(FileError, kind.NOUN, "too large to be read"):
        kind.from_bytes(data)


@pytest.mark.parametrize("kind", KINDS)
def test_the_limit_is_on_all_files_together(travelled: Sent, kind: type[Parcel]) -> None:
    parcel = travelled.parcel(kind)
    data, sizes = parcel.to_bytes(), [len(text) for text in parcel.to_files().values()]
    assert max(sizes) < sum(sizes) < len(data)
    assert_identical(kind.from_bytes(data, len(data)), parcel)
    for limit in (max(sizes), sum(sizes) - 1, 1, 0):
        with refused(FileError, "too large to be read"):
            kind.from_bytes(data, limit)


@pytest.mark.parametrize("kind", KINDS)
def test_the_limit_is_on_the_zip_too(travelled: Sent, kind: type[Parcel]) -> None:
    """Whatever is before the first file, or in files that don't count."""
    data = travelled.parcel(kind).to_bytes()
    padded = b"\x00" * len(data) + data
    assert_identical(kind.from_bytes(padded, len(padded)), kind.from_bytes(data))
    with refused(FileError, "too large to be read"):
        kind.from_bytes(padded, len(padded) - 1)


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_that_is_too_large_is_not_read(
    travelled: Sent, kind: type[Parcel], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    travelled.parcel(kind).save(tmp_path / "there")
    os.truncate(tmp_path / "there" / kind.DOCUMENT, MOST_BYTES)
    nothing_is_read(monkeypatch)
    with refused(FileError, "there", "too large to be read"):
        kind.load(tmp_path / "there")


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_is_too_large_is_not_read(
    kind: type[Parcel], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "there.zip").touch()
    os.truncate(tmp_path / "there.zip", 2 * MOST_BYTES + 1)
    nothing_is_read(monkeypatch)
    with refused(FileError, "there.zip", "too large to be read"):
        kind.load(tmp_path / "there.zip")


@pytest.mark.parametrize(
    "method",
    [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA],
    ids=lambda m: f"method {m}",
)
def test_a_zip_that_claims_less_than_it_holds_does_not_fill_the_memory(
    travelled: Sent, method: int
) -> None:
    real, claimed = 24 * 2**20, 1000
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", method) as archive:
        archive.writestr("counts.csv", b"0" * real)
        for name, text in travelled.summary.to_files().items():
            if name != "counts.csv":
                archive.writestr(name, text)
    data = written.getvalue().replace(struct.pack("<L", real), struct.pack("<L", claimed))
    assert len(data) < real / 100
    tracemalloc.start()
    try:
        with refused(FileError):
            SiteSummary.from_bytes(data)
        assert tracemalloc.get_traced_memory()[1] < real / 4
    finally:
        tracemalloc.stop()


# Nothing but the files of its kind.


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["rows.csv", "counts.csv.bak", "summary.json", "notes", "README"])
def test_files_of_other_names_are_refused(
    travelled: Sent, kind: type[Parcel], name: str, tmp_path: Path
) -> None:
    parcel = travelled.parcel(kind)
    if name in parcel.to_files():
        name = "model.json"
    files = {**parcel.to_files(), name: b"1,2\n"}
    with refused(FileError, kind.NOUN, repr(name), "no part of it"):
        kind.from_bytes(pack(files))
    for place in ("there", "there.zip"):
        parcel.save(tmp_path / place)
    (tmp_path / "there" / name).write_bytes(b"1,2\n")
    (tmp_path / "there.zip").write_bytes(pack(files))
    for place in ("there", "there.zip"):
        with refused(FileError, place, repr(name), "no part of it"):
            kind.load(tmp_path / place)
    # Nor is anything written over that holds more.
    before = content(tmp_path)
    for place in ("there", "there.zip"):
        with refused(FileError, place, f"no {kind.NOUN}", "name another"):
            parcel.save(tmp_path / place)
    assert content(tmp_path) == before


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_inside_is_refused_and_droppings_are_not(
    travelled: Sent, kind: type[Parcel], tmp_path: Path
) -> None:
    parcel = travelled.parcel(kind)
    parcel.save(tmp_path / "there")
    for name in (".DS_Store", "Thumbs.db", "desktop.ini"):
        (tmp_path / "there" / name).write_bytes(b"\x00")
    assert_identical(kind.load(tmp_path / "there"), parcel)
    (tmp_path / "there" / "rows").mkdir()
    with refused(FileError, "there", "'rows'"):
        kind.load(tmp_path / "there")


@pytest.mark.parametrize("kind", KINDS)
def test_each_file_that_is_needed_is_missed(travelled: Sent, kind: type[Parcel]) -> None:
    files = travelled.parcel(kind).to_files()
    for name in (kind.DOCUMENT, *kind.NEEDED):
        fewer = {each: text for each, text in files.items() if each != name}
        with refused(FileError, kind.NOUN, repr(name), "copy it again"):
            kind.from_bytes(pack(fewer))
    with refused(FileError, kind.NOUN, repr(kind.DOCUMENT)):
        kind.from_bytes(pack({}))


@pytest.mark.parametrize(("kind", "other"), list(permutations(KINDS, 2)))
def test_one_kind_is_not_taken_for_another(
    travelled: Sent, kind: type[Parcel], other: type[Parcel], tmp_path: Path
) -> None:
    parcel = travelled.parcel(kind)
    with refused(FileError, other.NOUN):
        other.from_bytes(parcel.to_bytes())
    for place in ("there", "there.zip"):
        parcel.save(tmp_path / place)
        with refused(FileError, other.NOUN, place):
            other.load(tmp_path / place)
        with refused(FileError, f"no {other.NOUN}", "name another"):
            travelled.parcel(other).save(tmp_path / place)
        with refused(FileError, f"no {other.NOUN}", "name another"):
            other.check_place(tmp_path / place)
    # Also where its document goes by the other's name.
    files = parcel.to_files()
    renamed = {**travelled.parcel(other).to_files(), other.DOCUMENT: files[kind.DOCUMENT]}
    with refused(FileError, f"holds no {other.KIND}"):
        other.from_bytes(pack(renamed))


def test_a_summary_and_a_reply_are_read_by_what_they_are(travelled: Sent, tmp_path: Path) -> None:
    for kind in KINDS:
        parcel = travelled.parcel(kind)
        parcel.save(tmp_path / kind.NOUN)
        if kind in (SiteSummary, Reply):
            assert_identical(load_release(tmp_path / kind.NOUN), parcel)
        else:
            with refused(FileError, kind.NOUN, "no summary and no reply"):
                load_release(tmp_path / kind.NOUN)
    (tmp_path / "reply" / "summary.json").write_bytes(travelled.summary.to_files()["summary.json"])
    with refused(FileError, "reply", "'summary.json'"):
        load_release(tmp_path / "reply")


# Other formats.


def with_version(parcel: Any, version: Any) -> dict[str, bytes]:
    files = parcel.to_files()
    document = {**json.loads(files[parcel.DOCUMENT]), "version": version}
    return {**files, parcel.DOCUMENT: json.dumps(document).encode()}


@pytest.mark.parametrize("kind", KINDS)
def test_formats_of_before_and_of_later_are_refused(
    travelled: Sent, kind: type[Parcel], tmp_path: Path
) -> None:
    assert (SiteSummary.VERSION, Reply.VERSION) == (7, 5)
    assert (Broadcast.VERSION, GlobalModel.VERSION) == (2, 5)
    parcel = travelled.parcel(kind)
    for version in (*range(kind.VERSION), kind.VERSION + 1, None, "3", [3]):
        files = with_version(parcel, version)
        with refused(FileError, kind.NOUN, f"version {version!r} of its format", "make it again"):
            kind.from_bytes(pack(files))
        parcel.save(tmp_path / "there")
        (tmp_path / "there" / kind.DOCUMENT).write_bytes(files[kind.DOCUMENT])
        with refused(FileError, "there", f"version {version!r} of its format"):
            kind.load(tmp_path / "there")


def test_what_earlier_software_wrote_is_refused_in_one_line(
    travelled: Sent, tmp_path: Path
) -> None:
    """With the files that it had: a reply was a summary, and the centre's folder a model."""
    folder = tmp_path / "before"
    files = travelled.reply.to_files()
    told = json.loads(files.pop("reply.json"))
    old = {**told, "kind": "fedmerdel site summary", "version": 2}
    old["answers"] = old.pop("broadcast")  # as it was called
    folder.mkdir()
    for name, text in {**files, "summary.json": json.dumps(old).encode()}.items():
        (folder / name).write_bytes(text)
    for load in (SiteSummary.load, Reply.load, load_release):
        with refused(FileError, "before"):
            load(folder)
    for name in ("clusters.csv", "lineage.csv", "study.toml"):
        (folder / name).write_text("old")
    about = {"kind": "fedmerdel model", "version": 2}
    (folder / "model.json").write_text(json.dumps(about))
    for kind in (Federation, GlobalModel, Broadcast):
        with refused(FileError, "before"):
            kind.load(folder)


@pytest.mark.parametrize(
    "document", [b"", b"{", b"[]", b"3", b"null", b"\xff", b"[" * 100_000, b"{}"]
)
@pytest.mark.parametrize("kind", KINDS)
def test_a_document_that_is_none_is_refused(
    travelled: Sent, kind: type[Parcel], document: bytes
) -> None:
    files = {**travelled.parcel(kind).to_files(), kind.DOCUMENT: document}
    with refused(FileError, kind.NOUN, repr(kind.DOCUMENT)):
        kind.from_bytes(pack(files))


# Written whole or not at all.


@pytest.mark.parametrize("place", ["there", "there.zip"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_parcel_is_replaced_whole_or_not_at_all(
    travelled: Sent, kind: type[Parcel], place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parcel, other = travelled.parcel(kind), sent(seed=5, max_clusters=4).parcel(kind)
    parcel.save(tmp_path / place)
    before, write = content(tmp_path), Path.write_bytes

    def full(path: Path, data: bytes) -> int:
        write(path, data[:10])
        raise OSError("no space")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full)
        with refused(FileError, kind.NOUN, place, "can't be written"):
            other.save(tmp_path / place, replace=True)
    assert content(tmp_path) == before
    other.save(tmp_path / place, replace=True)
    assert_identical(kind.load(tmp_path / place), other)
    assert [entry.name for entry in tmp_path.iterdir()] == [place]


@pytest.mark.parametrize("kind", KINDS)
def test_a_place_that_is_taken_is_refused(
    travelled: Sent, kind: type[Parcel], tmp_path: Path
) -> None:
    parcel = travelled.parcel(kind)
    (tmp_path / "file").write_text("mine")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "thesis.txt").write_text("mine")
    (tmp_path / "folder.zip").mkdir()
    (tmp_path / "file.zip").write_text("mine")
    before = content(tmp_path)
    for place in ("file", "folder", "folder.zip", "file.zip"):
        for act in (parcel.save, kind.check_place):
            with refused(FileError, place, f"no {kind.NOUN}", "name another"):
                act(tmp_path / place)
    for place in ("nowhere/new", "file/new", "nowhere/new.zip"):
        for act in (parcel.save, kind.check_place):
            with refused(FileError, place, kind.NOUN, "can't be written"):
                act(tmp_path / place)
    assert content(tmp_path) == before
