"""A site's summary: readable files that give back every bit, and refuse what can't be."""

from __future__ import annotations

import csv
import dataclasses
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedmerdel.release.cells import all_cells
from fedmerdel.release.reply import Reply
from fedmerdel.release.review import review_tables
from fedmerdel.release.summary import SiteSummary
from fedmerdel.study.codebook import Codebook, Variable
from tests.summaries import FILES, assert_same, content, make

ROOT = Path(__file__).resolve().parents[1]
SCHEMAS: dict[type[SiteSummary], str] = {
    SiteSummary: "docs/reference/site-summary.schema.json",
    Reply: "docs/reference/reply.schema.json",
}


names = st.text(st.characters(exclude_categories=["C", "Zl", "Zp"]), min_size=1, max_size=8)


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
    book = Codebook((Variable("(rows)", ("(missing)", "x y", "\u00a0"), "text"),))
    summary = make(3, "none", codebook=book)
    summary.sums.h[:], summary.sums.Q[:] = -0.0, 0.0
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
    assert total == ["(rows)", "", *(str(int(t)) for t in summary.sums.T)]
    assert [row[:2] for row in rows[:3]] == [["age", level] for level in ("a", "b, c", 'say "d"')]
    for name in ("age", "sex"):
        told = np.array([row[2:] for row in rows if row[0] == name], dtype=float)
        np.testing.assert_array_equal(told.sum(axis=0), summary.sums.T)


@pytest.mark.parametrize("policy", ["none", "opensafely"])
@pytest.mark.parametrize("kind", [SiteSummary, Reply])
@pytest.mark.parametrize("selected", [None, ("sex",)])
def test_the_document_fits_the_published_schema(
    tmp_path: Path, kind: type[SiteSummary], policy: str, selected: tuple[str, ...] | None
) -> None:
    schema = json.loads((ROOT / SCHEMAS[kind]).read_text("utf-8"))
    summary = dataclasses.replace(make(policy=policy), selected=selected)
    if kind is Reply:
        fields = {f.name: getattr(summary, f.name) for f in dataclasses.fields(summary)}
        summary = Reply(**fields, broadcast="0123abcd")
    summary.save(tmp_path / "a")
    document = json.loads((tmp_path / "a" / kind.DOCUMENT).read_text("utf-8"))

    def check(value: Any, rule: dict[str, Any]) -> None:
        """Check the part of JSON schema that the file uses."""
        kinds = {"object": dict, "array": list, "string": str, "integer": int}
        kind = rule.get("type")
        if isinstance(kind, list):
            assert kind[1:] == ["null"]
            kind = kind[0] if value is not None else None
        if kind == "number":
            assert isinstance(value, (int, float))
        elif kind is not None:
            assert isinstance(value, kinds[kind])
        assert value == rule.get("const", value)
        assert value in rule.get("enum", [value])
        assert "minimum" not in rule or value is None or value >= rule["minimum"]
        if kind == "object":
            others = rule["additionalProperties"]
            if others is False:
                assert set(rule["required"]) <= set(value) <= set(rule["properties"])
            for name, part in value.items():
                check(part, others or rule["properties"][name])
        if kind == "array":
            for part in value:
                check(part, rule["items"])

    check(document, schema)
    # Nothing is published that is not written, in the order in which it is.
    assert list(document) == schema["required"]
    assert [*document, "checked"] == list(schema["properties"])  # where the study asks for checks
    assert list(document["disclosure"]) == schema["properties"]["disclosure"]["required"]


# The note and the review


def note_of(summary: SiteSummary) -> str:
    return summary.to_files()["README.txt"].decode()


def test_the_note_says_what_a_checker_asks() -> None:
    summary = make()
    note = " ".join(note_of(summary).split())
    assert "no row, no identifier" in note
    assert f"{int(summary.n_rows):,} rows are described by 3 clusters" in note
    assert "Every count is 0 or at least 10" in note
    assert "A 0 means: 0 to 9 rows" in note
    assert "multiples of 5" in note
    assert f"smallest other is {summary.account.smallest_cell:,.0f}" in note
    for name in ("counts.csv", "overlap.csv", "outcomes.csv", "summary.json"):
        assert name in note
    assert "outcomes.csv" not in note_of(make(outcomes=()))
    assert "simulated and public tables only" in " ".join(note_of(make(policy="none")).split())
    assert all(len(line) <= 88 for line in note_of(summary).splitlines())


def test_the_review_lists_sizes_smallest_counts_and_contrasts() -> None:
    summary = make()
    review = review_tables(summary, n_smallest=4)
    T, S = summary.sums.T, summary.sums.S
    assert [size.rows for size in review.sizes] == T.tolist()
    assert sum(size.share for size in review.sizes) == pytest.approx(1)
    cells = all_cells(summary.sums, summary.codebook.level_offsets)
    assert [cell.rows for cell in review.smallest] == sorted(cells[cells > 0])[:4]
    spreads = [contrast.highest - contrast.lowest for contrast in review.contrasts]
    assert spreads == sorted(spreads, reverse=True)
    sex = next(contrast for contrast in review.contrasts if contrast.variable == "sex")
    share = S[:, 4] / S[:, 3:].sum(axis=1)
    assert (sex.level, sex.lowest, sex.highest) == ("1", share.min(), share.max())
    assert (sex.lowest_cluster, sex.highest_cluster) == (share.argmin(), share.argmax())
    assert dict(review.facts)["of these 0"].endswith("(0 to 9 rows)")
