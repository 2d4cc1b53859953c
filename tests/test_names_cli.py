"""Names of clusters on the command line."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest

from fedmerdel import GlobalModel
from fedmerdel.model.names import UNSEEN
from tests.command_line import SITES, Said, done, files, refused
from tests.stored import content, made
from tests.test_rounds_cli import first_merge

Run = Callable[..., Said]


def test_a_merge_into_the_same_folder_keeps_names(run: Run) -> None:
    """A site comes later: the clusters that are still there keep theirs."""
    first_merge(run)
    folders = [f"{name}-0" for name in SITES]
    done(run("merge", "study.toml", *folders[:-1], "-o", "model"))
    done(run("name", "model", "--set", "0=Well"))
    done(run("merge", "study.toml", *folders, "-o", "model"))
    assert "Well" in GlobalModel.load("model").names
    done(run("merge", "study.toml", *folders, "-o", "elsewhere"))
    assert GlobalModel.load("elsewhere").names == ()


def test_names_by_a_file_and_by_hand(run: Run, tmp_path: Path) -> None:
    first_merge(run)
    assert "Cluster 0: " in done(run("describe", "model-0"))
    before = content(tmp_path / "model-0")
    Path("names.csv").write_bytes("\ufeffcluster;name\r\n0;Well\r\n1;\u00c6ldre\r\n".encode())
    out = done(run("name", "model-0", "names.csv"))
    assert "2 clusters named: 2 of 2 in model-0 now have a name." in out
    assert "Next: fedmerdel report model-0 -o report.html" in out
    assert GlobalModel.load("model-0").names == ("Well", "\u00c6ldre")
    assert {**before, "names.csv": b""}.keys() == content(tmp_path / "model-0").keys()
    out = done(run("describe", "model-0"))
    assert "\nWell (cluster 0): " in out
    assert "\n\u00c6ldre (cluster 1): " in out
    out = done(run("name", "model-0", "--set", "1=", "--set", "0=[b]a=b[/b] <x>"))
    assert "1 cluster named: 1 of 2 in model-0" in out
    out = done(run("describe", "model-0"))
    assert "\n[b]a=b[/b] <x> (cluster 0): " in out
    assert "\nCluster 1: " in out
    # The labels are numbers, as before.
    done(run("assign", "model-0", "york.csv", "--site", "york", "-o", "labels.csv"))
    assert "[b]" not in Path("labels.csv").read_text(encoding="utf-8")
    # Replies are merged onto a model with names.
    for site in SITES:
        done(run("update", "model-0", f"{site}.csv", "--site", site, "-o", f"{site}-1"))
    replies = [f"{site}-1" for site in SITES]
    done(run("merge", "study.toml", *replies, "--onto", "model-0", "-o", "model-1"))
    assert sorted(GlobalModel.load("model-1").names) == ["", "[b]a=b[/b] <x>"]
    done(run("name", "model-0", "--set", "0="))
    assert content(tmp_path / "model-0") == before
    done(run("name", "model-0", "--set", "0=" + "long name " * 7))
    done(run("describe", "model-0"))
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
        (["nowhere", "--set", "0=a"], ["model.json"]),
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
    made().save(tmp_path / "model")
    (tmp_path / "model" / "notes.txt").write_text("mine", encoding="utf-8")
    before = content(tmp_path)
    refused(run("name", "model", "--set", "0=a"), "'model'", "holds more")
    assert content(tmp_path) == before


def test_what_no_one_can_see_is_in_no_name() -> None:
    assert {unicodedata.category(c) for c in "\n\r\t\x00\x7f\x85\u2028\u2029\ud800"} == UNSEEN
