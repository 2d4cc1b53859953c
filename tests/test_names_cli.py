"""Names of clusters on the command line."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest

from fedmerdel import Federation, GlobalModel
from fedmerdel.model.names import UNSEEN
from tests.command_line import SITES, Run, done, files, first_merge, refused, reply
from tests.stored import content, made


def test_a_merge_into_the_same_folder_keeps_names(run: Run) -> None:
    """A site comes later: the clusters that are still there keep theirs."""
    first_merge(run)
    folders = [f"{name}-0" for name in SITES]
    done(run("merge", "study.toml", *folders[:-1], "-o", "centre"))
    done(run("name", "centre", "--set", "0=Well"))
    done(run("merge", "study.toml", *folders, "-o", "centre"))
    for kind in (Federation, GlobalModel):
        assert "Well" in kind.load("centre").names
    done(run("merge", "study.toml", *folders, "-o", "elsewhere"))
    for kind in (Federation, GlobalModel):
        assert kind.load("elsewhere").names == ()


@pytest.mark.parametrize("folder", ["centre-0", "centre-0/model", "sent.zip"])
def test_a_centre_and_a_model_are_named_in_place(run: Run, tmp_path: Path, folder: str) -> None:
    first_merge(run)
    GlobalModel.load("centre-0").save("sent.zip")
    before = content(tmp_path)
    out = done(run("name", folder, "--set", "1=Ill"))
    assert f"1 cluster named: 1 of 2 in {folder} now have a name." in " ".join(out.split())
    assert GlobalModel.load(folder).names == ("", "Ill")
    assert "\nIll (cluster 1): " in done(run("describe", folder))
    # The model in a centre's folder is named with it; that alone says nothing to the centre.
    assert Federation.load("centre-0").names == (("", "Ill") if folder == "centre-0" else ())
    changed = {name for name, data in content(tmp_path).items() if before.get(name) != data}
    assert (
        changed
        == {
            "centre-0": {"centre-0/names.csv", "centre-0/model/names.csv"},
            "centre-0/model": {"centre-0/model/names.csv"},
            "sent.zip": {"sent.zip"},
        }[folder]
    )


def test_names_by_a_file_and_by_hand(run: Run, tmp_path: Path) -> None:
    first_merge(run)
    assert "Cluster 0: " in done(run("describe", "centre-0"))
    before = content(tmp_path / "centre-0")
    Path("names.csv").write_bytes("\ufeffcluster;name\r\n0;Well\r\n1;\u00c6ldre\r\n".encode())
    out = done(run("name", "centre-0", "names.csv"))
    assert "2 clusters named: 2 of 2 in centre-0 now have a name." in out
    assert "Next: fedmerdel report centre-0 -o report.html" in out
    assert GlobalModel.load("centre-0").names == ("Well", "\u00c6ldre")
    named = {**before, "names.csv": b"", "model/names.csv": b""}
    assert named.keys() == content(tmp_path / "centre-0").keys()
    out = done(run("describe", "centre-0"))
    assert "\nWell (cluster 0): " in out
    assert "\n\u00c6ldre (cluster 1): " in out
    out = done(run("name", "centre-0", "--set", "1=", "--set", "0=[b]a=b[/b] <x>"))
    assert "1 cluster named: 1 of 2 in centre-0" in out
    out = done(run("describe", "centre-0"))
    assert "\n[b]a=b[/b] <x> (cluster 0): " in out
    assert "\nCluster 1: " in out
    # The labels are numbers, as before.
    done(run("assign", "centre-0/model", "york.csv", "-o", "labels.csv"))
    assert "[b]" not in Path("labels.csv").read_text(encoding="utf-8")
    # A step takes names along.
    for site in SITES:
        done(reply(run, "centre-0", site, f"{site}-1"))
    done(run("step", "centre-0", *(f"{site}-1" for site in SITES), "-o", "centre-1"))
    for kind in (Federation, GlobalModel):
        assert sorted(kind.load("centre-1").names) == ["", "[b]a=b[/b] <x>"]
    done(run("name", "centre-0", "--set", "0="))
    assert content(tmp_path / "centre-0") == before
    done(run("name", "centre-0", "--set", "0=" + "long name " * 7))
    done(run("describe", "centre-0"))
    assert not any(name.startswith(".") for name in files(tmp_path))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["model"], ["--set 3=Stroke"]),
        (["model", "names.csv", "--set", "0=a"], ["either"]),
        (["model", "--set", "Stroke"], ["--set", "3=Stroke"]),
        (["model", "--set", "x=SECRET"], ["--set", "3=Stroke"]),
        (["model", "--set", "9" * 5000 + "=a"], ["--set", "3=Stroke"]),
        (["model", "--set", "0=a", "--set", "0=b"], ["--set", "cluster 0 is there twice"]),
        (["model", "--set", "77=SECRET"], ["--set: cluster 77: not in the model"]),
        (["model", "--set", "0=SECRET\nx"], ["--set: cluster 0", "line breaks"]),
        (["model", "names.csv"], ["file 'names.csv': cluster 77: not in the model"]),
        (["model", "nowhere.csv"], ["'nowhere.csv' does not exist"]),
        (["model", "leeds.csv"], ["'leeds.csv'", "cluster,name"]),
        (["leeds", "--set", "0=a"], ["'leeds'"]),
        (["nowhere", "--set", "0=a"], ["'nowhere' does not exist"]),
        ([], ["MODEL"]),
    ],
)
def test_mistakes_are_one_line_and_change_nothing(
    run_in_story: Run, story: Path, arguments: list[str], words: list[str]
) -> None:
    (story / "names.csv").write_text("cluster,name\n77,SECRET\n", encoding="utf-8")
    before = content(story)
    refused(run_in_story("name", *arguments), *words)
    assert content(story) == before


def test_a_model_with_notes_in_its_folder_is_not_written_over(run: Run, tmp_path: Path) -> None:
    made().save(tmp_path / "centre")
    made().model.save(tmp_path / "model")
    for name, words in (("centre", "holds more"), ("model", "no part of it: take it out")):
        (tmp_path / name / "notes.txt").write_text("mine", encoding="utf-8")
        before = content(tmp_path)
        refused(run("name", name, "--set", "0=a"), f"'{name}'", words)
        assert content(tmp_path) == before


def test_what_no_one_can_see_is_in_no_name() -> None:
    assert {unicodedata.category(c) for c in "\n\r\t\x00\x7f\x85\u2028\u2029\ud800"} == UNSEEN
