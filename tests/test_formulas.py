"""No text that came from elsewhere is a formula in a spreadsheet, and every one comes back."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedmerdel import Codebook, Study, Variable, fit_site, merge_sites, simulate
from fedmerdel.model.names_file import names_from, names_text
from fedmerdel.release.grid import NUMBER, defused, restored
from fedmerdel.study.policy import POLICIES

ATTACK = "=cmd|' /C calc'!A0"
texts = st.text(st.sampled_from("=+-@'\t\r1a.e| "), max_size=6) | st.text(max_size=6)


@given(texts)
def test_a_cell_is_no_formula_and_comes_back(cell: str) -> None:
    written = defused(cell)
    assert restored(written) == cell
    if not NUMBER.fullmatch(written) and written not in ("+", "-"):
        assert not written.startswith(("=", "+", "-", "@", "\t", "\r"))


@given(st.lists(texts, unique=True, max_size=4))
def test_cells_differ_where_texts_do(cells: list[str]) -> None:
    assert len({defused(cell) for cell in cells}) == len(cells)


def cells_of(text: str) -> list[str]:
    return [cell for row in csv.reader(io.StringIO(text, newline="")) for cell in row]


def test_names_of_sites_variables_levels_and_clusters(tmp_path: Path) -> None:
    X = simulate(200, 3, 2, random_state=1).X.astype(str).astype(object)
    X[X == "1"] = "+1-1+cmd|'x'!A"
    names = (ATTACK, "@SUM(A1)", "plain")
    levels = ("0", "+1-1+cmd|'x'!A")
    codebook = Codebook(tuple(Variable(name, levels, "text") for name in names))
    import pandas as pd

    study = Study("formulas", codebook, policy=POLICIES["none"])
    summary = fit_site(study, pd.DataFrame(X, columns=names), site="-2+3+cmd,'x'!A0")
    federation = merge_sites(study, [summary]).named({0: ATTACK})
    federation.save(tmp_path / "centre")
    sheets = list((tmp_path / "centre").rglob("*.csv"))
    assert {sheet.name for sheet in sheets} >= {"lineage.csv", "names.csv", "counts.csv"}
    for sheet in sheets:
        for cell in cells_of(sheet.read_text(encoding="utf-8")):
            assert NUMBER.fullmatch(cell) or not cell.startswith(("=", "+", "-", "@")), sheet.name
    again = type(federation).load(tmp_path / "centre")
    assert again.names == federation.names
    assert again.summaries[0].codebook.names == names


@pytest.mark.parametrize("name", [ATTACK, "'=x", "+ve", "plain"])
def test_names_of_clusters_come_back(name: str) -> None:
    assert names_from(names_text((name,)).encode(), "file")[0] == name
