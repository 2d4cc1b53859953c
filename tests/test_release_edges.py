"""Disclosure control at its edges: sums that are off by dust, cells that must make room, bounds
that meet a step, and what the two accounts of it hold."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedmerdel.release.account import release_cost
from fedmerdel.release.cells import all_cells, with_missing
from fedmerdel.release.mechanisms import mechanism_for
from fedmerdel.release.protection import Protected, protect
from fedmerdel.release.tables import make_room
from fedmerdel.study.policy import POLICIES, Policy, custom_policy
from fedmerdel.sums.elbo import elbo
from fedmerdel.sums.prior import Prior, uniform_prior
from fedmerdel.sums.sums import Sums
from tests.federations import everyone
from tests.outcome_cells import yes_no

OPENSAFELY, ONS = POLICIES["opensafely"], POLICIES["ons"]
POLICY = st.sampled_from([OPENSAFELY, ONS, POLICIES["datashield"], custom_policy(7, 3)])


def prior_of(*n_levels: int) -> Prior:
    return uniform_prior(np.array(n_levels), 0.01, 5)


def release(cells: list[float], policy: Policy, people: list[float] | None = None) -> list[float]:
    """Release one variable of one cluster, no entry missing; people as many as rows by default."""
    S, hard = np.array([cells]), np.array([people or cells])
    T, T_hard = np.array([S.sum()]), np.array([np.floor(hard.sum() + 0.5)])
    sums = Sums(T, S, np.zeros(1), np.zeros((1, 1)))
    behind = sums._replace(T=T_hard, S=hard)
    out = protect(sums, everyone(behind, sums), prior_of(len(cells)), policy)
    told: list[float] = out.released.sums.S[0].tolist()
    return told


@pytest.mark.parametrize("policy", [OPENSAFELY, ONS, custom_policy(0, 5), custom_policy(1000)])
def test_a_cluster_is_not_too_small_by_the_order_of_its_sums(policy: Policy) -> None:
    """Ten sure rows, counted by subtraction, may be 9.99999999; nine and a bit are too few."""
    s = float(policy.smallest)
    T = np.array([s - 1e-9 * s, s - 1e-3, s, s])
    people = np.array([s, s, s, s - 1])
    behind = everyone(Sums(people, np.zeros((4, 0)), np.zeros(4)))
    small = mechanism_for(policy).too_small(T, behind)
    assert small.tolist() == [False, True, False, True]


def test_a_cell_is_not_small_by_the_order_of_its_sums() -> None:
    assert release([100.0, 10 - 1e-9], ONS, [100.0, 10.0]) == [100.0, 10.0]
    assert release([100.0, 10 - 1e-3], ONS, [100.0, 10.0]) == [110.0, 0.0]


def test_cells_that_gained_most_by_rounding_make_room_first() -> None:
    """Four cells of 15 leave 5 of 65 to the largest: one falls, and 12.6 gained more than 13.9."""
    assert release([12.6, 13.9, 14.0, 12.6, 12.6], OPENSAFELY) == [10.0, 15.0, 10.0, 15.0, 15.0]
    assert release([12.7, 12.6, 14.0, 12.9, 12.8], OPENSAFELY) == [15.0, 10.0, 10.0, 15.0, 15.0]


def test_the_rarest_cell_makes_room_if_none_can_fall() -> None:
    """Three cells of 10, the least there may be, leave 5 of 35: the one with 8.2 becomes 0."""
    assert release([8.4, 8.2, 8.6, 8.8], OPENSAFELY, [9.0] * 4) == [10.0, 0.0, 10.0, 15.0]


@pytest.mark.parametrize("most", [-1.0, -1e9, 0.0])
@pytest.mark.parametrize("cells", [[0.0, 0.0], [15.0, 10.0], [1e20, 10.0]])
def test_making_room_ends_where_there_is_none(cells: list[float], most: float) -> None:
    made = np.array(cells)
    make_room(made, np.array(cells), most, OPENSAFELY)
    assert made.tolist() == [0.0, 0.0]


def test_making_room_ends_where_a_step_takes_nothing() -> None:
    """Of 1e20 rows, by survey weights, five less are the same number."""
    made = np.array([1e20, 10.0])
    make_room(made, made.copy(), 1e19, OPENSAFELY)
    assert made.sum() <= 1e19


def test_without_a_threshold_cells_are_rounded_to_nothing_below_half_a_step() -> None:
    people = [30.0, 3.0, 3.0]
    assert release([30.0, 2.4, 2.6], custom_policy(0, 5), people) == [30.0, 0.0, 5.0]
    # Two people of weight 3 each are two people.
    assert release([30.0, 6.0, 0.0], custom_policy(0, 5), [30.0, 2.0, 0.0]) == [35.0, 0.0, 0.0]


def test_a_missing_cell_of_dust_is_none() -> None:
    """Dust grows with the rows that were summed."""
    T = np.array([3e6, 3e6, 4.0])
    levels = T[:, None] * np.array([0.5, 0.5]) - np.array([[1e-3, 0.0], [1.0, 0.0], [1e-9, 0.0]])
    cells = with_missing(T, levels)
    np.testing.assert_array_equal(cells[:, :2], levels)
    assert cells[:, 2].tolist() == [0.0, 1.0, 0.0]


def test_no_cell_of_an_outcome_is_below_nothing() -> None:
    """More known than there are, by the order of sums."""
    counts = np.array([[0.0, 4.0], [6.0, 3.0 + 1e-12]])
    T = np.array([9.0, 9.0])
    cells = with_missing(T, counts)
    assert np.all(cells >= 0)
    np.testing.assert_allclose(cells, [[0, 4, 5], [6, 3, 0]], atol=1e-9)
    sums = Sums(T, np.array([[9.0], [9.0]]), np.zeros(2), outcomes={"death": counts})
    assert np.all(all_cells(sums, np.array([0, 1])) >= 0)


def protected(policy: Policy, Q: float, h: float, **more: float) -> Protected:
    """Two clusters of two variables and an outcome, with this overlap and entropy."""
    T = np.array([103.4, 62.2])
    S = np.array([[80.4, 20.5, 60.0, 43.4], [20.1, 40.3, 31.0, 31.2]])
    deaths = {"death": yes_no(np.array([30.0, 20.0]), np.array([80.0, 50.0]))}
    sums = Sums(T, S, np.full(2, h), np.array([[0.0, Q], [Q, 0.0]]), deaths)
    behind = everyone(sums._replace(T=np.floor(T), S=np.floor(S)), sums)
    return protect(sums, behind, prior_of(2, 2), policy, **more)  # type: ignore[arg-type]


@settings(max_examples=200, deadline=None)
@given(policy=POLICY, steps=st.integers(1, 10**6))
def test_bounds_hold_next_to_a_step(policy: Policy, steps: int) -> None:
    """Where a quotient is rounded to a whole number the bound is still on the safe side."""
    unit = policy.smallest * np.log(2.0)
    edge = steps * unit
    for value in (np.nextafter(edge, 0.0), edge, np.nextafter(edge, np.inf)):
        out = protected(policy, value, -value)
        assert out.released.sums.Q[0, 1] >= value
        assert out.released.sums.Q[0, 1] <= value + 1.001 * unit
        assert np.all(-out.released.sums.h <= value)
        assert np.all(-out.released.sums.h >= value - 1.001 * unit)


def test_an_overlap_is_the_same_both_ways() -> None:
    """Summed in another order the two may lie on two sides of a step: the larger one is told."""
    edge = 10 * np.log(2.0)
    Q = np.array([[0.0, edge], [edge + 1e-9, 0.0]])
    T = np.array([60.0, 40.0])
    for overlap in (Q, Q.T):
        sums = Sums(T, T[:, None] * np.array([0.5, 0.5]), np.zeros(2), overlap)
        out = protect(sums, everyone(sums), prior_of(2), ONS)
        np.testing.assert_array_equal(out.released.sums.Q, 2 * edge * (1 - np.eye(2)))


@pytest.mark.parametrize("policy", [OPENSAFELY, ONS, POLICIES["none"]])
def test_the_account_that_stays_is_of_the_exact_counts_and_the_other_is_not(policy: Policy) -> None:
    out, later = protected(policy, 0.7, -3.0), protected(policy, 0.7, -3.0, cost_so_far=250.0)
    soft = Sums(
        np.array([103.4, 62.2]),
        np.array([[80.4, 20.5, 60.0, 43.4], [20.1, 40.3, 31.0, 31.2]]),
        np.full(2, -3.0),
    )
    cost = release_cost(soft, out.released.sums, prior_of(2, 2))
    assert out.changes.elbo == elbo(soft, prior_of(2, 2))
    assert out.changes.cost == cost
    assert later.changes.cost == cost + 250.0
    assert later.changes.cost_per_row == pytest.approx((cost + 250.0) / 165.6)
    # None of it leaves.
    assert out.account == later.account


def test_deaths_are_told_as_deaths() -> None:
    out = protected(OPENSAFELY, 0.0, 0.0).released.sums.outcomes["death"]
    assert out.tolist() == [[50.0, 30.0], [30.0, 20.0]]
