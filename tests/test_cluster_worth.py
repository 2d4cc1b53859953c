"""What a cluster is worth: against the ELBO of the rows themselves with two clusters merged."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp

from fedmerdel import (
    ClusterWorth,
    FedMerDel,
    GlobalModel,
    MerDel,
    fit_site,
    merge_sites,
    policy_named,
    reply_site,
    simulate,
)
from fedmerdel.inference import cluster_worth as module
from fedmerdel.inference.cluster_worth import cluster_worth
from fedmerdel.sums.divergence import kl_levels, kl_weights
from fedmerdel.sums.elbo import all_pairs, merge_gains
from fedmerdel.sums.expectations import expectations
from fedmerdel.sums.prior import Prior, uniform_prior
from fedmerdel.sums.sums import Sums
from tests.federations import binary, made_study
from tests.seeds import Record, over

TABLE = simulate(600, 30, 4, random_state=1)
MODEL = MerDel(random_state=1).fit(TABLE.X)


def bound(X: np.ndarray, stats: Sums, prior: Prior) -> float:
    """The ELBO of rows with r at its optimum for q(pi), q(phi) of these sums, from its terms."""
    theta = expectations(stats, prior)
    log_rho = np.tile(theta.log_weights, (len(X), 1))
    for j, start in enumerate(prior.offsets[:-1]):
        log_rho += theta.log_levels[:, start + X[:, j]].T
    kl = kl_levels(stats, prior).sum() + kl_weights(stats.T, prior)
    return float(logsumexp(log_rho, axis=1).sum() - kl)


def by_rows(X: np.ndarray, stats: Sums, prior: Prior) -> np.ndarray:
    """What each cluster is worth by all merges, each judged by the rows that were counted."""
    X, K = X.astype(int), stats.n_clusters
    lost = np.full((K, K), np.inf)
    for a, b in all_pairs(K).tolist():
        found = bound(X, stats.merged(a, b, overlap=0.0), prior)
        for k, other in ((a, b), (b, a)):
            if stats.T[k] < 0.75 * stats.T[[a, b]].sum():
                lost[k, other] = bound(X, stats, prior) - found
    for k in range(K):
        lost[k, k] = bound(X, stats, prior) - bound(X, stats.without(k), prior)
    return lost


def check(X: np.ndarray, found: ClusterWorth | None, stats: Sums, prior: Prior) -> np.ndarray:
    """Return how far it is from what the rows say, in standard errors of both."""
    assert found is not None
    lost = by_rows(X, stats, prior)
    assert np.all(found.partner != np.arange(len(found.partner)))
    # The rows that were counted vary as those made up do.
    return (found.nats - lost.min(axis=1)) / np.hypot(found.error, np.sqrt(np.abs(found.nats)))


def test_it_is_what_the_rows_say() -> None:
    far = check(TABLE.X, MODEL.worth(), MODEL._stats, MODEL._prior)
    assert np.abs(far).max() < 4
    assert MODEL.n_clusters_ == 4


@over(range(2), range(10, 40))
def test_it_is_what_the_rows_say_of_the_weakest(seeds: range, record_property: Record) -> None:
    ratio, far = [], []
    for seed in seeds:
        table = simulate(1000, 25, 5, beta=(1.5, 3.0), near_identical=True, random_state=seed)
        model = MerDel(random_state=1).fit(table.X)
        found = model.worth()
        assert found is not None
        lost = by_rows(table.X, model._stats, model._prior).min(axis=1)
        ratio += (found.nats[lost > 20] / lost[lost > 20]).tolist()
        far += np.abs(found.nats[lost <= 20] - lost[lost <= 20]).tolist()
    record_property(
        f"worth over that by rows, 90 % of {len(ratio)} clusters",
        f"{np.quantile(ratio, 0.05):.2f} to {np.quantile(ratio, 0.95):.2f}, 0.75 to 1.35",
    )
    assert np.quantile(ratio, 0.05) > 0.75
    assert np.quantile(ratio, 0.95) < 1.35
    assert max(far, default=0.0) < 25


def test_of_clusters_that_share_no_row_the_gain_of_a_merge_is_exact() -> None:
    sums = binary([[0.02] * 20, [0.98] * 20, [0.02] * 10 + [0.98] * 10], [300.0, 200.0, 250.0])
    prior = uniform_prior(np.full(20, 2), 0.01, 10)
    found = cluster_worth(sums, prior)
    assert found is not None
    pairs = all_pairs(3)
    gains = merge_gains(sums, prior, pairs, np.zeros(3))
    least = [-gains[(pairs == k).any(axis=1)].max() for k in range(3)]
    # Not quite: q(pi) and q(phi) are those of the sums before rows are given to clusters again.
    np.testing.assert_allclose(found.nats, least, rtol=0.02)
    assert found.partner.tolist() == [2, 2, 0] or found.partner.tolist() == [2, 2, 1]


def test_two_halves_of_one_cluster_are_worth_less_than_nothing() -> None:
    sums = binary([[0.3] * 10, [0.3] * 10, [0.9] * 10], [300.0, 300.0, 300.0])
    found = cluster_worth(sums, uniform_prior(np.full(10, 2), 0.01, 10))
    assert found is not None
    assert (found.nats[:2] < 0).all()
    assert found.nats[2] > 100
    assert found.partner[:2].tolist() == [1, 0]


def test_a_large_cluster_is_not_worth_what_a_small_one_next_to_it_is() -> None:
    """Their merge does away with the small one; the large one is deleted, or merged elsewhere."""
    large, small, far = [0.1] * 20, [0.1] * 16 + [0.3] * 4, [0.9] * 20
    prior = uniform_prior(np.full(20, 2), 0.01, 10)
    found = cluster_worth(binary([large, small, far], [900.0, 30.0, 400.0]), prior)
    assert found is not None
    assert found.nats[1] < 20
    assert found.partner[1] == 0
    assert found.nats[0] > 500
    apart = cluster_worth(binary([large, far], [900.0, 30.0]), prior)
    assert apart is not None
    assert apart.partner.tolist() == [1, 0]
    assert apart.nats[0] > apart.nats[1] > 100


def test_a_deletion_is_what_the_rows_say_of_it() -> None:
    """Of two, the larger one can't be merged away: its rows go to the other, as that one is."""
    table = simulate(700, 20, 2, cluster_sizes=[600, 100], beta=(0.5, 0.5), random_state=1)
    model = MerDel(random_state=1).fit(table.X)
    assert model.n_clusters_ == 2
    found = model.worth()
    assert found is not None
    lost = by_rows(table.X, model._stats, model._prior)
    assert np.isinf(lost[0, 1])
    assert found.nats[0] == pytest.approx(lost[0, 0], rel=0.1)
    assert found.nats[1] == pytest.approx(lost[1, 0], rel=0.2)


def test_clusters_without_rows_do_not_make_others_worthless() -> None:
    sums = binary([[0.1] * 10, [0.9] * 10, [0.5] * 10], [300.0, 300.0, 0.001])
    found = cluster_worth(sums, uniform_prior(np.full(10, 2), 0.01, 10))
    assert found is not None
    assert found.nats[:2].min() > 100
    assert abs(found.nats[2]) < 5


def test_more_partners_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    table = simulate(1500, 20, 8, beta=(2.0, 2.0), random_state=4)
    model = MerDel(random_state=1).fit(table.X)
    found = model.worth()
    monkeypatch.setattr(module, "N_PARTNERS", 100)
    every = model.worth()
    assert found is not None
    assert every is not None
    assert model.n_clusters_ > 5
    np.testing.assert_array_equal(found.nats, every.nats)


def test_rows_far_from_a_merge_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    table = simulate(1500, 20, 8, beta=(2.0, 2.0), random_state=4)
    model = MerDel(random_state=1).fit(table.X)
    found = model.worth()
    monkeypatch.setattr(module, "TOUCHED", -1.0)
    every = model.worth()
    assert found is not None
    assert every is not None
    np.testing.assert_allclose(found.nats, every.nats, rtol=0.01, atol=0.5)
    assert np.array_equal(found.partner, every.partner)


@pytest.mark.parametrize(
    "options", [{"prior": "fixed"}, {"variable_selection": True}, {"missing": "ignore"}]
)
def test_every_prior_and_missing_entries(options: dict[str, Any]) -> None:
    X = TABLE.X.astype(float)
    if "missing" in options:
        X[np.random.default_rng(0).random(X.shape) < 0.2] = np.nan
        X[:, 3] = np.where(np.arange(600) < 300, X[:, 3], np.nan)
    model = MerDel(8, random_state=1, **options).fit(X)
    found = model.worth()
    assert found is not None
    assert np.isfinite([found.nats, found.error]).all()
    assert found.nats.max() > 10


def test_a_guide_counts_as_much_as_it_has_a_say() -> None:
    frame = pd.DataFrame(TABLE.X, columns=[f"v{j}" for j in range(30)])
    model = MerDel(random_state=1, guide={"v3": 0.3}).fit(frame)
    assert np.abs(check(TABLE.X, model.worth(), model._stats, model._prior)).max() < 4


def test_one_cluster_has_no_other() -> None:
    noise = np.random.default_rng(0).integers(0, 2, (200, 6))
    model = MerDel(random_state=0).fit(noise)
    assert model.n_clusters_ == 1
    assert model.worth() is None


# Told


@pytest.mark.parametrize("policy", ["none", "opensafely"])
def test_a_federation_and_its_model_tell_it(policy: str, tmp_path: Path) -> None:
    """From the model's files alone, also after rounds under a policy."""
    study = made_study(np.full(30, 2), policy=policy_named(policy), prior="learned")
    tables = {site: TABLE.X[b::3] for b, site in enumerate(("hull", "leeds", "york"))}
    once = merge_sites(study, [fit_site(study, X, site) for site, X in tables.items()])
    again, _ = once.step([reply_site(study, once.broadcast, X, site) for site, X in tables.items()])
    found = again.model.worth()
    assert found is not None
    told = again.describe()
    assert [cluster.worth for cluster in told] == found.nats.tolist()
    assert [cluster.worth_error for cluster in told] == found.error.tolist()
    assert [cluster.partner for cluster in told] == found.partner.tolist()
    again.model.save(tmp_path / "model")
    loaded = GlobalModel.load(tmp_path / "model").worth()
    assert loaded is not None
    assert loaded.nats.tobytes() == found.nats.tobytes()


@pytest.mark.parametrize("policy", ["none", "opensafely"])
def test_the_page_shows_it_the_least_first(policy: str, tmp_path: Path) -> None:
    study = made_study(np.full(30, 2), policy=policy_named(policy), prior="learned")
    model = merge_sites(study, [fit_site(study, TABLE.X, "hull")]).model
    found = model.worth()
    assert found is not None
    model.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    shown = page[page.index("What each cluster is worth") :]
    lines = re.findall(r"<tr><th.*?</tr>", shown[: shown.index("</tbody>")], re.DOTALL)
    first = [line.split('<td class="num">')[1].split("<")[0] for line in lines[1:]]
    assert first == [f"{nats:,.0f}" for nats in np.sort(found.nats)]
    assert ("ELBO of the released counts would fall" in page) == (policy == "opensafely")


def test_the_page_of_one_table_has_it(tmp_path: Path) -> None:
    MODEL.report(tmp_path / "page.html")
    assert "What each cluster is worth" in (tmp_path / "page.html").read_text()


def test_rounds_bring_it_nearer_to_that_of_pooled_rows() -> None:
    """One shot leaves clusters blurred, and so worth less."""
    fits = [
        FedMerDel(random_state=1, rounds=rounds).fit(TABLE.X, groups=np.arange(600) % 2)
        for rounds in (0, 6)
    ]
    found = [fit.model_.worth() for fit in fits]
    pooled = MODEL.worth()
    assert all(each is not None for each in found)
    assert pooled is not None
    one, six = (each.nats.min() for each in found if each is not None)
    assert abs(six - pooled.nats.min()) <= abs(one - pooled.nats.min()) + 5
