"""Folders of hospitals' tables in which commands are run."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from fedmerdel import cli
from tests.command_line import INIT, Said, make_tables, make_tables_that_do_not_fit


@pytest.fixture(scope="session")
def hospital_tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of three hospitals' tables, to be copied."""
    folder = tmp_path_factory.mktemp("tables")
    make_tables(folder)
    return folder


@pytest.fixture
def run(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    hospital_tables: Path,
):
    """Run a command in a folder of three hospitals' tables."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    shutil.copytree(hospital_tables, tmp_path, dirs_exist_ok=True)

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


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which all went well once, and some tables that don't fit."""
    folder = tmp_path_factory.mktemp("story")
    make_tables(folder)
    make_tables_that_do_not_fit(folder)
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
