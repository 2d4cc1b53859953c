"""Two sites side by side: the merge gain in parts, one for each variable."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.collections import QuadMesh
from scipy.special import gammaln
from scipy.stats import chi2_contingency

from fedmerdel import (
    Federation,
    OptionError,
    Study,
    draft_study,
    fit_site,
    merge_sites,
    plot,
    policy_named,
    reply_site,
    simulate,
)
from fedmerdel.inference.comparison import log_bayes_factors, most_alike, same_levels
from fedmerdel.sums.elbo import merge_gains
from fedmerdel.sums.prior import Prior, uniform_prior
from fedmerdel.sums.sums import Sums
from tests.drawn import seeds


def drawn_counts(seed: int, B: int = 2) -> tuple[np.ndarray, np.ndarray, Prior]:
    """T and S of some clusters with missing entries, and a prior."""
    rng = np.random.default_rng(seed)
    n_levels = rng.integers(1, 5, rng.integers(1, 6))
    S = rng.gamma(0.5, 30.0, (B, n_levels.sum())) * (rng.random((B, n_levels.sum())) < 0.8)
    prior = uniform_prior(n_levels, 0.3, 9)._replace(eps=rng.gamma(1.0, 1.0, n_levels.sum()) + 0.01)
    inside = np.add.reduceat(S, prior.offsets[:-1], axis=1)
    return inside.max(axis=1) * 1.1, S, prior


@settings(deadline=None)
@given(seed=seeds)
def test_parts_are_the_merge_gain_without_weights_and_overlap(seed: int) -> None:
    T, S, prior = drawn_counts(seed)
    alone = gammaln(prior.alpha + T) - gammaln(prior.alpha)
    weights = gammaln(prior.alpha + T.sum()) - gammaln(prior.alpha) - alone.sum()
    gain = merge_gains(Sums(T, S, np.zeros(2)), prior, np.array([[0, 1]]), np.array([7.0]))[0]
    parts = log_bayes_factors(S, prior)
    assert parts.shape == (len(prior.n_levels),)
    np.testing.assert_allclose(parts.sum(), gain - weights + 7.0, rtol=1e-9, atol=1e-8)


@settings(deadline=None)
@given(rows=st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2)), max_size=9))
def test_a_part_is_the_odds_of_the_rows_one_after_the_other(rows: list[tuple[int, int]]) -> None:
    """The probability of rows under unknown levels, as a product of predictions."""
    eps = np.array([0.4, 1.0, 2.5])

    def log_probability(levels: list[int]) -> float:
        urn, total = eps.copy(), 0.0
        for level in levels:
            total += np.log(urn[level] / urn.sum())
            urn[level] += 1
        return total

    S = np.zeros((2, 3))
    for group, level in rows:
        S[group, level] += 1
    apart = sum(log_probability([v for g, v in rows if g == group]) for group in (0, 1))
    together = log_probability([v for _, v in rows])
    prior = uniform_prior(np.array([3]), 0.1, 4)._replace(eps=eps)
    np.testing.assert_allclose(log_bayes_factors(S, prior)[0], together - apart, atol=1e-10)


@settings(max_examples=50, deadline=None)
@given(seed=seeds, B=st.integers(1, 4))
def test_the_likelihood_ratio_is_that_of_a_contingency_table(seed: int, B: int) -> None:
    _, S, prior = drawn_counts(seed, B)
    found = same_levels(S, prior)
    for j, (start, end) in enumerate(pairwise(prior.offsets)):
        table = S[:, start:end]
        table = table[table.sum(axis=1) > 0][:, table.sum(axis=0) > 0]
        if min(table.shape, default=0) < 2:
            assert (found.df[j], found.p_values[j]) == (0, 1.0)
            continue
        wanted = chi2_contingency(table, correction=False, lambda_="log-likelihood")
        np.testing.assert_allclose(found.statistic[j], wanted.statistic, rtol=1e-7, atol=1e-7)
        assert found.df[j] == wanted.dof
        np.testing.assert_allclose(found.p_values[j], wanted.pvalue, rtol=1e-6, atol=1e-12)


def test_counts_are_as_alike_as_their_bounds_allow() -> None:
    counts = np.array([[30.0, 70.0, 5.0], [90.0, 10.0, 5.0]])
    offsets = np.array([0, 2, 3])
    free = most_alike(counts, np.zeros((2, 3)), np.full((2, 3), 1e3), offsets)
    np.testing.assert_allclose(free, [[60.0, 40.0, 5.0], [60.0, 40.0, 5.0]])
    np.testing.assert_array_equal(most_alike(counts, counts, counts, offsets), counts)
    near = most_alike(counts, counts - 15, counts + 15, offsets)
    np.testing.assert_allclose(near, [[45.0, 55.0, 5.0], [75.0, 25.0, 5.0]])


def three_sites(policy: str) -> tuple[Federation, Study]:
    """Clear clusters at three sites; at the last, one variable of one cluster is turned round."""
    table = simulate(3600, 12, 3, beta=(0.2, 0.2), random_state=5)
    X, last = table.X.copy(), np.arange(3600) >= 2400
    turned = last & (table.labels == 1)
    X[turned, 4] = 1 - X[turned, 4]
    study = replace(draft_study(X, name="three"), policy=policy_named(policy))
    rows = {f"s{b}": X[1200 * b : 1200 * (b + 1)] for b in range(3)}
    return merge_sites(study, [fit_site(study, each, s) for s, each in rows.items()]), study


@pytest.mark.parametrize("policy", ["none", "opensafely"])
def test_a_variable_that_differs_at_one_site_stands_out(policy: str) -> None:
    federation, study = three_sites(policy)
    assert federation.n_clusters == 3
    name = study.codebook.names[4]
    found = federation.compare("s0", "s2")
    assert found.clusters == (0, 1, 2)
    ((cluster, only),) = [(k, names) for k, names in found.different.items() if names]
    assert only == (name,)
    others = np.delete(found.log_bayes_factors, 4, axis=0)
    assert found.log_bayes_factors[4].min() < -50 < others.min()
    np.testing.assert_array_equal(found.rows, federation.site_rows[[0, 2]])
    assert not any(federation.compare("s0", "s1").different.values())
    overall = federation.differences(cluster)
    assert overall.log_bayes_factors.argmin() == overall.p_values.argmin() == 4
    assert overall.p_values[4] < 1e-12 < np.delete(overall.p_values, 4).min()
    ax = plot.site_comparison(federation, "s0", "s2", most=5)
    (mesh,) = [part for part in ax.collections if isinstance(part, QuadMesh)]
    shown = np.asarray(mesh.get_array())
    assert next(text.get_text() for text in ax.get_yticklabels()) == name
    np.testing.assert_array_equal(shown[0], found.log_bayes_factors[4])
    assert shown.shape == (5, 3)
    assert [text.get_text() for text in ax.get_xticklabels()] == [f"cluster {k}" for k in range(3)]


def test_after_a_round_sites_that_are_alike_look_alike() -> None:
    """Clusters that overlap have other borders at each site, until all count in the same ones."""
    table = simulate(2400, 12, 4, beta=(1, 2), random_state=2)
    study = replace(
        draft_study(table.X, name="x", rounds=1, trusts_centre=True), policy=policy_named("none")
    )
    rows = {f"s{b}": table.X[b::3] for b in range(3)}
    before = merge_sites(study, [fit_site(study, each, s) for s, each in rows.items()])
    replies = [reply_site(study, before.broadcast, each, s) for s, each in rows.items()]
    after, _ = before.step(replies)
    first, then = before.compare("s0", "s1"), after.compare("s0", "s1")
    assert not first.same_clusters
    assert then.same_clusters
    assert sum(map(len, first.different.values())) > 0
    assert not any(then.different.values())
    every = [after.differences(k).p_values for k in range(after.n_clusters)]
    assert np.mean(np.concatenate(every) < 0.05) < 0.05
    # A site that did not reply is carried with clusters of its own.
    some, _ = before.step(replies[1:])
    assert not some.compare("s0", "s1").same_clusters
    assert some.compare("s1", "s2").same_clusters


def test_parts_of_two_sites_are_those_of_their_merge() -> None:
    federation, _ = three_sites("none")
    two = federation.remove("s2")
    found, prior = two.compare("s0", "s1"), two.prior
    assert len(two.joins()) == two.n_clusters
    for join in two.joins():
        T = found.rows[:, join.cluster]
        weights = gammaln(prior.alpha + T.sum()) + gammaln(prior.alpha)
        weights -= gammaln(prior.alpha + T).sum()
        np.testing.assert_allclose(found.total[join.cluster] + weights, join.gain, rtol=1e-9)


def test_what_can_not_be_compared_is_refused() -> None:
    federation, _ = three_sites("none")
    for pair, word in ((("s0", "elsewhere"), "elsewhere"), (("s1", "s1"), "another site")):
        with pytest.raises(OptionError, match=word):
            federation.compare(*pair)
        with pytest.raises(OptionError, match=word):
            plot.site_comparison(federation, *pair)
    for number in (-1, 3, 0.5):
        with pytest.raises(OptionError, match="from 0 to 2"):
            federation.differences(number)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="what sites sent"):
        plot.site_comparison(federation.model, "s0", "s1")
    with pytest.raises(OptionError, match="most"):
        plot.site_comparison(federation, "s0", "s1", most=0)
