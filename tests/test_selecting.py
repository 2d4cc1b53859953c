"""Which variables tell clusters apart, where disclosure control has hidden rare counts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedmerdel import Federation, draft_study, fit_site, merge_sites, policy_named, simulate
from fedmerdel.centre import filling
from fedmerdel.centre.filling import filled_in_groups
from fedmerdel.release import hidden
from fedmerdel.sums.levels import level_shares
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


def test_filling_settles(monkeypatch: pytest.MonkeyPatch) -> None:
    """More steps to the tilt, or of EM with the clusters' own levels, change next to nothing."""
    federation = noisy_federation("opensafely", 0)
    study, summaries = federation.study, federation.summaries

    def found() -> np.ndarray:
        local = filled_in_groups(study, summaries, federation.groups, federation.n_components)
        return level_shares(local.stats.S, study.codebook.level_offsets)

    before = found()
    for module, name in ((hidden, "TILTS"), (filling, "STEPS")):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, 2 * getattr(module, name))
            assert np.abs(found() - before).max() < 1e-3
