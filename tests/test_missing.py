"""Missing entries: left out, a level of their own, or refused; the same at every site."""

from __future__ import annotations

import csv
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import adjusted_rand_score

from fedmerdel import (
    DataError,
    FedMerDel,
    MerDel,
    OptionError,
    Study,
    assign,
    bayes_labels,
    draft_study,
    fit_site,
    merge_sites,
    simulate,
)
from fedmerdel.errors import ConstantColumnWarning
from fedmerdel.model.describe import describe
from fedmerdel.model.generate import sample
from fedmerdel.records.encode import decode, encode
from fedmerdel.records.tables import open_table
from fedmerdel.site.check import check_site
from fedmerdel.study.codebook import MAX_LEVELS, Codebook, Variable
from fedmerdel.study.policy import policy_named
from tests.command_line import Said, done, hospital, refused

TABLE = simulate(900, 12, 3, beta=(0.5, 0.5), random_state=3)
NONE = policy_named("none")


def with_gaps(share: float = 0.2, columns: int = 12, seed: int = 0) -> np.ndarray:
    """Return the table with entries of its first columns missing."""
    X = TABLE.X.astype(float)
    gone = np.random.default_rng(seed).random((len(X), columns)) < share
    X[:, :columns][gone] = np.nan
    return X


GAPS = with_gaps(columns=5)
SITE = np.arange(900) % 3


# The codebook


@pytest.mark.parametrize(
    "variable",
    [
        Variable("a", ("0", "1"), "integer"),
        Variable("a", ("false", "true"), "boolean"),
        Variable("a", ("low", "high"), "text"),
        Variable("a", tuple(map(str, range(MAX_LEVELS))), "integer"),
    ],
    ids=lambda variable: f"{variable.kind} {len(variable.levels)}",
)
def test_a_variable_of_any_kind_takes_a_level_for_missing_entries(variable: Variable) -> None:
    leveled = variable.with_missing_level()
    assert leveled.levels == (*variable.levels, "(missing)")
    assert leveled.observed == variable.levels
    assert leveled.values == variable.values
    assert leveled.with_missing_level() == leveled
    book = Codebook((leveled, Variable("b", ("x",), "text")))
    assert Codebook.from_dict(book.to_dict()) == book
    assert book.n_levels.tolist() == [len(variable.levels) + 1, 1]
    # It changes nothing where it is not asked for.
    assert "missing_level" not in str(Codebook((variable,)).to_dict())


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ((("a", "b"), "text", True), "last level must be '\\(missing\\)'"),
        ((("(missing)",), "text", True), "has no levels"),
        ((("(missing)", "a", "(missing)"), "text", True), "a level twice"),
        ((("a", "(missing)"), "text", 1), "true or false"),
    ],
)
def test_impossible_levels_are_refused(fields: tuple[Any, ...], words: str) -> None:
    with pytest.raises(DataError, match=words):
        Variable("v", *fields)


def test_a_text_of_the_same_name_is_a_level_like_others_but_not_beside_missing() -> None:
    frame = pd.DataFrame({"a": ["x", "(missing)", None, "x"] * 10})
    found = MerDel(2, random_state=0).fit(frame)
    assert found.codebook_.variables[0].levels == ("(missing)", "x")
    assert not found.codebook_.variables[0].missing_level
    with pytest.raises(DataError, match="'a' has a level '\\(missing\\)' of its own"):
        MerDel(2, missing="level").fit(frame)


def test_entries_are_encoded_and_decoded() -> None:
    frame = pd.DataFrame({"n": [1, None, 0], "b": [True, None, None], "t": ["x", "y", None]})
    book = Codebook(
        (
            Variable("n", ("0", "1"), "integer").with_missing_level(),
            Variable("b", ("false", "true"), "boolean").with_missing_level(),
            Variable("t", ("x", "y"), "text"),
        )
    )
    rows = encode(open_table(frame), book)
    assert rows.packing.radix.tolist() == [3, 3, 3]
    packing = rows.packing
    levels = rows.codes[:, packing.code] // packing.stride % packing.radix
    assert levels.tolist() == [[1, 1, 0], [2, 2, 1], [0, 2, 2]]
    values = decode(levels, book)
    assert values.tolist() == [[1, True, "x"], [None, None, "y"], [0, None, None]]
    numbers = Codebook(book.variables[:1])
    assert decode(np.array([[0], [1]]), numbers).dtype == np.int64


# One table


def test_a_level_for_missing_entries_is_a_level_like_others() -> None:
    # A third level of the columns with gaps, written out.
    written = np.where(np.isnan(GAPS), 2, GAPS).astype(int)
    for prior in ("fixed", "learned"):
        options: dict[str, Any] = {"max_clusters": 8, "prior": prior, "random_state": 0}
        found = MerDel(missing="level", **options).fit(GAPS)
        same = MerDel(**options).fit(written)
        assert found.lower_bound_ == same.lower_bound_
        np.testing.assert_array_equal(found.labels_, same.labels_)
        np.testing.assert_array_equal(found.predict_proba(GAPS), same.predict_proba(written))
        assert [v.missing_level for v in found.codebook_.variables] == [True] * 5 + [False] * 7


def test_without_missing_entries_all_three_are_the_same() -> None:
    fits = [
        MerDel(6, missing=way, random_state=0).fit(TABLE.X) for way in ("ignore", "level", "error")
    ]
    assert len({fit.lower_bound_ for fit in fits}) == 1
    assert fits[0].codebook_ == fits[1].codebook_ == fits[2].codebook_


def test_no_row_is_dropped_not_even_an_empty_one() -> None:
    X = with_gaps()
    X[7] = np.nan
    found = MerDel(8, random_state=0).fit(X)
    assert len(found.labels_) == 900
    np.testing.assert_allclose(found.predict_proba(X[7:8])[0], found.weights_, atol=0.01)
    assert found.score_samples(X[7:8]) == pytest.approx(0.0, abs=1e-9)


def test_missing_entries_of_a_variable_without_the_level_are_left_out_of_predictions() -> None:
    found = MerDel(8, missing="level", random_state=0).fit(GAPS)
    full = np.where(np.isnan(GAPS), 0, GAPS)
    gone, zero, one = full.copy(), full.copy(), full.copy()
    gone[:, 11], zero[:, 11], one[:, 11] = np.nan, 0, 1
    both = np.logaddexp(found.score_samples(zero), found.score_samples(one))
    np.testing.assert_allclose(found.score_samples(gone), both, rtol=1e-12)
    # A variable that has the level is another matter: there are three possibilities.
    gone[:, 11], gone[:, 0] = full[:, 11], np.nan
    assert (found.score_samples(gone) < 0).all()


def test_rows_that_are_drawn_have_missing_entries_where_missing_is_a_level() -> None:
    found = MerDel(8, missing="level", random_state=0).fit(GAPS)
    drawn, _ = found.sample(4000, random_state=1)
    absent = np.equal(drawn, None)
    assert absent[:, :5].mean() == pytest.approx(0.2, abs=0.02)
    assert not absent[:, 5:].any()
    assert set(np.unique(drawn[:, 5:].astype(int))) == {0, 1}


def test_a_column_of_one_level_and_gaps_is_no_constant_one_if_missing_is_a_level() -> None:
    frame = pd.DataFrame({"ticked": ["yes", None] * 30, "sex": ["f", "m", "m"] * 20})
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConstantColumnWarning)
        MerDel(3, missing="level", random_state=0).fit(frame)
        draft_study(frame, missing="level")
    with pytest.warns(ConstantColumnWarning, match="'ticked'"):
        MerDel(3, random_state=0).fit(frame)


def test_a_codebook_says_the_same_as_the_option() -> None:
    found = MerDel(4, missing="level", random_state=0).fit(GAPS)
    again = MerDel(4, missing="level", codebook=found.codebook_, random_state=0).fit(GAPS)
    assert again.lower_bound_ == found.lower_bound_
    plain = Codebook(tuple(replace(v, levels=v.observed, missing_level=False)
                           for v in found.codebook_.variables))  # fmt: skip
    grown = MerDel(4, missing="level", codebook=plain, random_state=0).fit(GAPS)
    assert grown.codebook_ == found.codebook_
    for way in ("ignore", "error"):
        with pytest.raises(OptionError, match=r"^missing: the codebook has a level"):
            MerDel(missing=way, codebook=found.codebook_).fit(TABLE.X)
        with pytest.raises(OptionError, match=r"^missing: the codebook has a level"):
            FedMerDel(missing=way, codebook=found.codebook_).fit(TABLE.X)


def test_a_saved_model_keeps_the_level(tmp_path: Path) -> None:
    found = MerDel(8, missing="level", random_state=0).fit(GAPS)
    found.save(tmp_path / "model.json")
    loaded = MerDel.load(tmp_path / "model.json")
    assert loaded.missing == "level"
    np.testing.assert_array_equal(loaded.predict(GAPS), found.labels_)


# Refusals


@pytest.mark.parametrize("estimator", [MerDel, FedMerDel])
def test_error_names_file_column_and_count(estimator: Any, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    frame = pd.DataFrame(TABLE.X.astype(float), columns=[f"v{j}" for j in range(12)])
    whole = estimator(6, missing="error", random_state=0).fit(frame)
    frame.loc[:4, "v3"] = np.nan
    frame.loc[:1233, "v5"] = np.nan
    frame.to_csv(path, index=False)
    for call in (estimator(missing="error").fit, whole.predict):
        with pytest.raises(DataError) as caught:
            call(path)
        said = str(caught.value)
        assert said.startswith(f"file {str(path)!r}: missing entries")
        assert "columns 'v3' (5), 'v5' (900): " in said
        assert "\n" not in said
    assert whole.__sklearn_tags__().input_tags.allow_nan is False


def test_a_study_refuses_at_fit_check_and_assign() -> None:
    study = replace(draft_study(TABLE.X, missing="error"), policy=NONE, max_clusters=6)
    model = merge_sites(study, [fit_site(study, TABLE.X, "a")]).model
    words = "'x0' \\([0-9]+\\), 'x1' \\([0-9]+\\)"
    with pytest.raises(DataError, match=words):
        fit_site(study, GAPS, "b")
    with pytest.raises(DataError, match=words):
        assign(model, GAPS)
    (problem,) = check_site(study, GAPS).problems
    assert "missing entries" in problem


# Studies


@pytest.mark.parametrize("missing", ["ignore", "level", "error"])
@pytest.mark.parametrize("prior", ["learned", 0.5])
def test_the_file_keeps_it(missing: Any, prior: Any, tmp_path: Path) -> None:
    study = replace(draft_study(TABLE.X, missing=missing), prior=prior)
    study.save(tmp_path / "study.toml")
    text = (tmp_path / "study.toml").read_text(encoding="utf-8")
    assert f'missing = "{missing}"' in text
    assert "(missing)" not in text
    loaded = Study.load(tmp_path / "study.toml")
    assert loaded == study
    assert loaded.hash == study.hash
    (tmp_path / "study.toml").write_text(text.replace(f'"{missing}"', '"drop"'))
    with pytest.raises(DataError, match="section \\[model\\]: missing: give one of 'ignore'"):
        Study.load(tmp_path / "study.toml")


def test_every_variable_of_a_study_has_the_level_whichever_site_needs_it() -> None:
    study = replace(draft_study(TABLE.X, missing="level"), policy=NONE, max_clusters=6)
    assert all(variable.missing_level for variable in study.codebook.variables)
    # The first site has gaps in five columns, the others none.
    tables = [np.where((SITE == 0)[:, None], GAPS, TABLE.X)[SITE == b] for b in range(3)]
    summaries = [fit_site(study, rows, f"site {b}") for b, rows in enumerate(tables)]
    model = merge_sites(study, summaries).model
    gone = int(np.isnan(tables[0][:, 0]).sum())
    assert model.sums.S[:, 2].sum() == pytest.approx(gone)
    assert model.sums.S[:, :3].sum() == pytest.approx(900)
    named = {(c.variable, c.level) for c in describe(model)[0].levels}
    assert ("x0", "(missing)") in named
    assert ("x11", "(missing)") in named
    labels, _ = assign(model, tables[0])
    assert adjusted_rand_score(TABLE.labels[SITE == 0], labels) > 0.8
    rows, _ = sample(model, 500, random_state=0)
    assert None in rows[:, 0].tolist()
    # 0 and 1 are still what a condition has, so that describe counts them.
    assert describe(model)[0].mean_conditions is not None
    with pytest.raises(OptionError, match=r"^missing: "):
        replace(study, missing="ignore")


def test_federated_levels_are_those_of_a_study() -> None:
    found = FedMerDel(6, missing="level", random_state=0).fit(GAPS, groups=SITE)
    assert all(variable.missing_level for variable in found.codebook_.variables)
    assert adjusted_rand_score(TABLE.labels, found.labels_) > 0.8
    assert (found.predict(GAPS) >= 0).all()


@pytest.mark.parametrize("policy", ["none", "opensafely"])
@pytest.mark.parametrize("missing", ["ignore", "level"])
def test_counts_of_each_variable_add_up_to_the_rows(
    missing: Any, policy: str, tmp_path: Path
) -> None:
    """One line a level, at most one for missing entries, and together the cluster's rows."""
    study = draft_study(TABLE.X, missing=missing)
    study = replace(study, policy=policy_named(policy), max_clusters=4)
    summary = fit_site(study, GAPS, "a")
    summary.save(tmp_path / "a")
    with (tmp_path / "a" / "counts.csv").open(newline="") as file:
        _, first, *lines = csv.reader(file)
    T = np.array(first[2:], dtype=float)
    for j in range(12):
        own = [line for line in lines if line[0] == f"x{j}"]
        counts = np.array([line[2:] for line in own], dtype=float)
        np.testing.assert_allclose(counts.sum(axis=0), T, rtol=1e-9)
        levels = [line[1] for line in own]
        gaps = missing == "level" or j < 5
        assert levels == (["0", "1", "(missing)"] if gaps else ["0", "1"])
        if policy == "none":
            gone = np.isnan(GAPS[:, j]).sum()
            assert counts[2:].sum() == pytest.approx(gone)
    assert type(summary).load(tmp_path / "a").codebook == study.codebook


def test_check_reports_shares_of_missing_entries_either_way() -> None:
    shares = [check_site(draft_study(TABLE.X, missing=way), GAPS).missing
              for way in ("ignore", "level")]  # fmt: skip
    assert shares[0] == pytest.approx(shares[1])
    assert list(shares[0]) == [f"x{j}" for j in range(5)]
    assert shares[0]["x1"] == pytest.approx(np.isnan(GAPS[:, 1]).mean())


def test_the_command_line(run: Callable[..., Said], tmp_path: Path) -> None:
    for site, share in {"leeds": 0.4, "york": 0.6}.items():
        table = hospital(400, share, 1)
        table.loc[table.index % 5 == 0, "smoker"] = None
        table.to_csv(tmp_path / f"{site}.csv", index=False)
    init = ("init", "leeds.csv", "--exclude", "seen", "--exclude", "bmi", "--exclude", "died")
    init += ("--row-id", "patient")
    for way in ("level", "error"):
        done(run(*init, "--missing", way, "-o", f"{way}.toml"))
    refused(
        run("fit", "error.toml", "york.csv", "--site", "york", "-o", "york/"),
        *("'york.csv'", "column 'smoker' (80)"),
    )
    refused(run("check", "error.toml", "york.csv"), "column 'smoker' (80)")
    assert "smoker (20.0%)" in done(run("check", "level.toml", "york.csv"))
    for site in ("leeds", "york"):
        done(run("fit", "level.toml", f"{site}.csv", "--site", site, "-o", f"{site}/"))
    done(run("merge", "level.toml", "leeds/", "york/", "-o", "centre/"))
    done(run("assign", "centre/model/", "york.csv", "-o", "labels.csv"))
    assert "smoker,(missing)" in (tmp_path / "centre" / "model" / "clusters.csv").read_text()


# The best possible


def test_bayes_labels_leave_missing_entries_out() -> None:
    table = simulate(300, 4, 3, levels=(2, 3, 2, 4), random_state=0)
    rng = np.random.default_rng(0)
    X = np.where(rng.random(table.X.shape) < 0.4, np.nan, table.X)
    shares = np.bincount(table.labels) / 300
    joint = np.log(shares)[None, :].repeat(300, axis=0)
    for n, j in zip(*np.nonzero(~np.isnan(X)), strict=True):
        joint[n] += np.log(table.level_probabilities[j][:, table.X[n, j]])
    np.testing.assert_array_equal(bayes_labels(table, X=X), joint.argmax(axis=1))
    whole = bayes_labels(table, X=table.X.astype(float))
    np.testing.assert_array_equal(whole, bayes_labels(table))
    with pytest.raises(OptionError, match=r"^X: "):
        bayes_labels(table, X=X[:10])


@pytest.mark.parametrize("seed", range(2))
def test_with_a_third_of_the_entries_missing_labels_are_near_the_best(seed: int) -> None:
    table = simulate(6000, 100, 6, random_state=seed)
    rng = np.random.default_rng(seed)
    X = np.where(rng.random(table.X.shape) < 0.3, np.nan, table.X)
    best = adjusted_rand_score(table.labels, bayes_labels(table, X=X))
    found = MerDel(random_state=seed).fit(X)
    assert found.n_clusters_ == 6
    assert adjusted_rand_score(table.labels, found.labels_) > best - 0.01


def test_missing_as_a_level_finds_what_only_missing_entries_tell() -> None:
    rng = np.random.default_rng(0)
    ordered = np.arange(2000) % 2 == 0
    X = (rng.random((2000, 30)) < 0.3).astype(float)
    X[rng.random(X.shape) < np.where(ordered, 0.1, 0.5)[:, None]] = np.nan
    assert MerDel(random_state=0).fit(X).n_clusters_ == 1
    found = MerDel(missing="level", random_state=0).fit(X)
    assert found.n_clusters_ == 2
    assert adjusted_rand_score(ordered, found.labels_) > 0.9
