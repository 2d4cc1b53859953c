"""Intervals of shares and levels: their formula, their faces, and whether they cover."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import beta

from fedmerdel import DataError, FedMerDel, Intervals, MerDel, policy_named, simulate
from fedmerdel.estimators import own_rows
from fedmerdel.inference.information import Mixture, Worth
from fedmerdel.inference.intervals import CountErrors, intervals
from fedmerdel.model import intervals as of_models
from fedmerdel.model.intervals import count_errors, model_intervals
from fedmerdel.sums.prior import uniform_prior
from fedmerdel.sums.sums import Sums
from tests.reported import made_federation

OFFSETS = np.array([0, 2, 5, 6])
SUMS = Sums(
    np.array([60.0, 40.0]),
    np.array([[50, 10, 30, 20, 0, 60], [8, 22, 10, 10, 10, 40]], dtype=float),
    np.zeros(2),
)
ESTIMATE = Mixture(
    np.array([0.6, 0.4]),
    np.array([[0.8, 0.2, 0.5, 0.3, 0.2, 1.0], [0.3, 0.7, 0.4, 0.3, 0.3, 1.0]]),
    OFFSETS,
)
KNOWN = Worth(
    np.array([80.0, 70.0]),
    np.array([[40, 40, 50, 45, 30, np.inf], [25, 25, 20, 21, 22, np.inf]]),
)


def ends(found: Intervals) -> np.ndarray:
    """Shares first, then levels, low and high: (K, 2, M + 1)."""
    low = np.column_stack([found.share_low, found.level_low])
    return np.stack([low, np.column_stack([found.share_high, found.level_high])], axis=1)


def test_intervals_are_those_of_a_beta_and_hold_the_estimate() -> None:
    found = intervals(SUMS, ESTIMATE, KNOWN)
    for k in range(2):
        n, p = KNOWN.shares[k], ESTIMATE.weights[k]
        expected = beta.interval(0.95, n * p + 0.5, n * (1 - p) + 0.5)
        assert (found.share_low[k], found.share_high[k]) == pytest.approx(expected)
        for j, (start, end) in enumerate([(0, 2), (2, 5)]):
            for m in range(start, end):
                share, before = SUMS.S[k, m] / SUMS.S[k, start:end].sum(), 1 / (2 + j)
                n, p = KNOWN.levels[k, m], ESTIMATE.levels[k, m]
                low, high = beta.interval(0.95, n * share + before, n * (1 - share) + 1 - before)
                got = found.level_low[k, m], found.level_high[k, m]
                assert got == pytest.approx((min(low, p), max(high, p)))
    assert found.level_high[0, 4] == 0.2  # nobody has it, and the estimate is drawn to the others
    assert found.level_low[:, 5].tolist() == found.level_high[:, 5].tolist() == [1.0, 1.0]


def test_what_nothing_is_known_of_may_be_anything() -> None:
    none = Worth(np.zeros(2), np.zeros((2, 6)))
    found = ends(intervals(SUMS, ESTIMATE, none))
    low, high = beta.interval(0.95, 0.5, 0.5)
    assert np.all(found[:, 0, :3] <= low)
    assert np.all(found[:, 1, :3] >= high)


def test_errors_of_counts_widen_them() -> None:
    """In the share of 60 rows of 101, an error of 3 rows; of a level, one of 4 rows of 61."""
    plain = intervals(SUMS, ESTIMATE, KNOWN)
    errors = CountErrors(np.full(2, 9.0), np.full((2, 6), 16.0))
    wide = intervals(SUMS, ESTIMATE, KNOWN, errors)
    by = np.hypot(plain.share_high[0] - 0.6, 1.959964 * 3 / 101)
    assert wide.share_high[0] == pytest.approx(0.6 + by)
    by = np.hypot(0.8 - plain.level_low[0, 0], 1.959964 * 4 / 61)
    assert wide.level_low[0, 0] == pytest.approx(0.8 - by)
    assert np.all((ends(wide) >= 0.0) & (ends(wide) <= 1.0))
    assert wide.level_low[0, 5] == wide.level_high[0, 5] == 1.0
    none = CountErrors(np.zeros(2), np.zeros((2, 6)))
    np.testing.assert_allclose(ends(intervals(SUMS, ESTIMATE, KNOWN, none)), ends(plain))


def test_errors_are_those_of_rounding_and_hiding() -> None:
    """Of eight sites' counts, drawn, against what is told of them."""
    assert count_errors(SUMS, policy_named("none"), 8) is None
    policy, rng = policy_named("opensafely"), np.random.default_rng(0)
    counts = rng.uniform(395.0, 405.0, (20_000, 8))
    rounded = np.var((counts - 5 * np.round(counts / 5)).sum(axis=1))
    hidden = np.var(8 * rng.uniform(0.0, 10.0, 20_000))  # at all sites alike
    for mean, spread in ((400.0, rounded), (5.0, hidden)):
        errors = count_errors(SUMS._replace(T=np.full(2, 8 * mean)), policy, 8)
        assert errors is not None
        assert errors.T == pytest.approx(spread, rel=0.05)


@pytest.fixture(scope="module")
def sure() -> tuple[np.ndarray, MerDel]:
    X = simulate(900, 150, 3, beta=(1.0, 1.0), random_state=0).X
    return X, MerDel(random_state=0).fit(X)


def test_clusters_far_apart_are_counted_like_any_table(sure: tuple[np.ndarray, MerDel]) -> None:
    """Then only how many rows there are is unsure: a beta of counts and half a row more of each."""
    X, model = sure
    found = model.intervals(X)
    assert model.predict_proba(X).max(axis=1).min() > 0.999
    for k in range(3):
        own = X[model.labels_ == k]
        share = beta.interval(0.95, len(own), len(X) - len(own))
        assert (found.share_low[k], found.share_high[k]) == pytest.approx(share, abs=2e-4)
        ones = own.sum(axis=0)
        low, high = beta.interval(0.95, ones + 0.5, len(own) - ones + 0.5)
        np.testing.assert_allclose(found.level_low[k, 1::2], low, atol=1e-3)
        np.testing.assert_allclose(found.level_high[k, 1::2], high, atol=1e-3)


def test_blocks_are_the_same_for_sure_rows(
    sure: tuple[np.ndarray, MerDel], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there are too many parameters, and where too few rows for so many."""
    X, model = sure
    whole = ends(model.intervals(X))

    def refuse(*_: object) -> Worth:
        raise np.linalg.LinAlgError

    with monkeypatch.context() as patched:
        patched.setattr(own_rows, "worth", refuse)
        np.testing.assert_allclose(ends(model.intervals(X)), whole, atol=1e-3)
    with monkeypatch.context() as patched:
        patched.setattr(own_rows, "MOST_PARAMETERS", 10)
        np.testing.assert_allclose(ends(model.intervals(X)), whole, atol=1e-3)


def test_clusters_that_overlap_are_less_sure_and_the_model_knows_it_too() -> None:
    X = simulate(3_000, 30, 3, beta=(1.0, 4.0), random_state=1).X
    X = np.where(np.random.default_rng(1).random(X.shape) < 0.1, np.nan, X)
    model = FedMerDel(n_batches=1, random_state=0).fit(X).model_
    one = MerDel(random_state=0).fit(X)
    made = model_intervals(one._stats, one._prior, one._prior, policy_named("none"), 1)
    own = one.intervals(X)
    alpha = one._prior.alpha + one._stats.T
    low, high = beta.interval(0.95, alpha, alpha.sum() - alpha)
    for found in (own, made):
        assert np.all(found.share_high - found.share_low > 1.1 * (high - low))
    width = [np.diff(ends(found), axis=1) for found in (own, made)]
    assert np.mean(width[0]) == pytest.approx(np.mean(width[1]), rel=0.05)
    np.testing.assert_array_equal(ends(model.intervals()), ends(model.intervals()))


def test_a_row_of_weight_three_is_three_rows(sure: tuple[np.ndarray, MerDel]) -> None:
    X, model = sure
    np.testing.assert_allclose(
        ends(model.intervals(np.repeat(X, 3, axis=0))),
        ends(model.intervals(X, sample_weight=np.full(len(X), 3.0))),
        atol=1e-12,
    )
    with pytest.raises(DataError):
        model.intervals(X, sample_weight=np.ones(5))


def test_descriptions_have_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under a policy they are wider; in blocks they are nearly the same."""
    model = made_federation(3, 4, 2, seed=1).model
    found = model.intervals()
    names = [(v.name, level) for v in model.study.codebook.variables for level in v.levels]
    for cluster in model.describe():
        k = cluster.number
        assert (cluster.low, cluster.high) == (found.share_low[k], found.share_high[k])
        for each in cluster.levels:
            m = names.index((each.variable, each.level))
            assert (each.low, each.high) == (found.level_low[k, m], found.level_high[k, m])
            assert each.low <= each.prevalence <= each.high
    given = model.sums, model.prior, model.row_prior
    free, bound = (model_intervals(*given, policy_named(name), 3) for name in ("none", "nhs"))
    assert np.all(bound.share_high > free.share_high)
    assert np.all(bound.level_low <= free.level_low)


@pytest.mark.parametrize("rows", [0.0, 1e-6, 1.0, 1e15])
def test_any_counts_have_intervals(rows: float) -> None:
    """Two clusters that are the same, and one that is empty."""
    S = np.array([[1.0, 3.0, 2.0, 2.0], [1.0, 3.0, 2.0, 2.0], [0.0, 0.0, 0.0, 0.0]])
    stats = Sums(rows * np.array([4.0, 4.0, 0.0]), rows * S, np.zeros(3))
    prior = uniform_prior(np.array([2, 2]), 0.01, 5)
    for policy in ("none", "opensafely"):
        found = ends(model_intervals(stats, prior, prior, policy_named(policy), 2))
        assert np.all((found >= 0.0) & (found <= 1.0))
        assert np.all(found[:, 0] <= found[:, 1])


def test_one_cluster_has_all_rows() -> None:
    X = np.random.default_rng(0).integers(0, 2, (300, 4))
    model = MerDel(random_state=0).fit(X)
    assert model.n_clusters_ == 1
    found = model.intervals(X)
    assert found.share_low.tolist() == found.share_high.tolist() == [1.0]
    low, high = beta.interval(0.95, X.sum(axis=0) + 0.5, 300.5 - X.sum(axis=0))
    np.testing.assert_allclose(found.level_low[0, 1::2], low)
    np.testing.assert_allclose(found.level_high[0, 1::2], high)
    wide = model_intervals(
        Sums(np.array([300.0]), np.array([[100.0, 200.0]]), np.zeros(1)),
        *(uniform_prior(np.array([2]), 0.01, 4),) * 2,
        policy_named("none"),
        1,
    )
    assert wide.level_low[0, 1] == pytest.approx(beta.ppf(0.025, 200.5, 100.5), abs=2e-3)
    assert of_models.N_DRAWN >= 10 * of_models.MOST_PARAMETERS
