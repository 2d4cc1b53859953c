"""Hidden totals filled in from those of all sites: levels that every site hides are not absent."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm, poisson

from fedmerdel.release import totals
from fedmerdel.release.tables import protect_cells
from fedmerdel.release.totals import expected_totals
from fedmerdel.study.policy import POLICIES, Policy, custom_policy
from fedmerdel.sums.levels import level_totals

FEW = 150
OFFSETS = np.arange(0, 2 * FEW + 1, 2)
ACTIVE = [POLICIES["opensafely"], POLICIES["acro"], custom_policy(5, 3)]


def drawn(
    seed: int, policy: Policy, n_sites: int = 10, n_rows: int = 200
) -> tuple[np.ndarray, ...]:
    """Totals of yes/no variables at small sites: what they are, and what is told."""
    rng = np.random.default_rng(seed)
    share = np.exp(rng.normal(-3.6, 1.1, FEW)).clip(0.002, 0.4)
    yes = rng.binomial(n_rows, share, (n_sites, FEW)).astype(float)
    true = np.stack([n_rows - yes, yes], axis=2).reshape(n_sites, -1)
    rows = np.array([float(n_rows)])
    told = [
        [protect_cells(cells[None], cells[None], rows, policy)[0] for cells in site.reshape(-1, 2)]
        for site in true
    ]
    return true, np.array(told).reshape(n_sites, -1)


@pytest.mark.parametrize("policy", ACTIVE, ids=lambda p: f"{p.threshold}-{p.rounding}")
def test_levels_that_all_hide_have_about_as_many_rows_as_there_are(policy: Policy) -> None:
    """Within a quarter in sum; taken for absent they would have none."""
    for seed in range(3):
        true, told = drawn(seed, policy)
        unseen = told.sum(axis=0) == 0
        assert unseen.sum() > 20
        found = expected_totals(told, OFFSETS, policy)
        ratio = found[:, unseen].sum() / true[:, unseen].sum()
        assert 0.75 < ratio < 1.34
        np.testing.assert_array_equal(found[told > 0], told[told > 0])
        assert np.all(found[told == 0] < policy.least)


def test_every_number_is_that_of_the_formulas() -> None:
    """Against sums over the grid with loops, and scipy's distributions."""
    policy = custom_policy(5, 0)
    told = np.array([[90.0, 10, 0, 0], [80.0, 0, 0, 20], [100.0, 0, 0, 0]])
    told = np.hstack([told, told[::-1]])
    offsets, others = np.array([0, 4, 8]), [1, 2, 3, 5, 6, 7]
    x = np.linspace(-np.log(300.0), 0.0, totals.GRID)
    like = np.array(
        [
            [
                np.prod(
                    [
                        poisson.pmf(n, 100 * np.exp(p)) if n else poisson.cdf(4, 100 * np.exp(p))
                        for n in told[:, at]
                    ]
                )
                for p in x
            ]
            for at in others
        ]
    )
    mean, spread = x.mean(), np.ptp(x) / 4
    for _ in range(totals.UPDATES):
        w = like * norm.pdf(x, mean, spread)
        w /= w.sum(axis=1, keepdims=True)
        mean = (w.mean(axis=0) * x).sum()
        spread = max(np.sqrt((w.mean(axis=0) * (x - mean) ** 2).sum()), x[1] - x[0])
    found = expected_totals(told, offsets, policy)
    for at, weights in zip(others, w, strict=True):
        lam = 100 * (weights * np.exp(x)).sum()
        few = np.arange(5)
        below = (few * poisson.pmf(few, lam)).sum() / poisson.pmf(few, lam).sum()
        np.testing.assert_allclose(found[:, at], np.where(told[:, at] > 0, told[:, at], below))


def test_a_finer_grid_changes_little(monkeypatch: pytest.MonkeyPatch) -> None:
    _, told = drawn(5, ACTIVE[0])
    found = expected_totals(told, OFFSETS, ACTIVE[0])
    monkeypatch.setattr(totals, "GRID", 400)
    finer = expected_totals(told, OFFSETS, ACTIVE[0])
    assert np.abs(finer - found).max() < 0.1


def test_more_updates_change_little(monkeypatch: pytest.MonkeyPatch) -> None:
    _, told = drawn(5, ACTIVE[0])
    found = expected_totals(told, OFFSETS, ACTIVE[0])
    monkeypatch.setattr(totals, "UPDATES", 400)
    longer = expected_totals(told, OFFSETS, ACTIVE[0])
    assert np.abs(longer - found).max() < 0.1


def test_where_nothing_is_told_of_a_variable_nothing_is_expected() -> None:
    """A site that never recorded it, and a variable that nobody has."""
    told = np.array([[100.0, 20, 60, 60, 0, 0], [90.0, 0, 0, 0, 0, 0]])
    found = expected_totals(told, np.array([0, 2, 4, 6]), ACTIVE[0])
    np.testing.assert_array_equal(found[1, 2:], 0)
    np.testing.assert_array_equal(found[0, 4:], 0)
    assert 0 < found[1, 1] < 8


def test_no_sum_is_left_undefined_where_everything_is_hidden() -> None:
    told = np.tile([50.0, 0.0], (4, 30))
    found = expected_totals(told, np.arange(0, 61, 2), ACTIVE[0])
    assert np.all(np.isfinite(found))
    hidden = found[told == 0]
    assert np.all((hidden > 0) & (hidden < 8))
    assert level_totals(found, np.arange(0, 61, 2)).max() < 58
