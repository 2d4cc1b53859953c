"""What a fitted estimator draws, and says of its certainty."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics import adjusted_rand_score

from fedmerdel import ConstantColumnWarning, MerDel, simulate
from tests.fitted import LEVELS, TABLE, WAYS


@pytest.fixture(scope="module", params=WAYS, ids=str)
def model(request: pytest.FixtureRequest) -> MerDel:
    return MerDel(random_state=0, **request.param).fit(TABLE.X)


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
