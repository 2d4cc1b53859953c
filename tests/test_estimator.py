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

from fedmerdel import ConstantColumnWarning, DataError, MerDel, Move, bayes_labels, simulate

LEVELS = (2, 3, 4, 2, 5) * 5
TABLE = simulate(800, 25, 4, levels=LEVELS, beta=(0.3, 0.3), random_state=3)
RECIPES = ["default", "paper"]


@pytest.fixture(scope="module", params=RECIPES)
def model(request: pytest.FixtureRequest) -> MerDel:
    return MerDel(recipe=request.param, random_state=0).fit(TABLE.X)


# What it found


def test_attributes(model: MerDel) -> None:
    n_rows, n_clusters = len(TABLE.X), model.n_clusters_
    assert model.labels_.shape == (n_rows,)
    assert model.labels_.dtype == np.int64
    assert isinstance(n_clusters, int)
    assert isinstance(model.lower_bound_, float)
    assert isinstance(model.n_iter_, int)
    assert 1 <= model.n_iter_ <= model.max_iter
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


# What it draws


def test_samples_follow_the_mixture(model: MerDel) -> None:
    n = 20_000
    X, labels = model.sample(n, random_state=1)
    assert X.shape == (n, 25)
    assert X.dtype == labels.dtype == np.int64

    def deviations(counts: NDArray[Any], total: float, p: NDArray[Any]) -> NDArray[Any]:
        return np.asarray((counts - total * p) / np.sqrt(total * p * (1 - p) + 1))

    found = [deviations(np.bincount(labels, minlength=len(model.weights_)), n, model.weights_)]
    for j, p in enumerate(model.level_probabilities_):
        for k in np.flatnonzero(model.weights_ > 0.05):
            counts = np.bincount(X[labels == k, j], minlength=LEVELS[j])
            found.append(deviations(counts, counts.sum(), p[k]))
    assert np.abs(np.concatenate(found)).max() < 5
    assert np.concatenate(found).std() < 1.2
    agreement = adjusted_rand_score(model.predict(X), labels)
    assert agreement > 0.9


@pytest.mark.parametrize(
    ("rows", "dtype", "values"),
    [
        ([[3, -1], [5, 200], [3, -1]], np.int64, [{3, 5}, {-1, 200}]),
        ([[3.0, 0.0], [5.0, np.nan], [3.0, 1.0]], np.int64, [{3, 5}, {0, 1}]),
        ([[True, False], [False, True], [True, True]], np.bool_, [{True, False}] * 2),
        ([["a", "x"], ["b", None], ["a", "y"]], object, [{"a", "b"}, {"x", "y"}]),
        ([[1, "x", True], [2, "y", False]], object, [{1, 2}, {"x", "y"}, {True, False}]),
    ],
    ids=["integers", "floats", "booleans", "texts", "mixed"],
)
def test_samples_have_the_values_of_the_table(rows: Any, dtype: Any, values: list[Any]) -> None:
    model = MerDel(random_state=0).fit(rows)
    X, labels = model.sample(200, random_state=0)
    assert X.dtype == dtype
    for column, expected in zip(X.T, values, strict=True):
        assert set(column.tolist()) == expected
        if dtype is object:
            assert {type(v) for v in column} == {type(v) for v in expected}
    assert model.predict(X).shape == labels.shape


def test_samples_are_reproducible() -> None:
    fixed = MerDel(random_state=0).fit(TABLE.X)
    np.testing.assert_array_equal(fixed.sample(20)[0], fixed.sample(20)[0])
    np.testing.assert_array_equal(fixed.sample(20, 7)[0], fixed.sample(20, random_state=7)[0])
    assert not np.array_equal(fixed.sample(20, 7)[0], fixed.sample(20, 8)[0])
    going_on = MerDel(random_state=np.random.RandomState(0)).fit(TABLE.X)
    assert not np.array_equal(going_on.sample(20)[0], going_on.sample(20)[0])
    assert fixed.sample()[0].shape == (1, 25)


# How certain it is


def test_intervals_hold_the_mean_and_widen_with_their_level(model: MerDel) -> None:
    narrow, usual, wide = (model.credible_intervals(level) for level in (0.5, 0.95, 0.999))
    np.testing.assert_array_equal(usual[1], model.credible_intervals()[1])
    big = model.weights_ > 0.05
    for p, inner, middle, outer in zip(
        model.level_probabilities_, narrow, usual, wide, strict=True
    ):
        assert middle.shape == (*p.shape, 2)
        assert middle.min() >= 0
        assert middle.max() <= 1
        assert np.all((middle[big, :, 0] <= p[big]) & (p[big] <= middle[big, :, 1]))
        assert np.all((outer[..., 0] <= middle[..., 0]) & (middle[..., 0] <= inner[..., 0]))
        assert np.all((outer[..., 1] >= middle[..., 1]) & (middle[..., 1] >= inner[..., 1]))


@pytest.mark.parametrize(("level", "low", "high"), [(0.95, 0.9, 0.99), (0.5, 0.4, 0.6)])
def test_intervals_cover_the_truth_as_often_as_they_say(
    level: float, low: float, high: float
) -> None:
    covered = []
    for seed in range(8):
        levels = (2, 3, 4) * 10
        table = simulate(1200, 30, 3, levels=levels, beta=(2, 2), random_state=seed)
        model = MerDel(3, init=table.labels, random_state=0).fit(table.X)
        assert model.n_clusters_ == 3
        truth = [int(np.bincount(table.labels[model.labels_ == k]).argmax()) for k in range(3)]
        for ends, p in zip(model.credible_intervals(level), table.level_probabilities, strict=True):
            covered.append((ends[..., 0] <= p[truth]) & (p[truth] <= ends[..., 1]))
    share = np.concatenate([c.reshape(-1) for c in covered]).mean()
    assert low < share < high


def test_one_level_is_certain() -> None:
    with pytest.warns(ConstantColumnWarning, match="column 'x1'"):
        model = MerDel(random_state=0).fit([[0, 7], [1, 7], [1, 7]])
    np.testing.assert_array_equal(model.level_probabilities_[1], 1.0)
    np.testing.assert_array_equal(model.credible_intervals()[1], 1.0)


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
