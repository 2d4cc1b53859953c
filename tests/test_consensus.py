"""Consensus: measures of agreement against their definitions, and what many starts agree on."""

from __future__ import annotations

from itertools import product
from math import log2
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.metrics import adjusted_rand_score

from fedmerdel import Consensus, MerDel, OptionError, consensus, simulate
from fedmerdel.estimators import consensus as face
from fedmerdel.fitting.consensus import agree_by_clusters, agree_by_rows
from fedmerdel.sums import agreement

Labels = NDArray[np.int64]
TABLE = simulate(300, 30, 3, beta=(0.3, 0.3), random_state=2)
HARD = simulate(600, 60, 8, beta=(1.0, 2.5), size_range=(30, 120), noisy=0.4, random_state=0)
METHODS = ["clusters", "rows"]


@st.composite
def clusterings(draw: st.DrawFn) -> tuple[Labels, NDArray[np.float64]]:
    """A few clusterings of a few rows, and the rows' weights."""
    n_starts, n_rows = draw(st.integers(1, 5)), draw(st.integers(1, 9))
    rows = st.lists(st.integers(0, 3), min_size=n_rows, max_size=n_rows)
    starts = np.array(draw(st.lists(rows, min_size=n_starts, max_size=n_starts)))
    starts = np.array([np.unique(s, return_inverse=True)[1] for s in starts])
    weight = st.sampled_from([0.5, 1.0, 2.0, 7.0])
    weights = draw(st.lists(weight, min_size=n_rows, max_size=n_rows))
    return starts, np.array(weights)


def variation(a: Labels, b: Labels, weights: NDArray[np.float64]) -> float:
    """Return H(A | B) + H(B | A), cluster by cluster."""
    total, found = weights.sum(), 0.0
    for k, m in product(set(a), set(b)):
        both = weights[(a == k) & (b == m)].sum() / total
        if both > 0:
            in_a, in_b = weights[a == k].sum() / total, weights[b == m].sum() / total
            found -= both * (log2(both / in_a) + log2(both / in_b))
    return found


def lower_bound(labels: Labels, starts: Labels, weights: NDArray[np.float64]) -> float:
    """Return the bound of Wade and Ghahramani (2018), row by row."""
    found = 0.0
    for n in range(len(labels)):
        with_n = labels == labels[n]
        own = np.mean([log2(weights[s == s[n]].sum()) for s in starts])
        shared = np.mean([weights[with_n & (s == s[n])].sum() for s in starts])
        found += weights[n] * (log2(weights[with_n].sum()) + own - 2 * log2(shared))
    return found / float(weights.sum())


# Measures


@given(clusterings())
def test_similarity_is_a_share_of_starts(drawn: tuple[Labels, Any]) -> None:
    starts, _ = drawn
    together = agreement.similarity(starts)
    assert np.array_equal(together, together.T)
    assert np.all(together.diagonal() == 1)
    for n, m in product(range(starts.shape[1]), repeat=2):
        assert together[n, m] == pytest.approx(np.mean(starts[:, n] == starts[:, m]))


@given(clusterings())
def test_variation_and_its_bound_are_those_of_the_definitions(drawn: tuple[Labels, Any]) -> None:
    starts, weights = drawn
    for labels in starts:
        expected = agreement.expected_vi(labels, starts, weights)
        mean = np.mean([variation(labels, s, weights) for s in starts])
        assert expected == pytest.approx(mean, abs=1e-9)
        bound = agreement.vi_lower_bound(labels, starts, weights)
        assert bound == pytest.approx(lower_bound(labels, starts, weights), abs=1e-9)
        assert bound <= expected + 1e-9


@given(clusterings())
def test_with_one_start_the_bound_is_exact(drawn: tuple[Labels, Any]) -> None:
    starts, weights = drawn
    for labels in starts:
        bound = agreement.vi_lower_bound(labels, starts[:1], weights)
        assert bound == pytest.approx(agreement.expected_vi(labels, starts[:1], weights), abs=1e-9)


@given(clusterings(), st.randoms(use_true_random=False))
def test_neither_names_nor_the_order_of_rows_matter(drawn: tuple[Labels, Any], rng: Any) -> None:
    starts, weights = drawn
    order = np.array(rng.sample(range(starts.shape[1]), starts.shape[1]))
    renamed = np.array([s.max() - s for s in starts])
    labels = starts[0]
    for other, w, own in (
        (renamed, weights, renamed[0]),
        (starts[:, order], weights[order], labels[order]),
    ):
        for measure in (agreement.expected_vi, agreement.vi_lower_bound):
            assert measure(own, other, w) == pytest.approx(
                measure(labels, starts, weights), abs=1e-9
            )
    assert np.array_equal(agreement.similarity(renamed), agreement.similarity(starts))
    together = agreement.similarity(starts)[np.ix_(order, order)]
    assert np.array_equal(agreement.similarity(starts[:, order]), together)


@given(clusterings())
def test_a_weight_is_as_many_rows(drawn: tuple[Labels, Any]) -> None:
    starts, weights = drawn
    times = (2 * weights).astype(np.int64)
    repeated, ones = np.repeat(starts, times, axis=1), np.ones(times.sum())
    for measure in (agreement.expected_vi, agreement.vi_lower_bound):
        expected = measure(repeated[0], repeated, ones)
        assert measure(starts[0], starts, weights) == pytest.approx(expected, abs=1e-9)


@given(clusterings())
def test_shares_are_votes(drawn: tuple[Labels, Any]) -> None:
    starts, weights = drawn
    shares = agreement.shares(starts[0], starts, weights)
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    same = agreement.shares(starts[0], starts[[0, 0]], weights)
    assert np.array_equal(same.argmax(axis=1), starts[0])
    assert np.all(same.max(axis=1) == 1)


# The search


@settings(max_examples=50)
@given(clusterings())
def test_the_consensus_is_no_worse_than_any_start(drawn: tuple[Labels, Any]) -> None:
    starts, weights = drawn
    for labels, measure in (
        (agree_by_clusters(starts, weights), agreement.expected_vi),
        (agree_by_rows(starts, weights, 4), agreement.vi_lower_bound),
    ):
        assert np.array_equal(np.unique(labels), np.arange(labels.max() + 1))
        found = measure(labels, starts, weights)
        assert all(found <= measure(s, starts, weights) + 1e-9 for s in starts)


def test_it_is_the_best_of_all_partitions_where_starts_err_here_and_there() -> None:
    truth = np.repeat([0, 1, 2], 2)
    starts = np.array([truth, truth, truth, truth, truth])
    starts[0, 0], starts[1, 5], starts[2, 2] = 1, 0, 0
    ones = np.ones(6)
    partitions = [
        np.array(p) for p in product(range(3), repeat=6) if set(p) == set(range(max(p) + 1))
    ]
    for method, measure in (
        (lambda: agree_by_clusters(starts, ones), agreement.expected_vi),
        (lambda: agree_by_rows(starts, ones, 3), agreement.vi_lower_bound),
    ):
        least = min(measure(p, starts, ones) for p in partitions)
        assert measure(method(), starts, ones) == pytest.approx(least)
        assert adjusted_rand_score(truth, method()) == 1


def test_a_vote_can_be_better_than_every_start() -> None:
    rng = np.random.default_rng(0)
    truth = np.repeat(np.arange(4), 50)
    starts = np.array([np.where(rng.random(200) < 0.15, rng.integers(0, 4, 200), truth)
                       for _ in range(15)])  # fmt: skip
    ones = np.ones(200)
    for labels in (agree_by_clusters(starts, ones), agree_by_rows(starts, ones, 10)):
        assert adjusted_rand_score(truth, labels) > 0.98
        assert max(adjusted_rand_score(truth, s) for s in starts) < 0.85


# The face


@pytest.fixture(scope="module", params=METHODS)
def found(request: pytest.FixtureRequest) -> Consensus:
    return consensus(MerDel(10, random_state=0), HARD.X, n_starts=6, method=request.param)


def test_what_is_told(found: Consensus) -> None:
    n_rows, k = len(HARD.X), found.n_clusters
    assert found.labels.shape == (n_rows,)
    assert found.labels.dtype == np.int64
    assert np.all(np.diff(np.bincount(found.labels)) <= 0)
    assert found.shares.shape == (n_rows, k)
    np.testing.assert_allclose(found.shares.sum(axis=1), 1)
    assert found.starts.shape == (6, n_rows)
    assert found.lower_bounds.shape == (6,)
    assert found.stability.from_starts.shape == (6, k)
    assert np.array_equal(found.stability.rows, np.bincount(found.labels))
    assert found.similarity([3, 4]).shape == (2, 2)
    assert found.similarity().shape == (n_rows, n_rows)


def test_rows_that_every_start_puts_alike_are_sure(found: Consensus) -> None:
    own = found.shares[np.arange(len(found.labels)), found.labels]
    assert own.mean() > 0.7
    assert own.max() == 1


def test_easy_clusters_are_found_and_sure() -> None:
    easy = consensus(MerDel(10, random_state=0), TABLE.X, n_starts=4)
    assert easy.n_clusters == 3
    assert adjusted_rand_score(TABLE.labels, easy.labels) > 0.95
    assert easy.stability.over_starts.min() > 0.95


@pytest.mark.parametrize("method", METHODS)
def test_the_result_depends_on_the_seed_and_not_on_threads(method: Any) -> None:
    one, two, four = (
        consensus(MerDel(10, n_jobs=n, random_state=1), HARD.X, n_starts=5, method=method)
        for n in (1, 2, 4)
    )
    for other in (two, four):
        for name in ("labels", "shares", "starts", "lower_bounds"):
            assert getattr(one, name).tobytes() == getattr(other, name).tobytes()
    again = consensus(MerDel(10, random_state=2), HARD.X, n_starts=5, method=method)
    assert not np.array_equal(again.lower_bounds, one.lower_bounds)


def test_the_model_is_left_as_it_was() -> None:
    model = MerDel(10, random_state=1)
    before = model.get_params()
    consensus(model, TABLE.X, n_starts=2)
    assert model.get_params() == before
    assert not hasattr(model, "labels_")


@pytest.mark.parametrize("method", METHODS)
def test_rows_of_weight_zero_get_a_label_but_have_no_say(method: Any) -> None:
    weights = np.r_[np.ones(250), np.zeros(50)]
    some = consensus(MerDel(10, random_state=0), TABLE.X, n_starts=3, sample_weight=weights,
                     method=method)  # fmt: skip
    assert some.stability.rows.sum() == 250
    assert adjusted_rand_score(TABLE.labels[250:], some.labels[250:]) > 0.9


def test_identical_rows_become_one_and_come_back() -> None:
    # Three copies of each row look like small clusters to a prior that is learned.
    model = MerDel(10, prior="fixed", random_state=0)
    twice = consensus(model, np.repeat(TABLE.X, 3, axis=0), n_starts=3)
    assert twice.labels.shape == (900,)
    assert np.array_equal(twice.labels[0::3], twice.labels[2::3])
    assert adjusted_rand_score(np.repeat(TABLE.labels, 3), twice.labels) > 0.95


def test_too_many_kinds_of_rows_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedmerdel.estimators.consensus.MOST_KINDS", 2)
    assert face.MOST_KINDS == 2
    with pytest.raises(OptionError, match="'rows' takes up to 2 kinds of rows, and these are"):
        consensus(MerDel(10, random_state=0), HARD.X, n_starts=2, method="rows")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_starts": 1}, "n_starts: give a whole number of at least 2"),
        ({"method": "auto"}, "method: give one of 'clusters', 'rows'"),
        ({"model": "MerDel"}, "model: give a MerDel"),
        ({"model": MerDel(init=np.zeros(300, dtype=int))}, "init: labels are one start only"),
        ({"model": MerDel(n_jobs=0)}, "n_jobs: give a whole number other than 0"),
    ],
)
def test_refusals(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        consensus(**{"model": MerDel(), "X": TABLE.X, **options})
