"""How a fit depends on what it is given: seeds, threads, starts, weights, priors, recipes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

from fedmerdel import MerDel, bayes_labels, simulate

LEVELS = (2, 3, 4, 2, 3) * 4
TABLE = simulate(600, 20, 4, levels=LEVELS, beta=(0.3, 0.3), random_state=5)
X = TABLE.X
RECIPES = ["default", "paper"]


def assert_same(a: MerDel, b: MerDel) -> None:
    """Two models are the same to the last bit."""
    assert a.n_clusters_ == b.n_clusters_
    assert a.lower_bound_ == b.lower_bound_
    assert a.n_iter_ == b.n_iter_
    assert a.converged_ == b.converged_
    np.testing.assert_array_equal(a.labels_, b.labels_)
    np.testing.assert_array_equal(a.lower_bounds_, b.lower_bounds_)
    np.testing.assert_array_equal(a.weights_, b.weights_)
    for p, q in zip(a.level_probabilities_, b.level_probabilities_, strict=True):
        np.testing.assert_array_equal(p, q)
    assert [(m.kind, m.clusters, m.elbo_after) for m in a.history_] == [
        (m.kind, m.clusters, m.elbo_after) for m in b.history_
    ]


# Seeds and threads


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_number_as_seed_gives_the_same_model(recipe: Any) -> None:
    model = MerDel(recipe=recipe, random_state=3)
    first = model.fit(X)
    kept = MerDel(recipe=recipe, random_state=3).fit(X)
    assert_same(first, kept)
    assert_same(model.fit(X), kept)


def test_a_random_state_goes_on() -> None:
    one = MerDel(init="random", random_state=np.random.RandomState(3))
    first = one.fit(X).lower_bounds_.copy()
    second = one.fit(X).lower_bounds_
    assert first[0] != second[0]
    again = MerDel(init="random", random_state=np.random.RandomState(3)).fit(X)
    np.testing.assert_array_equal(again.lower_bounds_, first)


def test_without_a_seed_the_global_one_is_used() -> None:
    assert MerDel().fit(X).labels_.shape == (600,)


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("n_rows", [3000, 20_000])
def test_any_number_of_threads_gives_the_same_model(recipe: Any, n_rows: int) -> None:
    rows = simulate(n_rows, 30, 5, beta=(0.3, 0.3), random_state=n_rows).X
    models = [
        MerDel(8, recipe=recipe, random_state=0, absolute_tol=1.0, n_jobs=n_jobs).fit(rows)
        for n_jobs in (None, 2, 3, -1, -2)
    ]
    for model in models[1:]:
        assert_same(models[0], model)
        np.testing.assert_array_equal(model.predict(rows), models[0].predict(rows))
        np.testing.assert_array_equal(model.predict_proba(rows), models[0].predict_proba(rows))
        np.testing.assert_array_equal(model.score_samples(rows), models[0].score_samples(rows))


@pytest.mark.parametrize("recipe", RECIPES)
def test_of_several_starts_the_best_is_kept(recipe: Any) -> None:
    rows = simulate(300, 12, 5, levels=3, random_state=1).X
    for seed in range(3):
        one, three, six = (
            MerDel(recipe=recipe, n_init=n, random_state=seed, absolute_tol=1e-2).fit(rows)
            for n in (1, 3, 6)
        )
        # The first starts are the same, whatever their number.
        assert one.lower_bound_ <= three.lower_bound_ <= six.lower_bound_
        assert six.lower_bounds_[-1] == six.lower_bound_


def test_reaching_max_iter_is_told() -> None:
    with pytest.warns(ConvergenceWarning, match="not converged after 5 passes: raise max_iter"):
        model = MerDel(recipe="paper", laps=1, max_iter=2, random_state=0).fit(X)
    assert model.converged_ is False
    assert model.labels_.shape == (600,)


def test_a_looser_tolerance_ends_earlier() -> None:
    tight, loose = (
        MerDel(recipe="paper", laps=None, tol=tol, random_state=0).fit(X) for tol in (1e-8, 1e-2)
    )
    assert loose.n_iter_ < tight.n_iter_
    assert loose.lower_bound_ <= tight.lower_bound_


# Starts


@pytest.mark.parametrize("recipe", RECIPES)
def test_true_labels_as_a_start_are_kept(recipe: Any) -> None:
    model = MerDel(4, recipe=recipe, init=TABLE.labels, random_state=0).fit(X)
    assert model.n_clusters_ == 4
    assert adjusted_rand_score(model.labels_, bayes_labels(TABLE)) > 0.98


def test_labels_as_a_start_leave_nothing_to_chance_without_moves() -> None:
    a, b = (
        MerDel(recipe="paper", laps=None, init=TABLE.labels, random_state=seed).fit(X)
        for seed in (0, 1)
    )
    assert_same(a, b)


def test_labels_as_a_start_belong_to_their_rows_also_where_rows_repeat() -> None:
    twice = np.repeat(X[:100], 2, axis=0)
    labels = np.repeat(TABLE.labels[:100], 2)
    once = MerDel(recipe="paper", laps=None, init=TABLE.labels[:100])
    both = MerDel(recipe="paper", laps=None, init=labels).fit(twice)
    weighted = once.fit(X[:100], sample_weight=np.full(100, 2))
    assert both.lower_bound_ == pytest.approx(weighted.lower_bound_, rel=1e-9)
    np.testing.assert_array_equal(both.labels_[::2], weighted.labels_)


@pytest.mark.parametrize("init", ["random", "kmodes", "divide"])
def test_every_start_finds_clear_clusters(init: Any) -> None:
    model = MerDel(init=init, random_state=0).fit(X)
    assert adjusted_rand_score(model.labels_, TABLE.labels) > 0.95


# The paper's recipe


@pytest.mark.parametrize("laps", [0, 1, 2, 5, 10, None])
@pytest.mark.parametrize("criterion", ["correlation", "kl", "bhattacharyya", "random"])
def test_every_lap_and_criterion(laps: int | None, criterion: Any) -> None:
    model = MerDel(
        8,
        recipe="paper",
        laps=laps,
        merge_criterion=criterion,
        absolute_tol=1e-2,
        random_state=0,
    ).fit(X[:300])
    assert model.converged_
    assert 1 <= model.n_clusters_ <= 8
    assert np.all(np.diff(model.lower_bounds_) >= -1e-9 * abs(model.lower_bound_))
    proposed = {move.kind for move in model.history_ if move.n_iter < model.n_iter_}
    assert proposed <= (set() if laps is None else {"merge", "delete"}) | {"delete"}
    if laps is not None:
        assert proposed


def test_moves_lower_the_number_of_clusters() -> None:
    moved, still = (
        MerDel(12, recipe="paper", laps=laps, random_state=0, absolute_tol=1e-3).fit(X)
        for laps in (5, None)
    )
    assert len(np.unique(moved.labels_)) < len(np.unique(still.labels_))
    assert moved.lower_bound_ > still.lower_bound_


# Weights


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("n_variables", [8, 20])
def test_whole_weights_are_repeated_rows(seed: int, n_variables: int) -> None:
    rows = simulate(500, n_variables, 3, beta=(0.3, 0.3), random_state=seed).X
    times = np.random.default_rng(seed).integers(1, 4, size=500)
    weighted = MerDel(8, random_state=seed).fit(rows, sample_weight=times)
    repeated = MerDel(8, random_state=seed).fit(np.repeat(rows, times, axis=0))
    assert weighted.lower_bound_ == pytest.approx(repeated.lower_bound_, rel=1e-9)
    np.testing.assert_allclose(weighted.weights_, repeated.weights_, atol=1e-6)
    np.testing.assert_array_equal(weighted.predict(rows), repeated.predict(rows))


def test_whole_weights_are_repeated_rows_when_samples_are_searched_first() -> None:
    rows = simulate(6000, 30, 4, beta=(0.3, 0.3), random_state=0).X
    times = np.random.default_rng(0).integers(1, 4, size=6000)
    weighted = MerDel(10, random_state=0, tol=1e-8).fit(rows, sample_weight=times)
    repeated = MerDel(10, random_state=0, tol=1e-8).fit(np.repeat(rows, times, axis=0))
    assert weighted.lower_bound_ == pytest.approx(repeated.lower_bound_, rel=1e-6)
    np.testing.assert_array_equal(weighted.predict(rows), repeated.predict(rows))


@pytest.mark.parametrize("init", [None, "random", "labels"])
@pytest.mark.parametrize("recipe", RECIPES)
def test_rows_of_weight_zero_have_no_say(recipe: Any, init: Any) -> None:
    weights = np.random.default_rng(0).integers(0, 3, size=600).astype(float)
    used = weights > 0
    start, start_used = (TABLE.labels, TABLE.labels[used]) if init == "labels" else (init, init)
    options = {"recipe": recipe, "random_state": 0, "absolute_tol": 1e-2}
    all_rows = MerDel(8, init=start, **options).fit(X, sample_weight=weights)
    without = MerDel(8, init=start_used, **options).fit(X[used], sample_weight=weights[used])
    assert all_rows.lower_bound_ == without.lower_bound_
    np.testing.assert_array_equal(all_rows.labels_[used], without.labels_)
    np.testing.assert_array_equal(all_rows.labels_, without.predict(X))


def test_weights_move_the_shares_of_the_clusters() -> None:
    weights = np.where(TABLE.labels == 2, 1.5, 0.5)
    model = MerDel(4, init=TABLE.labels).fit(X, sample_weight=weights)
    share = weights[TABLE.labels == 2].sum() / weights.sum()
    assert model.weights_[0] == pytest.approx(share, abs=0.02)


def test_a_single_number_weighs_every_row_alike() -> None:
    assert_same(
        MerDel(random_state=0).fit(X, sample_weight=2.0),
        MerDel(random_state=0).fit(X, sample_weight=np.full(600, 2)),
    )


def test_fit_predict_takes_weights() -> None:
    weights = np.random.default_rng(1).random(600)
    model = MerDel(random_state=0)
    labels = model.fit_predict(X, sample_weight=weights)
    np.testing.assert_array_equal(
        labels, MerDel(random_state=0).fit(X, sample_weight=weights).labels_
    )


# Priors


@pytest.mark.parametrize("recipe", RECIPES)
def test_the_fixed_prior_written_out(recipe: Any) -> None:
    parts = [np.full(n, 1 / n) for n in LEVELS]
    options = {"recipe": recipe, "random_state": 0, "absolute_tol": 1e-2}
    fixed = MerDel(prior="fixed", **options).fit(X)
    assert_same(fixed, MerDel(prior=parts, **options).fit(X))
    assert_same(fixed, MerDel(prior=np.concatenate(parts), **options).fit(X))


def test_a_table_of_priors_where_all_variables_have_as_many_levels() -> None:
    rows = simulate(200, 10, 3, levels=3, random_state=0).X
    assert_same(
        MerDel(prior=np.full((10, 3), 1 / 3), random_state=0).fit(rows),
        MerDel(prior="fixed", random_state=0).fit(rows),
    )


def test_a_strong_prior_is_believed() -> None:
    believed = np.array([0.1, 0.2, 0.7])
    prior = [np.full(n, 1 / n) for n in LEVELS]
    prior[1] = believed * 1e7
    model = MerDel(prior=prior, random_state=0).fit(X)
    expected = np.broadcast_to(believed, (model.n_clusters_, 3))
    np.testing.assert_allclose(model.level_probabilities_[1], expected, atol=1e-4)


def test_a_larger_alpha_keeps_more_clusters() -> None:
    sparse, even = (
        MerDel(10, recipe="paper", laps=None, alpha=alpha, random_state=0, absolute_tol=1e-2)
        for alpha in (0.01, 50.0)
    )
    few, many = (len(np.unique(m.fit_predict(X))) for m in (sparse, even))
    assert few <= many


@pytest.mark.parametrize("recipe", RECIPES)
def test_one_cluster(recipe: Any) -> None:
    model = MerDel(1, recipe=recipe, random_state=0).fit(X)
    assert model.n_clusters_ == 1
    assert not model.labels_.any()
    np.testing.assert_array_equal(model.predict_proba(X), 1.0)
    frequencies = np.bincount(X[:, 1], minlength=3)
    # A learned prior expects what all rows have: in one cluster it changes nothing but the 1 / L.
    c = 0.0 if model.strengths_ is None else model.strengths_[1]
    expected = (frequencies * (1 + c / 600) + 1 / 3) / (600 + c + 1)
    np.testing.assert_allclose(model.level_probabilities_[1][0], expected, rtol=1e-9)
