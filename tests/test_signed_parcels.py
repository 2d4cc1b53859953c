"""Signed parcels: the bytes that were signed come back, and whatever is changed is unsigned."""

from __future__ import annotations

import copy
import dataclasses
import io
import pickle
import zipfile
from pathlib import Path
from typing import Any

import pytest

from fedmerdel import (
    Broadcast,
    DataError,
    FileError,
    GlobalModel,
    OptionError,
    Reply,
    SiteSummary,
    Validation,
)
from fedmerdel.bundles import pack
from fedmerdel.parcels import Parcel
from fedmerdel.signatures import FILE
from tests.parcels import KINDS
from tests.signing import CENTRE, SITES, STRANGER, SignedSent, signed_sent
from tests.stored import assert_identical, content, refused


@pytest.fixture(scope="module")
def travelled() -> SignedSent:
    return signed_sent()


def owner(kind: type[Parcel]) -> str:
    return (CENTRE if kind in (Broadcast, GlobalModel) else SITES["hull"]).public


@pytest.mark.parametrize("kind", KINDS)
def test_a_signature_is_one_more_file_and_changes_no_other(
    travelled: SignedSent, kind: type[Parcel]
) -> None:
    parcel = travelled.parcel(kind)
    plain = dataclasses.replace(parcel)
    assert list(parcel.to_files()) == [*plain.to_files(), FILE]
    assert {**plain.to_files(), FILE: parcel.to_files()[FILE]} == parcel.to_files()
    assert_identical(parcel, plain)
    assert parcel.signed_by(owner(kind))
    for other in (STRANGER.public, SITES["leeds"].public, "", "ed25519:"):
        assert not parcel.signed_by(other)
    assert not plain.signed_by(owner(kind))
    assert FILE in kind.file_names()


@pytest.mark.parametrize("kind", KINDS)
def test_signing_leaves_the_original_and_an_earlier_signature_goes(
    travelled: SignedSent, kind: type[Parcel]
) -> None:
    parcel = travelled.parcel(kind)
    plain = dataclasses.replace(parcel)
    other = parcel.signed(STRANGER)
    assert other.signed_by(STRANGER.public)
    assert not other.signed_by(owner(kind))
    assert parcel.signed_by(owner(kind))
    assert plain.signed(STRANGER).to_bytes() == other.to_bytes()
    assert FILE not in plain.to_files()
    with refused(OptionError, "give a SigningKey"):
        plain.signed("key.pem")


def zipped_by_hand(files: dict[str, bytes]) -> bytes:
    """In a folder of the zip, in another order, compressed, with what a desktop adds."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(files, reverse=True):
            archive.writestr(f"leeds/{name}", files[name])
        archive.writestr("__MACOSX/leeds/._counts.csv", b"x")
        archive.writestr("leeds/.DS_Store", b"x")
    return written.getvalue()


@pytest.mark.parametrize("kind", KINDS)
def test_a_signature_holds_in_a_folder_a_zip_and_bytes(
    travelled: SignedSent, kind: type[Parcel], tmp_path: Path
) -> None:
    parcel = travelled.parcel(kind)
    parcel.save(tmp_path / "there")
    parcel.save(tmp_path / "there.zip")
    (tmp_path / "by-hand.zip").write_bytes(zipped_by_hand(parcel.to_files()))
    (tmp_path / "there" / ".DS_Store").write_bytes(b"x")
    ways = [
        *(kind.load(tmp_path / name) for name in ("there", "there.zip", "by-hand.zip")),
        kind.from_bytes(parcel.to_bytes()),
        kind.from_files(parcel.to_files()),
        pickle.loads(pickle.dumps(parcel)),
        copy.deepcopy(parcel),
    ]
    for found in ways:
        assert_identical(found, parcel)
        assert found.signed_by(owner(kind))
        assert found.to_bytes() == parcel.to_bytes()
        assert list(found.to_files().items()) == list(parcel.to_files().items())
    # And once more, over what is there.
    ways[1].save(tmp_path / "there")
    assert content(tmp_path / "there") == parcel.to_files()


@pytest.mark.parametrize("kind", [SiteSummary, Reply])
def test_bytes_of_other_software_are_kept(
    travelled: SignedSent, kind: type[Parcel], tmp_path: Path
) -> None:
    """What a later version writes may differ from what this one would make of it."""
    files = dataclasses.replace(travelled.parcel(kind)).to_files()
    files["README.txt"] = b"Other words.\r\n"
    files["counts.csv"] = b"\xef\xbb\xbf" + files["counts.csv"]
    theirs = kind.from_files(files)
    files[FILE] = travelled.parcel(kind).to_files()[FILE]
    read = kind.from_files(files)
    assert not read.signed_by(owner(kind))  # it is of the other bytes
    assert read.to_files() == files
    signed = read.signed(SITES["hull"])
    assert signed.signed_by(owner(kind))
    assert signed.to_files()["README.txt"] == b"Other words.\r\n"
    signed.save(tmp_path / "there")
    again = kind.load(tmp_path / "there")
    assert again.signed_by(owner(kind))
    assert again.to_bytes() == signed.to_bytes()
    # What nobody has signed is written anew, as ever.
    assert theirs.to_files() == dataclasses.replace(theirs).to_files() != files


# Whatever is changed is unsigned.

CHANGES: dict[type[Parcel], dict[str, Any]] = {
    SiteSummary: {"site": "leeds", "software": "other"},
    Reply: {"site": "leeds", "broadcast": "0" * 16},
    Broadcast: {"number": 9, "study_hash": "0"},
    GlobalModel: {"n_rounds": 9, "names": ("a", "b")},
    Validation: {"site": "leeds", "model_rows": 7.0},
}


@pytest.mark.parametrize(
    ("kind", "field"), [(kind, field) for kind in KINDS for field in CHANGES[kind]]
)
def test_a_changed_copy_is_unsigned(travelled: SignedSent, kind: type[Parcel], field: str) -> None:
    parcel = travelled.parcel(kind)
    value = CHANGES[kind][field]
    if field == "names":
        value = value[:1] + ("",) * (parcel.n_clusters - 1)
    for changed in (dataclasses.replace(parcel, **{field: value}), copy.copy(parcel)):
        object.__setattr__(changed, field, value)  # also where the copy has the signature
        assert FILE not in changed.to_files()
        assert not changed.signed_by(owner(kind))
        with refused(DataError, "the one", f"its {kind.NOUN} is not signed"):
            changed.check_signed(owner(kind), "the one")
    assert parcel.signed_by(owner(kind))


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_changed_in_place_is_unsigned_until_it_is_changed_back(
    travelled: SignedSent, kind: type[Parcel]
) -> None:
    parcel = kind.from_bytes(travelled.parcel(kind).to_bytes())
    array = {
        Broadcast: lambda: parcel.clusters.log_weights,
        Validation: lambda: parcel.model_shares,
    }.get(kind, lambda: parcel.sums.T)()
    before = array[0]
    array[0] += 1.0
    assert not parcel.signed_by(owner(kind))
    assert FILE not in parcel.to_files()
    array[0] = before
    assert parcel.signed_by(owner(kind))


@pytest.mark.parametrize("kind", KINDS)
def test_no_byte_of_any_file_can_be_changed(travelled: SignedSent, kind: type[Parcel]) -> None:
    files = travelled.parcel(kind).to_files()
    read = 0
    for name, text in files.items():
        for at in {0, 1, len(text) // 3, len(text) // 2, len(text) - 2, len(text) - 1}:
            for byte in (text[at] ^ 1, ord(" "), ord("1")):
                changed = text[:at] + bytes([byte]) + text[at + 1 :]
                if changed == text:
                    continue
                try:
                    found = kind.from_bytes(pack({**files, name: changed}))
                except (FileError, DataError):
                    continue
                read += 1
                assert not found.signed_by(owner(kind)), (name, at, byte)
    assert read > 0  # some of it is no mistake to a reader


@pytest.mark.parametrize("kind", KINDS)
def test_no_file_can_be_added_or_taken_out(travelled: SignedSent, kind: type[Parcel]) -> None:
    files = travelled.parcel(kind).to_files()
    fewer = [{n: t for n, t in files.items() if n != out} for out in files if out != FILE]
    more = [{**files, name: b""} for name in kind.file_names() - set(files)]
    if kind is GlobalModel:
        more.append({**files, "names.csv": b"cluster,name\n0,Forged\n"})
    read = 0
    for changed in [*fewer, *more]:
        try:
            found = kind.from_files(changed)
            read += 1
            assert not found.signed_by(owner(kind))
        except (FileError, DataError, KeyError):
            continue
    assert read > 0 or kind is Broadcast  # which has no file to spare


@pytest.mark.parametrize("kind", KINDS)
def test_a_signature_in_other_spelling_is_refused_by_every_reader(
    travelled: SignedSent, kind: type[Parcel], tmp_path: Path
) -> None:
    """Whether or not the study lists keys: nothing that nobody checks is let in."""
    parcel = travelled.parcel(kind)
    files = {**parcel.to_files(), FILE: parcel.to_files()[FILE] + b"\n"}
    parcel.save(tmp_path / "there")
    (tmp_path / "there" / FILE).write_bytes(files[FILE])
    with refused(FileError, "there", f"'{FILE}' is damaged, or was changed"):
        kind.load(tmp_path / "there")
    with refused(FileError, kind.NOUN, FILE):
        kind.from_bytes(pack(files))
    (tmp_path / "there" / FILE).unlink()
    (tmp_path / "there" / FILE).mkdir()
    with refused(FileError, "there", FILE):
        kind.load(tmp_path / "there")
