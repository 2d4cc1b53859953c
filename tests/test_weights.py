"""Weights: a row of weight three is three rows, in every fit; but one person to a checker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedmerdel import DataError, FedMerDel, MerDel, OptionError, Study, draft_study, fit_site
from fedmerdel.records.collapse import collapse
from fedmerdel.records.encode import encode, infer_codebook
from fedmerdel.records.simulate import simulate
from fedmerdel.records.tables import open_table
from fedmerdel.release.cells import all_cells
from fedmerdel.site.check import check_site
from fedmerdel.study.policy import POLICIES, policy_named
from tests.command_line import INIT, Said, done, hospital, refused

NONE = policy_named("none")


def rows_with_gaps(n_rows: int, n_variables: int, seed: int) -> np.ndarray:
    X = simulate(n_rows, n_variables, 4, beta=(0.5, 0.8), random_state=seed).X.astype(float)
    X[np.random.default_rng(seed).random(X.shape) < 0.1] = np.nan
    return X


def whole_weights(n_rows: int, seed: int, few: bool = False) -> np.ndarray:
    rng = np.random.default_rng(seed + 100)
    return 1 + 2 * (rng.random(n_rows) < 0.08) if few else rng.integers(1, 4, n_rows)


def assert_same(first: MerDel, second: MerDel) -> None:
    assert first.lower_bound_ == pytest.approx(second.lower_bound_, rel=1e-10)
    for mine, yours in zip(first._stats[:3], second._stats[:3], strict=True):
        np.testing.assert_allclose(mine, yours, rtol=1e-6, atol=1e-5)


# One table


@pytest.mark.parametrize("missing", ["ignore", "level"])
@pytest.mark.parametrize("few", [False, True], ids=["most", "few"])
@pytest.mark.parametrize("prior", ["fixed", "learned"])
@pytest.mark.parametrize(
    ("n_rows", "n_variables"),
    [
        pytest.param(600, 8, id="many alike"),
        pytest.param(1500, 40, id="all distinct"),
        # 1,900 rows are too few for samples of 1,000, and 2,200 enough.
        pytest.param(1900, 30, id="samples by weight"),
        pytest.param(6000, 14, id="samples of rows partly alike"),
    ],
)
def test_whole_weights_are_repeated_rows(
    n_rows: int, n_variables: int, prior: Any, few: bool, missing: Any
) -> None:
    X, times = rows_with_gaps(n_rows, n_variables, 1), whole_weights(n_rows, 1, few)
    options: dict[str, Any] = {"max_clusters": 10, "prior": prior, "missing": missing}
    weighted = MerDel(random_state=0, **options).fit(X, sample_weight=times)
    repeated = MerDel(random_state=0, **options).fit(np.repeat(X, times, axis=0))
    assert_same(weighted, repeated)
    np.testing.assert_array_equal(np.repeat(weighted.labels_, times), repeated.labels_)


@pytest.mark.parametrize("prior", ["fixed", "learned"])
def test_a_row_may_be_split_into_parts_of_any_weight(prior: Any) -> None:
    X = rows_with_gaps(1200, 30, 2)
    weights = np.random.default_rng(2).uniform(0.3, 2.5, 1200)
    share = np.random.default_rng(3).uniform(0.2, 0.8, 1200)
    parts = np.column_stack([weights * share, weights * (1 - share)]).ravel()
    whole = MerDel(8, prior=prior, random_state=0).fit(X, sample_weight=weights)
    split = MerDel(8, prior=prior, random_state=0).fit(np.repeat(X, 2, axis=0), sample_weight=parts)
    assert_same(whole, split)
    np.testing.assert_array_equal(np.repeat(whole.labels_, 2), split.labels_)


def test_a_row_of_weight_zero_is_labelled_and_has_no_say() -> None:
    X, weights = rows_with_gaps(900, 30, 4), np.random.default_rng(4).choice([0.0, 0.7, 2], 900)
    used = weights > 0
    silent = MerDel(8, random_state=0).fit(X, sample_weight=weights)
    without = MerDel(8, random_state=0).fit(X[used], sample_weight=weights[used])
    assert silent.lower_bound_ == without.lower_bound_
    np.testing.assert_array_equal(silent.labels_[used], without.labels_)
    np.testing.assert_array_equal(silent.labels_, without.predict(X))


@pytest.mark.parametrize("n_variables", [6, 9, 20])
def test_rows_are_joined_by_their_weight(n_variables: int) -> None:
    X, times = rows_with_gaps(2000, n_variables, 5), whole_weights(2000, 5)

    def joined(rows: np.ndarray, weights: Any) -> Any:
        table = open_table(rows)
        return collapse(encode(table, infer_codebook(table), weights))[0]

    weighted, repeated = joined(X, times), joined(np.repeat(X, times, axis=0), None)
    np.testing.assert_array_equal(weighted.weights, repeated.weights)


# Sites


def test_whole_weights_are_repeated_rows_at_sites_too() -> None:
    X, times = rows_with_gaps(1200, 30, 6), whole_weights(1200, 6)
    site, repeated = np.arange(1200) % 3, np.repeat(X, times, axis=0)
    first = FedMerDel(8, random_state=0).fit(X, groups=site, sample_weight=times)
    second = FedMerDel(8, random_state=0).fit(repeated, groups=np.repeat(site, times))
    assert first.lower_bound_ == pytest.approx(second.lower_bound_, rel=1e-9)
    np.testing.assert_array_equal(np.repeat(first.labels_, times), second.labels_)

    study = replace(draft_study(simulate(50, 30, 2, random_state=0).X), policy=NONE)
    one = fit_site(study, X, "a", sample_weight=times)
    other = fit_site(study, repeated, "a")
    np.testing.assert_allclose(one.sums.S, other.sums.S, rtol=1e-6, atol=1e-5)


def frame(**columns: Any) -> pd.DataFrame:
    table = hospital(400, 0.5, 3).drop(columns=["died", "patient", "seen", "bmi"])
    return table.assign(**columns)


def study_of(table: pd.DataFrame, **options: Any) -> Study:
    return replace(draft_study(table, weight="w"), **{"max_clusters": 5, **options})


def test_a_study_names_the_column_of_weights(tmp_path: Path) -> None:
    weights = np.random.default_rng(0).uniform(0.5, 3, 400).round(2)
    table = frame(w=weights)
    study = study_of(table, policy=NONE)
    study.save(tmp_path / "study.toml")
    assert Study.load(tmp_path / "study.toml") == study
    assert 'weight = "w"' in (tmp_path / "study.toml").read_text()
    assert "w" not in study.codebook.names
    named = fit_site(study, table, "a")
    given = fit_site(
        replace(study, weight=None), table.drop(columns="w"), "a", sample_weight=weights
    )
    np.testing.assert_array_equal(named.sums.S, given.sums.S)
    assert named.sums.T.sum() == pytest.approx(weights.sum())
    assert named.study_hash != given.study_hash
    found = check_site(study, table)
    assert found.ignored == ()
    assert found.total_weight == pytest.approx(weights.sum())
    assert found.effective_rows == pytest.approx(weights.sum() ** 2 / (weights**2).sum())
    with pytest.raises(OptionError, match=r"^sample_weight: the study takes weights from"):
        fit_site(study, table, "a", sample_weight=weights)


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        (np.where(np.arange(400) == 3, -1.0, 1.0), "weight column 'w' holds negative"),
        (np.where(np.arange(400) < 3, np.nan, 1.0), "weight column 'w' has 3 missing entries"),
        (np.where(np.arange(400) == 3, np.inf, 1.0), "weight column 'w' holds NaN or infinity"),
        (np.zeros(400), "weight column 'w': every weight is zero"),
        (["SECRET"] * 400, "weight column 'w' must hold numbers"),
    ],
)
def test_weights_that_are_none_are_refused(weights: Any, words: str) -> None:
    table = frame(w=weights)
    study = study_of(frame(w=1.0))
    with pytest.raises(DataError, match=words) as caught:
        fit_site(study, table, "a")
    assert "SECRET" not in str(caught.value)
    assert any(words in problem for problem in check_site(study, table).problems)
    with pytest.raises(DataError, match="no column 'w'"):
        fit_site(study, table.drop(columns="w"), "a")


def test_a_checker_counts_people_and_not_weights() -> None:
    """Three people who weigh as much as hundreds are three people."""
    rare = np.arange(400) < 3
    table = frame(rare=np.where(rare, "yes", "no"), w=np.where(rare, 200.0, 1.0))
    policy = POLICIES["opensafely"]
    released = fit_site(study_of(table, policy=policy), table, "a")
    at = list(released.codebook.names).index("rare")
    levels = released.codebook.variables[at].levels
    cell = released.codebook.level_offsets[at] + levels.index("yes")
    assert (released.sums.S[:, cell] == 0).all()
    exact = fit_site(study_of(table, policy=NONE), table, "a")
    assert exact.sums.S[:, cell].sum() == pytest.approx(600)
    # And light people are still people, but a cluster that weighs little is a small one.
    light = fit_site(study_of(table, policy=policy), table.assign(w=1.0), "a")
    cells = all_cells(light.sums, light.codebook.level_offsets)
    assert ((cells == 0) | (cells >= policy.smallest)).all()


def test_the_command_line(run: Callable[..., Said], tmp_path: Path) -> None:
    table = hospital(400, 0.5, 1)
    table["w"] = np.where(table.index % 2 == 0, 0.5, 1.5)
    table.to_csv(tmp_path / "leeds.csv", index=False)
    done(run(*INIT, "--weight", "w"))
    out = " ".join(done(run("check", "study.toml", "leeds.csv")).split())
    assert "Weights of column w sum to 400" in out
    assert "320 rows of equal weight" in out
    done(run("fit", "study.toml", "leeds.csv", "--site", "leeds", "-o", "leeds/"))
    table.assign(w=-1).to_csv(tmp_path / "bad.csv", index=False)
    for command in (("check",), ("fit", "--site", "leeds", "-o", "bad/")):
        refused(run(command[0], "study.toml", "bad.csv", *command[1:]), "negative numbers")
