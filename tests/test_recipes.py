"""Both recipes on any small table: what every fit has to keep to, however odd its rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedmerdel import simulate
from fedmerdel.fitting.fit import Fit, fit_mixture
from fedmerdel.fitting.history import History
from fedmerdel.fitting.initialise import kmodes_labels, random_labels
from fedmerdel.fitting.options import Options
from fedmerdel.fitting.passes import Workers, count_labels, label_rows
from fedmerdel.fitting.solution import Problem
from fedmerdel.sums.expectations import Expectations, expectations
from fedmerdel.sums.prior import Prior, uniform_prior
from tests import reference
from tests.drawn import dense_tables, priors, seeds
from tests.recipes import fit_of, small_simulation
from tests.reference import Dense, packed, sums_of

RECIPES = ["default", "paper"]
STARTS = {"default": "divide", "paper": "kmodes"}
LAPS = [0, 1, 2, 5, 10, None]

few_rows = st.one_of(st.sampled_from([1, 2, 65]), st.integers(3, 120))


def check(fit: Fit, table: Dense, prior: Prior) -> None:
    """Check what holds for any fit."""
    stats, history = fit.stats, fit.history
    total = table.weights.sum()
    slack = 1e-9 * (1 + abs(fit.elbo))

    assert 1 <= stats.n_clusters <= prior.n_components
    np.testing.assert_allclose(stats.T.sum(), total, rtol=1e-9)
    seen = reference.m_step(table, np.zeros((len(table.X), 1)))
    np.testing.assert_allclose(
        stats.S.sum(axis=0), np.concatenate(seen.S, axis=1)[0], rtol=1e-9, atol=1e-9 * (1 + total)
    )
    assert np.all(np.diff(stats.T) <= 0)  # the largest first
    assert np.all(stats.h <= 0)

    expected = reference.seven_term_elbo(sums_of(stats, table.n_levels), prior)
    assert fit.elbo == pytest.approx(expected, rel=1e-9, abs=slack)
    # One more E and M step, made by the oracle, adds little and takes nothing away.
    log_r = reference.e_step(table, expectations(stats, prior))
    further = reference.seven_term_elbo(reference.m_step(table, log_r), prior)
    assert further >= fit.elbo - slack

    assert history.elbos
    assert np.all(np.diff(history.elbos) >= -slack)
    assert history.elbos[-1] == pytest.approx(fit.elbo, rel=1e-9, abs=slack)
    for move in history.moves:
        assert move.accepted == (move.elbo_after > move.elbo_before)
        assert 1 <= move.n_clusters <= prior.n_components
        assert move.n_rows == len(table.X)
    assert [m.n_iter for m in history.moves] == sorted(m.n_iter for m in history.moves)


@st.composite
def problems(draw: st.DrawFn) -> tuple[Dense, Prior]:
    """A table and a prior with up to 12 components, more than rows at times."""
    table = draw(dense_tables(rows=few_rows, max_variables=8).filter(lambda t: t.weights.max() > 0))
    return table, draw(priors(table.n_levels, draw(st.sampled_from([1, 2, 3, 5, 12]))))


@settings(max_examples=50, deadline=None)
@given(problems(), seeds, st.sampled_from(["divide", "random"]))
def test_default_recipe(drawn: tuple[Dense, Prior], seed: int, init: str) -> None:
    table, prior = drawn
    check(fit_of(table, prior, "default", seed, init=init), table, prior)


@settings(max_examples=50, deadline=None)
@given(
    problems(),
    seeds,
    st.sampled_from(LAPS),
    st.sampled_from(["correlation", "kl", "bhattacharyya", "random"]),
)
def test_paper_recipe(
    drawn: tuple[Dense, Prior], seed: int, laps: int | None, criterion: str
) -> None:
    table, prior = drawn
    fit = fit_of(table, prior, "paper", seed, init="random", laps=laps, merge_criterion=criterion)
    check(fit, table, prior)
    assert {move.kind for move in fit.history.moves} <= {"merge", "delete"}


@pytest.mark.parametrize("laps", LAPS)
def test_any_number_of_laps_converges(laps: int | None) -> None:
    table, prior = small_simulation()
    fit = fit_of(table, prior, "paper", laps=laps)
    check(fit, table, prior)
    assert fit.converged
    assert fit.history.n_iter < 3000
    if laps is None:
        # Nothing is proposed on the way; only what is no row's cluster is dropped at the end.
        assert {move.kind for move in fit.history.moves} <= {"delete"}
    else:
        assert any(move.accepted for move in fit.history.moves)
    if laps == 0:
        accepted = sum(move.accepted for move in fit.history.moves)
        assert len(fit.history.elbos) == 1 + accepted  # one pass, then proposals only


@pytest.mark.parametrize("criterion", ["correlation", "kl", "bhattacharyya", "random"])
def test_every_criterion_merges(criterion: str) -> None:
    table, prior = small_simulation(1)
    fit = fit_of(table, prior, "paper", merge_criterion=criterion)
    check(fit, table, prior)
    assert any(move.kind == "merge" and move.accepted for move in fit.history.moves)


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("init", ["random", "kmodes", "labels"])
def test_any_start(recipe: str, init: Any) -> None:
    table, prior = small_simulation(2)
    if init == "labels":
        init = np.arange(400, dtype=np.int64) % 7
    fit = fit_of(table, prior, recipe, init=init)
    check(fit, table, prior)
    assert fit.converged


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_pass_cap_is_kept_and_said(recipe: str) -> None:
    table, prior = small_simulation(3)
    fit = fit_of(table, prior, recipe, max_iter=2, tol=1e-9)
    assert not fit.converged
    check(fit, table, prior)


@pytest.mark.parametrize("recipe", RECIPES)
def test_rejected_moves_change_nothing(recipe: str) -> None:
    """Overlapping clusters and a tight limit: on some tables a proposal has to be refused."""
    n_rejected = 0
    prior = uniform_prior(np.full(12, 2), 0.01, 4)
    for seed in range(6):
        X = simulate(300, 12, 5, beta=(2, 2), random_state=seed).X.astype(int)
        table = Dense(X, np.ones(300), np.full(12, 2))
        fit = fit_of(table, prior, recipe, seed)
        check(fit, table, prior)
        n_rejected += sum(not move.accepted for move in fit.history.moves)
    assert n_rejected > 0


@pytest.mark.parametrize("recipe", RECIPES)
def test_the_best_of_several_starts_is_kept(recipe: str) -> None:
    table, prior = small_simulation(4)
    several: list[float] = []
    best = fit_of(table, prior, recipe, 5, init="random", n_init=6)
    for start in np.random.SeedSequence(5).spawn(6):
        problem = Problem(packed(table), prior, Workers(1))
        how = Options(recipe, "random", 5, "correlation", 1e-6, 3000, 1)  # type: ignore[arg-type]
        # A fit with one start takes the first seed that its own seed spawns.
        start_only = _FirstSpawn(start)
        several.append(fit_mixture(problem, how, start_only).elbo)
    assert len(set(several)) > 1
    assert best.elbo == max(several)


class _FirstSpawn(np.random.SeedSequence):
    """A seed that spawns the given one."""

    def __init__(self, first: np.random.SeedSequence) -> None:
        super().__init__(0)
        self.first = first

    def spawn(self, n_children: int) -> list[np.random.SeedSequence]:
        return [self.first]


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize(
    "X",
    [
        np.array([[0, 2, 1]]),
        np.array([[-1, 0, -1]]),
        np.tile([1, 0, 2], (90, 1)),
        np.full((20, 3), -1),
        np.array([[0, 0, 0]] * 50 + [[1, 2, 2]] * 50),
        np.c_[np.zeros(80), np.zeros(80), np.arange(80) % 3].astype(int),
    ],
    ids=["one row", "a row with missing", "identical", "all missing", "two kinds", "constant"],
)
def test_odd_tables(recipe: str, X: np.ndarray) -> None:
    table = Dense(X, np.ones(len(X)), np.array([2, 3, 3]))
    prior = uniform_prior(table.n_levels, 0.01, 6)
    fit = fit_of(table, prior, recipe)
    check(fit, table, prior)
    assert fit.converged
    distinct = len(np.unique(X, axis=0))
    assert fit.stats.n_clusters <= distinct


@pytest.mark.parametrize("recipe", RECIPES)
def test_more_clusters_than_rows(recipe: str) -> None:
    rng = np.random.default_rng(1)
    table = Dense(rng.integers(0, 2, (5, 12)), np.ones(5), np.full(12, 2))
    prior = uniform_prior(table.n_levels, 0.01, 30)
    fit = fit_of(table, prior, recipe)
    check(fit, table, prior)
    assert fit.stats.n_clusters <= 5


@pytest.mark.parametrize("recipe", RECIPES)
def test_weights_count_as_rows(recipe: str) -> None:
    """Rows of weight 3 and rows written three times give the same fit, from the same start."""
    X = simulate(150, 40, 3, random_state=5).X.astype(int)
    labels = np.arange(150, dtype=np.int64) % 6
    prior = uniform_prior(np.full(40, 2), 0.01, 6)
    heavy = Dense(X, np.full(150, 3.0), np.full(40, 2))
    longer = Dense(np.repeat(X, 3, axis=0), np.ones(450), np.full(40, 2))
    first = fit_of(heavy, prior, recipe, init=labels)
    second = fit_of(longer, prior, recipe, init=np.repeat(labels, 3))
    assert first.elbo == pytest.approx(second.elbo, rel=1e-9)
    np.testing.assert_allclose(first.stats.T, second.stats.T, rtol=1e-4)


def test_a_watcher_sees_every_entry() -> None:
    table, prior = small_simulation(6)
    seen: list[tuple[int, int]] = []

    def watch(history: History) -> None:
        seen.append((len(history.elbos), len(history.moves)))

    fit = fit_of(table, prior, "default", watch=watch)
    assert seen == sorted(seen)
    assert seen[-1] == (len(fit.history.elbos), len(fit.history.moves))


@settings(max_examples=40, deadline=None)
@given(dense_tables(rows=few_rows, weights=("ones",)), st.integers(1, 12), seeds)
def test_starts_are_labels(table: Dense, K: int, seed: int) -> None:
    problem = Problem(packed(table), uniform_prior(table.n_levels, 0.01, K), Workers(1))
    for make in (kmodes_labels, random_labels):
        labels = make(problem, K, np.random.default_rng(seed))
        assert labels.shape == (len(table.X),)
        assert labels.dtype == np.int64
        assert labels.min() >= 0
        assert labels.max() < K


@pytest.mark.parametrize("seed", range(8))
def test_kmodes_starts_from_rows_that_count(seed: int) -> None:
    """A mode that no row of weight stands behind would draw others into a cluster of nobody."""
    rng = np.random.default_rng(seed)
    table = Dense(rng.integers(0, 2, (60, 9)), (np.arange(60) < 4).astype(float), np.full(9, 2))
    problem = Problem(packed(table), uniform_prior(table.n_levels, 0.01, 3), Workers(1))
    labels = kmodes_labels(problem, 3, rng)
    assert set(labels) == set(labels[:4]) <= {0, 1, 2}


def test_each_tied_row_draws_its_cluster() -> None:
    """Rows that differ from two modes alike go to both, about evenly, and the same way again."""
    X = np.repeat([[0, 0], [1, 1], [0, 1]], [1, 1, 400], axis=0)
    table = Dense(X, np.ones(402), np.full(2, 2))
    rows, match = packed(table), np.array([[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0]])
    draws = np.random.default_rng(0).random(402)
    labels = label_rows(rows, Expectations(np.zeros(2), match), Workers(1), draws)
    assert labels[:2].tolist() == [0, 1]
    assert 150 < labels[2:].sum() < 250
    np.testing.assert_array_equal(labels[2:], draws[2:] >= 0.5)
    first = label_rows(rows, Expectations(np.zeros(2), match), Workers(1))
    assert not first[2:].any()


@pytest.mark.parametrize("seed", range(5))
def test_kmodes_fills_its_clusters(seed: int) -> None:
    """As R's klaR does: with ties going to one cluster, 17 to 24 of 20 and 25 were filled."""
    X = simulate(600, 40, 6, random_state=seed).X.astype(int)
    table = Dense(X, np.ones(600), np.full(40, 2))
    problem = Problem(packed(table), uniform_prior(table.n_levels, 0.01, 20), Workers(1))
    labels = kmodes_labels(problem, 20, np.random.default_rng(seed))
    assert len(np.unique(labels)) == 20


def test_the_papers_first_e_step_knows_nothing_of_the_weights() -> None:
    """Nine rows of ten in one cluster of the start, both with the same levels: split evenly."""
    X = np.tile([[0, 1], [1, 0]], (20, 1))
    table = Dense(X, np.ones(40), np.full(2, 2))
    prior = uniform_prior(table.n_levels, 0.01, 2)
    labels = np.array([0] * 36 + [1] * 4)
    fit = fit_of(table, prior, "paper", init=labels, laps=None, max_iter=1)
    first = reference_first_elbo(table, labels, prior)
    assert fit.history.elbos[0] == pytest.approx(first)


def reference_first_elbo(table: Dense, labels: np.ndarray, prior: Prior) -> float:
    """The ELBO after an E step with even weights, on dense arrays."""
    problem = Problem(packed(table), prior, Workers(1))
    stats = count_labels(problem.rows, labels, 2, problem.workers)
    even = Expectations(np.zeros(2), expectations(stats, prior).log_levels)
    sums = reference.m_step(table, reference.e_step(table, even))
    return reference.seven_term_elbo(sums, prior)


def test_kmodes_finds_modes_that_are_apart() -> None:
    modes = np.array([[0] * 20, [1] * 20, [0, 1] * 10])
    rng = np.random.default_rng(0)
    group = rng.integers(0, 3, 300)
    X = modes[group] ^ (rng.random((300, 20)) < 0.05)
    table = Dense(X, np.ones(300), np.full(20, 2))
    problem = Problem(packed(table), uniform_prior(table.n_levels, 0.01, 12), Workers(1))
    labels = kmodes_labels(problem, 12, rng)
    purity = [np.bincount(group[labels == k]).max() for k in np.unique(labels)]
    assert sum(purity) / 300 > 0.98
