"""Names of clusters: what may be one, on disk, and through later merges."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedmerdel import Federation, FileError, GlobalModel, OptionError, merge_sites
from fedmerdel.centre import step as stepping
from fedmerdel.centre.lineage import Ancestor, inherited
from fedmerdel.centre.place import PARTS
from fedmerdel.model.names import LONGEST, UNSEEN, carried
from fedmerdel.model.names_file import names_text, read_names
from tests.federations import binary, made_study, summary_of
from tests.round_trips import noisy, nonsense, play, replies_of, small_sites
from tests.stored import content, made

Subject = Federation | GlobalModel

ODD = '<b>"Stroke" & old, frail; x\u00e6\u05d0\U0001f600</b>'


# What a name is.


@pytest.fixture(params=["federation", "model"])
def subject(request: pytest.FixtureRequest) -> Subject:
    """Both have names, given in the same way."""
    return made() if request.param == "federation" else made().model


def test_names_are_given_changed_and_taken_away(subject: Subject) -> None:
    assert subject.names == ()
    assert [subject.name(k) for k in (0, 1)] == ["cluster 0", "cluster 1"]
    one = subject.named({1: "  Stroke "})
    assert type(one) is type(subject)
    assert one.names == ("", "Stroke")
    assert [one.name(k) for k in (0, 1)] == ["cluster 0", "Stroke"]
    assert subject.names == ()
    two = one.named({np.int64(0): ODD})
    assert two.names == (ODD, "Stroke")
    # All at once, so that two may change places.
    assert two.named({0: "Stroke", 1: ODD}).names == ("Stroke", ODD)
    assert two.named({0: ""}).names == one.names
    assert two.named({0: "", 1: " "}).names == ()
    assert two.named({}).names == two.names
    assert replace(subject, names=["", ""]).names == ()  # type: ignore[arg-type]


def test_the_model_of_a_federation_has_its_names_and_the_broadcast_none() -> None:
    federation = made()
    named = federation.named({1: "Stroke"})
    assert named.model.names == ("", "Stroke")
    assert federation.model.names == ()
    assert named.broadcast.hash == federation.broadcast.hash


def test_a_description_has_the_name(subject: Subject) -> None:
    described = subject.named({1: "Stroke"}).describe()
    assert [cluster.name for cluster in described] == ["cluster 0", "Stroke"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({2: "SECRET"}, ["cluster 2", "from 0 to 1"]),
        ({-1: "SECRET"}, ["cluster -1", "from 0 to 1"]),
        ({True: "SECRET"}, ["whole numbers"]),
        ({"1": "SECRET"}, ["whole numbers"]),
        ({1.0: "SECRET"}, ["whole numbers"]),
        ({1: None}, ["cluster 1", "give a text"]),
        ({1: b"SECRET"}, ["cluster 1", "give a text"]),
        ({1: "SECRET" + "x" * 75}, ["cluster 1", "81", "80"]),
        ({1: "SECRET\nx"}, ["cluster 1", "line breaks"]),
        ({1: "SECRET\r"}, ["cluster 1", "line breaks"]),
        ({1: "SECRET\u2028x"}, ["cluster 1", "line breaks"]),
        ({1: "SECRET\x00"}, ["cluster 1", "control characters"]),
        ({1: "SECRET\ud800"}, ["cluster 1", "control characters"]),
        ({0: "SECRET", 1: " SECRET"}, ["cluster 1", "cluster 0", "another"]),
        ({0: "Cluster 1"}, ["cluster 0", "choose another"]),
        (["SECRET"], ["names", "dict"]),
    ],
)
def test_what_is_no_name_is_refused(subject: Subject, given: Any, words: list[str]) -> None:
    with pytest.raises(OptionError) as error:
        subject.named(given)
    told = str(error.value)
    assert all(word in told for word in words), told
    assert "\n" not in told
    assert "SECRET" not in told


def test_a_name_that_another_cluster_has_already_is_refused(subject: Subject) -> None:
    with pytest.raises(OptionError, match="cluster 1: cluster 0 has the same name"):
        subject.named({0: "Stroke"}).named({1: "Stroke"})


@pytest.mark.parametrize("names", [("a",), ("a", "b", "c"), "ab", None])
def test_there_is_a_name_for_each_cluster(subject: Subject, names: Any) -> None:
    with pytest.raises(OptionError, match="each of the 2 clusters"):
        replace(subject, names=names)


@pytest.mark.parametrize("k", [2, -1, "0", None])
def test_only_a_cluster_has_a_name(subject: Subject, k: Any) -> None:
    with pytest.raises(OptionError):
        subject.named({0: "Stroke"}).name(k)


def test_the_longest_name_is_kept_whole(subject: Subject) -> None:
    assert subject.named({0: " " + "x" * LONGEST}).name(0) == "x" * LONGEST


# On disk.

MADE = made()

odd_names = st.text(
    st.one_of(
        st.sampled_from(list(" ,;\"'=<>&\ufeff\u00a0|[]")),
        st.characters(exclude_categories=sorted(UNSEEN)),  # type: ignore[arg-type]
    ),
    max_size=LONGEST,
).filter(lambda name: not name.strip().lower().startswith("cluster"))


@settings(max_examples=150, deadline=None)
@given(names=st.lists(odd_names, min_size=2, max_size=2, unique_by=str.strip))
def test_odd_names_come_back_from_a_file(
    tmp_path_factory: pytest.TempPathFactory, names: list[str]
) -> None:
    federation = MADE.named(dict(enumerate(names)))
    path = tmp_path_factory.getbasetemp() / "odd.csv"
    path.write_bytes(names_text(federation.names).encode("utf-8"))
    assert MADE.named(read_names(path)).names == federation.names


def test_names_are_saved_with_a_federation_and_its_model(tmp_path: Path) -> None:
    folder = tmp_path / "centre"
    made().save(folder)
    before = content(folder)
    made().named({1: ODD}).save(folder)
    after = content(folder)
    assert after["model/names.csv"] == after["names.csv"]
    del after["model/names.csv"]
    text = after.pop("names.csv").decode("utf-8")
    assert text.startswith("cluster,name\n")
    assert list(csv.reader(io.StringIO(text))) == [["cluster", "name"], ["1", ODD]]
    assert after == before
    assert Federation.load(folder).names == ("", ODD)
    assert GlobalModel.load(folder).names == GlobalModel.load(folder / "model").names == ("", ODD)
    assert "names.csv" in PARTS
    # Without names there is no file of them.
    Federation.load(folder).named({1: ""}).save(folder, replace=True)
    assert content(folder) == before
    assert Federation.load(folder).names == GlobalModel.load(folder).names == ()


def test_names_are_saved_with_a_model_alone(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    made().model.save(folder)
    before = content(folder)
    model = made().model.named({1: ODD})
    model.save(folder)
    after = content(folder)
    assert after.pop("names.csv") == names_text(("", ODD)).encode("utf-8")
    assert after == before
    assert GlobalModel.load(folder).names == ("", ODD)
    assert GlobalModel.from_bytes(model.to_bytes()).names == ("", ODD)
    GlobalModel.load(folder).named({1: ""}).save(folder, replace=True)
    assert content(folder) == before
    assert GlobalModel.load(folder).names == ()


@pytest.mark.parametrize(
    "text",
    [
        "cluster,name\n0,Well\n1,\u00c6ldre\n",
        "\ufeffcluster;name\r\n0;Well\r\n1;\u00c6ldre\r\n",
        "\ufeffName,Cluster\r\nWell,0\r\n\u00c6ldre,1\r\n",
        '"cluster","name"\r\n"0","Well"\r\n" 1 ","\u00c6ldre"',
        # Empty columns and lines that a spreadsheet leaves.
        "cluster,name,,\n0,Well,,\n,,,\n\n1,\u00c6ldre,,\n,,,\n",
        "cluster,name\r0,Well\r1,\u00c6ldre\r",
    ],
)
def test_files_of_spreadsheets_are_read(tmp_path: Path, text: str) -> None:
    path = tmp_path / "names.csv"
    path.write_bytes(text.encode("utf-8"))
    assert read_names(str(path)) == {0: "Well", 1: "\u00c6ldre"}


def test_separators_in_names_and_empty_names_are_read(tmp_path: Path) -> None:
    path = tmp_path / "names.csv"
    path.write_text('cluster;name\n0;"a;b"\n1;a, b\n2;\n3\n', encoding="utf-8")
    assert read_names(path) == {0: "a;b", 1: "a, b", 2: "", 3: ""}
    path.write_text("cluster,name\n", encoding="utf-8")
    assert read_names(path) == {}


DAMAGES: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "first line"),
    "no header": (b"0,SECRET\n1,SECRET b\n", "first line"),
    "another column": (b"cluster,label\n0,SECRET\n", "first line"),
    "one column": (b"name\nSECRET\n", "first line"),
    "a column twice": (b"cluster,name,name\n0,SECRET,x\n", "first line"),
    "a column more": (b"cluster,name,SECRET\n0,a,b\n", "has 3 columns: delete"),
    "a cell more": (b"cluster,name\n0,SECRET,b\n", "row 2 has 3 cells"),
    "no number": (b"cluster,name\nSECRET,a\n", "row 2: its cluster is no number"),
    "a number that is empty": (b"cluster,name\n,SECRET\n", "row 2: its cluster is no number"),
    "a number with a point": (b"cluster,name\n0,a\n1.5,SECRET\n", "row 3: its cluster"),
    "a huge number": (b"cluster,name\n" + b"9" * 5000 + b",SECRET\n", "row 2: its cluster"),
    "a cluster twice": (b"cluster,name\n0,SECRET\n0,SECRET\n", "row 3: cluster 0 is there twice"),
    "another encoding": ("cluster,name\n0,SECRET \u00e6\n".encode("cp1252"), "as CSV UTF-8"),
    "a spreadsheet": (b"PK\x03\x04\xff\xfeSECRET", "save it as CSV UTF-8"),
    "an open quote": (b'cluster,name\n0,"SECRET\n', "quote"),
    "no such cluster": (b"cluster,name\n7,SECRET\n", "cluster 7: not in the model"),
    "a line break": (b'cluster,name\n0,"SECRET\nb"\n', "cluster 0: its name has line breaks"),
    "a long name": (b"cluster,name\n0,SECRET" + b"x" * 80 + b"\n", "cluster 0: its name has 86"),
    "a name twice": (b"cluster,name\n0,SECRET\n1,SECRET\n", "cluster 1: cluster 0 has the same"),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_refused_in_one_line(
    tmp_path: Path, subject: Subject, damage: str
) -> None:
    folder, (data, words) = tmp_path / "folder", DAMAGES[damage]
    subject.named({0: "x"}).save(folder)
    (folder / "names.csv").write_bytes(data)
    with pytest.raises(FileError) as error:
        type(subject).load(folder)
    told = str(error.value)
    where = [repr(str(folder / "names.csv"))]
    if isinstance(subject, GlobalModel):  # which may be a zip, or bytes
        where = [repr(str(folder)), "file 'names.csv'"]
        words = "UTF-8" if "UTF-8" in words else words
    assert words in told
    assert all(part in told for part in where)
    assert "\n" not in told
    assert "SECRET" not in told


def test_a_file_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="does not exist"):
        read_names(tmp_path / "nowhere.csv")
    with pytest.raises(FileError, match="is a folder"):
        read_names(tmp_path)


# Merged anew: before rounds.


def ancestors(*clusters: tuple[str, int, float]) -> list[Ancestor]:
    """Local clusters as site and number, global cluster, rows."""
    return [Ancestor(name[0], int(name[1]), k, rows) for name, k, rows in clusters]


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        # As they were, in another order.
        ([("a0", 1, 60.0), ("b0", 1, 40.0), ("a1", 0, 30.0), ("b1", 0, 20.0)], ("B", "A")),
        # With rows of a new site: fewer than half, half, and more.
        ([("a0", 0, 60.0), ("c0", 0, 59.0), ("a1", 1, 30.0)], ("A", "B")),
        ([("a0", 0, 60.0), ("c0", 0, 60.0), ("a1", 1, 30.0)], ("", "B")),
        ([("a0", 0, 60.0), ("c0", 0, 61.0), ("a1", 1, 30.0)], ("", "B")),
        # In two, and nobody knows which was meant; or the other is mostly something else.
        ([("a0", 0, 60.0), ("b0", 1, 40.0), ("a1", 2, 30.0)], ("", "", "B")),
        ([("a0", 0, 60.0), ("b0", 1, 40.0), ("c0", 1, 41.0)], ("A", "")),
        # Together: the larger one's, if it is more than half.
        ([("a0", 0, 60.0), ("a1", 0, 30.0), ("b0", 0, 40.0)], ("A",)),
        ([("a0", 0, 60.0), ("a1", 0, 30.0), ("c0", 0, 31.0)], ("",)),
        # Of a cluster without a name, or without rows.
        ([("a2", 0, 60.0), ("a1", 1, 0.0)], ("", "")),
    ],
)
def test_a_name_stays_where_most_rows_had_it(after: Any, expected: tuple[str, ...]) -> None:
    before = ancestors(
        ("a0", 0, 60.0), ("b0", 0, 40.0), ("a1", 1, 30.0), ("b1", 1, 20.0), ("a2", 2, 10.0)
    )
    assert inherited(("A", "B", ""), before, ancestors(*after)) == expected


KINDS = np.array([[0.9, 0.9, 0.1, 0.1] * 4, [0.1, 0.1, 0.9, 0.8] * 4, [0.1, 0.9, 0.1, 0.9] * 4])


def sent(site: str, *rows: float) -> Any:
    """A site with so many rows of each kind."""
    study, rows_of = made_study(np.full(16, 2)), np.array(rows)
    here = np.flatnonzero(rows_of)
    stats = binary(KINDS[here].tolist(), rows_of[here].tolist())
    return summary_of(study, site, stats)


def test_names_stay_with_their_clusters_when_sites_come_and_go() -> None:
    study = made_study(np.full(16, 2))
    two = merge_sites(study, [sent("hull", 300, 200), sent("york", 100, 50)])
    two = two.named({0: "first", 1: "second"})
    # Now the second is larger, and there is a third.
    three = two.add(sent("leeds", 10, 240, 330))
    assert three.sums.T.tolist() == pytest.approx([490, 410, 330])
    assert three.names == ("second", "first", "")
    assert three.named({2: "third"}).remove("leeds").names == ("first", "second")
    assert three.named({2: "third"}).remove("hull").names == ("third", "second", "first")
    # Most of these rows are new: who knows what they are.
    many = two.add(sent("ripon", 1000, 10))
    assert many.n_clusters == 2
    assert many.names == ("", "second")
    assert many.model.names == ("", "second")
    assert replace(two, names=()).add(sent("leeds", 1, 300)).names == ()


# Through rounds.


def test_names_are_carried_to_clusters_made_from_theirs() -> None:
    names = ("a", "", "c")
    assert carried(names, np.array([2, 0, 1])) == ("c", "a", "")
    assert carried(names, np.array([2, 2, 0, 2])) == ("c", "", "a", "")
    assert carried(names, np.array([0])) == ("a",)
    assert carried((), np.array([0, 1])) == ()


def kind(federation: Federation, name: str) -> np.ndarray:
    """Shares of the levels in the cluster of this name."""
    k = federation.names.index(name)
    return np.asarray(federation.sums.S[k] / federation.sums.T[k])


def nearest(federation: Federation, shares: np.ndarray) -> int:
    """The cluster with the most similar shares."""
    own = federation.sums.S / federation.sums.T[:, None]
    return int(np.abs(own - shares).sum(axis=1).argmin())


def test_names_follow_clusters_through_rounds_and_the_folder(tmp_path: Path) -> None:
    rows = small_sites(0)
    federation = rows.begun(noisy(rows.labels, 0.4, 0)).named(dict(enumerate("ABCD")))
    begun = federation
    for number in range(4):
        federation.save(tmp_path / str(number))
        federation = play(Federation.load(tmp_path / str(number)), rows.tables)
        assert sorted(federation.names) == list("ABCD")
        for name in "ABCD":
            assert nearest(begun, kind(federation, name)) == begun.names.index(name)
    assert federation.names != begun.names  # sizes have changed places
    # A name given while sites reply is no other broadcast to them.
    replies = replies_of(federation, rows.tables)
    renamed, _ = federation.named({0: "new"}).step(replies)
    assert "new" in renamed.names
    assert renamed.lower_bound == federation.step(replies)[0].lower_bound


def test_the_larger_part_of_a_split_keeps_the_name() -> None:
    rows = small_sites(0)
    coarse = rows.begun(np.where(rows.labels == 3, 2, rows.labels))
    federation = coarse.named(dict(enumerate("ABC")))
    for _ in range(8):
        parents, before = federation.round_state.parents, federation
        federation = play(federation, rows.tables)
        if federation.n_clusters > before.n_clusters:
            break
    assert federation.n_clusters == 4
    assert sorted(federation.names) == ["", "A", "B", "C"]
    twice = np.flatnonzero(np.bincount(parents) == 2)
    assert len(twice) == 1
    # Of the two parts the smaller has none: it comes after the one with the name.
    name = before.names[twice[0]]
    assert federation.names.index(name) < federation.names.index("")
    assert nearest(before, kind(federation, "")) == twice[0]
    assert nearest(before, kind(federation, name)) == twice[0]


def test_the_larger_one_of_a_merge_keeps_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = small_sites(1)
    part = np.random.default_rng(1).random(1500) < 0.3
    federation = rows.begun(np.where(part, rows.labels + 4, rows.labels))
    federation = federation.named({k: f"n{k}" for k in range(8)})
    merge, merges = stepping._merged, []

    def watched(found: Federation, plan: Any, following: Any) -> Any:
        merged, state = merge(found, plan, following)
        merges.append((found, plan, merged))
        return merged, state

    monkeypatch.setattr(stepping, "_merged", watched)
    federation = play(federation, rows.tables, 6)
    assert federation.n_clusters == 4
    assert merges
    for found, plan, merged in merges:
        assert merged.n_clusters < found.n_clusters
        for parts in plan.clusters:
            largest = max(parts, key=lambda k: found.sums.T[k])
            total = found.sums.T[parts].sum()
            at = int(np.abs(merged.sums.T - total).argmin())
            assert merged.names[at] == found.names[largest]


def test_a_cluster_that_is_deleted_takes_its_name_along() -> None:
    moves = []
    for seed in (0, 2):
        rows = small_sites(seed)
        stray = np.random.default_rng(seed).random(1500) < 0.02
        federation = rows.begun(np.where(stray, 4, rows.labels))
        federation = play(federation.named({k: f"n{k}" for k in range(5)}), rows.tables, 5)
        assert sorted(federation.names) == ["n0", "n1", "n2", "n3"]
        moves += [each.move for each in federation.record]
    assert "delete" in moves


def test_what_is_taken_back_keeps_all_names() -> None:
    rows = small_sites(0)
    federation = play(rows.begun(noisy(rows.labels, 0.2, 0)), rows.tables, 2)
    federation = federation.named({0: "A", 2: "C"})
    back = play(nonsense(federation, 0), rows.tables)
    assert back.record[-1].move == "taken back"
    assert back.names == federation.names == ("A", "", "C", "")


def test_a_site_that_leaves_after_rounds_leaves_the_names() -> None:
    rows = small_sites(0)
    federation = play(rows.begun(rows.labels), rows.tables)
    federation = federation.named(dict(enumerate("ABCD")))
    less = federation
    for site in federation.sites[:12]:
        less = less.remove(site)
    assert sorted(less.names) == list("ABCD")
    for name in "ABCD":
        assert nearest(federation, kind(less, name)) == federation.names.index(name)
