"""A target is replaced whole: the old or the new one is there at every moment."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path
from uuid import uuid4

import pytest

from fedmerdel import FileError, draft_study, fit_site, merge_sites, simulate
from fedmerdel import swap as swapping
from fedmerdel.files import replacement, write_text
from fedmerdel.release.summary import SiteSummary
from fedmerdel.report.page import check_page_place
from fedmerdel.swap import beside, clear_leftovers, put

ROOT = Path(__file__).resolve().parents[1]


def write_folder(path: Path, text: str) -> None:
    with replacement(path) as part:
        part.mkdir()
        for name in ("a.txt", "b.txt"):
            (part / name).write_text(text, encoding="utf-8")


def read_folder(path: Path) -> set[str]:
    return {entry.read_text(encoding="utf-8") for entry in path.iterdir()}


@pytest.fixture(params=["exchange", "two renames"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Replace folders in one step, and as where the system has none."""
    if request.param == "two renames":
        monkeypatch.setattr(swapping, "_exchanged", lambda one, other: False)
    return str(request.param)


def test_a_folder_takes_the_place_of_another(way: str, tmp_path: Path) -> None:
    write_folder(tmp_path / "target", "old")
    write_folder(tmp_path / "target", "new")
    assert read_folder(tmp_path / "target") == {"new"}
    assert [entry.name for entry in tmp_path.iterdir()] == ["target"]


def test_a_file_takes_the_place_of_another(tmp_path: Path) -> None:
    write_text(tmp_path / "target", "old")
    write_text(tmp_path / "target", "new")
    assert (tmp_path / "target").read_text(encoding="utf-8") == "new"
    assert [entry.name for entry in tmp_path.iterdir()] == ["target"]


@pytest.mark.skipif(sys.platform not in ("linux", "darwin"), reason="no such call")
def test_folders_are_exchanged_in_one_step(tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    assert swapping._exchanged(tmp_path / "one", tmp_path / "other")
    assert (tmp_path / "one" / "other").exists()
    assert (tmp_path / "other" / "one").exists()
    with pytest.raises(OSError, match="No such file"):
        swapping._exchanged(tmp_path / "one", tmp_path / "none")


def test_the_old_one_stays_if_the_new_one_fails(way: str, tmp_path: Path) -> None:
    write_folder(tmp_path / "target", "old")

    def fail() -> None:
        with replacement(tmp_path / "target") as part:
            part.mkdir()
            (part / "a.txt").write_text("half", encoding="utf-8")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert read_folder(tmp_path / "target") == {"old"}
    assert [entry.name for entry in tmp_path.iterdir()] == ["target"]


def test_the_old_one_is_back_if_the_second_rename_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(swapping, "_exchanged", lambda one, other: False)
    write_folder(tmp_path / "target", "old")
    rename = Path.rename

    def fails(self: Path, target: Path) -> Path:
        if self.name.endswith(".part"):
            raise OSError
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fails)
    with pytest.raises(FileError, match="can't be written"):
        write_folder(tmp_path / "target", "new")
    assert read_folder(tmp_path / "target") == {"old"}


def leave(tmp_path: Path, end: str) -> Path:
    """Leave what a killed process would, beside a target."""
    left = tmp_path / f".target.{uuid4().hex}.{end}"
    left.mkdir()
    (left / "a.txt").write_text("left", encoding="utf-8")
    return left


def test_leftovers_are_removed_by_the_next_write(tmp_path: Path) -> None:
    leave(tmp_path, "part")
    (tmp_path / f".target.{uuid4().hex}.lock").touch()
    mine = tmp_path / ".target.notes"
    mine.touch()
    write_text(tmp_path / "target", "new")
    assert {entry.name for entry in tmp_path.iterdir()} == {"target", ".target.notes"}


@pytest.mark.skipif(os.name != "posix", reason="links")
def test_a_link_in_the_place_of_a_lock_is_not_followed(tmp_path: Path) -> None:
    """Seen: an empty file was made wherever it leads."""
    folder = tmp_path / "shared"
    folder.mkdir()
    lock = folder / f".target.{uuid4().hex}.lock"
    lock.symlink_to(tmp_path / "elsewhere")
    write_text(folder / "target", "new")
    assert {entry.name for entry in folder.iterdir()} == {"target"}
    assert not (tmp_path / "elsewhere").exists()


def test_what_was_set_aside_is_put_back(tmp_path: Path) -> None:
    """Killed between two renames, where folders can't be exchanged."""
    leave(tmp_path, "old")
    clear_leftovers(tmp_path / "target")
    assert read_folder(tmp_path / "target") == {"left"}
    leave(tmp_path, "old")
    clear_leftovers(tmp_path / "target")
    assert [entry.name for entry in tmp_path.iterdir()] == ["target"]


def test_what_was_set_aside_can_be_read(summary: SiteSummary, tmp_path: Path) -> None:
    summary.save(tmp_path / "leeds")
    (tmp_path / "leeds").rename(tmp_path / f".leeds.{uuid4().hex}.old")
    assert SiteSummary.load(tmp_path / "leeds").site == "leeds"


def test_what_another_process_writes_is_left_alone(tmp_path: Path) -> None:
    with beside(tmp_path / "target") as part:
        part.mkdir()
        write_text(tmp_path / "target", "another's")
        assert part.is_dir()
    assert [entry.name for entry in tmp_path.iterdir()] == ["target"]


def test_new_files_are_written_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    sync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda opened: (synced.append(opened), sync(opened))[1])
    write_folder(tmp_path / "target", "new")
    # Two files, their folder, and the folder that they are in.
    assert len(synced) == 4


def test_put_says_why_it_can_t(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        put(tmp_path / "none", tmp_path / "target")


# What is in the place of a parcel


@pytest.fixture(scope="module")
def summary() -> SiteSummary:
    table = simulate(400, 8, 3, random_state=2).X
    return fit_site(draft_study(table, name="swap"), table, site="leeds")


def test_hidden_files_are_not_lost_with_a_summary(summary: SiteSummary, tmp_path: Path) -> None:
    summary.save(tmp_path / "leeds")
    (tmp_path / "leeds" / ".env").write_text("secret", encoding="utf-8")
    with pytest.raises(FileError, match="or holds more"):
        summary.save(tmp_path / "leeds")
    assert (tmp_path / "leeds" / ".env").read_text(encoding="utf-8") == "secret"


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        (".env", False),
        ("leeds/.env", False),
        ("__MACOSX/x.csv", False),
        ("__MACOSX/leeds/.x.csv", False),
        (".DS_Store", True),
        ("leeds/Thumbs.db", True),
        ("leeds/", True),
        ("__MACOSX/._counts.csv", True),
        ("__MACOSX/leeds/._counts.csv", True),
    ],
)
def test_what_else_is_in_a_zip_is_not_lost_with_it(
    name: str, ours: bool, summary: SiteSummary, tmp_path: Path
) -> None:
    place = tmp_path / "leeds.zip"
    summary.save(place)
    with zipfile.ZipFile(place, "a") as archive:
        archive.writestr(name, b"")
    before = place.read_bytes()
    assert SiteSummary.load(place).site == "leeds"  # to read it, all of these are passed over
    if ours:
        summary.save(place)
        assert place.read_bytes() == summary.to_bytes()
        return
    with pytest.raises(FileError, match="or holds more"):
        summary.save(place)
    assert place.read_bytes() == before


@pytest.mark.parametrize("name", [".git", "notes"])
def test_folders_are_not_lost_with_a_summary(
    name: str, summary: SiteSummary, tmp_path: Path
) -> None:
    summary.save(tmp_path / "leeds")
    (tmp_path / "leeds" / name).mkdir()
    with pytest.raises(FileError, match="or holds more"):
        summary.save(tmp_path / "leeds")


def test_what_desktops_leave_does_not_count(summary: SiteSummary, tmp_path: Path) -> None:
    summary.save(tmp_path / "leeds")
    (tmp_path / "leeds" / ".DS_Store").touch()
    summary.save(tmp_path / "leeds")
    assert SiteSummary.load(tmp_path / "leeds").to_files() == summary.to_files()


@pytest.mark.skipif(os.name != "posix", reason="links")
def test_links_are_neither_followed_nor_replaced(summary: SiteSummary, tmp_path: Path) -> None:
    summary.save(tmp_path / "leeds")
    (tmp_path / "link").symlink_to(tmp_path / "leeds")
    with pytest.raises(FileError, match="is a link"):
        summary.save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    counts = tmp_path / "leeds" / "counts.csv"
    counts.rename(tmp_path / "elsewhere.csv")
    counts.symlink_to(tmp_path / "elsewhere.csv")
    with pytest.raises(FileError, match="is a link or no plain file"):
        SiteSummary.load(tmp_path / "leeds")
    with pytest.raises(FileError, match="or holds more"):
        summary.save(tmp_path / "leeds")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes")
def test_a_pipe_is_not_waited_for(summary: SiteSummary, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "leeds.zip")
    with pytest.raises(FileError, match="no plain file"):
        SiteSummary.load(tmp_path / "leeds.zip")
    summary.save(tmp_path / "leeds")
    (tmp_path / "leeds" / "counts.csv").unlink()
    os.mkfifo(tmp_path / "leeds" / "counts.csv")
    with pytest.raises(FileError, match="no plain file"):
        SiteSummary.load(tmp_path / "leeds")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes")
def test_a_pipe_in_the_place_of_a_page_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "page.html")
    with pytest.raises(FileError, match="is there already and is no page"):
        check_page_place(tmp_path / "page.html")


def test_a_sparse_file_is_not_read(summary: SiteSummary, tmp_path: Path) -> None:
    summary.save(tmp_path / "leeds")
    with (tmp_path / "leeds" / "README.txt").open("r+b") as file:
        file.truncate(3 * 2**30)
    with pytest.raises(FileError, match="too large"):
        SiteSummary.load(tmp_path / "leeds")


def test_the_summary_of_another_site_is_kept(summary: SiteSummary, tmp_path: Path) -> None:
    from dataclasses import replace

    summary.save(tmp_path / "leeds")
    other = replace(summary, site="york")
    with pytest.raises(FileError, match="another site, which would be lost"):
        other.save(tmp_path / "leeds")
    assert SiteSummary.load(tmp_path / "leeds").site == "leeds"
    other.save(tmp_path / "leeds", replace=True)
    assert SiteSummary.load(tmp_path / "leeds").site == "york"


@pytest.mark.parametrize("place", ["model", "model.zip"])
def test_names_of_clusters_are_kept(summary: SiteSummary, place: str, tmp_path: Path) -> None:
    table = simulate(400, 8, 3, random_state=2).X
    model = merge_sites(draft_study(table, name="swap"), [summary]).model
    named = model.named({0: "frail"})
    named.save(tmp_path / place)
    with pytest.raises(FileError, match="with names for its clusters, which would be lost"):
        model.save(tmp_path / place)
    assert type(model).load(tmp_path / place).names == named.names
    model.named({0: "robust"}).save(tmp_path / place)
    model.save(tmp_path / place, replace=True)
    assert not any(type(model).load(tmp_path / place).names)


# Killed at every step


KILLS = """
import os, sys, signal
from dataclasses import replace
from pathlib import Path
from fedmerdel.release.summary import SiteSummary
from fedmerdel.report.page import check_page_place

source, target = map(Path, sys.argv[1:])
summary = SiteSummary.load(source)
new = replace(summary, software="another")
whole = {tuple(sorted(each.to_files().items())) for each in (summary, new)}
watched = {"open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.truncate", "shutil.rmtree",
           "os.scandir", "fcntl.flock", "ctypes.dlsym"}
n = 0
while True:
    summary.save(target)
    pid = os.fork()
    if pid == 0:
        left = [n]
        def hook(event, arguments):
            if event in watched:
                if left[0] == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                left[0] -= 1
        sys.addaudithook(hook)
        new.save(target)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    found = tuple(sorted(SiteSummary.load(target).to_files().items()))
    assert found in whole, n
    new.save(target)
    assert os.listdir(target.parent) == [target.name], os.listdir(target.parent)
    if status == 0:
        break
    n += 1
print(n)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_killed_at_every_step(summary: SiteSummary, tmp_path: Path) -> None:
    summary.save(tmp_path / "source")
    (tmp_path / "here").mkdir()
    run = [sys.executable, "-c", KILLS, str(tmp_path / "source"), str(tmp_path / "here" / "leeds")]
    done = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 20
