"""Which variables tell clusters apart, where disclosure control has hidden rare counts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from fedmerdel import Federation, draft_study, fit_site, merge_sites, policy_named, simulate
from fedmerdel.centre.summaries import side_by_side
from fedmerdel.release import hidden
from fedmerdel.release.hidden import filled_alike
from fedmerdel.release.thresholds import hidden_below
from fedmerdel.study.policy import Policy
from fedmerdel.sums.levels import level_shares
from fedmerdel.sums.sums import Sums
from tests import federations as made
from tests.seeds import Record, over

NOISE = (0.01, 0.02, 0.03, 0.05, 0.07, 0.3)
N_TELLING = 20


def noisy_federation(policy: str, seed: int) -> Federation:
    """Return eight sites with twenty variables that tell, and noise, most of it rare."""
    rng = np.random.default_rng(seed)
    table = simulate(6000, N_TELLING, 5, random_state=seed)
    X = np.hstack([table.X, rng.random((6000, len(NOISE))) < NOISE])
    site = rng.integers(0, 8, 6000)
    study = replace(draft_study(X, name="noise"), policy=policy_named(policy))
    return merge_sites(study, [fit_site(study, X[site == b], f"site {b}") for b in range(8)])


@over(range(1), range(100, 112))
@pytest.mark.parametrize("policy", ["none", "opensafely", "acro"])
def test_rare_noise_does_not_seem_to_tell(
    policy: str, seeds: range, record_property: Record
) -> None:
    """Hidden in small clusters and told in large ones, a rare level looks as if it differed."""
    found = np.array([noisy_federation(policy, seed).selection_probability for seed in seeds])
    noise, told = (found[:, N_TELLING:] > 0.5).mean(), (found[:, :N_TELLING] > 0.5).mean()
    record_property("share of noise taken for telling", f"{noise:.4f}, at most 0.02")
    record_property("share of telling variables seen", f"{told:.3f}, at least 0.85")
    assert noise <= 0.02
    # What tells is still seen, but for a few that hardly differ.
    assert told >= 0.85


def filled(local: Sums, offsets: np.ndarray, policy: Policy) -> Sums:
    return filled_alike(local, offsets, hidden_below(policy), policy.smallest)


@settings(deadline=None, max_examples=60)
@given(rows=made.federations())
def test_filling_keeps_rows_and_what_was_told(rows: made.Federation) -> None:
    federation = merge_sites(rows.study, rows.summaries())
    local, offsets = side_by_side(federation.summaries).stats, federation.prior.offsets
    found = filled(local, offsets, rows.study.policy)
    np.testing.assert_array_equal(found.T, local.T)
    starts = offsets[:-1]
    observed = np.add.reduceat(local.S, starts, axis=1)
    assert np.all(found.S >= 0)
    # Nothing is made up: what is filled in was taken from the variable's largest cell.
    assert np.all(
        np.add.reduceat(found.S, starts, axis=1) <= observed + 1e-6 * (1 + local.T[:, None])
    )
    told = (local.S > 0) & (found.S < local.S - 1e-9)
    assert np.all(np.add.reduceat(told, starts, axis=1) <= 1)


def test_filling_settles(monkeypatch: pytest.MonkeyPatch) -> None:
    """One more step of EM changes the shares of levels by less than a thousandth."""
    federation = noisy_federation("opensafely", 0)
    local, offsets = side_by_side(federation.summaries).stats, federation.prior.offsets
    found = level_shares(filled(local, offsets, federation.study.policy).S, offsets)
    monkeypatch.setattr(hidden, "STEPS", hidden.STEPS + 1)
    again = level_shares(filled(local, offsets, federation.study.policy).S, offsets)
    assert np.abs(again - found).max() < 1e-3
