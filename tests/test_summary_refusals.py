"""Summaries that are refused: impossible numbers, damaged files, places that are taken."""

from __future__ import annotations

import dataclasses
import json
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedmerdel.bundles import pack
from fedmerdel.errors import DataError, FileError
from fedmerdel.release.summary import SiteSummary
from fedmerdel.sums.sums import Sums
from tests.summaries import FILES, assert_same, content, make

# Refusals: impossible numbers


def changed(summary: SiteSummary, part: str, value: Callable[[np.ndarray], Any]) -> Any:
    """Return the summary with one of its arrays changed, made anew."""
    if part in ("T", "S", "h", "Q"):
        array = value(getattr(summary.sums, part).copy())
        change: Any = {"sums": summary.sums._replace(**{part: array})}
    elif part == "death":
        cells = value(summary.sums.outcomes["death"].copy())
        change = {"sums": summary.sums._replace(outcomes={"death": cells})}
    else:
        change = {part: value(getattr(summary, part))}
    return dataclasses.replace(summary, **change)


def put(at: Any, number: float) -> Callable[[np.ndarray], np.ndarray]:
    def change(array: np.ndarray) -> np.ndarray:
        array = array.copy()
        array[at] = number
        return array

    return change


def emptied(sums: Sums) -> Sums:
    """Without the rows of the last cluster."""
    last = np.arange(sums.n_clusters) == sums.n_clusters - 1
    outcomes = {name: np.where(last[:, None], 0.0, cells) for name, cells in sums.outcomes.items()}
    T, S = np.where(last, 0.0, sums.T), np.where(last[:, None], 0.0, sums.S)
    return sums._replace(T=T, S=S, outcomes=outcomes)


@pytest.mark.parametrize(
    ("part", "value", "reason"),
    [
        ("T", put(0, -1.0), "T has a negative"),
        ("T", put(0, np.nan), "T has a number that is not finite"),
        ("T", put(0, 0.0), "levels of 'age' sum to more"),
        ("sums", emptied, "a cluster has no rows"),
        ("rest", lambda _: 3, "what the others leave is none of its clusters"),
        ("rest", lambda _: -1, "what the others leave is none of its clusters"),
        ("S", put((0, 0), -1e-3), "S has a negative"),
        ("S", put((0, 0), np.inf), "S has a number that is not finite"),
        ("S", put((0, 0), 1e9), "levels of 'age' sum to more"),
        ("S", lambda S: S[:, :-1], "S has shape"),
        ("h", put(0, 1e-9), "h is above 0"),
        ("h", lambda h: h[:-1], "h has shape"),
        ("Q", put((0, 1), 99.0), "not symmetric"),
        ("Q", put((0, 0), 1.0), "not symmetric with 0"),
        ("Q", lambda Q: -Q, "overlap has a negative"),
        ("Q", lambda Q: Q[:2], "overlap has shape"),
        ("death", put((0, 1), 1e9), "outcome 'death' has more rows"),
        ("death", put((0, 0), -1e-3), "outcome 'death' has a negative"),
        ("death", put((0, 1), np.nan), "outcome 'death' has a number that is not finite"),
        ("death", lambda cells: cells[:, :1], "outcome 'death' has shape"),
        ("tables", lambda _: {}, "its outcomes are not those that it names"),
        ("n_components", lambda _: 2, "3 clusters, where 1 to 2"),
        ("selected", lambda _: ("age", "weight"), "selects variables"),
        ("selected", lambda _: (["age"],), "selects variables"),
        # Seen: 150,000 of them, each looked for among all names, took a minute.
        ("selected", lambda _: ("age",) * 1000, "selects variables"),
        ("study_hash", lambda _: "", "study_hash"),
        ("software", lambda _: None, "software"),
    ],
)
@pytest.mark.parametrize("policy", ["none", "opensafely"])
def test_impossible_numbers_are_refused_with_the_reason(
    part: str, value: Any, reason: str, policy: str
) -> None:
    with pytest.raises(DataError, match=re.escape(reason)) as caught:
        changed(make(policy=policy), part, value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("site", ["a/b", "a\\b", "..", " leeds", "a\nb", "c:", "a\x9bb"])
def test_site_names_that_no_folder_can_have_are_refused(site: str, tmp_path: Path) -> None:
    """Where a name becomes part of a file's; in one process it may be anything but empty."""
    summary = dataclasses.replace(make(), site=site)
    for write in (summary.to_files, summary.to_bytes, lambda: summary.save(tmp_path / "new")):
        with pytest.raises(DataError, match=r"name that a folder can have"):
            write()
    assert list(tmp_path.iterdir()) == []
    files = make().to_files()
    document = {**json.loads(files["summary.json"]), "site": site}
    files["summary.json"] = json.dumps(document).encode()
    with pytest.raises(DataError, match=r"name that a folder can have") as caught:
        SiteSummary.from_bytes(pack(files))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("site", ["", None, 3])
def test_a_site_without_a_name_is_refused(site: Any) -> None:
    with pytest.raises(DataError, match="site must be a text"):
        dataclasses.replace(make(), site=site)


def test_counts_that_break_the_policy_named_beside_them_are_refused() -> None:
    summary = make()
    T = summary.sums.T
    S = summary.sums.S.copy()
    S[0, :3] = T[0] - 5, 5, 0
    with pytest.raises(DataError, match="under 10"):
        dataclasses.replace(summary, sums=summary.sums._replace(S=S))
    S[0, :3] = T[0] - 11, 11, 0
    with pytest.raises(DataError, match="not rounded"):
        dataclasses.replace(summary, sums=summary.sums._replace(S=S))


# Refusals: files


def refusal(path: Path, error: type[Exception] = FileError) -> str:
    with pytest.raises(error) as caught:
        SiteSummary.load(path)
    assert "\n" not in str(caught.value)
    assert caught.value.__cause__ is None
    return str(caught.value)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make().save(tmp_path / "leeds")
    return tmp_path / "leeds"


@pytest.mark.parametrize("name", ["summary.json", "counts.csv", "overlap.csv", "outcomes.csv"])
def test_missing_cut_and_garbled_files_are_named(folder: Path, name: str) -> None:
    whole = (folder / name).read_bytes()
    for damage in (b"", whole[: len(whole) // 2], b"\xff\xfe" + whole, whole.replace(b"0", b"x")):
        (folder / name).write_bytes(damage)
        assert name in refusal(folder)
    (folder / name).unlink()
    assert name in refusal(folder)


def test_a_changed_count_is_noticed(folder: Path) -> None:
    path = folder / "counts.csv"
    lines = path.read_bytes().split(b"\r\n")

    def refused(line: int, number: str) -> str:
        changed = lines.copy()
        changed[line] = re.sub(rb"[0-9]+$", number.encode(), lines[line])
        path.write_bytes(b"\r\n".join(changed))
        return refusal(folder)

    assert "'counts.csv': the rows of 'age' don't sum" in refused(2, "70000")
    for number in ("1_000", "nan", "٣", ""):
        assert "'counts.csv', row 2: expected 3 numbers" in refused(1, number)
    assert "too large" in refused(1, "1e999")


@pytest.mark.parametrize(
    "forged", [{"smallest": 0}, {"smallest": 2}, {"threshold": 3}, {"rounding": 0, "threshold": 0}]
)
def test_a_file_cannot_lower_what_its_policy_allows(folder: Path, forged: dict[str, int]) -> None:
    """A small count, and beside it an account that would let it pass."""
    path = folder / "summary.json"
    document = json.loads(path.read_text("utf-8"))
    document["disclosure"].update(forged)
    path.write_text(json.dumps(document), "utf-8")
    message = refusal(folder, DataError)
    assert repr(str(folder)) in message
    assert "its smallest count is not that of policy 'opensafely'" in message


def test_a_small_count_in_a_file_is_refused(folder: Path) -> None:
    path = folder / "counts.csv"
    header, rows, first, second, *rest = path.read_text("utf-8").splitlines()
    cells = [line.rsplit(",", 3) for line in (first, second)]
    total = int(cells[0][1]) + int(cells[1][1])
    cells[0][1], cells[1][1] = str(total - 5), "5"
    lines = [header, rows, *(",".join(line) for line in cells), *rest]
    path.write_text("\r\n".join(lines) + "\r\n", "utf-8", newline="")
    message = refusal(folder, DataError)
    assert "a count is under 10, the least of policy 'opensafely'" in message


def test_impossible_numbers_in_a_file_are_refused_with_its_name(folder: Path) -> None:
    path = folder / "overlap.csv"
    path.write_bytes(path.read_bytes().replace(b"-", b""))
    message = refusal(folder, DataError)
    assert repr(str(folder)) in message
    assert "h is above 0" in message


def test_rows_in_another_order_or_twice_are_refused(folder: Path) -> None:
    path = folder / "counts.csv"
    lines = path.read_bytes().splitlines(keepends=True)
    for order in ([0, 1, 3, 2, *range(4, len(lines))], [*range(len(lines)), 2], range(4)):
        path.write_bytes(b"".join(lines[i] for i in order))
        assert "counts.csv" in refusal(folder)


def test_another_kind_or_version_is_refused(folder: Path) -> None:
    path = folder / "summary.json"
    document = json.loads(path.read_text("utf-8"))
    for change, reason in (
        ({"kind": "cake"}, "holds no fedmerdel site summary"),
        ({"version": 3}, "version 3 of its format"),
        ({"n_clusters": "3"}, "'n_clusters'"),
        ({"n_clusters": 2}, "counts.csv"),
        ({"rows": []}, "only"),
        ({"disclosure": {}}, "account: its entries must be"),
        ({"codebook": {}}, "codebook"),
        ({"outcomes": []}, "outcomes"),
        ({"outcomes": {}}, "outcomes"),
        ({"outcomes": {"cake": ["no", "yes"]}}, "outcomes"),
        ({"outcomes": {"death": "yes"}}, "outcomes"),
        ({"outcomes": {"death": ["yes"]}}, "outcomes"),
        ({"outcomes": {"death": ["no", 1]}}, "outcomes"),
        ({"outcomes": {"death": ["no", "yes", "perhaps"]}}, "outcomes"),
    ):
        path.write_text(json.dumps({**document, **change}), "utf-8")
        assert reason in refusal(folder)


def test_files_that_do_not_belong_there_are_refused_and_droppings_are_not(folder: Path) -> None:
    for name in (".DS_Store", "Thumbs.db"):
        (folder / name).write_bytes(b"\x00")
    (folder / "README.txt").unlink()
    SiteSummary.load(folder)
    (folder / "rows.csv").write_text("1,2\n")
    assert "'rows.csv', which is no part of it" in refusal(folder)


def test_zips_made_by_hand_are_read_and_others_refused(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "by hand.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("leeds/", b"")
        archive.writestr("__MACOSX/leeds/._counts.csv", b"\x00")
        for name, text in content(folder).items():
            archive.writestr(f"leeds/{name}", text)
    assert_same(SiteSummary.load(path), SiteSummary.load(folder))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("york/counts.csv", b"")
    assert "twice" in refusal(path)
    path.write_bytes(b"PK no zip")
    assert "neither a folder nor a zip" in refusal(path)
    assert "does not exist" in refusal(tmp_path / "nowhere")


@pytest.mark.parametrize("name", ["mine", "mine.zip"])
def test_nothing_but_a_summary_is_written_over(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.mkdir()
    (path / "thesis.txt").write_text("years of work")
    with pytest.raises(FileError, match="no summary"):
        make().save(path)
    assert [file.name for file in path.iterdir()] == ["thesis.txt"]
    (tmp_path / "file").write_text("work")
    with pytest.raises(FileError, match="no summary"):
        make().save(tmp_path / "file")
    assert len(list(tmp_path.iterdir())) == 2


def test_a_summary_may_go_into_an_empty_folder(tmp_path: Path) -> None:
    (tmp_path / "leeds").mkdir()
    make(outcomes=()).save(tmp_path / "leeds")
    assert sorted(content(tmp_path / "leeds")) == FILES
    (tmp_path / "leeds.zip").mkdir()
    with pytest.raises(FileError, match="no summary"):
        make().save(tmp_path / "leeds.zip")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["leeds", "leeds.zip"]


def test_a_summary_is_replaced_whole_or_not_at_all(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = content(folder)
    write = Path.write_bytes

    def full(path: Path, data: bytes) -> int:
        if path.name == "overlap.csv":
            raise OSError("no space")
        return write(path, data)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full)
        with pytest.raises(FileError, match="can't be written"):
            make(9).save(folder)
    assert content(folder) == before
    # What was there goes: the new one has no outcomes.
    make(9, outcomes=()).save(folder)
    assert sorted(content(folder)) == FILES
    assert [entry.name for entry in folder.parent.iterdir()] == ["leeds"]


@pytest.mark.parametrize(
    ("at", "text"),
    [
        (("software",), "\x1b[2J"),
        (("study_hash",), "\x9b2J"),
        (("disclosure", "policy"), "\u202enone"),
        (("outcomes", "died", 0), "no\r"),
        (("outcomes", "died\r"), ["no", "yes"]),
        (("codebook", "variables", 0, "name"), "a\nb"),
        (("codebook", "variables", 0, "levels", 0), "a\x1bSECRET"),
    ],
)
def test_texts_that_could_change_a_screen_are_refused(at: tuple[Any, ...], text: Any) -> None:
    """Attack: `review` shows what a file says, and a screen obeys it."""
    files = make(outcomes=("died",)).to_files()
    document = found = json.loads(files["summary.json"])
    for step in at[:-1]:
        found = found[step]
    found[at[-1]] = text
    files["summary.json"] = json.dumps(document).encode()
    with pytest.raises(FileError, match="control characters") as caught:
        SiteSummary.from_bytes(pack(files))
    assert str(caught.value).isprintable()
    assert "SECRET" not in str(caught.value)
