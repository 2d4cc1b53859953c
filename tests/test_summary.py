"""A site's summary: readable files that give back every bit, and refuse what can't be."""

from __future__ import annotations

import csv
import dataclasses
import json
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedmerdel.errors import DataError, FileError
from fedmerdel.mixture.prior import uniform_prior
from fedmerdel.mixture.statistics import Statistics
from fedmerdel.release import HardCounts, OutcomeCounts, SiteSummary, protect
from fedmerdel.release.note import checkers_note, review_tables
from fedmerdel.study.codebook import Codebook, Variable
from fedmerdel.study.policy import POLICIES

ROOT = Path(__file__).resolve().parents[1]
FILES = ["README.txt", "counts.csv", "overlap.csv", "summary.json"]


def make(
    seed: int = 0,
    policy: str = "opensafely",
    n_clusters: int = 3,
    codebook: Codebook | None = None,
    missing: float = 0.1,
    outcomes: tuple[str, ...] = ("death",),
) -> SiteSummary:
    rng = np.random.default_rng(seed)
    if codebook is None:
        texts = ("a", "b, c", 'say "d"')
        codebook = Codebook(
            (Variable("age", texts, "text"), Variable("sex", ("0", "1"), "integer"))
        )
    T = rng.uniform(40, 4000, n_clusters)
    parts = []
    for L in codebook.n_levels:
        shares = rng.dirichlet(np.ones(L + 1), n_clusters) * np.append(np.ones(L), missing)
        parts.append((shares / shares.sum(axis=1, keepdims=True))[:, :L] * T[:, None])
    S = np.concatenate(parts, axis=1)
    Q = rng.exponential(20.0, (n_clusters, n_clusters))
    Q = np.triu(Q, 1) + np.triu(Q, 1).T
    counts = {name: OutcomeCounts(T * rng.uniform(0, 0.2), T * 0.9) for name in outcomes}
    out = protect(
        Statistics(T, S, -rng.exponential(50.0, n_clusters)),
        HardCounts(T, S, counts),
        Q,
        uniform_prior(codebook.n_levels, 0.01, 20),
        POLICIES[policy],
        outcomes=counts,
    )
    return SiteSummary(
        "0123abcd", "leeds", "fedmerdel 0.1.0", 20, out.statistics, out.overlap, out.outcomes,
        out.elbo, out.report, codebook,
    )  # fmt: skip


def assert_same(one: SiteSummary, other: SiteSummary) -> None:
    for a, b in zip(one.statistics, other.statistics, strict=True):
        assert a.tobytes() == b.tobytes()
        assert a.shape == b.shape
    assert one.overlap.tobytes() == other.overlap.tobytes()
    assert list(one.outcomes) == list(other.outcomes)
    for name, counts in one.outcomes.items():
        for a, b in zip(counts, other.outcomes[name], strict=True):
            assert a.tobytes() == b.tobytes()
    for name in ("study_hash", "site", "software", "n_components", "elbo", "report", "codebook"):
        assert getattr(one, name) == getattr(other, name)


def content(path: Path) -> dict[str, bytes]:
    if path.is_dir():
        return {file.name: file.read_bytes() for file in path.iterdir()}
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)


@st.composite
def codebooks(draw: st.DrawFn) -> Codebook:
    listed = draw(st.lists(names, min_size=1, max_size=3, unique=True))
    levels = st.lists(names, min_size=1, max_size=4, unique=True)
    return Codebook(tuple(Variable(name, tuple(draw(levels)), "text") for name in listed))


@settings(max_examples=100, deadline=None)
@given(
    codebook=codebooks(), seed=st.integers(0, 99), K=st.integers(1, 5),
    policy=st.sampled_from(["none", "opensafely", "ons"]), missing=st.sampled_from([0.0, 1.0]),
    outcomes=st.lists(names, max_size=2, unique=True), zipped=st.booleans(),
)  # fmt: skip
def test_a_loaded_summary_is_the_same_to_the_last_bit(
    tmp_path_factory: pytest.TempPathFactory, codebook: Codebook, seed: int, K: int, policy: str,
    missing: float, outcomes: list[str], zipped: bool,
) -> None:  # fmt: skip
    summary = make(seed, policy, K, codebook, missing, tuple(outcomes))
    folder = tmp_path_factory.mktemp("summary")
    path = folder / ("leeds.zip" if zipped else "leeds")
    summary.save(path)
    loaded = SiteSummary.load(path)
    assert_same(loaded, summary)
    # The same summary gives the same bytes, and saving twice leaves nothing beside it.
    before = path.read_bytes() if zipped else content(path)
    loaded.save(path)
    assert (path.read_bytes() if zipped else content(path)) == before
    assert [entry.name for entry in folder.iterdir()] == [path.name]


def test_minus_zero_and_levels_called_missing_survive(tmp_path: Path) -> None:
    book = Codebook((Variable("(rows)", ("(missing)", "x\r\ny", "\r", "\n"), "text"),))
    summary = make(3, "none", codebook=book)
    summary.statistics.h[0] = -0.0
    summary.save(tmp_path / "a")
    assert_same(SiteSummary.load(tmp_path / "a"), summary)


@pytest.mark.parametrize("policy", ["none", "opensafely"])
def test_the_folder_holds_these_files_and_they_are_small(tmp_path: Path, policy: str) -> None:
    book = Codebook(tuple(Variable(f"condition {j}", ("0", "1"), "integer") for j in range(100)))
    summary = make(1, policy, 20, book)
    summary.save(tmp_path / "leeds")
    summary.save(tmp_path / "leeds.zip")
    files = content(tmp_path / "leeds")
    assert sorted(files) == sorted([*FILES, "outcomes.csv"])
    assert content(tmp_path / "leeds.zip") == files
    with zipfile.ZipFile(tmp_path / "leeds.zip") as archive:
        assert {entry.date_time[:3] for entry in archive.infolist()} == {(1980, 1, 1)}
    assert sum(map(len, files.values())) < 200_000
    assert (tmp_path / "leeds.zip").stat().st_size < 200_000
    assert sum(text.count(b"\n") for text in files.values()) < 5000
    make(1, policy, outcomes=()).save(tmp_path / "york")
    assert sorted(content(tmp_path / "york")) == FILES


def test_the_sheets_read_like_tables(tmp_path: Path) -> None:
    summary = make(2, n_clusters=2)
    summary.save(tmp_path / "a")
    with (tmp_path / "a" / "counts.csv").open(newline="", encoding="utf-8") as file:
        header, total, *rows = csv.reader(file)
    assert header == ["variable", "level", "cluster_0", "cluster_1"]
    assert total == ["(rows)", "", *(str(int(t)) for t in summary.statistics.T)]
    assert [row[:2] for row in rows[:3]] == [["age", level] for level in ("a", "b, c", 'say "d"')]
    for name in ("age", "sex"):
        told = np.array([row[2:] for row in rows if row[0] == name], dtype=float)
        np.testing.assert_array_equal(told.sum(axis=0), summary.statistics.T)


def test_the_document_fits_the_published_schema(tmp_path: Path) -> None:
    schema = json.loads((ROOT / "docs/reference/site-summary.schema.json").read_text("utf-8"))
    make().save(tmp_path / "a")
    document = json.loads((tmp_path / "a" / "summary.json").read_text("utf-8"))

    def check(value: Any, rule: dict[str, Any]) -> None:
        """Check the part of JSON schema that the file uses."""
        kinds = {"object": dict, "array": list, "string": str, "integer": int}
        kind = rule.get("type")
        if kind == "number":
            assert isinstance(value, (int, float))
        elif kind is not None:
            assert isinstance(value, kinds[kind])
        assert value == rule.get("const", value)
        assert value in rule.get("enum", [value])
        assert "minimum" not in rule or value >= rule["minimum"]
        if kind == "object":
            assert rule["additionalProperties"] is False
            assert set(value) == set(rule["required"]) == set(rule["properties"])
            for name, part in value.items():
                check(part, rule["properties"][name])
        if kind == "array":
            for part in value:
                check(part, rule["items"])

    check(document, schema)


# Refusals: impossible numbers


def changed(summary: SiteSummary, part: str, value: Callable[[np.ndarray], Any]) -> Any:
    """Return the summary with one of its arrays changed, made anew."""
    if part in ("T", "S", "h"):
        array = value(getattr(summary.statistics, part).copy())
        change: Any = {"statistics": summary.statistics._replace(**{part: array})}
    elif part in ("positive", "observed"):
        counts = summary.outcomes["death"]
        change = {
            "outcomes": {"death": counts._replace(**{part: value(getattr(counts, part).copy())})}
        }
    else:
        change = {part: value(getattr(summary, part))}
    return dataclasses.replace(summary, **change)


def put(at: Any, number: float) -> Callable[[np.ndarray], np.ndarray]:
    def change(array: np.ndarray) -> np.ndarray:
        array = array.copy()
        array[at] = number
        return array

    return change


@pytest.mark.parametrize(
    ("part", "value", "reason"),
    [
        ("T", put(0, -1.0), "T has a negative"),
        ("T", put(0, np.nan), "T has a number that is not finite"),
        ("T", put(0, 0.0), "no rows"),
        ("S", put((0, 0), -1e-3), "S has a negative"),
        ("S", put((0, 0), np.inf), "S has a number that is not finite"),
        ("S", put((0, 0), 1e9), "levels of 'age' sum to more"),
        ("S", lambda S: S[:, :-1], "S has shape"),
        ("h", put(0, 1e-9), "h is above 0"),
        ("h", lambda h: h[:-1], "h has shape"),
        ("overlap", put((0, 1), 99.0), "not symmetric"),
        ("overlap", put((0, 0), 1.0), "not symmetric with 0"),
        ("overlap", lambda Q: -Q, "overlap has a negative"),
        ("overlap", lambda Q: Q[:2], "overlap has shape"),
        ("positive", put(0, 1e9), "outcome 'death' has more rows"),
        ("observed", put(0, 1e9), "outcome 'death' has more rows"),
        ("positive", put(0, np.nan), "positive of outcome 'death'"),
        ("n_components", lambda _: 2, "3 clusters, where 1 to 2"),
        ("elbo", lambda _: float("nan"), "ELBO"),
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


@pytest.mark.parametrize("site", ["", "a/b", "a\\b", "..", " leeds", "a\nb", "c:"])
def test_site_names_that_no_folder_can_have_are_refused(site: str) -> None:
    with pytest.raises(DataError, match=r"name that a folder can have"):
        dataclasses.replace(make(), site=site)


def test_counts_that_break_the_policy_named_beside_them_are_refused() -> None:
    summary = make()
    T = summary.statistics.T
    S = summary.statistics.S.copy()
    S[0, :3] = T[0] - 5, 5, 0
    with pytest.raises(DataError, match="under 10"):
        dataclasses.replace(summary, statistics=summary.statistics._replace(S=S))
    S[0, :3] = T[0] - 11, 11, 0
    with pytest.raises(DataError, match="not rounded"):
        dataclasses.replace(summary, statistics=summary.statistics._replace(S=S))


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
        ({"version": 2}, "version 2 of its format"),
        ({"n_clusters": "3"}, "'n_clusters'"),
        ({"n_clusters": 2}, "counts.csv"),
        ({"rows": []}, "only"),
        ({"disclosure": {}}, "disclosure report"),
        ({"codebook": {}}, "codebook"),
        ({"outcomes": []}, "outcomes"),
        ({"outcomes": ["cake"]}, "outcomes"),
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


# The note and the review


def test_the_note_says_what_a_checker_asks() -> None:
    summary = make()
    note = " ".join(checkers_note(summary).split())
    assert "no row, no identifier" in note
    assert f"{int(summary.n_rows):,} rows are described by 3 clusters" in note
    assert "Every count is 0 or at least 10" in note
    assert "A 0 means: 0 to 9 rows" in note
    assert "multiples of 5" in note
    assert f"smallest other is {summary.report.smallest_cell:,.0f}" in note
    for name in ("counts.csv", "overlap.csv", "outcomes.csv", "summary.json"):
        assert name in note
    assert "outcomes.csv" not in checkers_note(make(outcomes=()))
    assert "simulated and public tables only" in " ".join(
        checkers_note(make(policy="none")).split()
    )
    assert all(len(line) <= 88 for line in checkers_note(summary).splitlines())


def test_the_review_lists_sizes_smallest_counts_and_contrasts() -> None:
    summary = make()
    review = review_tables(summary, n_smallest=4)
    T, S = summary.statistics.T, summary.statistics.S
    assert [size.rows for size in review.sizes] == T.tolist()
    assert sum(size.share for size in review.sizes) == pytest.approx(1)
    cells = summary.cells()
    assert [cell.rows for cell in review.smallest] == sorted(cells[cells > 0])[:4]
    spreads = [contrast.highest - contrast.lowest for contrast in review.contrasts]
    assert spreads == sorted(spreads, reverse=True)
    sex = next(contrast for contrast in review.contrasts if contrast.variable == "sex")
    share = S[:, 4] / S[:, 3:].sum(axis=1)
    assert (sex.level, sex.lowest, sex.highest) == ("1", share.min(), share.max())
    assert (sex.lowest_cluster, sex.highest_cluster) == (share.argmin(), share.argmax())
    assert dict(review.facts)["of these 0"].endswith("(0 to 9 rows)")
