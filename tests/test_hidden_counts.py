"""Hidden counts filled in: against sums over the Poisson, and against the counts behind them."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import poisson

from fedmerdel.release.hidden import OPINIONS, expected_below, filled
from fedmerdel.release.protection import protect
from fedmerdel.release.released import Released
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
    released: Released
    sent: Expectations
    offsets: np.ndarray
    policy: Policy

    @property
    def filled(self) -> Sums:
        return filled(*self.released, self.sent, self.offsets, self.policy)  # type: ignore[arg-type]


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
    true = Sums(T, S, np.zeros(K), np.zeros((K, K)))
    prior = uniform_prior(n_levels, 0.01, K)
    released = protect(true, everyone(true), prior, policy).released
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


def slowly(site: Site, start: int, end: int) -> np.ndarray:
    """One variable's cells filled in, by the formulas and with loops; all clusters are told."""
    (told, rest), policy = site.released, site.policy
    cells = told.S[:, start:end].copy()
    K, L = cells.shape
    phi = np.exp(site.sent.log_levels[:, start:end])
    mean = cells.sum(axis=1, keepdims=True) * phi / phi.sum(axis=1, keepdims=True)
    given, lost = np.zeros((K, L)), np.zeros((K, L))
    for at in range(L):
        hide = [k for k in range(K) if k != rest and told.S[k, start + at] == 0]
        R = cells[rest, at]
        if R > 0:

            def parts(tilt: float, at: int = at, hide: list[int] = hide) -> list[float]:
                return [brute_force(tilt * mean[k, at], policy.least) for k in hide]

            low, high = 0.0, 1e12  # by halves, until all of it sums to what is there
            for _ in range(200):
                tilt = (low + high) / 2
                much = tilt * mean[rest, at] + sum(parts(tilt)) > R
                low, high = (low, tilt) if much else (tilt, high)
            for k, rows in zip(hide, parts(tilt), strict=True):
                given[k, at] = rows
        else:
            group = [*hide, rest]
            total = sum(mean[k, at] for k in group)
            for k in group:
                rows = brute_force(total, policy.smallest) if total > 0 else 0.0
                lost[k, at] = rows * mean[k, at] / max(total, 1e-300)
    for rows, taker in ((given, rest), (lost, None)):
        before = cells.copy()
        for k in range(K):
            top = before[k].argmax()
            part = min(rows[k].sum(), before[k, top] / 2)
            share = part / max(rows[k].sum(), 1e-300)
            cells[k] += share * rows[k]
            cells[k, top] -= part
            if taker is not None and k != taker:
                cells[taker] -= share * rows[k]
                cells[taker, top] += part
        cells = np.maximum(cells, 0.0)
    return cells


@many
@given(sites())
def test_every_number_is_that_of_the_formulas(site: Site) -> None:
    assume(np.all(site.released.sums.T > 0))
    found = site.filled
    for start, end in pairwise(site.offsets):
        expected = slowly(site, start, end)
        # The steps to the tilt end early.
        size = 0.02 * site.released.sums.T.max()
        np.testing.assert_allclose(found.S[:, start:end], expected, atol=size)
    np.testing.assert_array_equal(found.T, site.released.sums.T)


@many
@given(sites())
def test_rows_stay_as_many_and_no_cell_is_below_0(site: Site) -> None:
    told, found = site.released.sums, site.filled
    assert found.T.sum() == pytest.approx(told.T.sum())
    assert np.all(found.S >= 0)
    assert np.all(found.T >= 0)
    np.testing.assert_array_equal(found.h, told.h)
    for start, end in pairwise(site.offsets):
        assert np.all(found.S[:, start:end].sum(axis=1) <= found.T + 1e-6)
        before, after = (each.S[:, start:end].sum() for each in (told, found))
        assert after == pytest.approx(before)


@many
@given(sites())
def test_clusters_of_which_nothing_is_told_have_rows_of_the_rest(site: Site) -> None:
    """As many as each variable says on average, with the levels that are known of them."""
    (told, rest), found = site.released, site.filled
    silent = np.flatnonzero(told.T == 0)
    group = [*silent, rest]
    weights = np.exp(site.sent.log_weights[group])
    for _ in range(OPINIONS):
        opinions = []
        for start, end in pairwise(site.offsets):
            phi = np.exp(site.sent.log_levels[group, start:end])
            mean = weights[:, None] * phi / phi.sum(axis=1, keepdims=True)
            R = told.S[rest, start:end]
            R = R / R.sum() if R.sum() > 0 else np.full(end - start, 1 / (end - start))
            opinions.append((R * mean / mean.sum(axis=0)).sum(axis=1))
        weights = np.mean(opinions, axis=0)
    share = weights[:-1]
    np.testing.assert_allclose(found.T[silent], share * told.T[rest])
    for start, end in pairwise(site.offsets):
        phi = np.exp(site.sent.log_levels[silent, start:end])
        observed = share * told.S[rest, start:end].sum()
        expected = observed[:, None] * phi / phi.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(found.S[silent, start:end], expected, rtol=1e-9, atol=1e-9)


@many
@given(sites(), st.sampled_from([0, 1]))
def test_where_nothing_is_hidden_nothing_changes(site: Site, threshold: int) -> None:
    S = site.true.S + 1.0
    whole = Sums(np.full(len(S), S.sum(axis=1).max()), S, site.true.h)
    for policy in (site.policy, custom_policy(threshold, 1)):
        changed = site._replace(released=Released(whole, 0), policy=policy)
        for part, same in zip(changed.filled[:4], whole[:4], strict=True):
            np.testing.assert_allclose(part, same, rtol=1e-12)


def errors(policy: Policy, n_seeds: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """Of released and filled counts: squared error and error in hidden cells, for each seed."""
    squared, bias = [], []
    for seed in range(n_seeds):
        site = made_site(np.random.default_rng(seed), policy, 400, np.array([6, 3, 8, 2, 5]), 5)
        told = site.released.sums.T > 0
        told[site.released.rest] = False
        hidden = (site.released.sums.S == 0) & told[:, None]
        wrong = [stats.S - site.true.S for stats in (site.released.sums, site.filled)]
        squared.append([np.mean(part**2) for part in wrong])
        bias.append([part[hidden].sum() for part in wrong])
    return np.array(squared), np.array(bias)


@pytest.mark.parametrize("policy", [*UNROUNDED, *ROUNDED], ids=lambda p: f"{p.name}-{p.threshold}")
def test_filled_counts_are_nearer_to_the_true_ones(policy: Policy) -> None:
    squared, bias = errors(policy)
    assert squared[:, 1].mean() < 0.6 * squared[:, 0].mean()
    assert np.mean(squared[:, 1] < squared[:, 0]) >= 0.85
    assert abs(bias[:, 1].mean()) < 0.25 * abs(bias[:, 0].mean())
