"""Tables as people have them: the same content gives the same model, and errors name columns."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from fedmerdel import (
    Codebook,
    ConstantColumnWarning,
    DataError,
    FileError,
    MerDel,
    Variable,
    simulate,
)

SECRET = "SECRET"
P = 12
NAMES = [f"item {j}" for j in range(P)]
CODES = simulate(300, P, 3, levels=3, random_state=2).X.astype(np.int64)
HIDDEN = np.random.default_rng(0).random(CODES.shape) < 0.1
CELLS = [
    [None if hidden else int(code) for code, hidden in zip(row, where, strict=True)]
    for row, where in zip(CODES, HIDDEN, strict=True)
]
BITS = simulate(300, P, 3, beta=(0.4, 0.4), random_state=4).X


def columns(cells: list[list[Any]]) -> dict[str, list[Any]]:
    return dict(zip(NAMES, map(list, zip(*cells, strict=True)), strict=True))


def as_text(cells: list[list[Any]]) -> list[list[Any]]:
    return [[None if cell is None else str(cell) for cell in row] for row in cells]


NUMBERS: dict[str, Callable[[], Any]] = {
    "lists": lambda: CELLS,
    "float with NaN": lambda: np.where(HIDDEN, np.nan, CODES),
    "float32": lambda: np.where(HIDDEN, np.nan, CODES).astype(np.float32),
    "objects": lambda: np.array(CELLS, dtype=object),
    "texts": lambda: np.array([[c or "" for c in row] for row in as_text(CELLS)]),
    "pandas float": lambda: pd.DataFrame(columns(CELLS)),
    "pandas Int64": lambda: pd.DataFrame(columns(CELLS)).astype("Int64"),
    "pandas str": lambda: pd.DataFrame(columns(as_text(CELLS)), dtype="str"),
    "pandas object": lambda: pd.DataFrame(columns(as_text(CELLS)), dtype=object),
    "pandas category": lambda: pd.DataFrame(columns(as_text(CELLS))).astype("category"),
    "pandas Arrow": lambda: pd.DataFrame(columns(CELLS)).astype("int64[pyarrow]"),
    "pandas without names": lambda: pd.DataFrame(CELLS),
    "polars": lambda: pl.DataFrame(columns(CELLS)),
    "polars texts": lambda: pl.DataFrame(columns(as_text(CELLS))),
    "polars categories": lambda: pl.DataFrame(columns(as_text(CELLS))).cast(pl.Categorical),
    "polars enum": lambda: pl.DataFrame(columns(as_text(CELLS))).cast(pl.Enum(["0", "1", "2"])),
    "polars lazy": lambda: pl.DataFrame(columns(CELLS)).lazy(),
    "Arrow": lambda: pa.table(columns(CELLS)),
    "Arrow dictionaries": lambda: pa.table(
        {k: pa.DictionaryArray.from_arrays(v, ["0", "1", "2"]) for k, v in columns(CELLS).items()}
    ),
    "DuckDB": lambda: duckdb.from_arrow(pa.table(columns(CELLS))),
}

NAMED = [
    kind
    for kind in NUMBERS
    if kind.startswith(("pandas", "polars", "Arrow", "DuckDB")) and kind != "pandas without names"
]


@pytest.fixture(scope="module")
def by_array() -> MerDel:
    return MerDel(random_state=0).fit(np.where(HIDDEN, np.nan, CODES))


@pytest.fixture(scope="module")
def by_frame() -> MerDel:
    return MerDel(random_state=0).fit(pd.DataFrame(columns(CELLS)))


def assert_same_model(model: MerDel, other: MerDel) -> None:
    assert model.lower_bound_ == pytest.approx(other.lower_bound_, rel=1e-9)
    np.testing.assert_array_equal(model.labels_, other.labels_)


@pytest.mark.parametrize("kind", NUMBERS)
def test_the_same_content_gives_the_same_model(kind: str, by_array: MerDel) -> None:
    table = NUMBERS[kind]()
    model = MerDel(random_state=0).fit(table)
    assert_same_model(model, by_array)
    np.testing.assert_array_equal(model.predict(table), model.labels_)
    assert model.n_features_in_ == P
    assert hasattr(model, "feature_names_in_") == (kind in NAMED)
    if kind in NAMED:
        assert model.feature_names_in_.tolist() == NAMES
        assert model.feature_names_in_.dtype == object


@pytest.mark.parametrize("kind", NAMED)
def test_a_model_of_one_kind_of_frame_predicts_any_other(kind: str, by_frame: MerDel) -> None:
    np.testing.assert_array_equal(by_frame.predict(NUMBERS[kind]()), by_frame.labels_)


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".parquet"])
@pytest.mark.parametrize("kind", [str, Path])
def test_files(suffix: str, kind: Any, tmp_path: Path, by_frame: MerDel) -> None:
    path = tmp_path / f"table{suffix}"
    if suffix == ".parquet":
        parquet.write_table(pa.table(columns(CELLS)), path)
    else:
        pd.DataFrame(columns(CELLS)).astype("Int64").to_csv(path, index=False)
    model = MerDel(random_state=0).fit(kind(path))
    assert_same_model(model, by_frame)
    assert model.n_features_in_ == P
    assert model.feature_names_in_.tolist() == NAMES
    np.testing.assert_array_equal(model.predict(kind(path)), model.labels_)
    np.testing.assert_array_equal(model.predict(pd.DataFrame(columns(CELLS))), model.labels_)
    np.testing.assert_array_equal(by_frame.predict(path), by_frame.labels_)


def test_columns_of_a_file_are_found_by_name(tmp_path: Path, by_frame: MerDel) -> None:
    path = tmp_path / "reversed.csv"
    csv.write_csv(pa.table(columns(CELLS)).select(NAMES[::-1]), path)
    np.testing.assert_array_equal(by_frame.predict(path), by_frame.labels_)


@pytest.mark.parametrize(
    "table",
    [
        BITS,
        BITS.astype(bool),
        BITS.astype(float),
        BITS.astype(bool).tolist(),
        pd.DataFrame(BITS.astype(bool), columns=NAMES),
        pd.DataFrame(BITS.astype(bool), columns=NAMES).astype("boolean"),
        pl.DataFrame(BITS.astype(bool), schema=NAMES),
        pa.table(dict(zip(NAMES, BITS.astype(bool).T, strict=True))),
        np.where(BITS, "yes", "no"),
        pd.DataFrame(np.where(BITS, "yes", "no"), columns=NAMES),
    ],
    ids=lambda t: type(t).__module__.split(".")[0],
)
def test_two_levels_of_any_kind(table: Any) -> None:
    model = MerDel(random_state=0).fit(table)
    assert_same_model(model, MerDel(random_state=0).fit(BITS))
    np.testing.assert_array_equal(model.predict(table), model.labels_)


def test_a_model_of_booleans_takes_zeros_and_ones() -> None:
    model = MerDel(random_state=0).fit(BITS.astype(bool))
    np.testing.assert_array_equal(model.predict(BITS), model.labels_)


def test_fitting_again_forgets_the_names(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    csv.write_csv(pa.table(columns(CELLS)), path)
    model = MerDel(random_state=0).fit(path).fit(BITS)
    assert not hasattr(model, "feature_names_in_")
    model.fit(pd.DataFrame(BITS[:, :3], columns=NAMES[:3]))
    assert model.feature_names_in_.tolist() == NAMES[:3]
    assert model.n_features_in_ == 3
    assert [v.name for v in model.codebook_.variables] == NAMES[:3]


# Columns that are not as they were


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_columns_in_another_order_are_refused(make: Any, by_frame: MerDel) -> None:
    backwards = dict(reversed(columns(CELLS).items()))
    with pytest.raises(ValueError, match="must be in the same order as they were in fit"):
        by_frame.predict(make(backwards))


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_a_lacking_column_is_named(make: Any, by_frame: MerDel) -> None:
    fewer = {name: cells for name, cells in columns(CELLS).items() if name != "item 7"}
    with pytest.raises(ValueError, match="item 7"):
        by_frame.predict(make(fewer))


def test_a_lacking_or_unknown_column_of_a_file_is_named(tmp_path: Path, by_frame: MerDel) -> None:
    table = pa.table(columns(CELLS))
    csv.write_csv(table.drop_columns(["item 7"]), tmp_path / "fewer.csv")
    with pytest.raises(DataError, match=r"fewer\.csv'.* lacks column 'item 7'"):
        by_frame.predict(tmp_path / "fewer.csv")
    csv.write_csv(table.append_column("age", [[1] * 300]), tmp_path / "more.csv")
    with pytest.raises(DataError, match=r"more\.csv'.* has column 'age' unknown to MerDel"):
        by_frame.predict(tmp_path / "more.csv")
    with pytest.raises(FileError, match="does not exist"):
        by_frame.predict(tmp_path / "none.csv")


def test_arrays_of_another_width_are_refused(by_array: MerDel) -> None:
    with pytest.raises(ValueError, match="X has 11 features, but MerDel is expecting 12 features"):
        by_array.predict(CODES[:, 1:])


def test_an_array_for_a_model_of_a_frame_is_taken_with_a_warning(by_frame: MerDel) -> None:
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        labels = by_frame.predict(np.where(HIDDEN, np.nan, CODES))
    np.testing.assert_array_equal(labels, by_frame.labels_)


# Entries that are not as they were


@pytest.mark.parametrize("method", ["predict", "predict_proba", "score_samples", "score"])
@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_unseen_levels_name_the_column_and_never_the_value(method: str, make: Any) -> None:
    texts = columns(as_text(CELLS))
    model = MerDel(random_state=0).fit(make(texts))
    texts["item 5"][3] = SECRET
    with pytest.raises(DataError) as caught:
        getattr(model, method)(make(texts))
    message = str(caught.value)
    assert "column 'item 5'" in message
    assert "set those entries to missing" in message
    assert SECRET not in message
    assert "\n" not in message


def test_unseen_numbers_of_an_array(by_array: MerDel) -> None:
    new = CODES.copy()
    new[0, 4] = 98765
    with pytest.raises(DataError, match="column 'x4'") as caught:
        by_array.predict(new)
    assert "98765" not in str(caught.value)


def test_missing_entries_are_taken_though_fit_saw_none() -> None:
    model = MerDel(random_state=0).fit(CODES)
    labels = model.predict(np.where(HIDDEN, np.nan, CODES))
    assert (labels == model.labels_).mean() > 0.9


def test_a_column_may_be_all_missing_when_predicting(by_array: MerDel) -> None:
    new = CODES.astype(float)
    new[:, 3] = np.nan
    assert by_array.predict(new).shape == (300,)


@pytest.mark.parametrize("recipe", ["default", "paper"])
def test_a_row_of_nothing_but_missing_entries(recipe: Any) -> None:
    rows = CODES.astype(float)
    rows[7] = np.nan
    model = MerDel(5, recipe=recipe, random_state=0, absolute_tol=1e-2).fit(rows)
    assert model.labels_[7] == 0
    np.testing.assert_allclose(model.predict_proba(rows[[7]])[0], model.weights_, atol=0.02)
    assert model.score_samples(rows[[7]])[0] == pytest.approx(0, abs=1e-12)


# Tables that can't be fitted, and some that can


@pytest.mark.parametrize(
    ("column", "word"),
    [
        ([0.5, 1.5, 2.5], "continuous"),
        ([None, None, None], "all are missing"),
        ([1.0, np.inf, 2.0], "infinity"),
        (pd.to_datetime(["2024-01-01", "2024-01-02", "2024-01-03"]), "dates"),
        ([1, "a", True], "mixes"),
    ],
)
def test_columns_that_are_refused_are_named(column: Any, word: str) -> None:
    frame = pd.DataFrame({"fine": [0, 1, 1], "odd one": column})
    with pytest.raises(DataError, match=rf"column 'odd one'.*{word}"):
        MerDel().fit(frame)


def test_too_many_levels_are_refused() -> None:
    with pytest.raises(DataError, match=r"column 'x0' has 300 distinct values.*at most 255"):
        MerDel().fit(np.arange(300)[:, None])


@pytest.mark.parametrize("table", [np.empty((0, 3)), np.empty((3, 0)), pd.DataFrame(), []])
def test_empty_tables_are_refused(table: Any) -> None:
    with pytest.raises(DataError):
        MerDel().fit(table)


def test_constant_columns_are_kept_with_a_warning() -> None:
    frame = pd.DataFrame(columns(CELLS)).assign(same="x")
    with pytest.warns(ConstantColumnWarning, match="column 'same'"):
        model = MerDel(random_state=0).fit(frame)
    assert model.n_features_in_ == P + 1
    without = MerDel(random_state=0).fit(frame.drop(columns="same"))
    assert (model.labels_ == without.labels_).mean() > 0.99


@pytest.mark.parametrize("recipe", ["default", "paper"])
@pytest.mark.parametrize("n_rows", [2, 3, 10])
def test_more_clusters_than_rows(recipe: Any, n_rows: int) -> None:
    rows = np.vstack([np.zeros(P, int), np.ones(P, int), CODES[: n_rows - 2] % 2])
    model = MerDel(50, recipe=recipe, random_state=0).fit(rows)
    assert model.labels_.shape == (n_rows,)
    assert 1 <= model.n_clusters_ <= 50


def test_one_row() -> None:
    with pytest.warns(ConstantColumnWarning):
        model = MerDel(random_state=0).fit([[1, 0, 2]])
    assert model.labels_.tolist() == [0]


# A codebook that was given


def test_a_codebook_lists_levels_that_fit_has_not_seen() -> None:
    codebook = Codebook(
        tuple(Variable(name, ("0", "1", "2", "9"), "integer") for name in reversed(NAMES))
    )
    frame = pd.DataFrame(columns(CELLS))
    model = MerDel(codebook=codebook, random_state=0).fit(frame)
    assert model.codebook_ is codebook
    assert model.feature_names_in_.tolist() == NAMES
    assert {p.shape for p in model.level_probabilities_} == {(model.n_clusters_, 4)}
    first = np.bincount(CODES[~HIDDEN[:, 0], 0], minlength=10)[[0, 1, 2, 9]] / (~HIDDEN[:, 0]).sum()
    np.testing.assert_allclose(model.weights_ @ model.level_probabilities_[-1], first, atol=0.02)
    frame.loc[0, "item 3"] = 9
    assert model.predict(frame).shape == (300,)


def test_entries_outside_a_given_codebook_are_refused() -> None:
    codebook = Codebook(tuple(Variable(name, ("0", "1"), "integer") for name in NAMES))
    with pytest.raises(DataError, match="not among the levels of MerDel in columns 'item 0'"):
        MerDel(codebook=codebook).fit(pd.DataFrame(columns(CELLS)))


def test_an_array_takes_the_names_of_a_given_codebook() -> None:
    codebook = Codebook(tuple(Variable(name, ("0", "1", "2"), "integer") for name in NAMES))
    model = MerDel(codebook=codebook, random_state=0).fit(CODES)
    np.testing.assert_array_equal(model.labels_, MerDel(random_state=0).fit(CODES).labels_)
    with pytest.warns(UserWarning, match="X has feature names"):
        labels = model.predict(pd.DataFrame(CODES, columns=NAMES))
    np.testing.assert_array_equal(labels, model.labels_)
