"""Drafting a study from rows or from a data dictionary."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedmerdel.errors import (
    ConstantColumnWarning,
    DataError,
    FileError,
    OptionError,
    RareLevelWarning,
)
from fedmerdel.records import encode, infer_codebook, open_table
from fedmerdel.records.draft import draft_study
from fedmerdel.records.tables import open_readable
from fedmerdel.study import Study
from fedmerdel.study.outcome import Outcome

SECRET = "Zebedee"
ROWS = pd.DataFrame(
    {
        "person": [f"{SECRET} {n}" for n in range(300)],
        "sex": ["f", "m", None] * 100,
        "copd": [0, 1, 0] * 100,
        "age": np.linspace(20.5, 90.25, 300),
        "born": [dt.date(1950, 1, 1)] * 300,
        "weight": [None] * 300,
        "death": [True, False, False] * 100,
    }
)
DICTIONARY = pd.DataFrame(
    {
        "variable": ["sex", "copd", "frail", "smoking"],
        "levels": ["f|m", "0;1", "FALSE|TRUE", " never; x | former |current|"],
        "label": ["Sex", None, "", "Smoking status"],
    }
)


def usual(frame: pd.DataFrame = ROWS, **options: Any) -> Study:
    options = {"exclude": ["age", "born", "weight"], **options}
    return draft_study(frame, row_id="person", outcomes=["death"], **options)


def refusal(source: Any, **options: Any) -> str:
    with pytest.raises(DataError) as caught:
        draft_study(source, **options)
    message = str(caught.value)
    assert "\n" not in message
    assert SECRET not in message
    assert "1950" not in message
    return message


# From rows


def test_a_study_from_rows() -> None:
    study = usual()
    assert study.codebook == infer_codebook(open_table(ROWS[["sex", "copd"]]))
    assert (study.name, study.row_id, study.outcomes) == ("study", "person", (Outcome("death"),))
    assert study.labels == ()
    assert usual(name="frailty").name == "frailty"


@pytest.mark.parametrize(
    ("file", "name"),
    [("leeds.csv", "leeds"), ("a.b.CSV.gz", "a.b"), ("x.parquet", "x"), (".csv", "study")],
)
def test_a_file_gives_its_name(file: str, name: str, tmp_path: Path) -> None:
    path = tmp_path / file
    frame = ROWS[["sex", "copd"]]
    if file.endswith("parquet"):
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False, compression="gzip" if file.endswith("gz") else None)
    study = draft_study(str(path))
    assert study.name == name
    assert study.codebook == draft_study(frame).codebook


def test_an_array_has_names_by_position() -> None:
    study = draft_study(np.array([[0, 1, 5], [1, 0, 6]]), outcomes=["x1"])
    assert study.codebook.names == ("x0", "x2")


def test_both_levels_of_a_binary_column_are_listed_if_one_occurs() -> None:
    frame = pd.DataFrame(
        {"a": [True] * 3, "b": [0] * 3, "c": [1] * 3, "d": [2] * 3, "e": ["0"] * 3}
    )
    with pytest.warns(ConstantColumnWarning):
        study = draft_study(frame)
    assert [v.levels for v in study.codebook.variables] == [
        ("false", "true"),
        ("0", "1"),
        ("0", "1"),
        ("2",),
        ("0",),
    ]


def test_a_draft_is_saved_and_fits_its_table(tmp_path: Path) -> None:
    usual().save(tmp_path / "study.toml")
    study = Study.load(tmp_path / "study.toml")
    assert study == usual()
    rows = encode(open_readable(ROWS).select(study.codebook.names), study.codebook)
    assert rows.n_rows == 300


def test_all_columns_that_can_not_be_used_are_named() -> None:
    message = refusal(ROWS, outcomes=["death"])
    assert message.startswith("these 4 columns can't be used: ")
    assert "'born' (holds dates or times)" in message
    assert "'age' (holds numbers that are not whole)" in message
    assert "'weight' (has no entries, all are missing)" in message
    assert "'person' (has 300 distinct values" in message
    assert "leave out with exclude=[...] (or name as outcomes or row_id)" in message
    assert refusal(ROWS[["sex", "age"]]).startswith("this column can't be used: 'age'")


def test_the_file_is_named(tmp_path: Path) -> None:
    ROWS.to_csv(tmp_path / "rows.csv", index=False)
    message = refusal(tmp_path / "rows.csv")
    assert message.startswith(f"file {str(tmp_path / 'rows.csv')!r}: these 4 columns")
    assert message.count("rows.csv") == 1
    with pytest.raises(FileError, match="does not exist"):
        draft_study(tmp_path / "none.csv")


def test_other_reasons_are_given_too() -> None:
    frame = pd.DataFrame({"a": [0.0, np.inf], "b": [1, "x"], "c": [1 + 2j, 3], "d": [1, 1]})
    message = refusal(frame)
    assert "'a' (holds infinity (inf))" in message
    assert "'b' (mixes text, numbers or true/false)" in message
    assert "'c' (" in message
    assert "'d'" not in message


@pytest.mark.parametrize("n_rows", [6, 10, 20, 40])
def test_identifiers_of_a_small_table_do_not_become_levels(n_rows: int) -> None:
    names = ROWS["person"].head(n_rows)
    numbers = pd.Series(9_434_765_919 + 97 * np.arange(n_rows))
    for column in (names, numbers, names.astype("category"), numbers.astype(float)):
        table = pd.DataFrame({"id": column, "sex": ROWS["sex"].head(n_rows)})
        told = f"with {n_rows} distinct values in {n_rows} entries"
        assert f"this column can't be used: 'id' (looks like an identifier, {told})" in refusal(
            table
        )
        assert draft_study(table, row_id="id").codebook.names == ("sex",)


def test_an_identifier_may_come_twice_or_be_missing() -> None:
    twice = pd.DataFrame({"id": [f"{SECRET} {n}" for n in (0, 1, 2, 3, 4, 5, 5, 0)]})
    assert "with 6 distinct values in 8 entries" in refusal(twice)
    notes = pd.DataFrame({"notes": [f"{SECRET} {n}" for n in range(8)] + [None] * 300})
    assert "with 8 distinct values in 8 entries" in refusal(notes)
    numbers = pd.DataFrame({"notes": [*range(900, 908), *[np.nan] * 300]})
    assert "with 8 distinct values in 8 entries" in refusal(numbers)


def test_six_levels_need_two_entries_each() -> None:
    column = [f"{SECRET} {n}" for n in range(6)] * 2
    assert "with 6 distinct values in 11 entries" in refusal(pd.DataFrame({"v": column[:11]}))
    assert len(draft_study(pd.DataFrame({"v": column})).codebook.variables[0].levels) == 6
    assert len(draft_study(pd.DataFrame({"v": column[:5]})).codebook.variables[0].levels) == 5


def test_variables_of_a_small_table_are_no_identifiers() -> None:
    frame = pd.DataFrame(
        {
            "flag": [0, 1] * 5,
            "smoking": ["never", "former", "current", "never", None] * 2,
            "stage": [1, 2, 3, 4, 5] * 2,
            "band": list("abcdefghij"[:5]) * 2,
        }
    )
    assert draft_study(frame).codebook.names == ("flag", "smoking", "stage", "band")
    assert draft_study(frame.head(5)).codebook.names == ("flag", "smoking", "stage", "band")
    many = pd.DataFrame({"month": [*range(1, 13)] * 2})
    assert len(draft_study(many).codebook.variables[0].levels) == 12


def test_columns_that_are_not_there() -> None:
    for options in ({"exclude": ["agee", "sex", "b"]}, {"outcomes": ["agee", "b"]}):
        assert "the table has no column 'agee', 'b': check" in refusal(ROWS, **options)
    assert "the table has no column 'id'" in refusal(ROWS, row_id="id")


def test_no_columns_are_left() -> None:
    assert "no columns are left" in refusal(ROWS[["sex"]], exclude=["sex"])


def test_covariates_are_no_variables() -> None:
    rows = pd.DataFrame(
        {"sex": ["f", "m"] * 20, "copd": [0, 1] * 20, "age": ["old", "young", "old", "old"] * 10}
    )
    study = draft_study(rows, covariates=["sex", "age"])
    assert study.codebook.names == ("copd",)
    assert [(v.name, v.levels) for v in study.covariates] == [
        ("sex", ("f", "m")),
        ("age", ("old", "young")),
    ]
    told = draft_study(DICTIONARY, outcomes=["death"], row_id="person", covariates=["smoking"])
    assert [v.name for v in told.covariates] == ["smoking"]
    assert "smoking" not in told.codebook.names
    assert "no column 'height'" in refusal(rows, covariates=["height"])
    assert "no columns are left" in refusal(rows, covariates=["sex", "copd", "age"])


@pytest.mark.parametrize("option", ["exclude", "outcomes", "covariates"])
def test_one_text_is_no_list_of_names(option: str) -> None:
    with pytest.raises(OptionError, match=f"^{option}: give a list of names"):
        draft_study(ROWS, **{option: "age"})


# From a data dictionary


def test_a_study_from_a_data_dictionary() -> None:
    study = draft_study(DICTIONARY, outcomes=["death"], row_id="person")
    assert [(v.name, v.levels, v.kind) for v in study.codebook.variables] == [
        ("sex", ("f", "m"), "text"),
        ("copd", ("0", "1"), "integer"),
        ("frail", ("false", "true"), "boolean"),
        ("smoking", ("never; x", "former", "current"), "text"),
    ]
    assert study.labels == (("sex", "Sex"), ("smoking", "Smoking status"))
    assert (study.outcomes, study.row_id) == ((Outcome("death"),), "person")


def test_a_data_dictionary_as_a_file(tmp_path: Path) -> None:
    frame = DICTIONARY.rename(columns={"variable": "Variable", "levels": " Levels"})
    frame["since"] = dt.date(2020, 1, 1)
    frame.to_csv(tmp_path / "dictionary.csv", index=False)
    study = draft_study(tmp_path / "dictionary.csv")
    assert study.name == "dictionary"
    assert study.codebook == draft_study(DICTIONARY).codebook
    assert study.label("sex") == "Sex"


def test_a_dictionary_of_numbers_and_without_labels() -> None:
    frame = pd.DataFrame({"variable": ["a", "b", None], "levels": [1.0, 2.0, None]})
    study = draft_study(frame)
    assert [v.values for v in study.codebook.variables] == [(1,), (2,)]
    assert study.labels == ()


def test_variables_are_set_aside() -> None:
    study = draft_study(DICTIONARY, outcomes=["copd"], exclude=["smoking"], row_id="sex")
    assert study.codebook.names == ("frail",)
    assert study.labels == ()


def test_all_variables_that_can_not_be_used_are_named() -> None:
    frame = pd.DataFrame(
        {
            "variable": ["sex", "age", "bmi", "code", "many"],
            "levels": ["f|m", None, " ; ", "1|1", "|".join(map(str, range(300)))],
        }
    )
    message = refusal(frame)
    assert message.startswith("these 4 variables can't be used: 'age' (has no levels)")
    assert "'bmi' (has no levels)" in message
    assert "'code' (lists a level twice)" in message
    assert "'many' (has 300 levels, and at most 255 are possible)" in message
    kept = draft_study(frame, exclude=["age", "bmi", "code", "many"])
    assert kept.codebook.names == ("sex",)


def test_other_faults_of_a_data_dictionary(tmp_path: Path) -> None:
    twice = pd.DataFrame({"variable": ["sex", "sex"], "levels": ["f|m", "f|m"]})
    twice.to_csv(tmp_path / "d.csv", index=False)
    message = refusal(tmp_path / "d.csv")
    assert message.startswith("file ")
    assert "variable 'sex' is listed twice" in message
    unnamed = pd.DataFrame({"variable": ["sex", None], "levels": ["f|m", "0|1"]})
    assert "row 2 of the data dictionary has no name" in refusal(unnamed)
    assert "has no variable 'sexx'" in refusal(DICTIONARY, exclude=["sexx"])
    assert "no variables" in refusal(twice, exclude=["sex"])


def test_levels_that_few_rows_have_are_told_of() -> None:
    """A study goes to all sites: it tells that someone has each of its levels."""
    values = ["0", "1", "2"] * 30 + ["SECRET"]
    table = pd.DataFrame({"rare": values, "plain": (["a", "b"] * 46)[:91], "flag": [0] * 90 + [1]})
    with pytest.warns(RareLevelWarning, match="levels of 'rare' are held by fewer than") as caught:
        study = draft_study(table, name="s")
    (message,) = [str(each.message) for each in caught]
    assert "SECRET" not in message
    assert "plain" not in message
    assert "flag" not in message
    assert "SECRET" in study.codebook.variables[0].levels
