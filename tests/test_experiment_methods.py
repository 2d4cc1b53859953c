"""The methods that the experiments compare against: each recovers what it should."""

from __future__ import annotations

import re
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from experiments.methods.central import Agglomerative, Dbscan, EmBic, KModes, Lca, McaKMeans
from experiments.methods.face import Batch, Method
from experiments.methods.fedem import FedEm, Mixture, drawn_start
from experiments.methods.kfed import KFed, merge_centres
from experiments.methods.modes import (
    climb_modes,
    cluster_modes,
    differences,
    level_offsets,
    one_hot,
)
from experiments.methods.shared_classes import SharedClasses, surrogate_step
from experiments.methods.snob import (
    ALPHA_RATE,
    ALPHA_SHAPE,
    LEVEL_PRIOR,
    Snob,
    draw_labels,
    draw_levels,
    draw_shares,
    label_probabilities,
    log_posterior,
)
from scipy.optimize import minimize
from sklearn.metrics import adjusted_rand_score

from fedmerdel import simulate

K = 4

METHODS: dict[str, Any] = {
    "fedem": lambda seed: FedEm(K, seed=seed, n_init=3),
    "snob": lambda seed: Snob(K, seed=seed, n_components=12, n_sweeps=60),
    "kfed": lambda seed: KFed(K, seed=seed),
    "tilted": lambda seed: SharedClasses(K, seed=seed),
    "shared": lambda seed: SharedClasses(K, seed=seed, surrogate=False),
    "kmodes": lambda seed: KModes(K, seed=seed),
    "agglomerative": lambda seed: Agglomerative(K, seed=seed, max_rows=400),
    "dbscan": lambda seed: Dbscan(seed=seed, max_rows=400),
    "mca": lambda seed: McaKMeans(K, seed=seed, n_dimensions=3, n_init=5),
    "lca": lambda seed: Lca(K, seed=seed, n_init=3),
    "em": lambda seed: EmBic((3, 4, 5), seed=seed, n_init=3),
}

BY_DISTANCE = ("kfed", "kmodes", "dbscan")
"""Methods that need rows of a cluster to be near each other, not only drawn alike."""

every_method = pytest.mark.parametrize("name", METHODS)


def made(name: str, seed: int = 0) -> Method:
    method: Method = METHODS[name](seed)
    return method


@cache
def drawn(beta: float, levels: int | tuple[int, ...] = 2) -> tuple[list[Batch], np.ndarray]:
    """Return rows in three batches of different sizes, and their true clusters."""
    n_variables = len(levels) if isinstance(levels, tuple) else 40
    table = simulate(700, n_variables, K, levels=levels, beta=(beta, beta), random_state=5)
    return np.split(table.X, [150, 400]), table.labels


@every_method
def test_recovers_clusters_of_an_easy_table(name: str) -> None:
    batches, truth = drawn(0.1 if name in BY_DISTANCE else 0.3)
    labels, info = made(name).fit(batches)
    assert labels.dtype == np.int64
    assert labels.shape == truth.shape
    # Right over all rows only if the labels lie in the order of the batches.
    assert adjusted_rand_score(truth, labels) > 0.9
    assert info["n_clusters"] == K


@every_method
def test_the_same_seed_gives_the_same_labels(name: str) -> None:
    batches, _ = drawn(0.3)
    first, told = made(name, seed=3).fit(batches)
    again, told_again = made(name, seed=3).fit(batches)
    np.testing.assert_array_equal(first, again)
    assert told == told_again


@every_method
def test_one_batch_works(name: str) -> None:
    batches, truth = drawn(0.1 if name in BY_DISTANCE else 0.3)
    labels, _ = made(name).fit([np.concatenate(batches)])
    assert adjusted_rand_score(truth, labels) > 0.9


@every_method
def test_more_than_two_levels_work(name: str) -> None:
    batches, truth = drawn(0.05, levels=(3, 2, 5, 2) * 20)
    labels, info = made(name).fit(batches)
    assert labels.shape == truth.shape
    assert 1 <= info["n_clusters"] <= 5
    if name not in ("kfed", "dbscan"):
        assert adjusted_rand_score(truth, labels) > 0.9


@every_method
def test_a_constant_variable_does_no_harm(name: str) -> None:
    batches, truth = drawn(0.1 if name in BY_DISTANCE else 0.3)
    wider = [np.column_stack((batch, np.zeros(len(batch), np.uint8))) for batch in batches]
    labels, _ = made(name).fit(wider)
    assert adjusted_rand_score(truth, labels) > 0.9


def test_fedem_gets_over_clients_that_hold_different_clusters() -> None:
    batches, truth = drawn(0.3)
    X = np.concatenate(batches)
    clients = [X[truth == k] for k in range(K)]
    labels, _ = FedEm(K, n_init=5).fit(clients)
    assert adjusted_rand_score(np.sort(truth), labels) > 0.9


def test_fedem_with_all_clients_is_em() -> None:
    batches, _ = drawn(1.0, levels=(3, 2) * 10)
    offsets = level_offsets(batches)
    clients = [one_hot(batch, offsets) for batch in batches]
    rng = np.random.default_rng(2)
    start = drawn_start(clients, 3, offsets, rng)
    method = FedEm(3, participation=1.0, step=1.0, max_rounds=25, tol=-1.0, smoothing=1e-6)
    climb = method.climb(clients, start, offsets, rng)
    # Sums in float32 leave an error of about a millionth of a nat a row.
    assert all(after > before - 1e-5 for before, after in pairwise(climb.trace))
    assert climb.trace[-1] > climb.trace[0] + 0.1
    theta, trace = plain_em(np.concatenate(batches), start, offsets, n_rounds=25)
    np.testing.assert_allclose(climb.trace, trace, atol=1e-5)
    np.testing.assert_allclose(climb.theta.shares, theta.shares, atol=1e-4)
    np.testing.assert_allclose(climb.theta.levels, theta.levels, atol=1e-4)


def plain_em(
    X: Batch, theta: Mixture, offsets: np.ndarray, n_rounds: int
) -> tuple[Mixture, list[float]]:
    """EM row by row and variable by variable, in double precision."""
    trace = []
    at = X.astype(int) + offsets[:-1]
    for _ in range(n_rounds):
        joint = np.array([theta.shares * theta.levels[:, row].prod(axis=1) for row in at])
        trace.append(float(np.log(joint.sum(axis=1)).mean()))
        r = joint / joint.sum(axis=1, keepdims=True)
        levels = np.zeros_like(theta.levels)
        for n, row in enumerate(at):
            levels[:, row] += r[n][:, None]
        levels /= r.sum(axis=0)[:, None]
        theta = Mixture(r.mean(axis=0), levels)
    return theta, trace


def tiny() -> tuple[np.ndarray, np.ndarray, Mixture]:
    """Return seven rows, offsets and parameters of three components."""
    rng = np.random.default_rng(8)
    X = np.column_stack([rng.integers(0, n, 7) for n in (2, 3, 2)])
    X[0], X[1] = 0, (1, 2, 1)
    levels = np.column_stack([rng.dirichlet(np.ones(n), 3) for n in (2, 3, 2)])
    return X, np.array([0, 2, 5, 7]), Mixture(rng.dirichlet(np.ones(3)), levels)


def test_label_probabilities_are_bayes_rule() -> None:
    X, offsets, theta = tiny()
    found = label_probabilities(one_hot(X, offsets), theta)
    for n, row in enumerate(X):
        joint = [
            theta.shares[t] * np.prod([theta.levels[t, offsets[j] + x] for j, x in enumerate(row)])
            for t in range(3)
        ]
        np.testing.assert_allclose(found[n], np.array(joint) / sum(joint), rtol=1e-5)


def test_drawn_labels_have_these_probabilities() -> None:
    X, offsets, theta = tiny()
    rows = one_hot(X, offsets)
    expected = label_probabilities(rows, theta)
    rng = np.random.default_rng(0)
    z = draw_labels(np.repeat(rows, 20_000, axis=0), theta, rng).reshape(len(X), -1)
    shares = np.stack([(z == t).mean(axis=1) for t in range(3)], axis=1)
    # Five standard errors of a share of 20,000 draws.
    np.testing.assert_allclose(shares, expected, atol=5 * 0.5 / np.sqrt(20_000))


def test_shares_and_levels_are_drawn_from_their_conditionals() -> None:
    rng = np.random.default_rng(1)
    sizes, alpha, n_draws = np.array([5, 0, 3, 1]), 1.5, 5000
    sticks = np.mean([draw_shares(sizes, alpha, rng)[0] for _ in range(n_draws)], axis=0)
    mean = [(1 + sizes[t]) / (1 + sizes[t] + alpha + sizes[t + 1 :].sum()) for t in range(3)]
    np.testing.assert_allclose(sticks, mean, atol=0.02)
    _, shares = draw_shares(sizes, alpha, rng)
    assert shares.sum() == pytest.approx(1.0)
    X, offsets, _ = tiny()
    counts = one_hot(X, offsets).sum(axis=0, keepdims=True).astype(float)
    levels = np.mean([draw_levels(counts, offsets, rng) for _ in range(n_draws)], axis=0)[0]
    for start, end in pairwise(offsets):
        own = counts[0, start:end] + LEVEL_PRIOR
        np.testing.assert_allclose(levels[start:end], own / own.sum(), atol=0.02)


def test_log_posterior_is_that_of_the_rows_one_after_the_other() -> None:
    X, offsets, _ = tiny()
    alpha, T = 0.7, 4
    z = np.array([0, 2, 2, 0, 3, 0, 2])
    # Both priors integrate to urns: each row's label, then each entry, given those before.
    slow = (ALPHA_SHAPE - 1) * np.log(alpha) - ALPHA_RATE * alpha
    for n, (row, own) in enumerate(zip(X, z, strict=True)):
        before = np.bincount(z[:n], minlength=T)
        for t in range(min(own + 1, T - 1)):
            taken = (1 + before[t]) / (1 + alpha + before[t:].sum())
            slow += np.log(taken if t == own else 1 - taken)
        for j, x in enumerate(row):
            seen = X[:n, j][z[:n] == own]
            n_levels = offsets[j + 1] - offsets[j]
            slow += np.log((np.sum(seen == x) + LEVEL_PRIOR) / (len(seen) + n_levels * LEVEL_PRIOR))
    assert log_posterior(one_hot(X, offsets), z, alpha, T, offsets) == pytest.approx(slow)


def test_one_hot_and_differences_count_entries() -> None:
    X, offsets, _ = tiny()
    np.testing.assert_array_equal(level_offsets([X[:2], X[2:]]), offsets)
    rows = one_hot(X, offsets)
    np.testing.assert_array_equal(rows.sum(axis=1), 3.0)
    slow = [[np.sum(a != b) for b in X] for a in X]
    np.testing.assert_array_equal(differences(rows, X, offsets), slow)


def test_modes_are_those_of_the_kmodes_package() -> None:
    package = pytest.importorskip("kmodes.kmodes")
    batches, truth = drawn(0.02)
    X = np.concatenate(batches)
    offsets, rng = level_offsets(batches), np.random.default_rng(0)
    start = np.stack([X[truth == k][0] for k in range(K)]).astype(np.int64)
    ours = climb_modes(one_hot(X, offsets), offsets, start, rng, max_iter=100)
    theirs = package.KModes(K, init=start, n_init=1).fit(X.astype(np.int64))
    assert ours.cost == theirs.cost_
    np.testing.assert_array_equal(ours.labels, theirs.labels_)
    np.testing.assert_array_equal(ours.modes, theirs.cluster_centroids_)


def test_modes_beat_or_meet_the_kmodes_package_on_a_hard_table() -> None:
    package = pytest.importorskip("kmodes.kmodes")
    batches, _ = drawn(1.0)
    X = np.concatenate(batches)
    offsets, rng = level_offsets(batches), np.random.default_rng(0)
    ours = cluster_modes(one_hot(X, offsets), offsets, K, rng, n_init=10)
    theirs = package.KModes(K, init="random", n_init=3, random_state=0).fit(X.astype(np.int64))
    # The package moves one row at a time and so ends in other local optima.
    assert ours.cost <= 1.02 * theirs.cost_
    labels, cost = package.labels_cost(X, ours.modes, package.matching_dissim)
    assert ours.cost == cost
    np.testing.assert_array_equal(ours.labels, labels)


def test_more_clusters_than_rows_or_distinct_rows() -> None:
    X = np.repeat(np.eye(3, dtype=np.uint8), 4, axis=0)
    labels, info = KModes(8).fit([X])
    assert info["cost"] == 0
    assert adjusted_rand_score(np.repeat(np.arange(3), 4), labels) == 1
    labels, _ = KFed(8).fit([X[:2], X[2:]])
    assert len(labels) == len(X)
    labels, _ = FedEm(8).fit([X[:2], X[2:]])
    assert len(labels) == len(X)


def test_the_server_of_kfed_takes_the_farthest_centres() -> None:
    offsets = np.arange(0, 13, 2)
    zero, one = np.zeros(6, np.int64), np.ones(6, np.int64)
    half, near = np.repeat([0, 1], 3), np.array([0, 0, 0, 0, 0, 1])
    merged = merge_centres([np.stack([zero]), np.stack([near, one, half])], 2, 0, offsets)
    # All ones are farthest from the first device's centre. Half way, the first of both wins.
    assert [list(device) for device in merged] == [[0], [0, 1, 0]]
    merged = merge_centres([np.stack([zero]), np.stack([near, one, half])], 2, 1, offsets)
    assert [list(device) for device in merged] == [[0], [0, 1, 0]]


def test_methods_have_no_state() -> None:
    for name in METHODS:
        method: Any = made(name)
        assert re.fullmatch(r"\w+\(.*seed=0.*\)", repr(method))
        with pytest.raises(AttributeError):
            method.seed = 1


def test_the_surrogate_step_is_the_maximum_of_the_surrogate() -> None:
    """Against the definition: the lead's rows tilted to each site's, and corrected gradients."""
    rng = np.random.default_rng(2)
    n_lead, n_other, n_variables, n_classes = 60, 45, 3, 2
    sites = [rng.integers(0, 2, (n, n_variables)) for n in (n_lead, n_other)]
    shares = np.array([[0.55, 0.45], [0.4, 0.6]])
    phi = rng.uniform(0.3, 0.7, (n_classes, n_variables))

    def density(X: np.ndarray, at: np.ndarray) -> np.ndarray:
        """f_k(x) of each row and class."""
        return np.prod(np.where(X[:, None] == 1, at, 1 - at), axis=2)

    def responsibilities(X: np.ndarray, own: np.ndarray) -> np.ndarray:
        joint = own * density(X, phi)
        return joint / joint.sum(axis=1, keepdims=True)

    def q(X: np.ndarray, own: np.ndarray, weights: np.ndarray, eta: np.ndarray) -> float:
        log_f = np.log(density(X, 1 / (1 + np.exp(-eta))))
        return float((weights[:, None] * responsibilities(X, own) * log_f).sum())

    def tilted(eta: np.ndarray) -> float:
        lead = shares[0] @ density(sites[0], phi).T
        return sum(
            q(sites[0], own, len(X) / n_lead * (own @ density(sites[0], phi).T) / lead, eta)
            for X, own in zip(sites, shares, strict=True)
        )

    def true(eta: np.ndarray) -> float:
        pairs = zip(sites, shares, strict=True)
        return sum(q(X, own, np.ones(len(X)), eta) for X, own in pairs)

    now = np.log(phi / (1 - phi))
    steps = 1e-5 * np.eye(now.size).reshape(-1, *now.shape)
    slope = [(f(now + d) - f(now - d)) / 2e-5 for d in steps for f in (true, tilted)]
    correction = (np.array(slope[::2]) - slope[1::2]).reshape(now.shape)
    found = minimize(
        lambda eta: -tilted(eta.reshape(now.shape)) - (correction.ravel() * eta).sum(), now.ravel()
    )
    expected = 1 / (1 + np.exp(-found.x.reshape(now.shape)))

    r = [responsibilities(X, own) for X, own in zip(sites, shares, strict=True)]
    T = sum(each.sum(axis=0) for each in r)
    ones = sum(each.T @ X for each, X in zip(r, sites, strict=True))
    S = np.stack([T[:, None] - ones, ones], axis=2).reshape(n_classes, -1)
    levels = np.stack([1 - phi, phi], axis=2).reshape(n_classes, -1)
    weight = r[0].mean(axis=0) / shares[0] * (np.array([n_lead, n_other]) @ shares)
    assert not np.allclose(weight, T, rtol=0.01)  # else it would be EM's step
    offsets = 2 * np.arange(n_variables + 1)
    step = surrogate_step(levels, S, T, weight, offsets)
    np.testing.assert_allclose(step[:, 1::2], expected, atol=1e-4)


@pytest.mark.parametrize("seed", range(3))
def test_shared_classes_climb_as_em_does(seed: int) -> None:
    """With all sites' sums no round lowers the likelihood, and sites keep their own shares."""
    batches, _ = drawn(0.3)
    offsets = level_offsets(batches)
    sites = [one_hot(batch, offsets) for batch in batches]
    start = drawn_start(sites, K, offsets, np.random.default_rng(seed))
    found = SharedClasses(K, surrogate=False).climb(sites, start, offsets)
    assert np.diff(found.trace).min() > -1e-5
    assert found.trace[-1] > found.trace[0] + 0.1
    assert not np.allclose(found.sites[0].shares, found.sites[1].shares)
    np.testing.assert_array_equal(found.sites[0].levels, found.sites[1].levels)


@pytest.mark.parametrize("name", ["fedem", "snob", "kfed", "tilted", "shared"])
def test_federated_methods_say_what_they_send(name: str) -> None:
    batches, _ = drawn(0.3)
    _, info = made(name).fit(batches)
    n_variables = batches[0].shape[1]
    # A cluster of binary variables is its size and one number a variable, or these alone.
    least = {"fedem": K * (n_variables + 1) * info["rounds"] / 2, "snob": K * n_variables,
             "kfed": K * n_variables}.get(name, K * (n_variables + 1) * info["rounds"])  # fmt: skip
    assert least <= info["released"] <= 1.5 * least
