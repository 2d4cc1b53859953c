"""Rates of a guide, corrected: against brute force, at the ends, and whether intervals cover."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy.special import softmax

from fedmerdel import MerDel, assign, draft_study, fit_site, merge_sites, policy_named, reply_site
from fedmerdel.estimators.one_table import one_table
from fedmerdel.inference.confusion import Confusion, MadeUp
from fedmerdel.inference.guided import confusions, guided_rates
from fedmerdel.model.guides import guide_rates
from fedmerdel.model.state import ModelState
from fedmerdel.sums.expectations import Expectations
from tests.guides import GUIDE, alike_but_for_the_outcome
from tests.seeds import Record, over

TRUE = np.array([0.1, 0.9, 0.5])


def every_row(phi: np.ndarray, theta: Expectations, levels: int) -> list[Confusion]:
    """D and E[r r'] at each level of the last variable: all rows of binary others, summed up."""
    K, P = phi.shape
    found = []
    for level in range(levels):
        mean, products = np.zeros((K, K)), np.zeros((K, K, K))
        for row in product((0, 1), repeat=P):
            at = [2 * j + x for j, x in enumerate(row)] + [2 * P + level]
            r = softmax(theta.log_weights + theta.log_levels[:, at].sum(axis=1))
            chance = np.prod(np.where(row, phi, 1 - phi), axis=1)
            mean += np.outer(r, chance)
            products += chance[:, None, None] * np.outer(r, r)
        found.append(Confusion(mean, products))
    return found


def small_mixture(seed: int) -> tuple[np.ndarray, np.ndarray, Expectations]:
    """Shares of five conditions in three clusters, of three levels of an outcome, and an E step."""
    rng = np.random.default_rng(seed)
    phi, of_levels = rng.uniform(0.1, 0.9, (3, 5)), rng.dirichlet(np.full(3, 4.0), 3)
    own = np.stack([1 - phi, phi], axis=2).reshape(3, -1)
    log_levels = np.column_stack([np.log(own), 0.4 * np.log(of_levels)])
    return phi, of_levels, Expectations(np.log(np.array([0.5, 0.3, 0.2])), log_levels)


@pytest.mark.parametrize("seed", range(5))
def test_confusions_are_those_of_all_rows(seed: int) -> None:
    phi, _, theta = small_mixture(seed)
    rng = np.random.default_rng(seed)
    X = (rng.random((3, 20_000, 5)) < phi[:, None, :]).astype(int)
    made = MadeUp(np.concatenate([X + 2 * np.arange(5), np.full((3, 20_000, 1), 11)], axis=2))
    found = confusions(made, theta, slice(10, 13))
    for one, other in zip(found, every_row(phi, theta, 3), strict=True):
        np.testing.assert_allclose(one.mean, other.mean, atol=0.01)
        np.testing.assert_allclose(one.mean.sum(axis=0), 1.0)
        np.testing.assert_allclose(one.products, other.products, atol=0.01)


@pytest.mark.parametrize("seed", range(5))
def test_expected_counts_give_the_true_rates(seed: int) -> None:
    """N_kl rows of each kind are counted as sum_k D^l N_kl; counted shares are pulled together."""
    phi, of_levels, theta = small_mixture(seed)
    confused = every_row(phi, theta, 3)
    N = np.array([500.0, 300.0, 200.0])[:, None] * of_levels
    counts = np.stack([each.mean @ N[:, at] for at, each in enumerate(confused)], axis=1)
    found = guided_rates(confused, counts, np.zeros((3, 3)))
    np.testing.assert_allclose(found.share, of_levels, atol=1e-6)
    np.testing.assert_allclose(found.rows, [500, 300, 200], rtol=1e-6)
    more = guided_rates(confused, counts, np.full((3, 3), 25.0))
    assert np.all(more.variance > found.variance)


def test_variances_are_those_of_repeated_tables() -> None:
    phi, of_levels, theta = small_mixture(3)
    confused = every_row(phi, theta, 3)
    N = 4000 * np.array([0.5, 0.3, 0.2])[:, None] * of_levels
    rng, shares = np.random.default_rng(1), []
    for _ in range(200):
        counts = np.zeros((3, 3))
        for k, level in product(range(3), range(3)):
            n = rng.poisson(N[k, level])
            X = (rng.random((n, 5)) < phi[k]).astype(int) + 2 * np.arange(5)
            log_r = theta.log_weights + theta.log_levels[:, 10 + level]
            log_r = log_r + theta.log_levels[:, X].sum(axis=2).T
            counts[:, level] += softmax(log_r, axis=1).sum(axis=0)
        shares.append(guided_rates(confused, counts, np.zeros((3, 3))).share)
    expected = np.stack([each.mean @ N[:, at] for at, each in enumerate(confused)], axis=1)
    told = guided_rates(confused, expected, np.zeros((3, 3))).variance
    np.testing.assert_allclose(np.std(shares, axis=0), np.sqrt(told), rtol=0.25)


def test_sure_rows_are_taken_as_counted() -> None:
    one = Confusion(np.eye(2), np.stack([np.diag([1.0, 0.0]), np.diag([0.0, 1.0])]))
    counts = np.array([[90.0, 10.0], [0.0, 0.0]])
    found = guided_rates([one, one], counts, np.zeros((2, 2)))
    np.testing.assert_allclose(found.share[0], [0.9, 0.1])
    np.testing.assert_allclose(found.variance[0], 0.9 * 0.1 / 100)
    assert np.isnan(found.share[1]).all()
    assert found.rows.tolist() == [100, 0]


def of_truth(model: ModelState, labels: np.ndarray, truth: np.ndarray) -> np.ndarray | None:
    """Return share, low and high in each true cluster (3, 3), if the clusters are these."""
    if model.n_clusters != 3:
        return None
    table = np.zeros((3, 3))
    np.add.at(table, (labels, truth), 1.0)
    owner = table.argmax(axis=1).tolist()
    if sorted(owner) != [0, 1, 2]:
        return None
    each = guide_rates(model)[GUIDE].clusters
    rates = [each[owner.index(k)] for k in range(3)]
    return np.array([(rate.share, rate.low, rate.high) for rate in rates])


def of_one_table(seed: int, weight: float) -> np.ndarray | None:
    frame, truth = alike_but_for_the_outcome(seed, gap=0.18)
    fitted = MerDel(random_state=seed, n_init=1, guide={GUIDE: weight}).fit(frame)
    return of_truth(one_table(fitted), fitted.labels_, truth)


def of_sites(seed: int, weight: float, policy: str) -> np.ndarray | None:
    """Four sites of 1,500 rows, after one round."""
    frame, truth = alike_but_for_the_outcome(seed, gap=0.22, n_rows=6000)
    study = draft_study(frame, name="sites", guide={GUIDE: weight}, rounds=1, trusts_centre=True)
    study = replace(study, policy=policy_named(policy), seed=seed)
    parts = {f"s{b}": frame[np.arange(6000) % 4 == b] for b in range(4)}
    first = merge_sites(study, [fit_site(study, part, site=s) for s, part in parts.items()])
    sent = first.broadcast
    replies = [reply_site(study, sent, part, site=s) for s, part in parts.items()]
    model = first.step(replies)[0].model
    return of_truth(model, assign(model, frame).labels, truth)


def judged(found: list[np.ndarray | None], what: str, record_property: Record) -> float:
    known = np.array([each for each in found if each is not None])
    share, low, high = np.moveaxis(known, 2, 0)
    covered = float(np.mean((low <= TRUE) & (high >= TRUE)))
    off = np.abs(share.mean(axis=0) - TRUE).max()
    record_property(f"{what}: mean rates off by at most", f"{off:.3f}, at most 0.03")
    record_property(f"{what}: 95 % intervals that hold the rate", f"{covered:.3f}, at least 0.8")
    record_property(f"{what}: tables with other clusters", f"{len(found) - len(known)}, left out")
    assert off <= (0.03 if len(found) >= 50 else 0.06)
    return covered


@over(range(100, 103), range(1000, 1100))
@pytest.mark.parametrize("weight", [0.25, 0.5, 1.0])
def test_rates_are_not_pulled_to_their_mean(
    weight: float, seeds: range, record_property: Record
) -> None:
    """Intervals take the clusters for known, and so are too short where they are rough."""
    found = [of_one_table(seed, weight) for seed in seeds]
    covered = judged(found, f"weight {weight}", record_property)
    assert covered >= (0.8 if len(seeds) >= 50 else 0.5)


@over(range(100, 101), range(1000, 1050))
@pytest.mark.parametrize("policy", ["none", "opensafely"])
def test_nor_across_sites(policy: str, seeds: range, record_property: Record) -> None:
    covered = judged([of_sites(seed, 0.5, policy) for seed in seeds], policy, record_property)
    assert covered >= (0.8 if len(seeds) >= 50 else 0.3)
