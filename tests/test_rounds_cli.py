"""Rounds on the command line: from the first merge to better clusters, and every mistake."""

from __future__ import annotations

import shutil
from pathlib import Path

import pandas as pd
import pytest

from fedmerdel import Federation, GlobalModel, Reply, cli
from tests.command_line import (
    INIT,
    SITES,
    Run,
    done,
    files,
    first_merge,
    hospital,
    make_tables,
    make_tables_that_do_not_fit,
    refused,
    reply,
    words,
)


@pytest.mark.parametrize(("suffix", "packed"), [(".csv", ""), (".parquet", ".zip")])
def test_the_whole_story(run: Run, tmp_path: Path, suffix: str, packed: str) -> None:
    first_merge(run, suffix)
    for number in (1, 2):
        last, following = f"centre-{number - 1}", f"centre-{number}"
        replies = [f"{site}-{number}{packed}" for site in SITES]
        for site, folder in zip(SITES, replies, strict=True):
            out = words(reply(run, last, site, folder, suffix))
            assert f"Reply of round {number} written to {folder}" in out
            assert f"Next: fedmerdel review {folder}" in out
            assert "they are not in what you send" in out
            out = done(run("review", folder))
            assert "reply to broadcast" in out
            assert "opensafely" in out
        out = words(run("step", last, *replies, "-o", following))
        assert f"Round {number}: 2 clusters. At least" in out
        assert "of the rows changed cluster" in out
        assert f"The model is in {following}/model; {following}/broadcast is all" in out
        assert f"Next: fedmerdel describe {following}" in out
    out = words(run("describe", "centre-2"))
    assert "Round 2: 2 clusters" in out
    assert "Cluster 1: " in out
    done(run("assign", "centre-2/model", f"york{suffix}", "-o", "labels.csv"))
    found = pd.read_csv("labels.csv")
    assert found["patient"].tolist() == [f"SECRET-1-{n}" for n in range(400)]
    assert found["cluster"].isin([0, 1]).all()
    assert [each.number for each in Federation.load("centre-2").record] == [1, 2]
    assert GlobalModel.load("centre-2").n_rounds == 2
    assert not any(name.startswith(".") for name in files(tmp_path))
    # Of all that was written, only labels know a patient.
    for path in tmp_path.rglob("*"):
        if path.is_file() and path.suffix in (".json", ".txt", ".toml", ".csv", ".zip"):
            holds_rows = path.name == "labels.csv" or path.name in {f"{s}.csv" for s in SITES}
            assert (b"SECRET" in path.read_bytes()) == holds_rows, path


def test_the_part_that_is_sent_out_is_enough(run: Run, tmp_path: Path) -> None:
    first_merge(run)
    shutil.copytree("centre-0/broadcast", "sent")
    ask = ("reply", "study.toml")
    done(run(*ask, "centre-0", "york.csv", "--site", "york", "-o", "whole"))
    done(run(*ask, "sent", "york.csv", "--site", "york", "-o", "part", "--threads", "2"))
    assert Reply.load("whole").to_bytes() == Reply.load("part").to_bytes()
    note = (tmp_path / "whole" / "README.txt").read_text()
    assert "This is a reply" in note
    # A reply of another site is replaced only if that is asked for.
    other = (*ask, "sent", "hull.csv", "--site", "hull", "-o", "whole")
    refused(run(*other), "'whole' is a reply with another site", "--replace")
    assert Reply.load("whole").site == "york"
    done(run(*other, "--replace"))
    assert Reply.load("whole").site == "hull"


def test_replies_and_record_of_rounds_are_kept(run: Run) -> None:
    """Seen: a merge into the folder of a later round dropped both, and so did another reply."""
    first_merge(run)
    for site in SITES:
        done(reply(run, "centre-0", site, f"{site}-1"))
    replies = [f"{site}-1" for site in SITES]
    for _ in range(2):  # the same again, in the same place
        done(run("step", "centre-0", *replies, "-o", "centre-1"))
    merge = ("merge", "study.toml", *(f"{site}-0" for site in SITES), "-o", "centre-1")
    refused(run(*merge), "'centre-1' has replies and record of 1 round", "--replace")
    assert len(Federation.load("centre-1").record) == 1
    refused(reply(run, "centre-1", "york", "york-1"), "reply with counts of another round")
    done(reply(run, "centre-0", "york", "york-1"))
    for site in SITES:
        done(reply(run, "centre-1", site, f"{site}-2"))
    done(run("step", "centre-1", *(f"{site}-2" for site in SITES), "-o", "centre-1"))
    assert len(Federation.load("centre-1").record) == 2
    done(run(*merge, "--replace"))
    assert not Federation.load("centre-1").record


def test_absent_and_late_sites_are_told(run: Run, tmp_path: Path) -> None:
    first_merge(run)
    hospital(400, 0.4, 7).to_csv(tmp_path / "ripon.csv", index=False)
    for site in ("leeds", "ripon"):
        done(reply(run, "centre-0", site, f"{site}-1"))
    out = words(run("step", "centre-0", "leeds-1", "ripon-1", "-o", "next"))
    assert "No reply from hull, york: carried with what they sent last." in out
    assert "ELBO" not in out.split("At least")[0]
    assert Federation.load("next").sites == ("hull", "leeds", "ripon", "york")
    assert GlobalModel.load("next").n_sites == 4
    assert "No reply from hull, york" in words(run("describe", "next"))


def test_without_a_policy_the_elbo_rises_and_moves_are_told(run: Run, tmp_path: Path) -> None:
    done(run(*INIT))
    text = (tmp_path / "study.toml").read_text()
    assert 'policy = "opensafely"' in text
    (tmp_path / "study.toml").write_text(text.replace('"opensafely"', '"none"', 1))
    for site in SITES:
        done(run("fit", "study.toml", f"{site}.csv", "--site", site, "-o", f"{site}-0"))
    done(run("merge", "study.toml", *(f"{s}-0" for s in SITES), "-o", "centre-0"))
    known = [Federation.load("centre-0").lower_bound]
    for number in (1, 2, 3):
        last, following = f"centre-{number - 1}", f"centre-{number}"
        for site in SITES:
            done(reply(run, last, site, f"{site}-{number}"))
        out = words(run("step", last, *(f"{site}-{number}" for site in SITES), "-o", following))
        assert "Disclosure control" not in out
        known.append(Federation.load(following).lower_bound)
    assert known == sorted(known)
    assert (tmp_path / "hull-3" / "halves.csv").exists()


# Mistakes: one line, exit code 2, and not a byte is changed.


@pytest.fixture(scope="module")
def after_a_round(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which a round went well, and tables that don't fit."""
    folder = tmp_path_factory.mktemp("rounds")
    make_tables(folder)
    make_tables_that_do_not_fit(folder)
    (folder / "mine").mkdir()
    (folder / "mine" / "thesis.txt").write_text("years of work")
    other = ("other.toml", *INIT[4:-1], "other")
    ask = ("reply", "study.toml", "centre-0/broadcast")
    commands = [
        INIT,
        (*INIT[:3], *other),
        ("fit", "study.toml", "leeds.csv", "--site", "leeds", "-o", "leeds-0"),
        ("fit", "study.toml", "york.csv", "--site", "york", "-o", "york-0"),
        ("merge", "study.toml", "leeds-0", "york-0", "-o", "centre-0"),
        (*ask, "leeds.csv", "--site", "leeds", "-o", "leeds-1"),
        (*ask, "york.csv", "--site", "york", "-o", "york-1"),
        ("step", "centre-0", "leeds-1", "york-1", "-o", "centre-1"),
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for command in commands:
            cli.app(args=list(command), standalone_mode=False)
        shutil.copytree("centre-0", "broken")
        (folder / "broken" / "broadcast" / "expectations.csv").write_text("SECRET")
    return folder


REPLY = ("reply", "study.toml", "centre-0")
SITE = ("--site", "x", "-o", "new")
STEP, NEW = ("step", "centre-0"), ("-o", "new")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([*REPLY, "bad.csv", *SITE], ["'asthma'"]),
        ([*REPLY, "lacks.csv", *SITE], ["'stroke'"]),
        ([*REPLY, "empty.csv", *SITE], ["has no rows"]),
        ([*REPLY, "small.csv", *SITE], ["too small to take part alone"]),
        ([*REPLY, "nowhere.csv", *SITE], ["'nowhere.csv' does not exist"]),
        ([*REPLY, "leeds.csv", "--site", "a/b", "-o", "new"], ["'a/b'"]),
        ([*REPLY, "leeds.csv", "--site", "x", "-o", "mine"], ["'mine' is there already"]),
        ([*REPLY, "leeds.csv", "--site", "x", "-o", "centre-1"], ["is no reply"]),
        ([*REPLY, "leeds.csv", "--site", "x", "-o", "leeds-0"], ["is no reply"]),
        ([*REPLY, "leeds.csv", "--site", "x", "-o", "leeds.csv"], ["is no reply"]),
        ([*REPLY, "leeds.csv", "--site", "x", "-o", "no/new"], ["can't be written"]),
        ([*REPLY, "leeds.csv", *SITE, "--threads", "0"], ["--threads"]),
        ([*REPLY, "leeds.csv", "-o", "new"], ["--site"]),
        (["reply", "study.toml", "nowhere", "leeds.csv", *SITE], ["nowhere"]),
        (["reply", "study.toml", "leeds-0", "leeds.csv", *SITE], ["broadcast", "leeds-0"]),
        (["reply", "study.toml", "study.toml", "leeds.csv", *SITE], ["study.toml"]),
        (["reply", "study.toml", "broken", "leeds.csv", *SITE], ["broken", "copy it again"]),
        (["reply", "study.toml", "centre-0/model", "leeds.csv", *SITE], ["broadcast"]),
        (
            ["reply", "other.toml", "centre-0", "leeds.csv", *SITE],
            ["the broadcast is of another study than 'other'", "ask the centre"],
        ),
        (["reply", "nowhere.toml", "centre-0", "leeds.csv", *SITE], ["'nowhere.toml'"]),
        (["reply", "study.toml", "centre-0", *SITE], ["TABLE"]),
        ([*STEP, "leeds-0", "york-0", *NEW], ["no site has replied to this broadcast"]),
        ([*STEP, "leeds-0", *NEW], ["no site has replied to this broadcast: let sites reply"]),
        ([*STEP, "leeds-1", "leeds-1", *NEW], ["'leeds' is there twice"]),
        ([*STEP, "leeds-1", "leeds-0", *NEW], ["'leeds' is there twice"]),
        (["step", "centre-1", "leeds-1", *NEW], ["to another broadcast", "'leeds'"]),
        (["step", "leeds-0", "leeds-1", *NEW], ["federation.json"]),
        (["step", "nowhere", "leeds-1", *NEW], ["nowhere"]),
        (["step", "centre-0/broadcast", "leeds-1", *NEW], ["federation.json"]),
        (["step", "centre-0/model", "leeds-1", *NEW], ["federation.json"]),
        ([*STEP, "leeds-1", "-o", "mine"], ["name another"]),
        ([*STEP, "leeds-1", "-o", "leeds-1"], ["name another"]),
        ([*STEP, "nowhere", *NEW], ["'nowhere'"]),
        ([*STEP, "centre-1", *NEW], ["'centre-1'", "no summary and no reply"]),
        ([*STEP, *NEW], ["REPLY"]),
        (["merge", "study.toml", "leeds-1", *NEW], ["'leeds'", "a reply to a broadcast", "step"]),
        (["merge", "study.toml", "york-0", "leeds-1", *NEW], ["'leeds'", "give it to step"]),
        (["merge", "other.toml", "leeds-0", *NEW], ["'leeds'", "another study"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_refusals(
    after_a_round: Path,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    told: list[str],
) -> None:
    monkeypatch.chdir(after_a_round)
    before = {name: (after_a_round / name).stat().st_mtime_ns for name in files(after_a_round)}
    refused(run(*arguments), *told)
    after = {name: (after_a_round / name).stat().st_mtime_ns for name in files(after_a_round)}
    assert after == before


@pytest.mark.parametrize(
    ("work", "arguments"),
    [
        ("site.own_site.prepare_reply", [*REPLY, "leeds.csv", "--site", "x", "-o", "mine"]),
        ("site.own_site.prepare_reply", [*REPLY, "leeds.csv", "--site", "x", "-o", "no/new"]),
        (
            "site.reply_site.open_site_table",
            ["reply", "other.toml", "centre-0", "leeds.csv", *SITE],
        ),
        ("commands.centre.Federation", [*STEP, "leeds-1", "-o", "mine"]),
        ("commands.centre.load_release", ["step", "centre-0/model", "leeds-1", *NEW]),
    ],
)
def test_what_can_be_refused_before_the_work_is(
    after_a_round: Path, run: Run, monkeypatch: pytest.MonkeyPatch, work: str, arguments: list[str]
) -> None:
    def too_late(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.chdir(after_a_round)
    monkeypatch.setattr(f"fedmerdel.{work}", too_late)
    said = run(*arguments)
    refused(said)
    assert "internal" not in said.err


def test_a_centre_may_be_replaced_by_the_next(
    after_a_round: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same name for both: it is read before it is written."""
    shutil.copytree(after_a_round, tmp_path / "copy")
    monkeypatch.chdir(tmp_path / "copy")
    done(run(*STEP, "leeds-1", "york-1", "-o", "centre-0"))
    assert [each.number for each in Federation.load("centre-0").record] == [1]
    refused(run(*STEP, "leeds-1", "york-1", "-o", "centre-0"), "another broadcast")
