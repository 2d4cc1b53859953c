"""The generators: what was asked for is what is drawn."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedmerdel import OptionError, bayes_labels, simulate
from fedmerdel.records.simulate import SimulatedTable
from tests.drawn import seeds


def test_shapes_and_types() -> None:
    table = simulate(120, 7, 3, levels=(2, 3, 2, 5, 2, 2, 4), random_state=1)
    assert table.X.shape == (120, 7)
    assert table.X.dtype == np.uint8
    assert table.labels.shape == (120,)
    assert table.n_clusters == 3
    assert [p.shape for p in table.level_probabilities] == [
        (3, levels) for levels in (2, 3, 2, 5, 2, 2, 4)
    ]
    for p in table.level_probabilities:
        np.testing.assert_allclose(p.sum(axis=1), 1.0)
        assert np.all(p > 0)
    assert np.all(table.X < np.array([2, 3, 2, 5, 2, 2, 4]))
    assert table.relevant.all()


def same(a: SimulatedTable, b: SimulatedTable) -> bool:
    return np.array_equal(a.X, b.X) and np.array_equal(a.labels, b.labels)


def test_a_seed_gives_the_same_table() -> None:
    options: dict[str, Any] = {"levels": 3, "noisy": 0.2, "size_range": (20, 60)}
    table = simulate(200, 10, 5, **options, random_state=4)
    assert same(table, simulate(200, 10, 5, **options, random_state=4))
    assert same(table, simulate(200, 10, 5, **options, random_state=np.random.default_rng(4)))
    assert not same(table, simulate(200, 10, 5, **options, random_state=5))


@pytest.mark.parametrize("levels", [2, 4, (2, 6, 3)])
def test_levels_have_their_probabilities(levels: int | tuple[int, ...]) -> None:
    table = simulate(60_000, 3, 4, levels=levels, random_state=2)
    for j, p in enumerate(table.level_probabilities):
        for k in range(4):
            own = table.X[table.labels == k, j]
            seen = np.bincount(own, minlength=p.shape[1]) / len(own)
            spread = np.sqrt(p[k] * (1 - p[k]) / len(own))
            assert np.all(np.abs(seen - p[k]) < 5 * spread + 1e-12)


@pytest.mark.parametrize(("beta", "mean"), [((1.0, 5.0), 1 / 6), ((2.0, 2.0), 1 / 2)])
def test_probabilities_of_binary_variables_are_beta(beta: tuple[float, float], mean: float) -> None:
    table = simulate(20, 2000, 10, beta=beta, random_state=0)
    p = np.array([phi[:, 1] for phi in table.level_probabilities])
    a, b = beta
    deviation = np.sqrt(a * b / (a + b) ** 2 / (a + b + 1))
    assert p.mean() == pytest.approx(mean, abs=5 * deviation / np.sqrt(p.size))
    assert p.std() == pytest.approx(deviation, rel=0.05)


def test_more_levels_are_dirichlet_1_to_l() -> None:
    table = simulate(20, 2000, 10, levels=4, random_state=0)
    p = np.array(table.level_probabilities)
    np.testing.assert_allclose(p.mean(axis=(0, 1)), np.array([1, 2, 3, 4]) / 10, atol=0.01)


@pytest.mark.parametrize(("noisy", "n_relevant"), [(0.0, 20), (0.25, 15), (0.4, 12), (1.0, 0)])
def test_noisy_variables_are_the_last_and_equal_in_all_clusters(
    noisy: float, n_relevant: int
) -> None:
    table = simulate(100, 20, 5, noisy=noisy, random_state=3)
    np.testing.assert_array_equal(table.relevant, np.arange(20) < n_relevant)
    for relevant, p in zip(table.relevant, table.level_probabilities, strict=True):
        assert np.all(p == p[0]) == (not relevant)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 12), st.integers(0, 60), st.integers(0, 90), st.floats(0, 1), seeds)
def test_sizes_stay_in_their_range(K: int, low: int, more: int, share: float, seed: int) -> None:
    high = low + more
    n_rows = max(1, round(K * low + share * K * more))
    if n_rows > K * high:
        return
    table = simulate(n_rows, 2, K, size_range=(low, high), random_state=seed)
    sizes = np.bincount(table.labels, minlength=K)
    assert sizes.sum() == n_rows == len(table.X)
    assert sizes.min() >= low
    assert sizes.max() <= high


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 500), st.integers(1, 20), seeds)
def test_sizes_are_even_unless_told(n_rows: int, K: int, seed: int) -> None:
    sizes = np.bincount(simulate(n_rows, 2, K, random_state=seed).labels, minlength=K)
    assert sizes.sum() == n_rows
    assert sizes.max() - sizes.min() <= 1


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 40), min_size=1, max_size=8).filter(sum), seeds)
def test_given_sizes_are_kept(sizes: list[int], seed: int) -> None:
    table = simulate(sum(sizes), 3, len(sizes), cluster_sizes=sizes, random_state=seed)
    assert np.bincount(table.labels, minlength=len(sizes)).tolist() == sizes


def test_rows_are_in_random_order() -> None:
    labels = simulate(1000, 2, 2, random_state=1).labels
    assert 400 < np.sum(labels[1:] != labels[:-1]) < 600


@pytest.mark.parametrize("seed", range(5))
def test_near_identical_clusters_share_three_quarters(seed: int) -> None:
    table = simulate(50, 40, 4, beta=(2, 2), near_identical=True, random_state=seed)
    apart = np.array([np.abs(p[-1] - p[-2]).max() for p in table.level_probabilities])
    assert np.sum(apart <= 0.1 + 1e-12) >= 30
    assert np.sum(apart > 0.1) > 0
    others = np.array([np.abs(p[0] - p[1]).max() for p in table.level_probabilities])
    assert np.sum(others <= 0.1) < 30
    for p in table.level_probabilities:
        np.testing.assert_allclose(p.sum(axis=1), 1.0)


def slow_posterior(table: SimulatedTable, sites: np.ndarray) -> np.ndarray:
    """Products of probabilities, row by row."""
    out = np.empty((len(table.X), table.n_clusters))
    for n, row in enumerate(table.X):
        here = table.labels[sites == sites[n]]
        for k in range(table.n_clusters):
            out[n, k] = np.mean(here == k)
            for j, level in enumerate(row):
                out[n, k] *= table.level_probabilities[j][k, level]
    return out / out.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("seed", range(3))
def test_bayes_labels_are_the_most_probable(seed: int) -> None:
    table = simulate(
        150, 6, 4, levels=(2, 3, 2, 2, 4, 2), cluster_sizes=[10, 20, 40, 80], random_state=seed
    )
    expected = slow_posterior(table, np.zeros(150)).argmax(axis=1)
    np.testing.assert_array_equal(bayes_labels(table), expected)


@pytest.mark.parametrize("names", [["a", "b", "c"], [7, 3, 11]])
def test_bayes_labels_take_each_sites_own_weights(names: list[Any]) -> None:
    rng = np.random.default_rng(0)
    table = simulate(200, 6, 3, random_state=1)
    # The first site has no row of cluster 2: no row of its own may get that label.
    sites = np.array(names)[np.where(table.labels == 2, 1 + rng.integers(0, 2, 200), 0)]
    sites[:20] = names[1]
    expected = slow_posterior(table, sites)
    found = bayes_labels(table, sites=sites)
    np.testing.assert_array_equal(found, expected.argmax(axis=1))
    assert not np.any(found[sites == names[0]] == 2)
    assert np.mean(found == table.labels) > np.mean(bayes_labels(table) == table.labels)


def test_bayes_labels_do_not_depend_on_the_blocks() -> None:
    table = simulate(70_000, 4, 3, random_state=5)
    tail = bayes_labels(table)[-500:]
    last = replace(table, X=table.X[-500:], labels=table.labels[-500:])
    # Weights of the part differ a little from those of all: nearly all labels agree.
    assert np.mean(bayes_labels(last) == tail) > 0.97


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"levels": 1}, "levels: give one whole number from 2 to 255"),
        ({"levels": (2, 2)}, "levels: give .*, or one for each variable"),
        ({"cluster_sizes": [10, 20]}, "cluster_sizes: give one size for each cluster"),
        ({"cluster_sizes": [10, 20, 31]}, "cluster_sizes: .*n_rows in all"),
        ({"size_range": (1, 19)}, "size_range: 3 clusters of 1 to 19 rows can't make 60 rows"),
        ({"size_range": (21, 40)}, "size_range: 3 clusters of 21 to 40 rows can't make 60 rows"),
    ],
)
def test_what_can_not_be_drawn_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        simulate(60, 4, 3, **options)


@pytest.mark.parametrize(
    "wrong",
    [
        {"n_clusters": 0},
        {"n_variables": 0},
        {"levels": 300},
        {"levels": 1},
        {"noisy": 1.5},
        {"noisy": -1.0},
        {"n_clusters": 1, "near_identical": True},
        {"n_clusters": 2, "cluster_sizes": [-10, 110]},
    ],
)
def test_options_that_make_no_table_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(OptionError):
        simulate(**{"n_rows": 100, **wrong})


@pytest.mark.parametrize("levels", [2, 5])
def test_near_identical_clusters_leave_noise_alone(levels: int) -> None:
    table = simulate(50, 40, 3, levels=levels, noisy=0.5, near_identical=True, random_state=3)
    apart = [np.abs(p[-1] - p[-2]).max() for p in table.level_probabilities]
    assert np.all(np.array(apart)[~table.relevant] == 0)
    assert np.mean(np.array(apart)[table.relevant] <= 0.1) >= 0.75
    for p in table.level_probabilities:
        np.testing.assert_allclose(p.sum(axis=1), 1)
