"""Every refusal of the command line: one line, and nothing is written."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fedmerdel.cli import COMMANDS
from fedmerdel.commands import centre, site
from fedmerdel.site import own_site
from tests.command_line import INIT, NAMES, Said, done, files, hospital, refused


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["bogus"], ["No such command"]),
        (["fit"], ["Missing"]),
        (["fit", "study.toml", "-o", "new"], ["TABLE"]),
        (["fit", "study.toml", "leeds.csv", "-o", "new"], ["--site"]),
        (["check", "study.toml", "leeds.csv", "--fast"], ["--fast"]),
        (["merge", "study.toml", "-o", "m"], ["SUMMARY"]),
        (
            ["fit", "study.toml", "leeds.csv", "--site", "x", "-o", "m", "--threads", "two"],
            ["--threads"],
        ),
        (["assign", "model", "leeds.csv", "-o", "m.csv", "--threads", "0"], ["--threads"]),
        (["fit", "study.toml", "empty.csv", "--site", "x", "-o", "new"], ["has no rows"]),
        (["check", "study.toml", "empty.csv"], ["has no rows"]),
        (
            ["init", "leeds.csv", "-o", "new.toml"],
            ["'seen' (holds dates or times)", "'bmi'", "with --exclude", "--outcome", "--row-id"],
        ),
        (["init", "nowhere.csv", "-o", "new.toml"], ["'nowhere.csv' does not exist"]),
        (["init", "leeds.csv", "-o", "study.toml"], ["'study.toml' is there"]),
        (["init", "leeds.csv", "-o", "leeds.csv"], ["'leeds.csv' is there"]),
        ([*INIT[:3], "no/new.toml", *INIT[4:]], ["'no/new.toml' can't be written"]),
        ([*INIT[:3], "new.toml", *INIT[4:], "--exclude", "age"], ["no column 'age'"]),
        (["check", "nowhere.toml", "leeds.csv"], ["'nowhere.toml'"]),
        (["check", "leeds.csv", "study.toml"], ["'leeds.csv'"]),
        (["check", "study.toml", "bad.csv"], ["'asthma'"]),
        (["check", "study.toml", "small.csv"], ["fewer than the 10"]),
        (["fit", "study.toml", "bad.csv", "--site", "x", "-o", "new"], ["'asthma'"]),
        (["fit", "study.toml", "small.csv", "--site", "x", "-o", "new"], ["too small"]),
        (["fit", "study.toml", "lacks.csv", "--site", "x", "-o", "new"], ["'stroke'"]),
        (["fit", "study.toml", "leeds.csv", "--site", "a/b", "-o", "new"], ["'a/b'"]),
        (["fit", "study.toml", "leeds.csv", "--site", "x", "-o", "no/new"], ["can't be written"]),
        (["fit", "study.toml", "leeds.csv", "--site", "x", "-o", "leeds.csv"], ["leeds.csv"]),
        (["review", "nowhere"], ["'nowhere'"]),
        (["review", "leeds.csv"], ["'leeds.csv'"]),
        (["merge", "study.toml", "leeds", "leeds", "-o", "new"], ["'leeds' is there twice"]),
        (["merge", "other.toml", "leeds", "-o", "new"], ["another study"]),
        (["merge", "study.toml", "nowhere", "-o", "new"], ["'nowhere'"]),
        (["merge", "study.toml", "leeds", "-o", "leeds"], ["no centre's folder", "name another"]),
        (
            ["merge", "study.toml", "leeds", "-o", "new", "--search", "best"],
            ["--search", "'auto'", "'exact'"],
        ),
        (["describe", "leeds"], ["model 'leeds'"]),
        (["assign", "model", "leeds.csv", "--site", "paris", "-o", "new.csv"], ["--site"]),
        (["assign", "leeds", "leeds.csv", "-o", "new.csv"], ["model 'leeds'"]),
        (["assign", "model/broadcast", "leeds.csv", "-o", "new.csv"], ["model 'model/broadcast'"]),
        (["merge", "study.toml", "model", "-o", "new"], ["'model'", "no summary and no reply"]),
        (["merge", "study.toml", "model/model", "-o", "new"], ["no summary and no reply"]),
        (["review", "model"], ["'model'", "no summary and no reply"]),
        (["update", "model", "leeds.csv", "--site", "x", "-o", "new"], ["No such command"]),
        (["assign", "model", "leeds.csv", "-o", "new.xlsx"], [".csv or .parquet"]),
        (["assign", "model", "leeds.csv", "-o", "no/new.csv"], ["can't be written"]),
        (["assign", "model", "leeds.csv", "-o", "leeds.csv"], ["the table itself"]),
        (["assign", "model", "bad.csv", "-o", "new.csv"], ["'asthma'"]),
        (["assign", "nowhere", "leeds.csv", "-o", "new.csv"], ["nowhere"]),
    ],
)
def test_refusals(story: Path, run_in_story, arguments: list[str], words: list[str]) -> None:
    before = {name: (story / name).stat().st_mtime_ns for name in files(story)}
    refused(run_in_story(*arguments), *words)
    assert {name: (story / name).stat().st_mtime_ns for name in files(story)} == before


@pytest.mark.parametrize(
    ("work", "arguments", "words"),
    [
        ("draft_study", ["init", "leeds.csv", "-o", "no/new.toml"], ["can't be written"]),
        ("draft_study", ["init", "leeds.csv", "-o", "leeds.csv"], ["is there"]),
        (
            "prepare_release",
            ["fit", "study.toml", "leeds.csv", "--site", "x", "-o", "leeds.csv"],
            ["is no summary"],
        ),
        (
            "prepare_release",
            ["fit", "study.toml", "leeds.csv", "--site", "x", "-o", "model"],
            ["is no summary"],
        ),
        (
            "prepare_release",
            ["fit", "study.toml", "leeds.csv", "--site", "x", "-o", "no/new"],
            ["summary 'no/new' can't be written"],
        ),
        ("merge_sites", ["merge", "study.toml", "leeds", "-o", "leeds"], ["name another"]),
        ("merge_sites", ["merge", "study.toml", "leeds", "-o", "."], ["can't be written"]),
        ("merge_sites", ["merge", "study.toml", "leeds", "-o", "leeds.csv/m"], ["can't be"]),
        ("assign", ["assign", "model", "leeds.csv", "-o", "new.xlsx"], [".csv or .parquet"]),
        ("assign", ["assign", "model", "leeds.csv", "-o", "no/new.csv"], ["can't be written"]),
        ("assign", ["assign", "model", "leeds.csv", "-o", "taken.csv"], ["can't be written"]),
    ],
)
def test_a_place_that_cannot_be_written_is_refused_before_the_work(
    story: Path,
    run_in_story,
    monkeypatch: pytest.MonkeyPatch,
    work: str,
    arguments: list[str],
    words: list[str],
) -> None:
    def too_late(*_: object, **__: object) -> None:
        raise AssertionError

    (story / "taken.csv").mkdir(exist_ok=True)
    home = {"merge_sites": centre, "prepare_release": own_site}.get(work, site)
    monkeypatch.setattr(home, work, too_late)
    refused(run_in_story(*arguments), *words)


def test_what_nobody_foresaw_is_one_line_without_its_text(
    run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise KeyError("SECRET")

    done(run(*INIT))
    monkeypatch.setattr(own_site, "check_site", fails)
    refused(run("check", "study.toml", "leeds.csv"), "internal (KeyError)")


def test_a_key_that_stops_it(run, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    done(run(*INIT))
    monkeypatch.setattr(own_site, "check_site", stopped)
    said = run("check", "study.toml", "leeds.csv")
    assert (said.code, said.err) == (130, "error: stopped before the end\n")


def test_a_warning_is_one_line(run, tmp_path: Path) -> None:
    hospital(300, 0.5, 0)[[*NAMES]].assign(one="x").to_csv(tmp_path / "one.csv", index=False)
    said = run("init", "one.csv", "-o", "study.toml")
    assert said.code == 0
    assert said.err.startswith("note: ")
    assert said.err.count("\n") == 1


def test_every_command_has_help(run) -> None:
    guide = done(run())
    for command in COMMANDS:
        assert "Usage: fedmerdel" in done(run(command, "--help"))
        assert command in guide


def test_as_a_process(story: Path) -> None:
    command = [sys.executable, "-m", "fedmerdel.cli", "describe", "nowhere"]
    said = subprocess.run(command, cwd=story, capture_output=True, text=True, check=False)
    refused(Said(said.returncode, said.stdout, said.stderr), "nowhere")
    assert said.stdout == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no such device")
def test_a_full_disk_is_one_line() -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        run = [sys.executable, "-m", "fedmerdel.cli", "--help"]
        told = subprocess.run(run, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert told.returncode == 2
    assert told.stderr.startswith("error: what the command says can't be shown")
    assert told.stderr.count("\n") == 1


def test_a_closed_pipe_is_no_traceback() -> None:
    """As with `| head`: it ends, and says nothing."""
    run = [sys.executable, "-m", "fedmerdel.cli", "--help"]
    with subprocess.Popen(run, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as asked:
        assert asked.stdout is not None
        assert asked.stderr is not None
        asked.stdout.close()
        told = asked.stderr.read()
    assert asked.returncode in (1, 2)
    assert "Traceback" not in told
    assert told.count("\n") <= 1
