"""A federation on disk: the same to the last bit, whole or not at all, and nothing else lost."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedmerdel import Broadcast, Federation, GlobalModel, merge_sites
from fedmerdel.errors import DataError, FileError
from tests.federations import Federation as Drawn
from tests.federations import federations
from tests.stored import assert_same, content, made, refused

pytestmark = pytest.mark.filterwarnings("ignore::fedmerdel.errors.OddSiteWarning")
"""Sites of a few rows, drawn at random, may well be odd."""


FILES = ["broadcast", "federation.json", "lineage.csv", "model", "sites", "study.toml"]
MODEL = ["clusters.csv", "model.json", "study.toml", "sums.csv"]


@settings(max_examples=25, deadline=None)
@given(
    drawn=federations(),
    search=st.sampled_from(["auto", "exact", "tree", "greedy", "random"]),
    criterion=st.sampled_from(["correlation", "kl", "bhattacharyya"]),
)
def test_a_loaded_federation_is_the_same_to_the_last_bit(
    tmp_path_factory: pytest.TempPathFactory, drawn: Drawn, search: Any, criterion: Any
) -> None:
    federation = merge_sites(drawn.study, drawn.summaries(), search, criterion=criterion)
    folder = tmp_path_factory.mktemp("centres")
    federation.save(folder / "centre")
    loaded = Federation.load(folder / "centre")
    assert_same(loaded, federation)
    assert loaded.study == federation.study
    # The same federation gives the same bytes, and saving again leaves nothing beside it.
    before = content(folder / "centre")
    loaded.save(str(folder / "centre"))
    assert content(folder / "centre") == before
    assert [entry.name for entry in folder.iterdir()] == ["centre"]
    # Its parts are what is sent, to the last byte.
    parts = {"model": federation.model, "broadcast": federation.broadcast}
    for name, part in parts.items():
        assert content(folder / "centre" / name) == part.to_files()


def test_the_files_are_readable(tmp_path: Path) -> None:
    federation = made()
    federation.save(tmp_path / "new" / "centre")
    folder = tmp_path / "new" / "centre"
    assert sorted(entry.name for entry in folder.iterdir()) == FILES
    assert sorted(entry.name for entry in (folder / "model").iterdir()) == MODEL
    assert sorted(entry.name for entry in (folder / "sites").iterdir()) == ["hull", "leeds"]
    about = json.loads((folder / "federation.json").read_text(encoding="utf-8"))
    assert about["kind"] == "fedmerdel federation"
    assert about["study_hash"] == federation.study.hash
    about = json.loads((folder / "model" / "model.json").read_text(encoding="utf-8"))
    assert about["kind"] == "fedmerdel model"
    assert about["n_clusters"] == 2
    assert about["study_hash"] == federation.study.hash
    with (folder / "lineage.csv").open(encoding="utf-8", newline="") as file:
        lineage = list(csv.reader(file))
    assert lineage[0] == ["site", "local_cluster", "cluster", "rows"]
    assert lineage[1:] == [
        ["hull", "0", "1", "33.3"], ["hull", "1", "0", "61.7"],
        ["leeds", "0", "1", "34.3"], ["leeds", "1", "0", "62.7"],
    ]  # fmt: skip
    with (folder / "model" / "clusters.csv").open(encoding="utf-8", newline="") as file:
        head, rows, *levels = csv.reader(file)
    assert head == ["variable", "level", "cluster_0", "cluster_1"]
    assert rows == ["rows", "", "124", "68"]  # for people; the numbers are in the other sheet
    with (folder / "model" / "sums.csv").open(encoding="utf-8", newline="") as file:
        head, rows, entropy, *sums = csv.reader(file)
    assert head == ["variable", "level", "prior", "cluster_0", "cluster_1"]
    assert [float(T) for T in rows[3:]] == pytest.approx([124.4, 67.6])
    assert entropy == ["(entropy)", "", "0", "0", "0"]
    assert [row[:3] for row in sums] == [[*row[:2], "0.5"] for row in levels]
    assert [row[:2] for row in levels] == [[f"v{j}", str(x)] for j in range(16) for x in (0, 1)]
    yes = (67.6 * 0.9 + 0.5) / 68.6
    assert [float(cell) for cell in (levels[0][3], levels[1][3])] == pytest.approx(
        [1 - yes, yes], abs=1e-6
    )


def test_a_site_may_have_any_name_of_a_folder(tmp_path: Path) -> None:
    names = ("Ærø, sygehus", "leeds.zip", "st. mary's")
    federation = made(*names)
    federation.save(tmp_path / "centre")
    assert_same(Federation.load(tmp_path / "centre"), federation)
    assert federation.sites == tuple(sorted(names))


def edit_json(**changed: Any) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        about = json.loads((folder / "federation.json").read_text(encoding="utf-8"))
        about.update(changed)
        kept = {name: value for name, value in about.items() if value != "gone"}
        (folder / "federation.json").write_text(json.dumps(kept), encoding="utf-8")

    return edit


def replace_text(name: str, old: str, new: str) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        text = (folder / name).read_text(encoding="utf-8")
        assert old in text
        (folder / name).write_text(text.replace(old, new), encoding="utf-8")

    return edit


def remove(name: str) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        path = folder / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    return edit


def swap_sites(folder: Path) -> None:
    (folder / "sites" / "hull").rename(folder / "sites" / "x")
    (folder / "sites" / "leeds").rename(folder / "sites" / "hull")
    (folder / "sites" / "x").rename(folder / "sites" / "leeds")


DAMAGES: dict[str, Callable[[Path], None]] = {
    "no federation.json": remove("federation.json"),
    "no study.toml": remove("study.toml"),
    "no sites": remove("sites"),
    "a site is missing": remove("sites/hull"),
    "a site's counts are missing": remove("sites/hull/counts.csv"),
    "a site's numbers were changed": replace_text("sites/hull/counts.csv", "61.7", "62.7"),
    "a site's text is broken": replace_text("sites/hull/counts.csv", "61.7", "many"),
    "another study": replace_text("study.toml", "seed = 1", "seed = 2"),
    "no study": replace_text("study.toml", "[", "{"),
    "no JSON": replace_text("federation.json", "{", "["),
    "another kind": edit_json(kind="fedmerdel site summary"),
    "another version": edit_json(version=1),
    "another hash": edit_json(study_hash="0" * 64),
    "no hash": edit_json(study_hash="gone"),
    "no groups": edit_json(groups="gone"),
    "empty groups": edit_json(groups=[]),
    "an empty group": edit_json(groups=[[1, 3], [0, 2], []]),
    "a cluster twice": edit_json(groups=[[1, 3], [0, 2, 3]]),
    "a cluster left out": edit_json(groups=[[1, 3], [0]]),
    "a cluster too many": edit_json(groups=[[1, 3], [0, 2, 4]]),
    "negative numbers": edit_json(groups=[[1, 3], [0, -2]]),
    "huge numbers": edit_json(groups=[[1, 3], [0, 10**30]]),
    "flat groups": edit_json(groups=[0, 1, 2, 3]),
    "nested groups": edit_json(groups=[[[1, 3]], [[0, 2]]]),
    "groups of texts": edit_json(groups=[["x", "y"], [0, 2]]),
    "groups that are none": edit_json(groups=None),
    "other groups": edit_json(groups=[[1, 2], [0, 3]]),
    "groups of one": edit_json(groups=[[1, 3], [0], [2]]),
    "another bound": edit_json(lower_bound=-1.0),
    "no bound": edit_json(lower_bound=None),
    "no such search": edit_json(search="best"),
    "no such criterion": edit_json(criterion=["kl"]),
    "no search": edit_json(search="gone"),
    "no list of sites": edit_json(sites=None),
    "no sites named": edit_json(sites=[]),
    "a site that is not there": edit_json(sites=["hull", "york"]),
    "a site twice": edit_json(sites=["hull", "hull"]),
    "a site less": edit_json(sites=["hull"]),
    "sites in another order": edit_json(sites=["leeds", "hull"]),
    "sites by another way": edit_json(sites=["../sites/hull", "leeds"]),
    "sites as numbers": edit_json(sites=[1, 2]),
    "sites that are others": swap_sites,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_federation_is_refused_in_one_line(tmp_path: Path, damage: str) -> None:
    folder = tmp_path / "centre"
    made().save(folder)
    DAMAGES[damage](folder)
    before = content(tmp_path)
    with pytest.raises((FileError, DataError)) as error:
        Federation.load(folder)
    assert "\n" not in str(error.value)
    assert str(tmp_path) in str(error.value)
    assert content(tmp_path) == before


def test_what_is_no_federation_is_refused(tmp_path: Path) -> None:
    made().summaries[0].save(tmp_path / "hull")
    made().model.save(tmp_path / "model")
    made().broadcast.save(tmp_path / "broadcast")
    for kind in (Federation, GlobalModel, Broadcast):
        with refused(FileError, "nowhere"):
            kind.load(tmp_path / "nowhere")
        with refused(FileError, "hull"):
            kind.load(tmp_path / "hull")
    for name in ("model", "broadcast"):
        with refused(FileError, name):
            Federation.load(tmp_path / name)


@pytest.mark.parametrize("part", ["model", "broadcast"])
def test_parts_that_may_be_sent_are_made_again(tmp_path: Path, part: str) -> None:
    """The federation is read from what sites sent: after one shot nothing else is needed."""
    folder = tmp_path / "centre"
    made().save(folder)
    before = content(folder)
    remove(part)(folder)
    Federation.load(folder).save(folder)
    assert content(folder) == before


def test_a_federation_replaces_an_earlier_one(tmp_path: Path) -> None:
    folder = tmp_path / "centre"
    made().save(folder)
    other = made("york")
    with refused(FileError, "has what hull, leeds sent, which would be lost", "--replace"):
        other.save(folder)
    assert_same(Federation.load(folder), made())
    other.save(folder, replace=True)
    assert_same(Federation.load(folder), other)
    assert sorted(entry.name for entry in (folder / "sites").iterdir()) == ["york"]


def test_a_federation_may_go_into_an_empty_folder(tmp_path: Path) -> None:
    folder = tmp_path / "centre"
    folder.mkdir()
    made().save(folder)
    assert_same(Federation.load(folder), made())
    assert [entry.name for entry in tmp_path.iterdir()] == ["centre"]


def occupied(folder: Path, kind: str) -> None:
    if kind == "a file":
        folder.write_text("mine", encoding="utf-8")
        return
    if kind == "a federation with notes":
        made().save(folder)
    else:
        folder.mkdir()
    if kind == "another's federation.json":
        (folder / "federation.json").write_text('{"weights": [1, 2]}', encoding="utf-8")
    (folder / "notes.txt").write_text("mine", encoding="utf-8")


@pytest.mark.parametrize(
    "kind", ["a file", "a folder", "another's federation.json", "a federation with notes"]
)
def test_nothing_else_is_overwritten(tmp_path: Path, kind: str) -> None:
    occupied(tmp_path / "centre", kind)
    before = content(tmp_path)
    with refused(FileError, "centre", "name another"):
        made("york").save(tmp_path / "centre")
    assert content(tmp_path) == before


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize("step", ["a site", "the study", "the last file", "the move"])
def test_a_save_that_fails_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, there: bool
) -> None:
    folder = tmp_path / "centre"
    if there:
        made().save(folder)
    before = content(tmp_path)

    def full(*_: Any, **__: Any) -> None:
        raise OSError("no space left on device")

    move = Path.rename

    def fails_for_the_new_one(self: Path, target: Path) -> Path:
        # The folder that was put together; an old one may be moved out of the way.
        if Path(target) == folder and (self / "sites" / "york").exists():
            full()
        return move(self, target)

    with monkeypatch.context() as patch:
        if step == "a site":
            patch.setattr("fedmerdel.centre.folder.write_folder", full)
        elif step == "the study":
            patch.setattr("fedmerdel.study.study.Study.save", full)
        elif step == "the last file":
            patch.setattr("fedmerdel.centre.folder.write_json", full)
        else:
            patch.setattr(Path, "rename", fails_for_the_new_one)
            patch.setattr("fedmerdel.swap._exchanged", full)
        with refused(FileError, "can't be written"):
            made("york").save(folder, replace=True)
    assert content(tmp_path) == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["centre"] * there
