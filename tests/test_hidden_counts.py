"""Hidden counts filled in: against sums over the Poisson, and against the counts behind them."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import poisson

from fedmerdel.release.hidden import expected_below, filled
from fedmerdel.release.protection import protect
from fedmerdel.release.thresholds import hidden_below
from fedmerdel.study.policy import POLICIES, Policy, custom_policy
from fedmerdel.sums.expectations import Expectations
from fedmerdel.sums.prior import uniform_prior
from fedmerdel.sums.sums import Sums
from tests.drawn import seeds
from tests.federations import everyone

many = settings(max_examples=80, deadline=None)

UNROUNDED = [POLICIES[name] for name in ("ons", "datashield", "ohdsi", "pcornet")]
ROUNDED = [POLICIES["opensafely"], custom_policy(7, 3)]


def brute_force(mean: float, smallest: int) -> float:
    """sum x p(x) / sum p(x) over x < smallest; the largest p is taken out, so none vanishes."""
    x = np.arange(smallest)
    log_p = poisson.logpmf(x, mean)
    p = np.exp(log_p - log_p.max())
    return float(x @ p / p.sum())


@pytest.mark.parametrize("smallest", [2, 3, 5, 8, 10, 11, 30, 100])
def test_expected_below_is_a_sum_over_the_poisson(smallest: int) -> None:
    means = np.concatenate([[0.0], np.geomspace(1e-12, 600.0, 60), [smallest - 1.0, smallest]])
    found = expected_below(means, smallest)
    expected = [brute_force(mean, smallest) for mean in means]
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-300)
    assert np.all(found <= np.minimum(means, smallest - 1) * (1 + 1e-12))


@pytest.mark.parametrize("smallest", [2, 5, 10])
@pytest.mark.parametrize("mean", [750.0, 5e3, 1e5])
def test_expected_below_of_a_count_that_should_be_large(smallest: int, mean: float) -> None:
    """Such as a cluster of half of all rows, of which one large site has none."""
    found = expected_below(np.array([mean]), smallest)[0]
    assert found == pytest.approx(brute_force(mean, smallest), rel=1e-9)


@given(st.sampled_from([0, 1]), seeds)
def test_nothing_is_below_one(smallest: int, seed: int) -> None:
    mean = np.random.default_rng(seed).gamma(1.0, 10.0, (3, 2))
    np.testing.assert_array_equal(expected_below(mean, smallest), np.zeros((3, 2)))


class Site(NamedTuple):
    """What a site counted, what it released of it, and what the rows were drawn from."""

    true: Sums
    released: Sums
    sent: Expectations
    offsets: np.ndarray
    policy: Policy

    @property
    def filled(self) -> Sums:
        return self.filled_where(np.ones(len(self.released.T), dtype=bool))

    def filled_where(self, alive: np.ndarray) -> Sums:
        limit, smallest = hidden_below(self.policy), self.policy.smallest
        return filled(self.released, self.sent, self.offsets, alive, limit, smallest)


def cells(stats: Sums, start: int, end: int) -> np.ndarray:
    """A variable's levels, and its missing entries last."""
    S = stats.S[:, start:end]
    return np.column_stack([S, stats.T - S.sum(axis=1)])


def made_site(
    rng: np.random.Generator, policy: Policy, n_rows: int, n_levels: np.ndarray, K: int
) -> Site:
    """Draw rows, most levels rare and some clusters small; release them as a site does."""
    weights = rng.dirichlet(np.full(K, 0.7))
    T = rng.multinomial(n_rows, weights).astype(float)
    T[weights.argmax()] += policy.smallest  # one is always told
    phi = [rng.dirichlet(np.full(L, 0.4), K) + 1e-4 for L in n_levels]
    phi = [part / part.sum(axis=1, keepdims=True) for part in phi]
    missing = rng.choice([0.0, 0.02, 0.3], len(n_levels))
    S = np.zeros((K, int(n_levels.sum())))
    offsets = np.append(0, np.cumsum(n_levels))
    for (start, end), part, gone in zip(pairwise(offsets), phi, missing, strict=True):
        seen = rng.binomial(T.astype(int), 1 - gone)
        S[:, start:end] = [rng.multinomial(n, p) for n, p in zip(seen, part, strict=True)]
    true = Sums(T, S, np.zeros(K))
    told = np.flatnonzero(T >= policy.smallest)
    own = true.take(told)._replace(Q=np.zeros((len(told), len(told))))
    prior = uniform_prior(n_levels, 0.01, K)
    released = protect(own, everyone(own), prior, policy).sums.spread(told, K)
    # Any constant in ln rho of all clusters is the same clusters.
    sent = Expectations(np.log(weights) - 3.0, np.log(np.concatenate(phi, axis=1)))
    return Site(true, released, sent, prior.offsets, policy)


@st.composite
def sites(draw: st.DrawFn) -> Site:
    policy = draw(st.sampled_from([*UNROUNDED, *ROUNDED, custom_policy(0, 5)]))
    levels = draw(st.lists(st.integers(1, 8), min_size=1, max_size=5))
    rng = np.random.default_rng(draw(seeds))
    rows = draw(st.sampled_from([30, 200, 3000]))
    return made_site(rng, policy, rows, np.array(levels), draw(st.integers(1, 6)))


@many
@given(sites())
def test_only_hidden_counts_and_the_largest_change(site: Site) -> None:
    found, told = site.filled, site.released.T > 0
    np.testing.assert_array_equal(found.T[told], site.released.T[told])
    np.testing.assert_array_equal(found.h, site.released.h)
    assert np.all(found.S >= 0)
    for start, end in pairwise(site.offsets):
        before = cells(site.released, start, end)[told]
        after = cells(found, start, end)[told]
        size = 1e-12 * (1 + site.released.T.max())
        np.testing.assert_allclose(after.sum(axis=1), before.sum(axis=1), rtol=1e-12)
        for old, new in zip(before, after, strict=True):
            top = old.argmax()
            others = np.arange(len(old)) != top
            np.testing.assert_allclose(new[others & (old > 0)], old[others & (old > 0)], atol=size)
            assert np.all(new[others] >= old[others] - size)
            assert np.all(new[others & (old == 0)] < hidden_below(site.policy))
            assert old[top] / 2 - size <= new[top] <= old[top] + size
            assert abs(new[-1] - old[-1]) <= size or top == len(old) - 1  # missing is not filled


@many
@given(sites())
def test_what_is_filled_in_is_expected_of_the_cell(site: Site) -> None:
    """As the Poisson says, for the rows that have the variable; less where they run short."""
    found = site.filled
    for k in np.flatnonzero(site.released.T > 0):
        for start, end in pairwise(site.offsets):
            old, new = site.released.S[k, start:end], found.S[k, start:end]
            phi = np.exp(site.sent.log_levels[k, start:end])
            means = np.where(old == 0, old.sum() * phi / phi.sum(), 0.0)
            expected = np.array([brute_force(mean, hidden_below(site.policy)) for mean in means])
            most = max(old.max(), site.released.T[k] - old.sum()) / 2
            expected *= min(1.0, most / max(expected.sum(), 1e-300))
            hidden = old == 0
            np.testing.assert_allclose(new[hidden], expected[hidden], rtol=1e-8, atol=1e-9)


@many
@given(sites())
def test_clusters_that_were_left_out_are_small_and_as_sent(site: Site) -> None:
    found = site.filled
    weights = np.exp(site.sent.log_weights - site.sent.log_weights.max())
    for k in np.flatnonzero(site.released.T == 0):
        mean = site.released.T.sum() * weights[k] / weights.sum()
        expected = min(brute_force(mean, site.policy.smallest), (site.policy.smallest - 1) / 2)
        assert found.T[k] == pytest.approx(expected, rel=1e-9)
        phi = np.exp(site.sent.log_levels[k])  # each variable's sum to 1 here
        np.testing.assert_allclose(found.S[k], found.T[k] * phi, rtol=1e-9)


@many
@given(sites())
def test_clusters_that_no_site_told_of_stay_empty(site: Site) -> None:
    alive = site.released.T > 0
    found = site.filled_where(alive)
    assert not found.T[~alive].any()
    assert not found.S[~alive].any()


@many
@given(sites(), st.sampled_from([0, 1]))
def test_where_nothing_is_hidden_nothing_changes(site: Site, threshold: int) -> None:
    untouched = site._replace(policy=custom_policy(threshold, 1))
    for part, same in zip(untouched.filled[:4], site.released[:4], strict=True):
        np.testing.assert_array_equal(part, same)
    S = site.true.S + 1.0
    whole = Sums(np.full(len(S), S.sum(axis=1).max()), S, site.true.h)
    for part, same in zip(site._replace(released=whole).filled[:4], whole[:4], strict=True):
        np.testing.assert_array_equal(part, same)


def errors(policy: Policy, n_seeds: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """Of released and filled counts: squared error and error in hidden cells, for each seed."""
    squared, bias = [], []
    for seed in range(n_seeds):
        site = made_site(np.random.default_rng(seed), policy, 400, np.array([6, 3, 8, 2, 5]), 5)
        told = site.released.T > 0
        hidden = (site.released.S == 0) & told[:, None]
        wrong = [stats.S - site.true.S for stats in (site.released, site.filled)]
        squared.append([np.mean(part**2) for part in wrong])
        bias.append([part[hidden].sum() for part in wrong])
    return np.array(squared), np.array(bias)


@pytest.mark.parametrize("policy", [*UNROUNDED, *ROUNDED], ids=lambda p: f"{p.name}-{p.threshold}")
def test_filled_counts_are_nearer_to_the_true_ones(policy: Policy) -> None:
    squared, bias = errors(policy)
    # Measured: 0.11 to 0.31 of the squared error, nearer in 59 of 60 at least; the hidden cells
    # lack 25 to 147 rows in all, and 5 % of these or less once filled.
    assert squared[:, 1].mean() < 0.5 * squared[:, 0].mean()
    assert np.mean(squared[:, 1] < squared[:, 0]) > 0.9
    assert abs(bias[:, 1].mean()) < 0.15 * abs(bias[:, 0].mean())


@pytest.mark.parametrize(
    "policy",
    [*UNROUNDED, *ROUNDED, custom_policy(0, 5)],
    ids=lambda p: f"{p.name}-{p.threshold}-{p.rounding}",
)
def test_what_is_filled_in_is_the_mean_of_what_was_hidden(policy: Policy) -> None:
    """Two thousand clusters with a rare level each, hidden in some of them."""
    K, rows, mean = 2000, 1000.0, 0.8 * policy.smallest
    X = np.random.default_rng(7).poisson(mean, K).astype(float)
    S = np.column_stack([X, rows - X])
    true = Sums(np.full(K, rows), S, np.zeros(K), np.zeros((K, K)))
    prior = uniform_prior(np.array([2]), 0.01, K)
    out = protect(true, everyone(true), prior, policy)
    sent = Expectations(np.zeros(K), np.tile(np.log([mean, rows - mean]), (K, 1)))
    found = Site(true, out.sums, sent, prior.offsets, policy).filled
    hidden = out.sums.S[:, 0] == 0
    assert 100 < hidden.sum() < K
    error = X[hidden].std() / np.sqrt(hidden.sum())
    assert abs(found.S[hidden, 0].mean() - X[hidden].mean()) < 4 * error + 0.02
