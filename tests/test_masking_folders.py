"""Turns by files: what lies where, and what a crash, a copy or a stranger's file can't change."""

from __future__ import annotations

import base64
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedmerdel import DataError, FileError
from fedmerdel.masking import SiteState, take_centre_turn, take_site_turn
from fedmerdel.masking.folders import LOCK, STATE
from fedmerdel.masking.spelling import read
from fedmerdel.swap import take_lock
from tests.masked import AGREED, MOST, NAMES, Toy, member, vectors

ROOT = Path(__file__).resolve().parents[1]


class Places:
    """Folders of all sites and of the centre, and a courier between them."""

    def __init__(self, folder: Path, names: tuple[str, ...] = NAMES) -> None:
        self.folder, self.names = folder, names
        self.works = {name: Toy(each, 2) for name, each in vectors(names).items()}
        for name in ("to-sites", "to-centre", *(f"from-{site}" for site in names)):
            (folder / name).mkdir()

    def site(self, name: str) -> str:
        inbox, outbox = self.folder / "to-sites", self.outbox(name)
        work = self.works[name]
        return take_site_turn(self.folder / name, inbox, outbox, AGREED, member(name), work)

    def centre(self, **options: Any) -> Any:
        places = (self.folder / each for each in ("centre", "to-centre", "to-sites"))
        return take_centre_turn(*places, AGREED, self.works["hull"], **options)

    def outbox(self, name: str) -> Path:
        return self.folder / f"from-{name}"

    def carry(self) -> None:
        for path in self.folder.glob("from-*/*.json"):
            (self.folder / "to-centre" / path.name).write_bytes(path.read_bytes())

    def all_turns(self) -> str:
        for name in self.names:
            self.site(name)
        self.carry()
        return str(self.centre().waiting)

    def state(self, name: str) -> SiteState:
        return read(SiteState, (self.folder / name / STATE).read_bytes(), MOST)


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(tmp_path)


def test_a_run_by_files(places: Places) -> None:
    said = [places.all_turns() for _ in range(5)]
    assert said == [
        "The centre waits for 5 of 5 sites to answer question 0: hull, kent, leeds, wells, york.",
        "The centre waits for 5 of 5 sites to open their masks of question 0: "
        "hull, kent, leeds, wells, york.",
        "The centre waits for 5 of 5 sites to answer question 1: hull, kent, leeds, wells, york.",
        "The centre waits for 5 of 5 sites to open their masks of question 1: "
        "hull, kent, leeds, wells, york.",
        "The run has ended with 2 totals.",
    ]
    assert places.site("york") == "The run has ended with 2 totals."
    history = places.centre().state.history
    plain = sum(vectors().values())
    np.testing.assert_array_equal(history.openings[1].totals, 2 * plain)
    np.testing.assert_array_equal(places.state("york").history.openings[1].totals, 2 * plain)
    assert sorted(path.name for path in places.outbox("york").iterdir()) == [
        "answer-000-00-york.json",
        "answer-001-00-york.json",
        "join-york.json",
        "seed-000-00-york.json",
        "seed-001-00-york.json",
    ]
    assert sorted(path.name for path in (places.folder / "to-sites").iterdir()) == [
        "ask-000-00.json",
        "ask-001-00.json",
        "end.json",
        "heads-000-00.json",
        "heads-001-00.json",
    ]


def test_secrets_stay_in_the_sites_own_folder(places: Places) -> None:
    for _ in range(2):
        places.all_turns()
        state = places.state("york")
        out = [path for path in places.folder.rglob("*.json") if path.parent.name != "york"]
        for secret in filter(None, (state.secret, state.seed)):
            for path in out:
                assert base64.b64encode(secret) not in path.read_bytes()
    if os.name == "posix":
        assert stat.S_IMODE((places.folder / "york" / STATE).stat().st_mode) == 0o600
        assert stat.S_IMODE((places.folder / "york").stat().st_mode) == 0o700
    secret = base64.b64encode(state.secret)
    for _ in range(3):
        places.all_turns()
    places.site("york")
    assert state.secret
    assert secret not in (places.folder / "york" / STATE).read_bytes()


def test_the_same_bytes_again_after_the_outbox_was_lost(places: Places) -> None:
    for _ in range(2):
        places.all_turns()
    sent = places.outbox("york") / "answer-000-00-york.json"
    content = sent.read_bytes()
    sent.unlink()
    places.site("york")
    assert sent.read_bytes() == content
    sent.write_bytes(content[:100])  # a crash cut it off
    places.site("york")
    assert sent.read_bytes() == content


def test_a_turn_too_often_changes_nothing(places: Places) -> None:
    places.all_turns()
    for _ in range(3):
        before = {path: path.read_bytes() for path in places.folder.rglob("*.json")}
        for name in NAMES:
            places.site(name)
        places.carry()
        during = {path: path.read_bytes() for path in places.folder.rglob("*.json")}
        for name in NAMES:
            places.site(name)
        assert {path: path.read_bytes() for path in places.folder.rglob("*.json")} == during
        sent = {path: content for path, content in before.items() if path.name != STATE}
        assert sent.items() <= during.items()
        places.centre()


def test_files_that_are_late_foreign_or_there_twice(places: Places) -> None:
    places.all_turns()
    inbox = places.folder / "to-sites"
    ask = (inbox / "ask-000-00.json").read_bytes()
    for name in ("ask-000-00 (1).json", "Ask-000-00.json", "notes.txt", ".ask-000-00.json.part"):
        (inbox / name).write_bytes(ask[:50])
    (inbox / "heads-000-07.json").mkdir()
    for _ in range(2):
        places.all_turns()
    (inbox / "ask-000-00.json").write_bytes(b"late, and not even read")
    places.carry()
    (places.folder / "to-centre" / "answer-000-00-york.json").write_bytes(b"late too")
    (places.folder / "to-centre" / "answer-001-00-nobody.json").write_bytes(b"of nobody")
    assert "to open their masks of question 1" in places.all_turns()
    assert places.all_turns() == "The run has ended with 2 totals."


def test_a_site_whose_file_is_bad_is_told_and_the_others_are_taken(places: Places) -> None:
    places.all_turns()
    for name in NAMES:
        places.site(name)
    places.carry()
    bad = places.folder / "to-centre" / "answer-000-00-kent.json"
    good = bad.read_bytes()
    bad.write_bytes(good.replace(b"A", b"B", 1))
    said = places.centre().waiting
    assert said.startswith("The centre waits for 1 of 5 sites to answer question 0: kent.")
    assert "File 'answer-000-00-kent.json' was not taken: " in said
    bad.unlink()
    bad.mkdir()
    assert "is a folder: name a file" in places.centre().waiting
    bad.rmdir()
    bad.write_bytes(good)
    assert "to open their masks of question 0" in places.centre().waiting


def test_a_refused_file_is_named_and_nothing_is_sent(places: Places) -> None:
    places.all_turns()
    before = (places.folder / "york" / STATE).read_bytes()
    (places.folder / "to-sites" / "ask-000-00.json").write_bytes(b"{}\n")
    with pytest.raises(DataError, match=r"^file 'ask-000-00.json': it is no ask"):
        places.site("york")
    assert (places.folder / "york" / STATE).read_bytes() == before
    assert [path.name for path in places.outbox("york").iterdir()] == ["join-york.json"]


@pytest.mark.parametrize("kept", [0, 1, 100, -1])
def test_a_state_that_was_cut_off_stops_a_site(places: Places, kept: int) -> None:
    places.all_turns()
    path = places.folder / "york" / STATE
    path.write_bytes(path.read_bytes()[:kept])
    before = {path.name for path in places.outbox("york").iterdir()}
    with pytest.raises(FileError, match="is damaged: nothing may leave"):
        places.site("york")
    assert {path.name for path in places.outbox("york").iterdir()} == before


def test_two_processes_do_not_take_one_turn(places: Places) -> None:
    places.site("york")
    with open(places.folder / "york" / LOCK, "ab") as file:
        assert take_lock(file)
        with pytest.raises(FileError, match="is in use: try again"):
            places.site("york")


def test_a_folder_is_of_one_site_and_study(places: Places) -> None:
    places.all_turns()
    inbox, outbox = places.folder / "to-sites", places.outbox("york")
    work = places.works["york"]
    with pytest.raises(DataError, match="another study or site"):
        take_site_turn(places.folder / "hull", inbox, outbox, AGREED, member("york"), work)
    other = AGREED._replace(study="t" * 64)
    with pytest.raises(DataError, match="another study or site"):
        take_site_turn(places.folder / "york", inbox, outbox, other, member("york"), work)


def test_what_is_kept_is_on_the_disk_before_anything_leaves(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The order of writes: each message is put only once the state that has it was put."""
    from fedmerdel import files
    from fedmerdel.swap import put

    places.all_turns()
    order: list[str] = []

    def noted(part: Path, target: Path) -> None:
        order.append(target.name)
        put(part, target)

    monkeypatch.setattr(files, "put", noted)
    places.site("york")
    assert order == [STATE, "answer-000-00-york.json"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_kills_leave_one_vector_and_one_opening(tmp_path: Path) -> None:
    run = [sys.executable, "-m", "tests.kill_masking", str(tmp_path)]
    done = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    kills, messages = map(int, done.stdout.split())
    assert kills >= 5 * 6  # for each message: parts, locks and names of the state and of itself
    assert messages == 5
