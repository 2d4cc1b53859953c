"""A study that lists keys: what is unsigned, or signed by another, is refused everywhere."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fedmerdel import (
    Broadcast,
    DataError,
    Federation,
    FileError,
    GlobalModel,
    OptionError,
    SigningKey,
    SiteSummary,
    Study,
    admit,
    assign,
    fit_site,
    merge_sites,
    reply_site,
    run_rounds,
    score_samples,
)
from fedmerdel.signatures import FILE
from tests.parcels import TABLES
from tests.signing import CENTRE, LISTED, SITES, STRANGER, SignedSent, signed_sent
from tests.site_tables import study
from tests.stored import assert_same, content, refused


@pytest.fixture(scope="module")
def travelled() -> SignedSent:
    return signed_sent()


# What sites send


def moved(target: SiteSummary, source: SiteSummary) -> SiteSummary:
    """A parcel that has the signature of another."""
    return type(target).from_files({**target.to_files(), FILE: source.to_files()[FILE]})


def rewritten(parcel: SiteSummary, name: str, change: Callable[[bytes], bytes]) -> SiteSummary:
    """A parcel with a file changed on its way, and the signature as it was."""
    files = parcel.to_files()
    assert change(files[name]) != files[name]
    return type(parcel).from_files({**files, name: change(files[name])})


def renamed(parcel: SiteSummary, site: str) -> SiteSummary:
    name = parcel.site.encode()
    return rewritten(parcel, parcel.DOCUMENT, lambda text: text.replace(name, site.encode()))


Attack = Callable[[SiteSummary, SiteSummary], SiteSummary]
ATTACKS: dict[str, tuple[Attack, str]] = {
    "unsigned": (lambda own, _: replace(own), "is not signed"),
    "changed in Python": (lambda own, _: replace(own, software="other"), "is not signed"),
    "signed by the other site": (lambda own, _: own.signed(SITES["leeds"]), "another key"),
    "signed by the centre": (lambda own, _: own.signed(CENTRE), "another key"),
    "signed by a stranger": (lambda own, _: own.signed(STRANGER), "another key"),
    "the other's signature": (moved, "another key"),
    "an earlier one's signature": (
        lambda own, _: moved(own, replace(own, software="v0").signed(SITES["hull"])),
        "was changed",
    ),
    "the other's, renamed": (lambda _, other: renamed(other, "hull"), "another key"),
    "the other's, renamed and signed": (
        lambda _, other: replace(other, site="hull").signed(SITES["leeds"]),
        "another key",
    ),
    "a word of the note": (
        lambda own, _: rewritten(own, "README.txt", lambda text: text.replace(b"rows", b"Rows")),
        "was changed",
    ),
    "a number": (
        lambda own, _: rewritten(own, own.DOCUMENT, lambda text: text.replace(b"0.1.0", b"9.9.9")),
        "was changed",
    ),
    "a line end": (
        lambda own, _: rewritten(own, "counts.csv", lambda text: text.replace(b"\r\n", b"\n")),
        "was changed",
    ),
    "a file less": (
        lambda own, _: type(own).from_files(
            {name: text for name, text in own.to_files().items() if name != "README.txt"}
        ),
        "was changed",
    ),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_summary_or_reply_that_its_site_did_not_sign_is_refused(
    travelled: SignedSent, attack: str
) -> None:
    make, words = ATTACKS[attack]
    agreed, federation = travelled.study, travelled.federation
    for parcels, noun in ((travelled.summaries, "summary"), (travelled.replies, "reply")):
        own, other = parcels["hull"], parcels["leeds"]
        forged = make(own, other)
        told = ("site 'hull'", f"its {noun}", words)
        with refused(DataError, *told):
            admit(agreed, forged.to_bytes())
        if noun == "summary":
            with refused(DataError, *told):
                merge_sites(agreed, [forged, other])
            with refused(DataError, *told):
                merge_sites(agreed, [other]).add(forged)
        else:
            with refused(DataError, *told):
                federation.step([forged, other])
            with refused(DataError, *told):
                run_rounds(federation, lambda _, forged=forged: [forged], 1)
        # Nothing is wrong with it but who signed it.
        plain = replace(agreed, centre_key=None, site_keys={})
        assert admit(plain, replace(forged, study_hash=plain.hash).to_bytes()).site == "hull"


def test_what_the_sites_have_signed_is_taken(travelled: SignedSent) -> None:
    agreed, federation = travelled.study, travelled.federation
    for parcels in (travelled.summaries, travelled.replies):
        for site, parcel in parcels.items():
            found = admit(agreed, parcel.to_bytes())
            assert found.signed_by(SITES[site].public)
    following, brought = federation.step(travelled.replies.values())
    assert (brought.number, brought.stale) == (1, ())
    assert merge_sites(agreed, [travelled.summaries["leeds"]]).add(
        travelled.summaries["hull"]
    ).sites == ("hull", "leeds")
    assert following.remove("hull").sites == ("leeds",)


def test_a_site_that_is_not_listed_can_not_take_part(travelled: SignedSent) -> None:
    agreed, table = travelled.study, TABLES["hull"]
    told = ("site 'york' is not among the sites whose keys the study lists",)
    with refused(DataError, *told):
        fit_site(agreed, table, "york")
    with refused(DataError, *told):
        reply_site(agreed, travelled.broadcast, table, "york")
    stranger = replace(travelled.summaries["hull"], site="york")
    for key in (STRANGER, SITES["hull"], CENTRE):
        with refused(DataError, *told):
            merge_sites(agreed, [stranger.signed(key)])


def test_a_reply_to_another_broadcast_is_refused_though_it_is_signed(travelled: SignedSent) -> None:
    federation, _ = travelled.federation.step(travelled.replies.values())
    with refused(DataError, "site 'hull'", "to another broadcast"):
        federation.step(travelled.replies.values())


def test_keys_are_part_of_the_study(travelled: SignedSent) -> None:
    """A summary made under other keys is of another study, also if it is signed anew."""
    keys = {**LISTED["site_keys"], "hull": STRANGER.public}
    other = replace(travelled.study, site_keys=keys)
    own = travelled.summaries["hull"]
    for parcel in (own, own.signed(STRANGER)):
        with refused(DataError, "site 'hull'", "another study"):
            merge_sites(other, [parcel])
    with refused(DataError, "another study"):
        reply_site(other, travelled.broadcast.signed(CENTRE), TABLES["leeds"], "leeds")


def test_a_signature_where_the_study_lists_no_keys_is_kept_and_not_looked_at(
    tmp_path: Path,
) -> None:
    agreed = study(outcomes=("died",))
    own = fit_site(agreed, TABLES["hull"], "hull")
    forged = moved(own, replace(own, software="other").signed(STRANGER))
    federation = merge_sites(agreed, [forged])
    federation.save(tmp_path / "centre")
    kept = content(tmp_path / "centre" / "sites" / "hull")
    assert kept == forged.to_files()
    assert FILE in kept
    assert_same(Federation.load(tmp_path / "centre"), federation)
    assert not (tmp_path / "centre" / "model" / FILE).exists()
    with refused(OptionError, "the study lists no keys"):
        federation.save(tmp_path / "other", key=CENTRE)
    assert not (tmp_path / "other").exists()


# What the centre sends


def centre_attacks(parcel: Any) -> dict[str, tuple[Any, str]]:
    return {
        "unsigned": (replace(parcel), "is not signed"),
        "signed by a site": (parcel.signed(SITES["hull"]), "another key"),
        "signed by a stranger": (parcel.signed(STRANGER), "another key"),
    }


def test_a_broadcast_that_the_centre_did_not_sign_is_refused(travelled: SignedSent) -> None:
    sent = travelled.broadcast
    attacks = centre_attacks(sent)
    files = sent.to_files()
    other = replace(sent, number=2).signed(CENTRE).to_files()[FILE]
    attacks["another's signature"] = Broadcast.from_files({**files, FILE: other}), "was changed"
    spaced = files["broadcast.json"] + b" "
    changed = Broadcast.from_files({**files, "broadcast.json": spaced})
    attacks["a space more"] = changed, "was changed"
    for forged, words in attacks.values():
        with refused(DataError, "the centre: its broadcast", words):
            reply_site(travelled.study, forged, TABLES["hull"], "hull")
    by_bytes = Broadcast.from_bytes(sent.to_bytes())
    reply = reply_site(travelled.study, by_bytes, TABLES["hull"], "hull")
    assert reply.signed(SITES["hull"]).to_bytes() == travelled.replies["hull"].to_bytes()


def test_a_model_that_the_centre_did_not_sign_is_refused(travelled: SignedSent) -> None:
    model, table = travelled.model, TABLES["hull"]
    attacks = centre_attacks(model)
    files = model.to_files()
    named = replace(model, names=("Forged",) + ("",) * (model.n_clusters - 1)).to_files()
    forged = GlobalModel.from_files({**named, FILE: files[FILE]})
    attacks["names of another"] = forged, "was changed"
    attacks["named anew"] = model.named({0: "Mine"}), "is not signed"
    attacks["the federation's"] = travelled.federation, "is not signed"
    for given, words in attacks.values():
        for use in (assign, score_samples):
            with refused(DataError, "the centre: its model", words):
                use(given, table)
    assert len(assign(model, table).labels) == len(table)
    assert len(score_samples(GlobalModel.from_bytes(model.to_bytes()), table)) == len(table)


# The centre's folder


@pytest.fixture(scope="module")
def folders(travelled: SignedSent, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The centre's folder after the merge, and after a round."""
    folder = tmp_path_factory.mktemp("centre")
    travelled.federation.save(folder / "merged", key=CENTRE)
    following, _ = travelled.federation.step(travelled.replies.values())
    following.save(folder / "stepped", key=CENTRE)
    return folder


def test_the_folder_keeps_what_sites_signed_and_signs_what_is_sent(
    travelled: SignedSent, folders: Path
) -> None:
    merged = folders / "merged"
    assert content(merged / "model") == travelled.model.to_files()
    assert content(merged / "broadcast") == travelled.broadcast.to_files()
    assert content(folders / "stepped" / "asked") == travelled.broadcast.to_files()
    for name, parcels in (("merged", travelled.summaries), ("stepped", travelled.replies)):
        for site, parcel in parcels.items():
            assert content(folders / name / "sites" / site) == parcel.to_files()
    assert GlobalModel.load(merged).signed_by(CENTRE.public)
    assert Broadcast.load(folders / "stepped").signed_by(CENTRE.public)


@pytest.mark.parametrize("name", ["merged", "stepped"])
def test_a_folder_comes_back_and_is_written_again(folders: Path, name: str, tmp_path: Path) -> None:
    loaded = Federation.load(folders / name)
    loaded.save(tmp_path / "again", key=CENTRE)
    assert content(tmp_path / "again") == content(folders / name)
    loaded.named({0: "First"}).save(tmp_path / "again", key=CENTRE)
    assert GlobalModel.load(tmp_path / "again").signed_by(CENTRE.public)
    assert GlobalModel.load(tmp_path / "again").names[0] == "First"
    (tmp_path / "again" / "model" / "rows.csv").touch()
    with refused(FileError, "holds more"):
        loaded.save(tmp_path / "again", key=CENTRE)


@pytest.mark.parametrize(
    ("key", "words"),
    [
        (None, "give the secret key of the centre"),
        (SITES["hull"], "not the key that the study lists for the centre"),
        (STRANGER, "not the key that the study lists for the centre"),
        ("key.pem", "give a SigningKey"),
    ],
)
def test_a_folder_is_not_written_without_the_centres_key(
    travelled: SignedSent, key: Any, words: str, tmp_path: Path
) -> None:
    with refused(OptionError, words):
        travelled.federation.save(tmp_path / "new" / "centre", key=key)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_in_which_something_was_changed_is_refused(
    travelled: SignedSent, folders: Path, tmp_path: Path
) -> None:
    own = travelled.replies["hull"]
    unsigned, stranger = replace(own).to_files(), own.signed(STRANGER).to_files()
    sent = Broadcast.load(folders / "stepped")
    attacks: dict[str, tuple[dict[str, bytes], str]] = {
        "unsigned reply": ({f"sites/hull/{n}": t for n, t in unsigned.items()}, "not signed"),
        "stranger's reply": ({f"sites/hull/{n}": t for n, t in stranger.items()}, "another key"),
        "note": ({"sites/leeds/README.txt": b"No rows."}, "was changed"),
        "asked": (
            {f"asked/{n}": t for n, t in travelled.broadcast.signed(STRANGER).to_files().items()},
            "another key",
        ),
        "broadcast": (
            {f"broadcast/{n}": t for n, t in sent.signed(STRANGER).to_files().items()},
            "another key",
        ),
    }
    for name, (files, words) in attacks.items():
        folder = tmp_path / name
        shutil.copytree(folders / "stepped", folder)
        Federation.load(folder)
        if name == "unsigned reply":
            (folder / "sites" / "hull" / FILE).unlink()
        for path, text in files.items():
            (folder / path).write_bytes(text)
        with refused(DataError, f"folder {str(folder)!r}", words):
            Federation.load(folder)


def test_a_study_without_its_keys_is_another_study(folders: Path, tmp_path: Path) -> None:
    """Taking the keys out of a folder's study does not help: all carries its hash."""
    folder = tmp_path / "centre"
    shutil.copytree(folders / "merged", folder)
    plain = replace(Study.load(folder / "study.toml"), centre_key=None, site_keys={})
    plain.save(folder / "study.toml")
    with refused(FileError, "study.toml was changed"):
        Federation.load(folder)
    about = json.loads((folder / "federation.json").read_bytes())
    (folder / "federation.json").write_text(json.dumps({**about, "study_hash": plain.hash}))
    with refused(DataError, "another study"):
        Federation.load(folder)


def test_a_key_made_now_signs_too(tmp_path: Path) -> None:
    """As people do it: keys from files, the study with their public parts."""
    for name in ("centre", *TABLES):
        SigningKey.new().save(tmp_path / f"{name}.pem")
    keys = {name: SigningKey.load(tmp_path / f"{name}.pem") for name in ("centre", *TABLES)}
    listed = {site: keys[site].public for site in TABLES}
    agreed = study(centre_key=keys["centre"].public, site_keys=listed)
    agreed.save(tmp_path / "study.toml")
    agreed = Study.load(tmp_path / "study.toml")
    sent = [fit_site(agreed, t, s).signed(keys[s]) for s, t in TABLES.items()]
    merge_sites(agreed, sent).save(tmp_path / "centre", key=keys["centre"])
    assert GlobalModel.load(tmp_path / "centre").signed_by(agreed.centre_key or "")
