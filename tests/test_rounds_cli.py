"""Exchanges on the command line: from the first merge to better clusters, and every mistake."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from fedmerdel import GlobalModel, SiteSummary, cli, commands
from tests.command_line import (
    INIT,
    SITES,
    Said,
    done,
    files,
    hospital,
    make_tables,
    make_tables_that_do_not_fit,
    refused,
)

Run = Callable[..., Said]


def words(said: Said) -> str:
    return " ".join(done(said).split())


def first_merge(run: Run, suffix: str = ".csv") -> None:
    done(run(*INIT))
    for site in SITES:
        done(run("fit", "study.toml", f"{site}{suffix}", "--site", site, "-o", f"{site}-0"))
    folders = [f"{site}-0" for site in SITES]
    done(run("merge", "study.toml", *folders, "-o", "model-0"))


@pytest.mark.parametrize(("suffix", "packed"), [(".csv", ""), (".parquet", ".zip")])
def test_the_whole_story(run: Run, tmp_path: Path, suffix: str, packed: str) -> None:
    first_merge(run, suffix)
    for number in (1, 2):
        last, following = f"model-{number - 1}", f"model-{number}"
        replies = [f"{site}-{number}{packed}" for site in SITES]
        for site, reply in zip(SITES, replies, strict=True):
            out = words(run("update", last, f"{site}{suffix}", "--site", site, "-o", reply))
            assert f"Reply for exchange {number} written to {reply}" in out
            assert f"Next: fedmerdel review {reply}" in out
            assert "they are not in what you send" in out
            out = done(run("review", reply))
            assert "reply to clusters" in out
            assert "opensafely" in out
        out = words(run("merge", "study.toml", *replies, "--onto", last, "-o", following))
        assert f"Round {number}: 2 clusters, ELBO -" in out
        assert "of the rows changed cluster" in out
        assert "Disclosure control costs at most" in out
        assert f"Next: fedmerdel describe {following}" in out
        assert (" a row). At least" in out) == (number == 2)
    out = words(run("describe", "model-2"))
    assert "Round 2: 2 clusters" in out
    assert "Cluster 1: " in out
    done(run("assign", "model-2", f"york{suffix}", "--site", "york", "-o", "labels.csv"))
    found = pd.read_csv("labels.csv")
    assert found["patient"].tolist() == [f"SECRET-1-{n}" for n in range(400)]
    assert found["cluster"].isin([0, 1]).all()
    model = GlobalModel.load("model-2")
    assert [step.number for step in model.record] == [1, 2]
    assert not any(name.startswith(".") for name in files(tmp_path))
    # Of all that was written, only labels know a patient.
    for path in tmp_path.rglob("*"):
        if path.is_file() and path.suffix in (".json", ".txt", ".toml", ".csv", ".zip"):
            holds_rows = path.name == "labels.csv" or path.name in {f"{s}.csv" for s in SITES}
            assert (b"SECRET" in path.read_bytes()) == holds_rows, path


def test_the_part_that_is_sent_out_is_enough(run: Run, tmp_path: Path) -> None:
    first_merge(run)
    shutil.copytree("model-0/broadcast", "sent")
    done(run("update", "model-0", "york.csv", "--site", "york", "-o", "whole"))
    done(run("update", "sent", "york.csv", "--site", "york", "-o", "part", "--threads", "2"))
    assert summary_files(SiteSummary.load("whole")) == summary_files(SiteSummary.load("part"))
    note = (tmp_path / "whole" / "README.txt").read_text()
    assert "This is a reply" in note
    # A reply or a model of before is replaced, whole.
    done(run("update", "sent", "hull.csv", "--site", "hull", "-o", "whole"))
    assert SiteSummary.load("whole").site == "hull"


def test_absent_and_late_sites_are_told(run: Run, tmp_path: Path) -> None:
    first_merge(run)
    hospital(400, 0.4, 7).to_csv(tmp_path / "ripon.csv", index=False)
    for site in ("leeds", "ripon"):
        done(run("update", "model-0", f"{site}.csv", "--site", site, "-o", f"{site}-1"))
    out = words(run("merge", "study.toml", "leeds-1", "ripon-1", "--onto", "model-0", "-o", "m1"))
    assert "No reply from hull, york: carried with what they sent last." in out
    assert "ELBO" not in out.split("At least")[0]
    assert GlobalModel.load("m1").sites == ("hull", "leeds", "ripon", "york")
    assert "No reply from hull, york" in words(run("describe", "m1"))


def test_without_a_policy_the_elbo_rises_and_moves_are_told(run: Run, tmp_path: Path) -> None:
    done(run(*INIT))
    text = (tmp_path / "study.toml").read_text()
    assert 'policy = "opensafely"' in text
    (tmp_path / "study.toml").write_text(text.replace('"opensafely"', '"none"', 1))
    for site in SITES:
        done(run("fit", "study.toml", f"{site}.csv", "--site", site, "-o", f"{site}-0"))
    done(run("merge", "study.toml", *(f"{s}-0" for s in SITES), "-o", "model-0"))
    known = [GlobalModel.load("model-0").lower_bound]
    for number in (1, 2, 3):
        for site in SITES:
            done(run("update", f"model-{number - 1}", f"{site}.csv", "--site", site, "-o", site))
        out = words(run("merge", "study.toml", *SITES, "--onto", f"model-{number - 1}",
                        "-o", f"model-{number}"))  # fmt: skip
        assert "Disclosure control" not in out
        known.append(GlobalModel.load(f"model-{number}").lower_bound)
    assert known == sorted(known)
    assert (tmp_path / "hull" / "halves.csv").exists()


# Mistakes: one line, exit code 2, and not a byte is changed.


@pytest.fixture(scope="module")
def exchanged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which two exchanges went well, and tables that don't fit."""
    folder = tmp_path_factory.mktemp("exchanged")
    make_tables(folder)
    make_tables_that_do_not_fit(folder)
    (folder / "mine").mkdir()
    (folder / "mine" / "thesis.txt").write_text("years of work")
    other = ("other.toml", *INIT[4:-1], "other")
    commands = [
        INIT,
        (*INIT[:3], *other),
        ("fit", "study.toml", "leeds.csv", "--site", "leeds", "-o", "leeds-0"),
        ("fit", "study.toml", "york.csv", "--site", "york", "-o", "york-0"),
        ("merge", "study.toml", "leeds-0", "york-0", "-o", "model-0"),
        ("update", "model-0", "leeds.csv", "--site", "leeds", "-o", "leeds-1"),
        ("update", "model-0", "york.csv", "--site", "york", "-o", "york-1"),
        ("merge", "study.toml", "leeds-1", "york-1", "--onto", "model-0", "-o", "model-1"),
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for command in commands:
            cli.app(args=list(command), standalone_mode=False)
        shutil.copytree("model-0", "broken")
        (folder / "broken" / "broadcast" / "expectations.csv").write_text("SECRET")
    return folder


UPDATE = ("update", "model-0")
SITE = ("--site", "x", "-o", "new")
MERGE, ONTO = ("merge", "study.toml"), ("--onto", "model-0", "-o", "new")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([*UPDATE, "bad.csv", *SITE], ["'asthma'"]),
        ([*UPDATE, "lacks.csv", *SITE], ["'stroke'"]),
        ([*UPDATE, "empty.csv", *SITE], ["has no rows"]),
        ([*UPDATE, "small.csv", *SITE], ["too small to take part alone"]),
        ([*UPDATE, "nowhere.csv", *SITE], ["'nowhere.csv' does not exist"]),
        ([*UPDATE, "leeds.csv", "--site", "a/b", "-o", "new"], ["'a/b'"]),
        ([*UPDATE, "leeds.csv", "--site", "x", "-o", "mine"], ["'mine' is there already"]),
        ([*UPDATE, "leeds.csv", "--site", "x", "-o", "model-1"], ["is no summary"]),
        ([*UPDATE, "leeds.csv", "--site", "x", "-o", "leeds.csv"], ["is no summary"]),
        ([*UPDATE, "leeds.csv", "--site", "x", "-o", "no/new"], ["can't be written"]),
        ([*UPDATE, "leeds.csv", *SITE, "--threads", "0"], ["--threads"]),
        ([*UPDATE, "leeds.csv", "-o", "new"], ["--site"]),
        (["update", "nowhere", "leeds.csv", *SITE], ["nowhere"]),
        (["update", "leeds-0", "leeds.csv", *SITE], ["broadcast.json"]),
        (["update", "study.toml", "leeds.csv", *SITE], ["study.toml"]),
        (["update", "broken", "leeds.csv", *SITE], ["broken", "copy it again"]),
        ([*MERGE, "leeds-0", "york-0", *ONTO], ["no site has replied to this model"]),
        ([*MERGE, "leeds-1", "leeds-1", *ONTO], ["'leeds' is there twice"]),
        ([*MERGE, "leeds-1", "leeds-0", *ONTO], ["'leeds' is there twice"]),
        (["merge", "other.toml", "leeds-1", *ONTO], ["model is of another study than 'other'"]),
        ([*MERGE, "leeds-1", "--onto", "model-1", "-o", "new"], ["to another model", "'leeds'"]),
        ([*MERGE, "leeds-1", "--onto", "leeds-0", "-o", "new"], ["model.json"]),
        ([*MERGE, "leeds-1", "--onto", "nowhere", "-o", "new"], ["nowhere"]),
        ([*MERGE, "leeds-1", "--onto", "model-0/broadcast", "-o", "new"], ["model.json"]),
        ([*MERGE, "leeds-1", "--onto", "model-0", "-o", "mine"], ["name another folder"]),
        ([*MERGE, "leeds-1", "--onto", "model-0", "-o", "leeds-1"], ["name another folder"]),
        ([*MERGE, "nowhere", *ONTO], ["'nowhere'"]),
        ([*MERGE, "model-1", *ONTO], ["'model-1'"]),
        ([*MERGE, *ONTO], ["FOLDER"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_refusals(
    exchanged: Path,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    told: list[str],
) -> None:
    monkeypatch.chdir(exchanged)
    before = {name: (exchanged / name).stat().st_mtime_ns for name in files(exchanged)}
    refused(run(*arguments), *told)
    assert {name: (exchanged / name).stat().st_mtime_ns for name in files(exchanged)} == before


@pytest.mark.parametrize(
    ("work", "arguments"),
    [
        ("prepare_update", [*UPDATE, "leeds.csv", "--site", "x", "-o", "mine"]),
        ("prepare_update", [*UPDATE, "leeds.csv", "--site", "x", "-o", "no/new"]),
        ("merge_onto", [*MERGE, "leeds-1", "--onto", "model-0", "-o", "mine"]),
        ("merge_onto", ["merge", "other.toml", "leeds-1", *ONTO]),
    ],
)
def test_what_can_be_refused_before_the_work_is(
    exchanged: Path, run: Run, monkeypatch: pytest.MonkeyPatch, work: str, arguments: list[str]
) -> None:
    def too_late(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.chdir(exchanged)
    monkeypatch.setattr(commands.centre if work == "merge_onto" else commands.site, work, too_late)
    said = run(*arguments)
    refused(said)
    assert "internal" not in said.err


def test_a_model_that_is_merged_onto_may_be_replaced_by_the_next(
    exchanged: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same name for both: it is read before it is written."""
    shutil.copytree(exchanged, tmp_path / "copy")
    monkeypatch.chdir(tmp_path / "copy")
    done(run(*MERGE, "leeds-1", "york-1", "--onto", "model-0", "-o", "model-0"))
    assert [step.number for step in GlobalModel.load("model-0").record] == [1]
    refused(run(*MERGE, "leeds-1", "york-1", "--onto", "model-0", "-o", "model-0"), "another model")
