"""What rates owe to clusters that are estimates: slopes and covariances, against brute force."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
from scipy.special import log_softmax, softmax

from fedmerdel.inference import cluster_errors
from fedmerdel.inference.cluster_errors import Counter, error_covariance, level_errors
from fedmerdel.inference.confusion import Confusion, MadeUp, confusion_of, make_up
from fedmerdel.inference.corrected import SiteSums, corrected
from fedmerdel.inference.information import Mixture, prior_information
from fedmerdel.sums.prior import uniform_prior
from fedmerdel.sums.sums import Sums

N_LEVELS = np.array([2, 3, 2, 2, 3, 2, 2])
OFFSETS = np.concatenate(([0], np.cumsum(N_LEVELS)))
ROWS = list(product(*(range(n) for n in N_LEVELS)))
K = 3


def drawn_site(rng: np.random.Generator, mean: np.ndarray, n: float) -> SiteSums:
    """Sums of a site that are about what is expected of them."""
    shares = rng.dirichlet(np.full(K, 0.4), (K, 5)) * 0.5
    shares[np.arange(K), :, np.arange(K)] += 0.5
    confusion = Confusion(shares.mean(axis=1).T, np.einsum("kng,knh->kgh", shares, shares) / 5)
    N = n * rng.dirichlet(np.full(K, 5.0))
    whole = np.column_stack([mean, np.ones(K)])
    sums = confusion.mean @ (N[:, None] * whole) * rng.normal(1.0, 0.001, (K, whole.shape[1]))
    return SiteSums(confusion, sums, np.zeros(1))


@pytest.mark.parametrize("seed", range(3))
def test_slopes_are_how_means_change_with_a_confusion(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mean = rng.dirichlet(np.full(3, 4.0), K)[:, :2]
    sites, weights = [drawn_site(rng, mean, n) for n in (3000, 2000)], np.full(K, 1 / K)
    found = corrected(sites, weights)
    for b, (g, k) in product(range(2), np.ndindex(K, K)):
        ends = []
        for apart in (1e-3, -1e-3):
            D = sites[b].confusion.mean.copy()
            D[g, k] += apart
            moved = sites.copy()
            moved[b] = sites[b]._replace(confusion=sites[b].confusion._replace(mean=D))
            ends.append(corrected(moved, weights).mean.T.ravel())
        expected = (ends[0] - ends[1]) / 2e-3
        scale = np.abs(found.slopes[b]).max()
        np.testing.assert_allclose(found.slopes[b][k, g], expected, atol=0.1 * scale)


def test_misfit_is_one_if_confusions_are_right_and_more_if_not() -> None:
    rng = np.random.default_rng(5)
    mean, weights, fits = np.array([[0.1], [0.3], [0.6]]), np.array([0.5, 0.3, 0.2]), []
    shares = rng.dirichlet(np.full(K, 0.4), (K, 200)) * 0.5
    shares[np.arange(K), :, np.arange(K)] += 0.5
    right = Confusion(shares.mean(axis=1).T, np.einsum("kng,knh->kgh", shares, shares) / 200)
    turned = Confusion(0.8 * right.mean + 0.2 * np.roll(right.mean, 1, axis=0), right.products)
    for _ in range(20):
        sums = []
        for _ in range(6):
            z = rng.choice(K, 2000, p=weights)
            r, y = shares[z, rng.integers(0, 200, 2000)], rng.random(2000) < mean[z, 0]
            sums.append(np.column_stack([r.T @ y, r.sum(axis=0)]))
        both = [
            [SiteSums(own, each, np.zeros(1)) for own, each in zip(used, sums, strict=True)]
            for used in ([right] * 6, [right] * 3 + [turned] * 3)
        ]
        fits.append([corrected(sites, weights).misfit for sites in both])
    true, wrong = np.mean(fits, axis=0)
    assert true == pytest.approx(1.0, abs=0.25)
    assert wrong > 3
    assert corrected(both[0][:1], weights).misfit == 1.0  # one site: nothing is left to compare


# Against all rows that there can be.


def clusters(rng: np.random.Generator) -> tuple[Mixture, Sums]:
    parts = [rng.dirichlet(np.full(n, 1.0), K) for n in N_LEVELS]
    mixture = Mixture(np.array([0.5, 0.3, 0.2]), np.hstack(parts), OFFSETS)
    T = 1e6 * mixture.weights
    return mixture, Sums(T, T[:, None] * mixture.levels, np.zeros(K))


def logits_of(mixture: Mixture) -> np.ndarray:
    free = np.log(mixture.levels)
    for start, end in pairwise(OFFSETS):
        free[:, start:end] -= free[:, end - 1 : end]
    shares = np.log(mixture.weights[:-1] / mixture.weights[-1])
    return np.concatenate([shares, free[:, mixture.free].ravel()])


def chances(eta: np.ndarray, mixture: Mixture) -> tuple[np.ndarray, np.ndarray]:
    """Log weights, and the log chance of every possible row in each cluster (K, n)."""
    levels = np.zeros_like(mixture.levels)
    levels[:, mixture.free] = eta[K - 1 :].reshape(K, -1)
    for start, end in pairwise(OFFSETS):
        levels[:, start:end] = log_softmax(levels[:, start:end], axis=1)
    each = [levels[:, OFFSETS[:-1] + np.array(row)].sum(axis=1) for row in ROWS]
    return log_softmax(np.append(eta[: K - 1], 0.0)), np.array(each).T


def by_differences(of: object, eta: np.ndarray) -> np.ndarray:
    found = []
    for at in range(len(eta)):
        apart = np.zeros_like(eta)
        apart[at] = 1e-5
        found.append((of(eta + apart) - of(eta - apart)) / 2e-5)  # type: ignore[operator]
    return np.array(found)


@pytest.mark.parametrize("whole", [True, False])
def test_errors_of_levels_are_those_of_all_possible_rows(
    whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two sites with weights of their own; slopes of three numbers drawn at random."""
    rng = np.random.default_rng(2)
    mixture, stats = clusters(rng)
    log_levels, N = np.log(mixture.levels), 5000.0
    weights = [np.log(rng.dirichlet(np.full(K, 3.0))) for _ in range(2)]
    slopes = [rng.normal(size=(K, K, 3)) for _ in range(2)]
    rows = make_up(stats, uniform_prior(N_LEVELS, 0.01, K), 1)
    said = rows.said_of(log_levels)
    if not whole:
        monkeypatch.setattr(cluster_errors, "MOST_PARAMETERS", 0)
    errors = level_errors(rows, said, mixture, N)
    counters = [Counter(said, each) for each in weights]
    found = error_covariance(slopes, counters, rows, errors)

    eta = logits_of(mixture)
    each = chances(eta, mixture)[1]
    together = [softmax(each.T + own, axis=1) for own in weights]

    def numbers(moved: np.ndarray) -> np.ndarray:
        """The sum of slopes times D, where rows are drawn from other levels."""
        p = np.exp(chances(moved, mixture)[1])
        D = [r.T @ p.T for r in together]
        return sum(np.einsum("kgr,gk->r", s, d) for s, d in zip(slopes, D, strict=True))

    def log_chance(moved: np.ndarray) -> np.ndarray:
        pi, p = chances(moved, mixture)
        return np.logaddexp.reduce(pi[:, None] + p)

    J, scores = by_differences(numbers, eta), by_differences(log_chance, eta)
    p = np.exp(log_chance(eta))
    information = N * (scores * p) @ scores.T + prior_information(mixture)
    if whole:
        expected = J.T @ np.linalg.solve(information, J)
    else:
        # Each level against all others of its variable, as if everything else were known.
        expected = np.zeros((3, 3))
        free, at = list(mixture.free), K - 1
        for _ in range(K):
            for start, end in pairwise(OFFSETS):
                block = slice(at + free.index(start), at + free.index(start) + end - start - 1)
                expected += J[block].T @ np.linalg.solve(information[block, block], J[block])
            at += len(free)
    by_chance = rows.levels.shape[1]
    for k in range(K):
        pull = sum(r @ s[k] for r, s in zip(together, slopes, strict=True))
        apart = pull - np.exp(each[k]) @ pull
        expected += (np.exp(each[k])[:, None] * apart).T @ apart / by_chance
    loose = 0.1 if whole else 0.3
    np.testing.assert_allclose(np.diag(found), np.diag(expected), rtol=loose)
    assert np.linalg.eigvalsh(found)[0] > 0


def test_rows_that_all_sites_count_alike_are_looked_at_once() -> None:
    """In a round the counter is one and the same; slopes then add up."""
    rng = np.random.default_rng(3)
    mixture, stats = clusters(rng)
    rows = make_up(stats, uniform_prior(N_LEVELS, 0.01, K), 1)
    rows = MadeUp(rows.levels[:, :2000])
    said = rows.said_of(np.log(mixture.levels))
    errors = level_errors(rows, said, mixture, 5000.0)
    counter = Counter(said, np.log(mixture.weights))
    slopes = [rng.normal(size=(K, K, 2)) for _ in range(3)]
    once = error_covariance(slopes, [counter] * 3, rows, errors)
    each = [Counter(said, counter.log_weights) for _ in range(3)]
    np.testing.assert_allclose(error_covariance(slopes, each, rows, errors), once)
    assert confusion_of(*counter).mean.sum(axis=0) == pytest.approx(1.0)
