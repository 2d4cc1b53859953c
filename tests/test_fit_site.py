"""One site's part, from its table to what may leave: exact sums, policies, refusals."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score

from fedmerdel import (
    DataError,
    NotConvergedWarning,
    OptionError,
    SiteSummary,
    Study,
    assign,
    draft_study,
    fit_site,
    merge_sites,
    simulate,
)
from fedmerdel.fitting import ascent
from fedmerdel.fitting.passes import Workers
from fedmerdel.release.cells import all_cells
from fedmerdel.site import local_fit
from fedmerdel.site.check import check_site
from fedmerdel.site.fit_site import prepare_release
from fedmerdel.site.local_fit import fit_in_batches
from fedmerdel.site.outcome_rows import site_outcomes
from fedmerdel.site.site_table import study_rows
from fedmerdel.study.codebook import Codebook, Variable
from fedmerdel.study.policy import POLICIES, custom_policy, policy_named
from fedmerdel.study.priors import study_prior
from fedmerdel.sums.elbo import elbo
from tests.drawn import seeds
from tests.reference import Dense, e_step, m_step, overlap_matrix, statistics_from
from tests.site_tables import CODEBOOK, EXACT, N_LEVELS, NAMES, frame_of, level_numbers, study


def test_without_a_policy_the_sums_are_exact() -> None:
    X = level_numbers(400, 1)
    table, agreed = frame_of(X), study(outcomes=("died",))
    rows, prior = study_rows(agreed, table), study_prior(agreed, agreed.max_clusters)
    seed = np.random.SeedSequence([agreed.seed, *b"leeds"])
    theta = fit_in_batches(agreed, rows, prior, seed, Workers(), None).theta
    summary = fit_site(agreed, table, "leeds")
    dense = Dense(X, np.ones(len(X)), N_LEVELS)
    log_r = e_step(dense, theta)
    oracle = statistics_from(m_step(dense, log_r))
    assert summary.n_clusters > 1
    np.testing.assert_allclose(summary.sums.T, oracle.T, rtol=1e-9)
    np.testing.assert_allclose(summary.sums.S, oracle.S, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(summary.sums.h, oracle.h, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(
        summary.sums.Q, overlap_matrix(log_r, dense.weights) * (1 - np.eye(len(oracle.T))),
        rtol=1e-8, atol=1e-8,
    )  # fmt: skip
    died = table["died"].fillna(-1).to_numpy()
    counts = summary.sums.outcomes["died"]
    np.testing.assert_allclose(counts[:, 1], np.exp(log_r)[died == 1].sum(axis=0))
    np.testing.assert_allclose(counts.sum(axis=1), np.exp(log_r)[died >= 0].sum(axis=0))
    assert summary.study_hash == agreed.hash


@settings(max_examples=40, deadline=None)
@given(
    policy=st.sampled_from([*POLICIES.values(), custom_policy(4, 3)]),
    n_rows=st.one_of(st.integers(1, 40), st.integers(41, 400)),
    rare=st.sampled_from([0.0, 0.02, 0.3]),
    missing=st.sampled_from([0.0, 0.02, 0.5]),
    seed=seeds,
)
def test_what_leaves_obeys_its_policy(
    policy: Any, n_rows: int, rare: float, missing: float, seed: int
) -> None:
    agreed = study(policy=policy, outcomes=("died",))
    table = frame_of(level_numbers(n_rows, seed, rare, missing), seed)
    refusal = None
    try:
        summary = fit_site(agreed, table, "leeds")
    except DataError as error:
        refusal = str(error)
    if refusal is not None:
        assert policy.threshold > 0
        assert "too small to take part" in refusal
        assert "\n" not in refusal
        return
    assert n_rows >= policy.smallest or policy is EXACT
    if policy is EXACT:
        assert summary.n_rows == pytest.approx(n_rows)
        return
    cells = all_cells(summary.sums, CODEBOOK.level_offsets)
    assert np.all((cells == 0) | (cells >= policy.smallest))
    np.testing.assert_array_equal(cells % max(policy.rounding, 1), 0)
    T, S, h, Q, _ = summary.sums
    for part in np.split(S, CODEBOOK.level_offsets[1:-1], axis=1):
        rest = T[:, None] - part
        assert np.all((rest == 0) | (rest >= policy.smallest))
    unit = policy.smallest * np.log(2.0)
    steps = np.concatenate([(-h / unit), (Q / unit).ravel()])
    np.testing.assert_allclose(steps, steps.round(), atol=1e-9)
    assert abs(summary.n_rows - n_rows) <= summary.n_clusters * max(policy.rounding, 1)


def test_a_site_that_is_too_small_is_refused() -> None:
    agreed = study(policy=policy_named("opensafely"))
    table = frame_of(level_numbers(9, 0))
    with pytest.raises(DataError, match="too small to take part alone"):
        fit_site(agreed, table, "leeds")
    assert not check_site(agreed, table).enough


def test_rows_of_weight_zero_do_not_hide_one_person() -> None:
    """One row of weight 20 beside twenty of weight 0 is a count of 20, and one person."""
    X = np.zeros((220, 4), dtype=int)
    X[:21, 0] = 1
    weights = np.ones(220)
    weights[:21] = [20.0, *np.zeros(20)]
    agreed = study(policy=policy_named("opensafely"), max_clusters=1, outcomes=("died",))
    table = frame_of(X)
    table["died"] = pd.array((np.arange(220) < 21).astype(int), dtype="Int64")
    summary = fit_site(agreed, table, "leeds", sample_weight=weights)
    assert summary.sums.S[0, 1] == 0
    assert summary.sums.outcomes["died"][0, 1] == 0


def test_same_seed_same_bytes_on_any_number_of_threads() -> None:
    table = pd.DataFrame(simulate(9000, 20, 5, random_state=0).X).add_prefix("v")
    codebook = Codebook(tuple(Variable(name, ("0", "1"), "integer") for name in table))
    agreed = Study("s", codebook)
    first, *others = (fit_site(agreed, table, "leeds", n_jobs=n).to_files() for n in (1, 1, 2))
    assert all(other == first for other in others)


def test_batches_give_about_what_all_rows_at_once_do(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = simulate(3000, 30, 4, beta=(0.3, 0.3), random_state=2)
    table = pd.DataFrame(drawn.X).add_prefix("v")
    codebook = Codebook(tuple(Variable(name, ("0", "1"), "integer") for name in table))
    agreed = Study("s", codebook, policy=EXACT)
    found = {}
    for batch in (10_000, 700):
        monkeypatch.setattr(local_fit, "BATCH_ROWS", batch)
        summary = fit_site(agreed, table, "leeds")
        assert summary.n_rows == pytest.approx(3000)
        found[batch] = summary, assign(merge_sites(agreed, [summary]).model, table).labels
    (whole, labels), (batched, batch_labels) = found.values()
    assert batched.n_clusters == whole.n_clusters == 4
    prior = study_prior(agreed, agreed.n_components)
    assert elbo(batched.sums, prior) == pytest.approx(elbo(whole.sums, prior), rel=1e-3)
    assert adjusted_rand_score(labels, batch_labels) > 0.99


def test_batches_without_weight_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    table = frame_of(level_numbers(200, 3))
    weights = (np.arange(200) < 50).astype(float)
    expected = fit_site(study(), table[:50], "leeds")
    for batch in (1000, 10):
        monkeypatch.setattr(local_fit, "BATCH_ROWS", batch)
        summary = fit_site(study(), table, "leeds", sample_weight=weights)
        assert summary.n_rows == pytest.approx(50)
        if batch == 1000:
            np.testing.assert_allclose(summary.sums.S, expected.sums.S)


@pytest.mark.parametrize("name", ["a", "died"])
def test_a_column_that_is_all_missing(name: str, tmp_path: Path) -> None:
    table = changed(frame_of(level_numbers(100, 3)), **{name: None})
    table.to_csv(tmp_path / "t.csv", index=False)
    for source in (table, tmp_path / "t.csv"):
        summary = fit_site(study(outcomes=("died",)), source, "leeds")
        told = summary.sums.S[:, :2] if name == "a" else summary.sums.outcomes["died"]
        np.testing.assert_array_equal(told, 0)


def test_other_columns_and_another_order_do_not_matter(tmp_path: Path) -> None:
    table, agreed = frame_of(level_numbers(200, 3)), study(outcomes=("died",))
    expected = fit_site(agreed, table[[*NAMES, "died"]], "leeds").to_files()
    shuffled = table[["note", "d", "born", "b", "died", "a", "bmi", "c"]]
    assert fit_site(agreed, shuffled, "leeds").to_files() == expected
    shuffled.to_csv(tmp_path / "t.csv", index=False)
    shuffled.to_parquet(tmp_path / "t.parquet")
    for name in ("t.csv", "t.parquet"):
        assert fit_site(agreed, tmp_path / name, "leeds").to_files() == expected
    assert set(check_site(agreed, tmp_path / "t.csv").ignored) == {"note", "born", "bmi"}


def test_booleans_fit_zero_and_one_both_ways() -> None:
    table = frame_of(level_numbers(200, 3))
    expected = fit_site(study(), table, "leeds").to_files()
    other = table.assign(a=table["a"].astype("boolean"), b=table["b"].astype("Int64"))
    assert fit_site(study(), other, "leeds").to_files() == expected


@pytest.mark.parametrize(
    "spelling", [(0, 1), (False, True), ("no", "yes"), ("NO", "YES"), ("N", "Y"), (0.0, 1.0)]
)
def test_spellings_of_an_outcome(spelling: tuple[Any, Any], tmp_path: Path) -> None:
    table, agreed = frame_of(level_numbers(30, 3)), study(outcomes=("died",))
    wanted = table["died"].astype(float)
    table["died"] = [None if np.isnan(at) else spelling[int(at)] for at in wanted]
    table.to_csv(tmp_path / "t.csv", index=False)
    for source in (table, tmp_path / "t.csv"):
        cells = np.column_stack([wanted == 0, wanted == 1])
        np.testing.assert_array_equal(site_outcomes(agreed, source)["died"], cells)


def changed(table: pd.DataFrame, **columns: Any) -> pd.DataFrame:
    return table.assign(**{name: [value] * len(table) for name, value in columns.items()})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"c": "SECRET"}, r"not among the levels of the study in column 'c'"),
        ({"a": 7}, r"not among the levels of the study in column 'a'"),
        ({"a": pd.Timestamp("2020-01-01")}, r"column 'a' holds dates"),
        ({"a": 0.123}, r"column 'a' holds numbers that are not whole"),
        ({"died": "SECRET"}, r"outcome 'died' is not yes or no"),
        ({"died": 2}, r"outcome 'died' is not yes or no"),
        ({"died": 0.123}, r"outcome 'died' is not yes or no"),
    ],
)
def test_refusals_name_the_column_and_no_value(
    change: dict[str, Any], words: str, tmp_path: Path
) -> None:
    table, agreed = changed(frame_of(level_numbers(50, 3)), **change), study(outcomes=("died",))
    table.to_csv(tmp_path / "t.csv", index=False)
    for source in (table, tmp_path / "t.csv"):
        with pytest.raises(DataError, match=words) as caught:
            fit_site(agreed, source, "leeds")
        message = str(caught.value)
        assert not any(value in message for value in ("SECRET", "2020", "0.123", "\n"))
        (problem,) = check_site(agreed, source).problems
        assert problem == message


def test_a_missing_column_is_refused() -> None:
    table = frame_of(level_numbers(50, 3)).drop(columns=["a", "died"])
    with pytest.raises(DataError, match="no column 'a'"):
        fit_site(study(), table, "leeds")
    with pytest.raises(DataError, match="no column 'died'"):
        site_outcomes(study(outcomes=("died",)), table)
    assert len(check_site(study(outcomes=("died",)), table).problems) == 2


@pytest.mark.parametrize("site", ["", "a/b", "..", " x", None, 3])
def test_unusable_names_of_a_site_are_refused_before_the_work(site: Any) -> None:
    with pytest.raises(DataError, match="a name that a folder can have"):
        fit_site(study(), "nowhere.csv", site)


@pytest.mark.parametrize("n_jobs", [0, "2", 1.5, True, [1]])
def test_unusable_numbers_of_threads_are_refused_before_the_work(n_jobs: Any) -> None:
    with pytest.raises(OptionError, match="n_jobs: give a whole number other than 0, or None"):
        fit_site(study(), "nowhere.csv", "leeds", n_jobs=n_jobs)


@pytest.mark.parametrize("batch", [1_000_000, 150])
def test_a_fit_that_was_cut_short_warns(monkeypatch: pytest.MonkeyPatch, batch: int) -> None:
    monkeypatch.setattr(local_fit, "BATCH_ROWS", batch)
    table = frame_of(level_numbers(400, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit_site(study(), table, "leeds")
    monkeypatch.setattr(ascent, "LEAST_PASSES", 1)
    monkeypatch.setattr(ascent, "MOST_WORK", 1)
    with pytest.warns(NotConvergedWarning, match="site 'leeds': not converged after "):
        fit_site(study(), table, "leeds")


def test_sites_of_one_study_draw_different_numbers() -> None:
    table = frame_of(level_numbers(200, 3))
    leeds, york = (fit_site(study(), table, site) for site in ("leeds", "york"))
    assert isinstance(leeds, SiteSummary)
    assert (leeds.site, york.site) == ("leeds", "york")


def test_overlapping_clusters_are_not_told_as_sure() -> None:
    """Many people with a part each are no small group, though their labels are elsewhere."""
    table = simulate(6000, 8, 4, beta=(2.0, 2.0), random_state=2)
    study = draft_study(table.X, name="overlap")
    released = prepare_release(study, table.X, "leeds")
    assert study.policy.name == "opensafely"
    assert released.summary.n_clusters > 1
    # With labels instead of people, whole levels of overlapping clusters were told as 0.
    assert released.changes.largest_change < 3 * study.policy.smallest
