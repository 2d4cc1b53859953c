"""Keys on the command line: from the first key to signed clusters."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from fedmerdel import (
    GlobalModel,
    Reply,
    SigningKey,
    Site,
    SiteSummary,
    Study,
    Validation,
    cli,
    key_fingerprint,
)
from fedmerdel.site.ledger import Ledger
from fedmerdel.site.site_file import SiteFile
from tests.command_line import INIT, SITES, Run, done, files, make_tables, refused, words
from tests.stored import content


def public(name: str) -> str:
    return SigningKey.load(f"{name}.pem").public


def signed(site: str, *more: str) -> list[str]:
    return ["--site", site, "--key", f"{site}.pem", *more]


@pytest.fixture(scope="module")
def signed_story(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which a study with keys was fitted, merged and taken one round on."""
    folder = tmp_path_factory.mktemp("signed")
    make_tables(folder)

    def call(*arguments: str) -> None:
        cli.app(args=list(arguments), standalone_mode=False)

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        call(*INIT)
        shutil.copy("study.toml", "plain.toml")
        for name in ("centre", "stranger", *SITES):
            call("key", f"{name}.pem")
        keys = {site: public(site) for site in SITES}
        plain = Study.load("plain.toml")
        replace(plain, centre_key=public("centre"), site_keys=keys).save("study.toml")
        for site in SITES:
            call("fit", "study.toml", f"{site}.csv", *signed(site, "-o", f"{site}-0"))
        sent = [f"{site}-0" for site in SITES]
        call("merge", "study.toml", *sent, "-o", "centre-0", "--key", "centre.pem")
        for site in SITES:
            arguments = ("study.toml", "centre-0/broadcast", f"{site}.csv")
            call("reply", *arguments, *signed(site, "-o", f"{site}-1.zip"))
        replies = [f"{site}-1.zip" for site in SITES]
        call("step", "centre-0", *replies, "-o", "centre-1", "--key", "centre.pem")
    return folder


@pytest.fixture
def run_signed(run: Run, signed_story: Path, tmp_path: Path) -> Run:
    """Run a command in a copy of that folder."""
    shutil.copytree(signed_story, tmp_path, dirs_exist_ok=True)
    return run


def test_the_story_with_keys(run_signed: Run) -> None:
    for site in SITES:
        assert SiteSummary.load(f"{site}-0").signed_by(public(site))
        assert Reply.load(f"{site}-1.zip").signed_by(public(site))
    for folder in ("centre-0", "centre-1"):
        assert GlobalModel.load(folder).signed_by(public("centre"))
        assert (Path(folder) / "broadcast" / "signature.json").exists()
    assert "--key FILE" in words(run_signed("check", "study.toml", "leeds.csv"))
    assert "--key" not in words(run_signed("check", "plain.toml", "leeds.csv"))
    done(run_signed("review", "leeds-0"))
    done(run_signed("describe", "centre-1"))
    done(run_signed("describe", "centre-1/model"))
    done(run_signed("report", "centre-1/model", "-o", "r.html"))
    done(run_signed("assign", "centre-1/model", "leeds.csv", "-o", "labels.csv"))


def test_a_key_is_made_and_shown(run: Run, tmp_path: Path) -> None:
    out = done(run("key", "mine.pem"))
    made = public("mine")
    assert f"\n  {made}\n" in out
    assert f"\n  {key_fingerprint(made)}\n" in out
    assert "mine.pem is your secret key" in out
    secret = (tmp_path / "mine.pem").read_text()
    assert secret.splitlines()[1] not in out
    shown = done(run("key", "mine.pem", "--show"))
    assert made in shown
    assert "secret" not in shown
    before = files(tmp_path)
    refused(run("key", "mine.pem"), "'mine.pem' is there already")
    refused(run("key", "leeds.csv"), "'leeds.csv' is there already")
    refused(run("key", "no/mine.pem"), "can't be written")
    refused(run("key", "nowhere.pem", "--show"), "does not exist")
    refused(run("key", "leeds.csv", "--show"), "'leeds.csv'", "TOML")
    assert files(tmp_path) == before
    assert (tmp_path / "mine.pem").read_text() == secret


def test_the_keys_of_a_study_are_shown(run_signed: Run) -> None:
    out = done(run_signed("key", "study.toml", "--show"))
    for name in ("centre", *SITES):
        assert f"{name}:\n  {key_fingerprint(public(name))}\n" in out
    refused(run_signed("key", "plain.toml", "--show"), "'plain.toml'", "lists no keys")


FIT = ("fit", "study.toml", "leeds.csv")
REPLY = ("reply", "study.toml", "centre-0", "leeds.csv")
MERGE = ("merge", "study.toml", "leeds-0", "york-0")
STEP = ("step", "centre-0", "leeds-1.zip")
NAME = ("name", "centre-1", "--set", "1=Ill")
AS_LEEDS = ("--site", "leeds", "-o", "new")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([*FIT, *AS_LEEDS], ["the secret key of site 'leeds'", "--key FILE"]),
        ([*REPLY, *AS_LEEDS], ["the secret key of site 'leeds'", "--key FILE"]),
        ([*FIT, *AS_LEEDS, "--key", "york.pem"], ["not the key", "for site 'leeds'"]),
        ([*REPLY, *AS_LEEDS, "--key", "centre.pem"], ["not the key", "for site 'leeds'"]),
        ([*FIT, "--site", "paris", "-o", "new", "--key", "york.pem"], ["'paris' is not among"]),
        ([*FIT, *AS_LEEDS, "--key", "nowhere.pem"], ["'nowhere.pem' does not exist"]),
        ([*FIT, *AS_LEEDS, "--key", "leeds.csv"], ["'leeds.csv'"]),
        ([*MERGE, "-o", "new"], ["the secret key of the centre"]),
        ([*MERGE, "-o", "new", "--key", "leeds.pem"], ["not the key", "for the centre"]),
        ([*STEP, "-o", "new"], ["the secret key of the centre"]),
        ([*STEP, "-o", "new", "--key", "stranger.pem"], ["not the key", "for the centre"]),
        ([*NAME], ["the secret key of the centre"]),
        (["name", "centre-1/model", "--set", "1=Ill"], ["the secret key of the centre"]),
        ([*NAME, "--key", "leeds.pem"], ["not the key", "for the centre"]),
        (
            ["fit", "plain.toml", "leeds.csv", *AS_LEEDS, "--key", "leeds.pem"],
            ["the study lists no keys"],
        ),
    ],
)
def test_a_key_is_asked_for_before_the_work(
    run_signed: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    words: list[str],
) -> None:
    def worked(*_: object, **__: object) -> None:
        raise AssertionError

    for work in ("prepare_release", "prepare_reply", "open_site_table", "table_digest"):
        monkeypatch.setattr(f"fedmerdel.site.own_site.{work}", worked)
    for work in ("merge_sites", "Federation.step"):
        monkeypatch.setattr(f"fedmerdel.commands.centre.{work}", worked)
    before = content(tmp_path)
    refused(run_signed(*arguments), *words)
    assert content(tmp_path) == before


def test_what_is_unsigned_or_anothers_is_refused(run_signed: Run, tmp_path: Path) -> None:
    key = ("--key", "centre.pem", "-o", "new")
    for kind, source, target in (
        (SiteSummary, "leeds-0", "leeds"),
        (Reply, "leeds-1.zip", "leeds.zip"),
    ):
        own = kind.load(source)
        for forged, told in (
            (replace(own), "is not signed"),
            (own.signed(SigningKey.load("york.pem")), "with another key"),
        ):
            forged.save(target)
            arguments = (
                ("merge", "study.toml", target) if kind is SiteSummary
                else ("step", "centre-0", target)
            )  # fmt: skip
            refused(run_signed(*arguments, *key), "site 'leeds'", told)
    for part in ("broadcast", "model"):
        (tmp_path / "centre-0" / part / "signature.json").unlink()
    sent, model = "centre-0/broadcast", "centre-0/model"
    arguments = ("reply", "study.toml", sent, "leeds.csv", *signed("leeds"), *key[2:])
    refused(run_signed(*arguments), "the centre: its broadcast is not signed")
    for command in (
        ("describe", model),
        ("report", model, "-o", "r.html"),
        ("assign", model, "leeds.csv", "-o", "l.csv"),
        ("name", model, "--set", "0=Forged", "--key", "centre.pem"),
    ):
        refused(run_signed(*command), "the centre: its model is not signed")
    assert not {"new", "r.html", "l.csv"} & {path.name for path in tmp_path.iterdir()}


@pytest.mark.parametrize("place", ["centre-1", "centre-1/model"])
def test_names_are_signed_anew(run_signed: Run, place: str) -> None:
    done(run_signed("name", place, "--set", "1=Ill", "--key", "centre.pem"))
    named = GlobalModel.load(place)
    assert named.names[1] == "Ill"
    assert named.signed_by(public("centre"))
    assert "Ill (cluster 1)" in words(run_signed("describe", place))


def test_a_site_with_a_file_of_its_own_signs_with_the_key_that_it_names(
    run_signed: Run, tmp_path: Path
) -> None:
    (tmp_path / "home").mkdir()
    arguments = ("site", "study.toml", "leeds.csv", "--site", "leeds", "-o", "home/site.toml")
    refused(run_signed(*arguments), "the secret key of site 'leeds'")
    refused(run_signed(*arguments, "--key", "york.pem"), "not the key", "for site 'leeds'")
    assert not (tmp_path / "home" / "site.toml").exists()
    done(run_signed(*arguments, "--key", "leeds.pem"))
    text = (tmp_path / "home" / "site.toml").read_text()
    assert 'key = "../leeds.pem"' in text
    assert "--key" not in words(run_signed("check", "home/site.toml"))
    again = ("fit", "home/site.toml", "-o", "new")
    refused(run_signed(*again, "--key", "leeds.pem"), "leave TABLE, --site and --key out")
    done(run_signed(*again))
    assert content(tmp_path / "new") == content(tmp_path / "leeds-0")
    # The ledger has what left, signature and all; and the same may leave again.
    summary = Site.load("home/site.toml").fit()
    assert summary.signed_by(public("leeds"))
    (entry,) = Ledger(tmp_path / "home").entries()
    assert entry.release == hashlib.sha256(summary.to_bytes()).hexdigest()
    for line, words_ in (
        ('# key = "…"', "the secret key of site 'leeds'"),
        ('key = "../york.pem"', "not the key"),
        ('key = "nowhere.pem"', "does not exist"),
        ("key = 3", "key: give a text"),
    ):
        changed = text.replace('key = "../leeds.pem"', line)
        (tmp_path / "home" / "site.toml").write_text(changed)
        refused(run_signed(*again), words_)
    assert len(Ledger(tmp_path / "home").entries()) == 1


def test_a_site_file_names_a_key_only_where_the_study_lists_keys(run_signed: Run) -> None:
    arguments = ("site", "plain.toml", "leeds.csv", "--site", "leeds", "-o", "site.toml")
    refused(run_signed(*arguments, "--key", "leeds.pem"), "the study lists no keys")
    done(run_signed(*arguments))
    assert SiteFile.load("site.toml").key is None
    done(run_signed("fit", "site.toml", "-o", "new"))
    assert not Path("new", "signature.json").exists()


@pytest.mark.skipif(os.name != "posix", reason="files have no such modes")
def test_a_secret_that_others_may_read_is_refused(run: Run, tmp_path: Path) -> None:
    done(run("key", "mine.pem"))
    (tmp_path / "mine.pem").chmod(0o644)
    refused(run("key", "mine.pem", "--show"), "'mine.pem'", "others than its owner may read")


def test_without_the_package_one_line_says_so(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for part in list(sys.modules):
        if part.partition(".")[0] == "cryptography":
            monkeypatch.setitem(sys.modules, part, None)  # type: ignore[arg-type]
    refused(run("key", "mine.pem"), "pip install 'fedmerdel[keys]'")
    assert not Path("mine.pem").exists()


def test_a_validation_is_signed_too(run_signed: Run) -> None:
    model, table = "centre-1/model", "hull.csv"
    done(run_signed("validate", model, table, *signed("hull", "-o", "checked")))
    assert Validation.load("checked").signed_by(public("hull"))
    refused(run_signed("validate", model, table, "--site", "hull", "-o", "bare"), "--key")
    strange = ("--site", "ripon", "--key", "stranger.pem", "-o", "bare")
    refused(run_signed("validate", model, table, *strange), "'ripon' is not among the sites")
    assert not Path("bare").exists()
