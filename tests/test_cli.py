"""The command line, from a hospital's table to its labels, and every refusal on the way."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest

from fedmerdel import Study, cli, draft_study

NAMES = ("asthma", "diabetes", "stroke", "smoker")
SITES = {"leeds": 0.3, "york": 0.6, "hull": 0.5}


class Said(NamedTuple):
    code: int
    out: str
    err: str


def hospital(n_rows: int, share: float, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    ill = rng.random(n_rows) < share
    chance = np.where(ill[:, None], [0.7, 0.8, 0.4, 0.9], [0.1, 0.1, 0.05, 0.2])
    frame = pd.DataFrame((rng.random((n_rows, 4)) < chance).astype(int), columns=list(NAMES))
    frame["died"] = np.where(rng.random(n_rows) < np.where(ill, 0.3, 0.05), "yes", "no")
    frame["patient"] = [f"SECRET-{seed}-{n}" for n in range(n_rows)]
    frame["seen"] = pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(n_rows) % 300, "D")
    frame["bmi"] = rng.normal(27, 4, n_rows).round(3)
    return frame


def make_tables(folder: Path) -> None:
    for seed, (site, share) in enumerate(SITES.items()):
        table = hospital(400, share, seed)
        table.to_csv(folder / f"{site}.csv", index=False)
        table.to_parquet(folder / f"{site}.parquet")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path):
    """Run a command in a folder of three hospitals' tables."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    make_tables(tmp_path)

    def call(*arguments: str) -> Said:
        monkeypatch.setattr(sys, "argv", ["fedmerdel", *arguments])
        capsys.readouterr()
        code = 0
        try:
            cli.main()
        except SystemExit as stop:
            code = int(stop.code or 0)
        said = Said(code, *capsys.readouterr())
        assert "Traceback" not in said.out + said.err
        assert "SECRET" not in said.out + said.err
        assert all(len(line.rstrip()) <= 80 for line in said.out.splitlines()), said.out
        return said

    return call


INIT = ("init", "leeds.csv", "-o", "study.toml", "--outcome", "died", "--row-id", "patient")
INIT += ("--exclude", "seen", "--exclude", "bmi", "--name", "lungs")


def done(said: Said) -> str:
    assert said.code == 0, said.err
    assert said.err == ""
    return said.out


def refused(said: Said, *words: str) -> None:
    assert said.code == 2
    assert said.err.startswith("error: ")
    assert said.err.count("\n") == 1
    assert all(word in said.err for word in words), said.err


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("packed", ["", ".zip"])
def test_the_whole_story(run, tmp_path: Path, suffix: str, packed: str) -> None:
    out = done(run(*INIT))
    assert "4 variables" in out
    assert "opensafely" in out
    assert "Next: fedmerdel check study.toml" in out
    study = Study.load("study.toml")
    assert (study.name, study.outcomes, study.row_id) == ("lungs", ("died",), "patient")

    before = files(tmp_path)
    out = done(run("check", "study.toml", f"leeds{suffix}"))
    assert "400 rows, 4 variables" in out
    assert "Nothing was written" in out
    assert "bmi" in out
    assert files(tmp_path) == before

    for site in SITES:
        target = f"out-{site}{packed}"
        out = done(run("fit", "study.toml", f"{site}{suffix}", "--site", site, "-o", target))
        assert f"Next: fedmerdel review {target}" in out
        out = done(run("review", target))
        assert "opensafely" in out
        assert "Smallest counts that are not 0" in out
        assert "smallest count that is not 0" in out
        assert site in out

    targets = [f"out-{site}{packed}" for site in SITES]
    out = done(run("merge", "study.toml", *targets, "-o", "model"))
    assert "3 sites became 2 clusters" in " ".join(out.split())
    assert "Next: fedmerdel describe model" in out

    out = done(run("describe", "model"))
    assert "Cluster 0: " in out
    assert "Cluster 1: " in out
    assert "diabetes=1" in out
    assert "died" in out
    assert "leeds" in out

    for labels in ("labels.csv", "labels.parquet"):
        done(run("assign", "model", f"york{suffix}", "--site", "york", "-o", labels))
        found = pd.read_csv(labels) if labels.endswith("csv") else pd.read_parquet(labels)
        assert list(found.columns) == ["patient", "cluster", "probability"]
        assert found["patient"].tolist() == [f"SECRET-1-{n}" for n in range(400)]
        assert found["probability"].between(0.5, 1).all()
    done(run("assign", "model", f"york{suffix}", "-o", "everyone.csv"))
    assert not any(name.startswith(".") for name in files(tmp_path))


def test_a_study_from_a_data_dictionary(run, tmp_path: Path) -> None:
    rows = [f"{name},0|1,Has {name}" for name in NAMES]
    (tmp_path / "dictionary.csv").write_text("\n".join(["variable,levels,label", *rows]))
    done(run("init", "dictionary.csv", "-o", "study.toml"))
    study = Study.load("study.toml")
    assert (
        study.codebook
        == draft_study("leeds.csv", exclude=("died", "patient", "seen", "bmi")).codebook
    )
    assert study.label("stroke") == "Has stroke"
    done(run("fit", "study.toml", "leeds.csv", "--site", "leeds", "-o", "leeds"))
    done(run("merge", "study.toml", "leeds", "-o", "model"))
    assert "Has diabetes=1" in " ".join(done(run("describe", "model")).split())


def test_names_with_brackets_are_shown_as_they_are(run, tmp_path: Path) -> None:
    table = hospital(300, 0.5, 0)[[*NAMES]].rename(columns={"stroke": "[/b]", "smoker": "[red]"})
    table.to_csv(tmp_path / "odd.csv", index=False)
    done(run("init", "odd.csv", "-o", "study.toml"))
    done(run("fit", "study.toml", "odd.csv", "--site", "[bold]", "-o", "odd"))
    assert "[red]" in done(run("review", "odd"))
    done(run("merge", "study.toml", "odd", "-o", "model"))
    out = done(run("describe", "model"))
    assert "[/b]=1" in out
    assert "[bold] " in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["bogus"], ["No such command"]),
        (["fit"], ["Missing"]),
        (["fit", "study.toml"], ["TABLE"]),
        (["check", "study.toml", "leeds.csv", "--fast"], ["--fast"]),
        (["merge", "study.toml", "-o", "m"], ["FOLDER"]),
        (
            ["fit", "study.toml", "leeds.csv", "--site", "x", "-o", "m", "--threads", "two"],
            ["--threads"],
        ),
        (["assign", "model", "leeds.csv", "-o", "m.csv", "--threads", "0"], ["--threads"]),
        (["fit", "study.toml", "empty.csv", "--site", "x", "-o", "new"], ["has no rows"]),
        (["check", "study.toml", "empty.csv"], ["has no rows"]),
        (["init", "leeds.csv", "-o", "new.toml"], ["'seen' (holds dates or times)", "'bmi'"]),
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
        (["merge", "study.toml", "leeds", "-o", "leeds"], ["name another folder"]),
        (["merge", "study.toml", "leeds", "-o", "new", "--search", "best"], ["search", "'exact'"]),
        (["describe", "leeds"], ["model.json"]),
        (["assign", "model", "leeds.csv", "--site", "paris", "-o", "new.csv"], ["'paris'"]),
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


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which all went well once, and some tables that don't fit."""
    folder = tmp_path_factory.mktemp("story")
    make_tables(folder)
    table = pd.read_csv(folder / "leeds.csv")
    table.assign(asthma="SECRET").to_csv(folder / "bad.csv", index=False)
    table.head(0).to_csv(folder / "empty.csv", index=False)
    table.head(6).to_csv(folder / "small.csv", index=False)
    table.drop(columns="stroke").to_csv(folder / "lacks.csv", index=False)
    commands = [
        INIT,
        (*INIT[:3], "other.toml", *INIT[4:-1], "other"),
        ("fit", "study.toml", "leeds.csv", "--site", "leeds", "-o", "leeds"),
        ("merge", "study.toml", "leeds", "-o", "model"),
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for command in commands:
            cli.app(args=list(command), standalone_mode=False)
    return folder


@pytest.fixture
def run_in_story(run, story: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(story)
    return run


def test_what_nobody_foresaw_is_one_line_without_its_text(
    run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise KeyError("SECRET")

    done(run(*INIT))
    monkeypatch.setattr(cli, "check_site", fails)
    refused(run("check", "study.toml", "leeds.csv"), "internal (KeyError)")


def test_a_key_that_stops_it(run, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    done(run(*INIT))
    monkeypatch.setattr(cli, "check_site", stopped)
    said = run("check", "study.toml", "leeds.csv")
    assert (said.code, said.err) == (130, "error: stopped before the end\n")


def test_a_warning_is_one_line(run, tmp_path: Path) -> None:
    hospital(300, 0.5, 0)[[*NAMES]].assign(one="x").to_csv(tmp_path / "one.csv", index=False)
    said = run("init", "one.csv", "-o", "study.toml")
    assert said.code == 0
    assert said.err.startswith("note: ")
    assert said.err.count("\n") == 1


def test_every_command_has_help(run) -> None:
    for command in ("init", "check", "fit", "review", "merge", "assign", "describe"):
        assert "Usage: fedmerdel" in done(run(command, "--help"))
        assert command in done(run())


def test_as_a_process(story: Path) -> None:
    command = [sys.executable, "-m", "fedmerdel.cli", "describe", "nowhere"]
    said = subprocess.run(command, cwd=story, capture_output=True, text=True, check=False)
    refused(Said(said.returncode, said.stdout, said.stderr), "nowhere")
    assert said.stdout == ""
