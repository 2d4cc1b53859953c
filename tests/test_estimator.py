"""The fitted estimator: its attributes, what it predicts, draws and says of its certainty."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError
from sklearn.metrics import adjusted_rand_score

from fedmerdel import DataError, MerDel, Move, bayes_labels, simulate
from tests.fitted import LEVELS, RECIPES, TABLE, WAYS


@pytest.fixture(scope="module", params=WAYS, ids=str)
def model(request: pytest.FixtureRequest) -> MerDel:
    return MerDel(random_state=0, **request.param).fit(TABLE.X)


# What it found


def test_attributes(model: MerDel) -> None:
    n_rows, n_clusters = len(TABLE.X), model.n_clusters_
    assert model.labels_.shape == (n_rows,)
    assert model.labels_.dtype == np.int64
    assert isinstance(n_clusters, int)
    assert isinstance(model.lower_bound_, float)
    assert isinstance(model.n_iter_, int)
    assert 1 <= model.n_iter_ <= 1000
    assert model.converged_ is True
    assert model.weights_.shape == (n_clusters,)
    assert [p.shape for p in model.level_probabilities_] == [(n_clusters, n) for n in LEVELS]
    assert model.n_features_in_ == 25
    assert not hasattr(model, "feature_names_in_")
    assert [len(v.levels) for v in model.codebook_.variables] == list(LEVELS)


def test_probabilities_sum_to_one(model: MerDel) -> None:
    assert model.weights_.sum() == pytest.approx(1, abs=1e-12)
    assert np.all(model.weights_ > 0)
    for p in model.level_probabilities_:
        np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-12)
        assert np.all(p > 0)


def test_the_largest_cluster_comes_first(model: MerDel) -> None:
    assert np.all(np.diff(model.weights_) <= 0)


def test_the_elbo_only_rises_and_ends_at_the_lower_bound(model: MerDel) -> None:
    assert model.lower_bounds_.dtype == np.float64
    assert model.lower_bounds_[-1] == model.lower_bound_
    assert np.all(np.diff(model.lower_bounds_) >= -1e-9 * abs(model.lower_bound_))


def test_history_tells_each_move(model: MerDel) -> None:
    assert model.history_
    assert all(isinstance(move, Move) for move in model.history_)
    for move in model.history_:
        assert move.accepted == (move.elbo_after > move.elbo_before)
        assert move.kind in ("merge", "delete", "split", "swap")
        assert move.n_rows <= len(TABLE.X)
    seconds = [move.seconds for move in model.history_]
    assert seconds == sorted(seconds)
    # What no row is given to is dropped at the end, and was no cluster.
    assert model.history_[-1].n_clusters >= model.n_clusters_
    if model.prior == "fixed":
        assert model.history_[-1].n_clusters == model.n_clusters_


def test_it_finds_the_clusters(model: MerDel) -> None:
    best = adjusted_rand_score(bayes_labels(TABLE), TABLE.labels)
    assert adjusted_rand_score(model.labels_, TABLE.labels) > best - 0.01


@pytest.mark.parametrize("seed", range(4))
def test_every_cluster_has_rows(seed: int) -> None:
    X = simulate(400, 20, 3, beta=(0.3, 0.3), random_state=0).X
    model = MerDel(random_state=seed).fit(X)
    assert model.n_clusters_ == len(np.unique(model.labels_)) == 3


# What it predicts


def test_labels_and_predictions_agree(model: MerDel) -> None:
    probabilities = model.predict_proba(TABLE.X)
    assert probabilities.shape == (len(TABLE.X), model.n_clusters_)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-12)
    assert probabilities.min() >= 0
    np.testing.assert_array_equal(model.predict(TABLE.X), model.labels_)
    np.testing.assert_array_equal(probabilities.argmax(axis=1), model.labels_)


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("seed", range(4))
def test_labels_and_predictions_agree_where_rows_repeat(recipe: Any, seed: int) -> None:
    X = simulate(700, 5, 3, levels=(2, 3, 2, 3, 2), random_state=seed).X
    model = MerDel(recipe=recipe, random_state=seed, absolute_tol=0.1)
    np.testing.assert_array_equal(model.fit_predict(X), model.predict(X))
    np.testing.assert_array_equal(model.predict_proba(X).argmax(axis=1), model.labels_)


def test_a_row_is_predicted_alike_in_any_company(model: MerDel) -> None:
    some = TABLE.X[:40]
    together = model.score_samples(some)
    alone = np.array([model.score_samples(row[None])[0] for row in some])
    np.testing.assert_allclose(alone, together, rtol=1e-12)
    np.testing.assert_allclose(
        np.vstack([model.predict_proba(row[None]) for row in some]),
        model.predict_proba(some),
        atol=1e-12,
    )


def test_scores_are_log_probabilities() -> None:
    """Over all possible rows, the predictive probabilities add up to 1."""
    X = simulate(300, 4, 3, levels=(2, 3, 2, 4), random_state=0).X
    model = MerDel(5, random_state=0).fit(X)
    every = np.stack(np.meshgrid(*map(np.arange, (2, 3, 2, 4)), indexing="ij"), -1).reshape(-1, 4)
    assert np.exp(model.score_samples(every)).sum() == pytest.approx(1, abs=1e-12)
    assert model.score(every) == pytest.approx(model.score_samples(every).mean())
    assert model.score(every, y=np.zeros(len(every))) == model.score(every)


def test_a_missing_entry_sums_over_its_levels(model: MerDel) -> None:
    row = TABLE.X[:1].astype(float)
    each = np.repeat(row, LEVELS[1], axis=0)
    each[:, 1] = np.arange(LEVELS[1])
    row[0, 1] = np.nan
    total = np.logaddexp.reduce(model.score_samples(each))
    assert model.score_samples(row)[0] == pytest.approx(total, rel=1e-12)


def independence_score(train: NDArray[Any], test: NDArray[Any]) -> float:
    """Mean log probability of rows whose variables have nothing to do with each other."""
    score = 0.0
    for column, new in zip(train.T, test.T, strict=True):
        counts = np.bincount(column, minlength=column.max() + 1) + 0.5
        score += np.log(counts / counts.sum())[new].mean()
    return score


@pytest.mark.parametrize("recipe", RECIPES)
def test_rows_held_out_score_better_than_without_clusters(recipe: Any) -> None:
    for seed in range(4):
        X = simulate(1000, 30, 5, levels=3, random_state=seed).X
        train, test = X[:700], X[700:]
        model = MerDel(recipe=recipe, random_state=seed, absolute_tol=1e-2).fit(train)
        assert model.score(test) > independence_score(train, test) + 1


@pytest.mark.parametrize(
    "method", ["predict", "predict_proba", "score_samples", "score", "sample", "save"]
)
def test_nothing_works_before_fit_or_after_one_that_failed(method: str, tmp_path: Any) -> None:
    model = MerDel()
    argument = {"sample": 3, "save": tmp_path / "model.json"}.get(method, TABLE.X)
    with pytest.raises(NotFittedError):
        getattr(model, method)(argument)
    with pytest.raises(DataError):
        model.fit([[0.5], [1.5]])
    with pytest.raises(NotFittedError):
        getattr(model, method)(argument)
    assert list(tmp_path.iterdir()) == []


def test_a_fit_that_fails_leaves_the_earlier_one() -> None:
    model = MerDel(random_state=0).fit(TABLE.X)
    before = pickle.dumps(model)
    with pytest.raises(DataError):
        model.fit([["a", "b"], ["b", "a"]], sample_weight=[1.0, -1.0])
    assert pickle.dumps(model) == before
    np.testing.assert_array_equal(model.predict(TABLE.X), model.labels_)


# Pickles and threads


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_pickle_holds_labels_and_no_rows(recipe: Any) -> None:
    sizes = []
    for n in (2000, 20_000):
        X = simulate(n, 60, 2, beta=(2, 2), random_state=0).X
        model = MerDel(2, recipe=recipe, init="random", max_iter=400, random_state=0).fit(X)
        model.history_ = []
        stored = pickle.dumps(model)
        sizes.append(len(stored))
        again = pickle.loads(stored)
        np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
        np.testing.assert_array_equal(again.score_samples(X), model.score_samples(X))
        np.testing.assert_array_equal(again.labels_, model.labels_)
        assert again.get_params() == model.get_params()
    labels = 8 * (20_000 - 2000)
    assert sizes[1] - sizes[0] < labels + 20_000


def test_fits_in_threads_do_not_disturb_each_other() -> None:
    X = simulate(20_000, 30, 5, beta=(0.3, 0.3), random_state=0).X
    models = [MerDel(8, random_state=s, n_jobs=j) for s in range(3) for j in (1, 2)]
    together = Parallel(n_jobs=4, prefer="threads")(delayed(m.fit)(X) for m in models)
    for s in range(3):
        alone = MerDel(8, random_state=s).fit(X)
        for fitted in together[2 * s : 2 * s + 2]:
            assert fitted.lower_bound_ == alone.lower_bound_
            np.testing.assert_array_equal(fitted.labels_, alone.labels_)
