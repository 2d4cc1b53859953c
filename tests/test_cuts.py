"""What a split along a cut adds to the ELBO: against the ELBO of its responsibilities."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fedmerdel.fitting.halving import count_halves
from fedmerdel.fitting.passes import Workers, expect_and_count
from fedmerdel.sums.cuts import Cuts, cuts_between, split_gains
from fedmerdel.sums.elbo import elbo
from fedmerdel.sums.expectations import expectations
from fedmerdel.sums.halves import FirstHalves, second_halves
from fedmerdel.sums.prior import Prior
from fedmerdel.sums.sums import Sums
from tests import reference
from tests.drawn import clusterings, random_theta, seeds
from tests.reference import Dense, by_variable, packed, statistics_from
from tests.selections import random_inclusion, with_inclusion

ONE = Workers(1)
many = settings(max_examples=60, deadline=None)
fewer = settings(max_examples=30, deadline=None)

Drawn = tuple[Dense, np.ndarray, Prior]

# From halves that hardly differ to ones that share no row.
firmness = st.sampled_from([0.1, 3.0, 300.0])


def statistics(table: Dense, log_r: np.ndarray) -> Sums:
    return statistics_from(reference.m_step(table, log_r))


def cut(table: Dense, log_r: np.ndarray, u: np.ndarray) -> FirstHalves:
    """The first halves, each summed from responsibilities of its own."""
    first = statistics(table, reference.cut_in_two(log_r, u)[0])
    return FirstHalves(first.T, first.S, reference.blur(log_r, u, table.weights))


def random_cut(drawn: Drawn, firm: float, seed: int) -> np.ndarray:
    """Log odds of any kind: what a split gains does not depend on where they come from."""
    return firm * np.random.default_rng(seed).standard_normal(drawn[1].shape)


def split_log_r(log_r: np.ndarray, u: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """The kept clusters, then both halves of each chosen one."""
    first, second = reference.cut_in_two(log_r, u)
    halves = [part[:, k] for k in chosen for part in (first, second)]
    kept = np.setdiff1d(np.arange(log_r.shape[1]), chosen)
    return np.column_stack([log_r[:, kept], *halves])


def slack(before: float) -> float:
    return 1e-10 * (1 + abs(before))


@many
@given(clusterings(), firmness, seeds)
def test_gains_are_differences_of_elbos(drawn: Drawn, firm: float, seed: int) -> None:
    table, log_r, prior = drawn
    prior = prior._replace(n_components=prior.n_components + 1)
    u = random_cut(drawn, firm, seed)
    stats = statistics(table, log_r)
    gains = split_gains(stats, cut(table, log_r, u), prior)
    before = elbo(stats, prior)
    assert gains.shape == stats.T.shape
    for k, gain in enumerate(gains):
        after = statistics(table, split_log_r(log_r, u, np.array([k])))
        np.testing.assert_allclose(gain, elbo(after, prior) - before, atol=slack(before))
        # The paper's own terms, which don't share a line of code with either.
        terms = reference.seven_term_elbo(reference.sums_of(after, table.n_levels), prior)
        np.testing.assert_allclose(before + gain, terms, rtol=1e-9, atol=slack(before))


@fewer
@given(clusterings(), firmness, seeds)
def test_gains_with_variable_selection(drawn: Drawn, firm: float, seed: int) -> None:
    """Clusters then explain a share of each entry, and so do halves."""
    table, log_r, prior = drawn
    u = random_cut(drawn, firm, seed)
    stats = statistics(table, log_r)
    c = random_inclusion(np.random.default_rng(seed), len(table.n_levels))
    _, selected = with_inclusion(stats.S, prior, c)
    gains = split_gains(stats, cut(table, log_r, u), selected)
    before = elbo(stats, selected)
    for k, gain in enumerate(gains):
        after = statistics(table, split_log_r(log_r, u, np.array([k])))
        np.testing.assert_allclose(gain, elbo(after, selected) - before, atol=slack(before))


@many
@given(clusterings(), firmness, seeds)
def test_dividing_adds_the_gains(drawn: Drawn, firm: float, seed: int) -> None:
    table, log_r, prior = drawn
    u = random_cut(drawn, firm, seed)
    stats, first = statistics(table, log_r), cut(table, log_r, u)
    chosen = np.flatnonzero(np.random.default_rng(seed).random(stats.n_clusters) < 0.6)
    divided = first.divide(stats, chosen)
    expected = statistics(table, split_log_r(log_r, u, chosen))
    size = {"rtol": 1e-10, "atol": 1e-10 * (1 + stats.T.sum())}
    np.testing.assert_allclose(divided.T, expected.T, **size)
    np.testing.assert_allclose(divided.S, expected.S, **size)
    # Only the sum of h over the halves is known; the ELBO needs no more.
    np.testing.assert_allclose(divided.h.sum(), expected.h.sum(), **size)
    np.testing.assert_allclose(divided.T.sum(), stats.T.sum(), **size)
    np.testing.assert_allclose(divided.S.sum(axis=0), stats.S.sum(axis=0), **size)
    np.testing.assert_allclose(divided.h.sum(), stats.h.sum() - first.blur[chosen].sum(), **size)
    before = elbo(stats, prior)
    gain = split_gains(stats, first, prior)[chosen].sum()
    np.testing.assert_allclose(elbo(divided, prior) - before, gain, atol=slack(before))
    n_kept = stats.n_clusters - len(chosen)
    kept = np.setdiff1d(np.arange(stats.n_clusters), chosen)
    np.testing.assert_array_equal(divided.h[:n_kept], stats.h[kept])


@many
@given(clusterings(), firmness, seeds)
def test_less_blur_is_a_lower_bound(drawn: Drawn, firm: float, seed: int) -> None:
    """The blur is never negative: halves of which nobody knows it are judged too strictly."""
    table, log_r, prior = drawn
    stats, first = statistics(table, log_r), cut(table, log_r, random_cut(drawn, firm, seed))
    bound = split_gains(stats, first._replace(blur=np.zeros_like(first.blur)), prior)
    assert np.all(first.blur >= 0)
    assert np.all(bound <= split_gains(stats, first, prior))
    assert np.all(first.blur <= np.log(2) * stats.T * (1 + 1e-12))


@fewer
@given(clusterings(), st.sampled_from([-1000.0, 1000.0]))
def test_a_cut_beside_all_rows_changes_nothing(drawn: Drawn, u: float) -> None:
    table, log_r, prior = drawn
    stats = statistics(table, log_r)
    first = cut(table, log_r, np.full(log_r.shape, u))
    gains = split_gains(stats, first, prior)
    np.testing.assert_allclose(gains, 0.0, atol=slack(elbo(stats, prior)))
    divided = first.divide(stats, np.arange(stats.n_clusters))
    empty = divided.T.reshape(-1, 2)[:, int(u > 0)]
    np.testing.assert_allclose(empty, 0.0, atol=1e-300)


@many
@given(clusterings(), firmness, seeds, st.booleans())
def test_the_next_cut_is_an_e_step_between_the_halves(
    drawn: Drawn, firm: float, seed: int, select: bool
) -> None:
    table, log_r, prior = drawn
    stats, first = statistics(table, log_r), cut(table, log_r, random_cut(drawn, firm, seed))
    if select:
        c = random_inclusion(np.random.default_rng(seed), len(table.n_levels))
        prior = with_inclusion(stats.S, prior, c)[1]
    cuts = cuts_between(stats, first, prior)
    u = reference.log_rho(table.X, cuts.offset, by_variable(cuts.direction, table.n_levels))
    second_T, second_S = second_halves(stats, first)
    for k in range(stats.n_clusters):
        T, S = np.stack([first.T[k], second_T[k]]), np.stack([first.S[k], second_S[k]])
        two = expectations(Sums(T, S, np.zeros(2)), prior)
        rho = reference.log_rho(
            table.X, two.log_weights, by_variable(two.log_levels, table.n_levels)
        )
        np.testing.assert_allclose(u[:, k], rho[:, 0] - rho[:, 1], rtol=1e-9, atol=1e-9)


@fewer
@given(clusterings(), seeds, st.booleans())
def test_steps_inside_a_cluster_never_lower_its_gain(drawn: Drawn, seed: int, select: bool) -> None:
    """With the responsibilities held, they are coordinate ascent on a mixture of two."""
    table, log_r, prior = drawn
    rows = packed(table)
    theta = expectations(statistics(table, log_r), prior)
    stats = expect_and_count(rows, theta, ONE)
    rng = np.random.default_rng(seed)
    if select:
        prior = with_inclusion(stats.S, prior, random_inclusion(rng, len(table.n_levels)))[1]
    cuts = Cuts(*random_theta(rng, theta.n_clusters, table.n_levels, 1.0))
    first = count_halves(rows, theta, cuts, ONE)
    gains = split_gains(stats, first, prior)
    for _ in range(8):
        first = count_halves(rows, theta, cuts_between(stats, first, prior), ONE)
        last, gains = gains, split_gains(stats, first, prior)
        assert np.all(gains >= last - slack(elbo(stats, prior)))


def test_the_rest_of_a_half_that_was_rounded_up_is_nothing() -> None:
    stats = Sums(np.array([5.0, 3.0]), np.array([[2.0, 3.0], [0.0, 3.0]]), np.zeros(2))
    first = FirstHalves(np.array([5.0 + 1e-14, 1.0]), np.array([[2.0, 3.1], [0.0, 1]]), np.zeros(2))
    T, S = second_halves(stats, first)
    np.testing.assert_array_equal(T, [0.0, 2.0])
    np.testing.assert_array_equal(S, [[0.0, 0.0], [0.0, 2.0]])


def test_halves_and_cuts_of_some_clusters() -> None:
    rng = np.random.default_rng(0)
    one, other = (FirstHalves(rng.random(4), rng.random((4, 6)), rng.random(4)) for _ in "ab")
    cuts = Cuts(rng.random(4), rng.random((4, 6)))
    order = np.array([3, 1])
    chosen = np.array([True, False, False, True])
    for part, taken in zip((*one, *cuts), (*one.take(order), *cuts.take(order)), strict=True):
        np.testing.assert_array_equal(taken, part[order])
    for mixed, own, theirs in zip(one.where(chosen, other), one, other, strict=True):
        np.testing.assert_array_equal(mixed[chosen], own[chosen])
        np.testing.assert_array_equal(mixed[~chosen], theirs[~chosen])
