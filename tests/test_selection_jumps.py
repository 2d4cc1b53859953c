"""Jumps of a variable's inclusion to 0 or 1: where the paper's updates are stuck."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedmerdel import MerDel, simulate
from fedmerdel.sums.elbo import elbo
from fedmerdel.sums.learning import learning_of, settled
from fedmerdel.sums.prior import Prior, uniform_prior
from fedmerdel.sums.selection import LEAP, Selection
from fedmerdel.sums.sums import Sums

seeds = st.integers(0, 2**32 - 1)


def drawn(
    rng: np.random.Generator, K: int, P: int, noisy: bool, most: float = 0.5
) -> tuple[Sums, Prior]:
    """Draw counts of K clusters of 100 rows; noise has one probability for all of them."""
    p = rng.uniform(0.1, most, (1 if noisy else K, P))
    ones = rng.binomial(100, np.broadcast_to(p, (K, P))).astype(np.float64)
    S = np.stack([100 - ones, ones], axis=2).reshape(K, 2 * P)
    return Sums(np.full(K, 100.0), S, np.zeros(K)), uniform_prior(np.full(P, 2), 0.01, K)


def included(selection: Selection, prior: Prior, c: float) -> Prior:
    start = selection.start(prior)
    return start._replace(inclusion=np.full(len(prior.n_levels), c))


@settings(max_examples=60, deadline=None)
@given(seed=seeds, K=st.integers(1, 8), noisy=st.booleans(), c=st.floats(0.0, 1.0))
def test_a_jump_never_ends_below_the_papers_update(
    seed: int, K: int, noisy: bool, c: float
) -> None:
    stats, prior = drawn(np.random.default_rng(seed), K, 5, noisy)
    steady, jumping = (Selection.of(stats.S, prior, jumps=jumps) for jumps in (False, True))
    at = included(steady, prior, c)
    after, jumped = steady.learn(stats.S, at), jumping.learn(stats.S, at)
    assert steady.background.tolist() == jumping.background.tolist()
    assert after.inclusion is not None
    assert jumped.inclusion is not None
    changed = after.inclusion != jumped.inclusion
    assert set(jumped.inclusion[changed]) <= {0.0, 1.0}
    gain = elbo(stats, jumped) - elbo(stats, after)
    assert gain >= LEAP * changed.sum() - 1e-6


def test_noise_that_is_in_gets_out_only_by_a_jump() -> None:
    """Over draws: with c = 1 to begin with, q(phi) speaks for c = 1."""
    kept = {False: [], True: []}  # type: dict[bool, list[float]]
    for seed in range(10):
        stats, prior = drawn(np.random.default_rng(seed), 10, 40, noisy=True)
        for jumps, shares in kept.items():
            selection = Selection.of(stats.S, prior, jumps=jumps)
            found = settled(selection, stats.S, selection.start(prior)).inclusion
            assert found is not None
            shares.append(float((found > 0.5).mean()))
    assert np.mean(kept[True]) < 0.02
    assert np.mean(kept[False]) > np.mean(kept[True]) + 0.1


def test_what_differs_comes_back_only_by_a_jump() -> None:
    """Over draws: with c = 0, q(phi) is the same for all clusters and speaks for c = 0."""
    back = {False: [], True: []}  # type: dict[bool, list[float]]
    for seed in range(10):
        stats, prior = drawn(np.random.default_rng(seed), 10, 20, noisy=False, most=0.9)
        for jumps, shares in back.items():
            selection = Selection.of(stats.S, prior, jumps=jumps)
            found = selection.learn(stats.S, included(selection, prior, 0.0)).inclusion
            assert found is not None
            shares.append(float((found > 0.5).mean()))
    assert np.mean(back[False]) < 0.02
    assert np.mean(back[True]) > 0.9


@pytest.mark.parametrize(("learned", "jumps"), [("selection", True), ("paper's selection", False)])
def test_the_papers_recipe_keeps_to_the_papers_updates(learned: str, jumps: bool) -> None:
    stats, prior = drawn(np.random.default_rng(0), 3, 4, noisy=False)
    selection = learning_of(learned, stats.S, prior)  # type: ignore[arg-type]
    assert isinstance(selection, Selection)
    assert selection.jumps is jumps


def test_less_noise_stays_than_with_the_papers_updates() -> None:
    """Over tables, from the same labels on: what differs is the selection alone."""
    stay: dict[str, list[float]] = {"default": [], "paper": []}
    for seed in range(4):
        table = simulate(1000, 60, 8, noisy=0.5, beta=(2, 5), random_state=seed)
        for recipe, shares in stay.items():
            model = MerDel(20, recipe=recipe, variable_selection=True, random_state=0,  # type: ignore[arg-type]
                           init=table.labels).fit(table.X)  # fmt: skip
            shares.append(float(model.selected_[~table.relevant].mean()))
    assert np.mean(stay["default"]) <= 0.05
    assert np.mean(stay["default"]) <= np.mean(stay["paper"])
