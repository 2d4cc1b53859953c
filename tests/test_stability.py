"""Stability: clusterwise Jaccard similarity against its definition, and on known clusters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from fedmerdel import (
    DataError,
    FedMerDel,
    MerDel,
    OptionError,
    Stability,
    consensus,
    simulate,
    stability,
)
from fedmerdel.estimators.starts import bootstrap, make_trial, run_fits
from fedmerdel.sums.agreement import best_jaccard
from tests.seeds import Record, over

TABLE = simulate(400, 40, 4, beta=(0.3, 0.3), random_state=2)
MODEL = MerDel(8, random_state=0).fit(TABLE.X)
labels_of = st.lists(st.integers(0, 3), min_size=8, max_size=8).map(
    lambda drawn: np.unique(drawn, return_inverse=True)[1]
)


# The measure


@given(labels_of, labels_of, st.lists(st.sampled_from([1.0, 2.0, 5.0]), min_size=8, max_size=8))
def test_similarity_is_that_of_the_sets(labels: Any, other: Any, drawn: list[float]) -> None:
    weights = np.array(drawn)
    (found,) = best_jaccard(labels, other[None], weights)
    for k, alike in enumerate(found):
        best = max(
            weights[(labels == k) & (other == m)].sum()
            / weights[(labels == k) | (other == m)].sum()
            for m in set(other)
        )
        assert alike == pytest.approx(best)


@given(labels_of)
def test_perfect_agreement_is_one_whatever_the_names(labels: Any) -> None:
    starts = np.array([labels, labels.max() - labels])
    assert np.all(best_jaccard(labels, starts, np.ones(8)) == 1)


def test_random_labels_are_far_apart() -> None:
    rng = np.random.default_rng(0)
    starts = rng.integers(0, 5, (10, 2000))
    assert best_jaccard(starts[0], starts[1:], np.ones(2000)).mean() < 0.2


def test_a_bootstrap_draws_each_row_once_or_not_at_all() -> None:
    rng = np.random.default_rng(0)
    weights = np.array([0.0, 1.0, 3.0, 0.4, 2.5])
    drawn = np.array([bootstrap(weights, rng) for _ in range(4000)])
    assert np.all(drawn <= weights)
    assert set(drawn[:, 1]) == {0.0, 1.0}
    assert set(drawn[:, 2]) == {0.0, 1.0, 2.0, 3.0}
    assert set(drawn[:, 3]) == {0.0, 0.4}
    np.testing.assert_allclose(drawn.mean(axis=0), weights * (1 - np.exp(-1)), atol=0.05)


def test_a_bootstrap_is_never_empty() -> None:
    rng = np.random.default_rng(0)
    assert all(bootstrap(np.array([0.0, 1.0]), rng).sum() == 1 for _ in range(20))


def test_a_bootstrap_finds_no_clusters_of_copies() -> None:
    table = simulate(1000, 100, 10, size_range=(50, 200), noisy=0.25, random_state=3)
    model = MerDel(random_state=1)
    fits = run_fits(model, make_trial(model, table.X), 2, 1, bootstrap)
    assert fits.labels.max() < 12


# Of a fit


def test_clear_clusters_come_back() -> None:
    found = stability(MODEL, TABLE.X, n_starts=3, n_bootstrap=4)
    assert found.from_starts.shape == (3, 4)
    assert found.from_bootstrap.shape == (4, 4)
    assert found.over_starts.min() > 0.95
    assert found.over_bootstrap.min() > 0.85
    assert np.all(found.survived_starts == 1)
    assert np.all(found.survived_bootstrap == 1)
    assert np.array_equal(found.rows, np.bincount(MODEL.labels_))


def test_numbers_of_clusters_are_told() -> None:
    found = stability(MODEL, TABLE.X, n_starts=2, n_bootstrap=3)
    assert found.clusters_from_starts.tolist() == [4, 4]
    assert found.clusters_from_bootstrap.tolist() == [4, 4, 4]
    assert str(found).splitlines()[-2:] == [
        "clusters: 4 in 2 of 2 starts",
        "clusters: 4 in 3 of 3 bootstrap samples",
    ]
    some = consensus(MODEL, TABLE.X, n_starts=2).stability
    assert some.clusters_from_starts.tolist() == [4, 4]


def test_of_sites_too() -> None:
    """Rows are drawn at every site; each fit labels all of them."""
    sites = np.arange(400) % 3
    model = FedMerDel(8, random_state=0).fit(TABLE.X, groups=sites)
    found = stability(model, TABLE.X, n_starts=2, n_bootstrap=3, groups=sites)
    assert found.clusters_from_starts.tolist() == [model.n_clusters_] * 2
    assert np.array_equal(found.rows, np.bincount(model.labels_))
    assert found.over_starts.min() > 0.9
    assert found.over_bootstrap.min() > 0.8
    again = stability(model.set_params(n_jobs=2), TABLE.X, n_starts=2, n_bootstrap=3, groups=sites)
    assert again.from_bootstrap.tobytes() == found.from_bootstrap.tobytes()


def test_a_saved_model_of_sites_has_no_labels(tmp_path: Any) -> None:
    FedMerDel(8, n_batches=2, random_state=0).fit(TABLE.X).save(tmp_path / "model.json")
    with pytest.raises(OptionError, match="model: a file has no labels"):
        stability(FedMerDel.load(tmp_path / "model.json"), TABLE.X)
    with pytest.raises(NotFittedError):
        stability(FedMerDel(), TABLE.X)
    with pytest.raises(OptionError, match="groups: a MerDel has no sites"):
        stability(MODEL, TABLE.X, groups=np.arange(400) % 3)


@over(range(1), range(10, 20))
def test_weights_of_a_bayesian_bootstrap_would_make_clusters(
    seeds: range, record_property: Record
) -> None:
    """Why rows are drawn once or not at all: copies, and rows of great weight, are clusters."""
    ways = {
        "drawn once": bootstrap,
        "copies": lambda weights, rng: rng.multinomial(
            len(weights), np.full(len(weights), 1 / len(weights))
        ).astype(float),
        "exponential weights": lambda weights, rng: rng.exponential(size=len(weights)),
    }
    same: dict[str, list[bool]] = {way: [] for way in ways}
    for seed in seeds:
        table = simulate(600, 40, 3, random_state=seed)
        model = MerDel(random_state=0).fit(table.X)
        trial = make_trial(model, table.X)
        for way, draw in ways.items():
            fits = run_fits(model, trial, 3, 1, draw)
            same[way] += (fits.n_clusters == model.n_clusters_).tolist()
    shares = {way: float(np.mean(each)) for way, each in same.items()}
    record_property("samples with the number of clusters of all rows, by way of drawing", shares)
    assert shares["drawn once"] >= 0.9
    assert max(shares["copies"], shares["exponential weights"]) <= 0.4


def test_clusters_of_noise_do_not() -> None:
    noise = np.random.default_rng(0).integers(0, 2, (60, 12))
    # Labels that mean nothing, kept: no pass is made that could change much.
    start = np.arange(60) % 3
    with pytest.warns(ConvergenceWarning):
        model = MerDel(3, init=start, max_iter=1, recipe="paper", laps=None, random_state=0).fit(
            noise
        )
    model.set_params(init=None, max_iter=1000, recipe="default")
    found = stability(model, noise, n_starts=3, n_bootstrap=5)
    assert found.over_bootstrap.mean() < 0.6


def test_the_result_depends_on_the_seed_and_not_on_threads() -> None:
    tables = []
    for n_jobs in (1, 2, 4):
        model = MerDel(8, n_jobs=n_jobs, random_state=0).fit(TABLE.X)
        tables.append(stability(model, TABLE.X, n_starts=3, n_bootstrap=3))
    for other in tables[1:]:
        assert tables[0].from_starts.tobytes() == other.from_starts.tobytes()
        assert tables[0].from_bootstrap.tobytes() == other.from_bootstrap.tobytes()


def test_a_row_of_weight_three_is_three_rows() -> None:
    weights = np.where(np.arange(400) < 100, 3.0, 1.0)
    weights[-10:] = 0
    found = stability(MODEL, TABLE.X, n_starts=2, n_bootstrap=2, sample_weight=weights)
    assert found.rows.sum() == weights.sum()
    np.testing.assert_allclose(found.rows, np.bincount(MODEL.labels_, weights))


def test_a_saved_model_will_do(tmp_path: Any) -> None:
    MODEL.save(tmp_path / "model.json")
    loaded = MerDel.load(tmp_path / "model.json")
    mine, its = (stability(m, TABLE.X, n_starts=2, n_bootstrap=0) for m in (MODEL, loaded))
    assert np.array_equal(mine.from_starts, its.from_starts)


@pytest.mark.parametrize("missing", ["ignore", "level"])
def test_missing_entries_are_what_the_model_takes_them_for(missing: Any) -> None:
    X = TABLE.X.astype(float)
    X[::7, 3] = np.nan
    model = MerDel(8, missing=missing, random_state=0).fit(X)
    found = stability(model, X, n_starts=2, n_bootstrap=2)
    assert found.over_starts.min() > 0.9
    model.set_params(missing="error")
    with pytest.raises(DataError, match="missing entries"):
        stability(model, X)


# Shown


def test_it_is_shown_as_a_table() -> None:
    shown = str(
        Stability(
            np.array([1200.0, 7.0]), np.array([[1.0, 0.5]]), np.array([[0.8, 0.6], [0.7, 0.2]])
        )
    )
    assert shown.splitlines() == [
        "cluster   rows  starts  found again  bootstrap  found again",
        "      0  1,200    1.00         100%       0.75          50%",
        "      1      7    0.50           0%       0.40           0%",
    ]


def test_what_was_not_looked_at_is_not_shown() -> None:
    found = stability(MODEL, TABLE.X, n_starts=0, n_bootstrap=2)
    assert "starts" not in str(found)
    assert "bootstrap" in str(found)
    assert found.over_starts.size == 0


# Refused


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_starts": -1}, "n_starts: give a whole number of at least 0"),
        ({"n_bootstrap": 1.5}, "n_bootstrap: give a whole number of at least 0"),
        ({"n_starts": 0, "n_bootstrap": 0}, "n_starts, n_bootstrap: give at least one of them"),
        ({"model": None}, "model: give a MerDel"),
    ],
)
def test_refusals(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        stability(**{"model": MODEL, "X": TABLE.X, **options})


def test_the_model_is_fitted_and_the_table_its_own() -> None:
    with pytest.raises(NotFittedError):
        stability(MerDel(), TABLE.X)
    with pytest.raises(DataError):
        stability(MODEL, TABLE.X + 5)
    with pytest.raises(ValueError, match="expecting 40 features"):
        stability(MODEL, TABLE.X[:, :-1])


def test_fits_that_do_not_converge_are_told_of_once() -> None:
    short = MerDel(8, random_state=0).fit(TABLE.X).set_params(max_iter=1)
    with pytest.warns(ConvergenceWarning, match="2 of 2 fits not converged: raise max_iter"):
        stability(short, TABLE.X, n_starts=2, n_bootstrap=0)
