"""Latent class models by maximum likelihood, against a slow EM on dense arrays."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

from fedmerdel import DataError, MerDel, ModelRow, ModelTable, OptionError, model_table, simulate
from fedmerdel.fitting.class_starts import (
    bayesian_bound,
    climb_from_starts,
    drawn_probabilities,
    drawn_rows,
    searched_start,
)
from fedmerdel.fitting.classical import climb, evaluate, maximise
from fedmerdel.fitting.passes import Workers
from tests.command_line import Said, done, refused
from tests.drawn import dense_tables, seeds
from tests.reference import Dense, by_variable, e_step, log_rho, m_step, packed

small = dense_tables(rows=st.integers(1, 40), max_variables=4, wide=False)
WEIGHTLESS = 1e-12


def slow_likelihood(table: Dense, weights: np.ndarray, levels: list[np.ndarray]) -> float:
    """The log-likelihood, row by row; a level of probability 0 is next to impossible."""
    with np.errstate(divide="ignore"):
        logs = [np.maximum(np.log(level), -700) for level in levels]
        rho = log_rho(table.X, np.maximum(np.log(weights), -700), logs)
    return float(table.weights @ logsumexp(rho, axis=1))


def slow_em(table: Dense, log_r: np.ndarray, n_passes: int) -> float:
    """Plain EM from responsibilities: shares as they are, missing entries left out."""
    for _ in range(n_passes):
        sums = m_step(table, log_r)
        levels = [part / np.maximum(part.sum(axis=1, keepdims=True), 1e-300) for part in sums.S]
        weights = sums.T / sums.T.sum()
        with np.errstate(divide="ignore"):
            rho = log_rho(
                table.X,
                np.maximum(np.log(weights), -700),
                [np.maximum(np.log(level), -700) for level in levels],
            )
        log_r = rho - logsumexp(rho, axis=1, keepdims=True)
    return slow_likelihood(table, weights, levels)


def as_frame(table: Dense) -> np.ndarray:
    return np.where(table.X < 0, np.nan, table.X)


@settings(deadline=None)
@given(small, st.integers(1, 5), seeds)
def test_the_likelihood_is_that_of_brute_force(table: Dense, K: int, seed: int) -> None:
    rows = packed(table)
    theta = drawn_probabilities(rows.packing.level_offsets, K, np.random.default_rng(seed))
    with Workers() as workers:
        found = evaluate(rows, theta, workers)
    levels = [np.exp(part) for part in by_variable(theta.log_levels, table.n_levels)]
    expected = slow_likelihood(table, np.exp(theta.log_weights), levels)
    assert found.log_likelihood == pytest.approx(expected, rel=1e-11, abs=1e-10)


def test_probabilities_of_all_possible_rows_add_up_to_one() -> None:
    n_levels = np.array([2, 3, 2])
    X = np.array(list(product(*(range(n) for n in n_levels))))
    total = 0.0
    theta = drawn_probabilities(np.array([0, 2, 5, 7]), 3, np.random.default_rng(1))
    with Workers() as workers:
        for row in X:
            rows = packed(Dense(row[None], np.ones(1), n_levels))
            total += np.exp(evaluate(rows, theta, workers).log_likelihood)
    assert total == pytest.approx(1.0)


@settings(deadline=None)
@given(small, st.integers(1, 5), seeds)
def test_a_pass_is_one_of_the_slow_em_and_never_lowers_the_likelihood(
    table: Dense, K: int, seed: int
) -> None:
    if table.weights.sum() < WEIGHTLESS:
        return
    rows = packed(table)
    offsets = rows.packing.level_offsets
    with Workers() as workers:
        here = evaluate(rows, drawn_probabilities(offsets, K, np.random.default_rng(seed)), workers)
        log_r = e_step(table, here.theta)
        for n in range(1, 6):
            there = evaluate(rows, maximise(here.stats, offsets), workers)
            slack = 1e-9 * (1.0 + abs(here.log_likelihood))
            assert there.log_likelihood >= here.log_likelihood - slack
            expected = slow_em(table, log_r, n)
            assert there.log_likelihood == pytest.approx(expected, rel=1e-8, abs=1e-8)
            here = there


@settings(deadline=None)
@given(small, st.integers(1, 4), seeds)
def test_a_climb_ends_no_lower_than_it_began(table: Dense, K: int, seed: int) -> None:
    total = table.weights.sum()
    if total < WEIGHTLESS:
        return
    rows = packed(table)
    start = drawn_probabilities(rows.packing.level_offsets, K, np.random.default_rng(seed))
    with Workers() as workers:
        first = evaluate(rows, start, workers)
        found = climb(rows, start, 1e-9 * total, 3000, workers)
    assert np.isfinite(found.found.log_likelihood)
    assert found.found.log_likelihood >= first.log_likelihood - 1e-9
    assert np.exp(found.found.theta.log_weights).sum() == pytest.approx(1.0)


def test_a_climb_reaches_the_maximum_of_the_slow_em() -> None:
    """Well separated classes have one maximum near the start: both must find it."""
    table = Dense(clear_classes(150, 3), np.ones(150), np.full(12, 2))
    rows = packed(table)
    with Workers() as workers:
        start = searched_start(rows, 3, np.random.default_rng(0), workers)
        found = climb(rows, start, 1e-9 * 150, 5000, workers)
    expected = slow_em(table, e_step(table, start), 100)
    assert found.found.log_likelihood == pytest.approx(expected, abs=1e-5)


@settings(deadline=None)
@given(small, st.integers(1, 6), seeds)
def test_starts_are_proper_probabilities(table: Dense, K: int, seed: int) -> None:
    weighty = table.weights > 0
    if not weighty.any():
        return
    rows = packed(Dense(table.X[weighty], table.weights[weighty], table.n_levels))
    rng = np.random.default_rng(seed)
    offsets = rows.packing.level_offsets
    with Workers() as workers:
        starts = [
            searched_start(rows, K, rng, workers),
            drawn_rows(rows, K, rng, workers),
            drawn_probabilities(offsets, K, rng),
        ]
    for theta in starts:
        assert theta.n_clusters == K
        assert np.exp(theta.log_weights).sum() == pytest.approx(1.0)
        for levels in by_variable(theta.log_levels, table.n_levels):
            np.testing.assert_allclose(np.exp(levels).sum(axis=1), 1.0, rtol=1e-9)


def clear_classes(n_rows: int, seed: int) -> np.ndarray:
    """Three classes, each with four of twelve variables that it alone mostly has."""
    rng = np.random.default_rng(seed)
    chance = np.where(np.repeat(np.eye(3), 4, axis=1) == 1, 0.9, 0.1)
    return (rng.random((n_rows, 12)) < chance[rng.integers(0, 3, n_rows)]).astype(np.int64)


X = (
    np.where(np.random.default_rng(5).random((300, 6)) < 0.1, np.nan, 0)
    + simulate(300, 6, 3, random_state=5).X
)


def test_one_class_is_closed_form() -> None:
    (row,) = model_table(X, 1, n_init=1).rows
    expected = 0.0
    for column in X.T:
        seen = column[~np.isnan(column)]
        counts = np.unique(seen, return_counts=True)[1]
        expected += float(counts @ np.log(counts / counts.sum()))
    assert row.log_likelihood == pytest.approx(expected, abs=1e-8)
    assert (row.n_parameters, row.entropy_r2, row.smallest_class) == (6, None, 1.0)
    assert row.bic == pytest.approx(6 * np.log(300) - 2 * expected)
    assert row.icl == pytest.approx(row.bic)
    assert row.notes == ()


def test_the_criteria_follow_from_the_likelihood() -> None:
    table = model_table(X, [3, 2], n_init=4, random_state=0)
    assert [row.n_classes for row in table.rows] == [2, 3]
    for row in table.rows:
        K, fit, p = row.n_classes, row.log_likelihood, row.n_parameters
        assert p == K - 1 + 6 * K
        assert row.aic == pytest.approx(2 * p - 2 * fit)
        assert row.bic == pytest.approx(p * np.log(300) - 2 * fit)
        assert row.abic == pytest.approx(p * np.log(302 / 24) - 2 * fit)
        entropy = (row.icl - row.bic) / 2
        assert row.entropy_r2 == pytest.approx(1 - entropy / (300 * np.log(K)))
        assert 0 < row.smallest_class <= 1 / K
        assert 1 <= row.n_reached <= row.n_init == 4
        assert row.converged
    assert table.rows[1].log_likelihood > table.rows[0].log_likelihood


def test_a_weight_of_two_is_two_rows_and_of_none_no_row() -> None:
    weights = np.repeat([2.0, 1.0, 0.0], 100)
    weighed = model_table(X, [1, 3], n_init=6, sample_weight=weights, random_state=2)
    repeated = np.concatenate((np.repeat(X[:100], 2, axis=0), X[100:200]))
    rows = model_table(repeated, [1, 3], n_init=6, random_state=2)
    for one, other in zip(weighed.rows, rows.rows, strict=True):
        assert one.log_likelihood == pytest.approx(other.log_likelihood, abs=1e-5)
        assert one.bic == pytest.approx(other.bic, abs=1e-4)


def test_missing_entries_and_unseen_levels_add_nothing() -> None:
    """A row with nothing known has probability 1, and a level that no row has is no parameter."""
    book = MerDel(2).fit(np.vstack((X[:, :2], [[2, 2]]))).codebook_
    with_empty = np.vstack((X, np.full((5, 6), np.nan)))
    for K in (1, 2):
        plain = model_table(X, K, n_init=5, random_state=1).rows[0]
        more = model_table(with_empty, K, n_init=5, random_state=1).rows[0]
        assert more.log_likelihood == pytest.approx(plain.log_likelihood, abs=1e-4)
    assert model_table(X[:, :2], 2, codebook=book).rows[0].n_parameters == 5


def test_the_result_does_not_depend_on_threads_or_on_other_numbers() -> None:
    drawn = simulate(2500, 12, 4, random_state=1).X
    alone = model_table(drawn, 4, n_init=6, random_state=3).rows[0]
    threads = model_table(drawn, [2, 4], n_init=6, random_state=3, n_jobs=2).rows[1]
    assert replace(alone, seconds=0.0) == replace(threads, seconds=0.0)


def test_the_bound_is_that_of_the_fixed_bayesian_model() -> None:
    drawn = clear_classes(1500, 4)
    row = model_table(drawn, 3, n_init=5, random_state=0).rows[0]
    bayes = MerDel(3, prior="fixed", tol=1e-8, random_state=0).fit(drawn)
    assert bayes.n_clusters_ == 3
    assert row.elbo == pytest.approx(bayes.lower_bound_, abs=1e-2)
    assert row.elbo < row.log_likelihood


@settings(deadline=None, max_examples=20)
@given(small, st.integers(1, 4))
def test_variational_passes_never_lower_the_bound(table: Dense, K: int) -> None:
    weighty = table.weights > 0
    if not weighty.any():
        return
    rows = packed(Dense(table.X[weighty], table.weights[weighty], table.n_levels))
    best = climb_from_starts(rows, K, np.random.SeedSequence(0).spawn(2), 1e-6, 200, 1)[0].found
    with Workers() as workers:
        few = bayesian_bound(rows, best.stats, 0.0, 1, workers)
        many = bayesian_bound(rows, best.stats, 0.0, 50, workers)
    assert many >= few - 1e-9 * (1 + abs(few))


def test_the_best_by_each_criterion() -> None:
    table = model_table(clear_classes(500, 4), range(1, 5), n_init=4, random_state=0)
    for criterion in ("bic", "icl", "elbo"):
        assert table.best(criterion).n_classes == 3  # type: ignore[arg-type]
    assert table.best() is table.rows[2]
    with pytest.raises(OptionError, match=r"^criterion: give one of 'aic', 'bic'"):
        table.best("entropy")  # type: ignore[arg-type]


def test_it_prints_and_turns_into_a_frame_and_csv() -> None:
    table = model_table(X, range(1, 4), n_init=3, random_state=0)
    lines = str(table).splitlines()
    assert lines[0].split() == [
        "K",
        "log-lik",
        "par",
        "BIC",
        "aBIC",
        "ICL",
        "entr",
        "least",
        "ELBO",
        "starts",
    ]
    assert [line.split()[0] for line in lines[1:4]] == ["1", "2", "3"]
    assert sum(line.count("*") for line in lines[1:4]) == 4
    assert max(map(len, lines)) <= 80
    frame = table.to_pandas()
    assert list(frame.columns) == list(ModelRow.__dataclass_fields__)
    assert frame["bic"].tolist() == [row.bic for row in table.rows]
    read = list(csv.DictReader(io.StringIO(table.to_csv())))
    assert [float(line["log_likelihood"]) for line in read] == frame["log_likelihood"].tolist()
    assert isinstance(table, ModelTable)


def test_doubtful_models_are_flagged_not_refused() -> None:
    few = np.array([[0, 0], [0, 1], [1, 0], [1, 1]] * 5)
    rows = model_table(few, [1, 5], n_init=3, random_state=0).rows
    assert rows[0].notes == ()
    assert "more classes than distinct rows" in rows[1].notes
    assert "more parameters than the table can tell" in rows[1].notes
    hasty = model_table(X, 4, n_init=1, max_iter=1, random_state=0).rows[0]
    assert not hasty.converged
    assert "not converged: raise max_iter" in hasty.notes
    assert np.isfinite([hasty.log_likelihood, hasty.elbo]).all()


@pytest.mark.parametrize("k", [0, -1, 1.5, True, "3", None, [], [1, 0], [2.0]])
def test_numbers_of_classes_are_checked(k: object) -> None:
    with pytest.raises(OptionError, match=r"^k: give whole numbers of classes of at least 1"):
        model_table(X, k)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *(("n_init", 0), ("max_iter", 0), ("tol", 0), ("tol", "1"), ("tol", True), ("n_jobs", 0)),
        *(("random_state", "x"), ("codebook", 3), ("verbose", -1)),
    ],
)
def test_options_are_checked(option: str, value: object) -> None:
    with pytest.raises(OptionError, match=f"^{option}: give "):
        model_table(X, 2, **{option: value})  # type: ignore[arg-type]


def test_weights_and_tables_are_checked() -> None:
    with pytest.raises(DataError):
        model_table(X, 2, sample_weight=-np.ones(300))
    with pytest.raises(DataError):
        model_table(np.random.default_rng(0).random((50, 2)), 2)


def test_the_command(run, tmp_path: Path) -> None:
    asked = ("models", "leeds.csv", "--exclude", "patient", "--exclude", "seen", "--exclude", "bmi")
    said: Said = run(*asked, "--k", "1-3", "-o", "models.csv")
    assert "log-lik" in done(said)
    read = list(csv.DictReader(io.StringIO((tmp_path / "models.csv").read_text())))
    assert [line["n_classes"] for line in read] == ["1", "2", "3"]
    assert min(read, key=lambda line: float(line["bic"]))["n_classes"] == "2"
    refused(run(*asked, "--k", "1 to 3"), "--k", "1-8")
    refused(run(*asked, "--k", "0-3"), "at least 1")
    refused(run("models", "leeds.csv"), "patient", "--exclude")
    refused(run(*asked, "-o", "leeds.csv"), "is there already and is no table of models")
