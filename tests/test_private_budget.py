"""The budget against exact privacy losses: by dp-accounting, and by adding up distributions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld

from fedmerdel import OptionError
from fedmerdel.private.budget import (
    cost,
    delta_of,
    make_budget,
    release_cost,
    rho_for,
    share_for,
)

DELTA = 1e-6
LOOSE = 1.12
"""Sums of discrete Gaussians are accounted for by zCDP, which says at most this much too much."""


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0, 8.0])
@pytest.mark.parametrize("n_releases", [1, 12])
def test_a_budget_is_what_gaussians_cost_and_hardly_more(epsilon: float, n_releases: int) -> None:
    rho = rho_for(epsilon, DELTA) / n_releases
    deviation = 1.0 / math.sqrt(2.0 * rho)
    one = pld.from_gaussian_mechanism(deviation, value_discretization_interval=1e-3)
    exact = one.self_compose(n_releases).get_epsilon_for_delta(DELTA)
    told = cost([rho] * n_releases, DELTA)
    assert exact * (1.0 - 1e-3) <= told <= LOOSE * exact
    assert told <= epsilon * (1.0 + 1e-12)
    assert told > 0.9999 * epsilon


@pytest.mark.parametrize(("scale", "step"), [(2.0, 1), (7.0, 2), (40.0, 20)])
def test_discrete_noise_costs_no_more_than_is_told(scale: float, step: int) -> None:
    exact = pld.from_discrete_gaussian_mechanism(
        scale, sensitivity=step, value_discretization_interval=1e-3
    )
    told = cost([release_cost(scale, step, 1, 1)], DELTA)
    assert exact.get_epsilon_for_delta(DELTA) * (1.0 - 1e-3) <= told


def summed_noise(share: float, honest: int) -> np.ndarray:
    x = np.arange(-round(12 * share) - 1, round(12 * share) + 2)
    odds = np.exp(-0.5 * (x / share) ** 2)
    found = one = odds / odds.sum()
    for _ in range(honest - 1):
        found = np.convolve(found, one)
    return found


@pytest.mark.parametrize(("share", "honest"), [(0.5, 2), (0.5, 10), (0.6, 3), (1.0, 5), (3.0, 4)])
def test_sums_of_shares_cost_no_more_than_is_told(share: float, honest: int) -> None:
    """Where a share is small, their sum is no discrete Gaussian: delta is added up term by term."""
    p = summed_noise(share, honest)
    with_person, without = np.append(0.0, p), np.append(p, 0.0)
    rho = release_cost(share, 1.0, honest, 1)
    for epsilon in (0.5, 1.0, 2.0, 4.0):
        pairs = ((with_person, without), (without, with_person))
        exact = max(np.maximum(a - math.exp(epsilon) * b, 0).sum() for a, b in pairs)
        assert exact <= delta_of(rho, epsilon) + 1e-12


def test_noise_for_a_cost_costs_that_and_is_no_larger() -> None:
    for rho, sensitivity, honest, size in ((0.01, 5e4, 10, 5000), (3.0, 1.0, 7, 40), (8, 1, 1, 1)):
        share = share_for(rho, sensitivity, honest, size)
        assert release_cost(share, sensitivity, honest, size) <= rho
        assert release_cost(0.98 * share, sensitivity, honest, size) > rho


def test_half_of_the_sites_are_taken_for_honest() -> None:
    assert [make_budget(1, DELTA, n).honest for n in (1, 2, 5, 20)] == [1, 1, 3, 10]
    # Half of the sites' noise is as good as none: the others need the root of 2 as much.
    all_of_them, half = (share_for(0.1, 1e4, honest, 10) for honest in (20, 10))
    assert np.isclose(half / all_of_them, math.sqrt(2))


def test_nothing_asked_costs_nothing() -> None:
    assert cost([], DELTA) == 0.0
    assert release_cost(0.4, 1.0, 3, 1) == math.inf


@pytest.mark.parametrize(
    ("epsilon", "delta", "honest", "unit", "said"),
    [
        (0.0, DELTA, None, 1, "epsilon"),
        (np.nan, DELTA, None, 1, "epsilon"),
        (1e3, DELTA, None, 1, "epsilon"),
        (1.0, 0.0, None, 1, "delta"),
        (1.0, 0.5, None, 1, "delta"),
        (1.0, DELTA, 0, 1, "honest"),
        (1.0, DELTA, 6, 1, "honest"),
        (1.0, DELTA, None, 0, "unit"),
    ],
)
def test_what_is_no_budget_is_refused(
    epsilon: float, delta: float, honest: int | None, unit: int, said: str
) -> None:
    with pytest.raises(OptionError, match=said):
        make_budget(epsilon, delta, 5, honest, unit)
