"""A site that took no part says how well the clusters fit there, and tells nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp
from scipy.stats import chisquare
from sklearn.metrics import adjusted_rand_score

from fedmerdel import (
    DataError,
    Federation,
    OptionError,
    Study,
    Validation,
    assign,
    draft_study,
    fit_site,
    merge_sites,
    policy_named,
    score_samples,
    simulate,
    validate_site,
)
from fedmerdel.fitting.passes import Workers
from fedmerdel.inference.transport import Measured, carried_share, mean_score, share_shift
from fedmerdel.release.mechanisms import mechanism_for
from fedmerdel.release.scores import (
    NAMES,
    Scores,
    exact_scores,
    limit_of,
    nats_step,
)
from fedmerdel.site.ledger import Ledger
from fedmerdel.site.local_fit import fit_in_batches
from fedmerdel.site.site_table import study_rows
from fedmerdel.site.validate_site import PARTS, _in_groups, held_out_gains
from fedmerdel.study.policy import POLICIES, Policy
from fedmerdel.study.priors import study_prior
from fedmerdel.sums.agreement import adjusted_rand, contingency
from fedmerdel.sums.expectations import expectations
from fedmerdel.sums.predictive import mean_levels, mean_weights
from tests.command_line import Run, agree, done, first_merge, hospital, refused, words
from tests.drawn import seeds
from tests.signing import CENTRE, LISTED, SITES, STRANGER

TABLE = simulate(3200, 12, 3, beta=(0.3, 0.3), random_state=3)


def study_of(policy: str = "none", **options: Any) -> Study:
    return replace(draft_study(TABLE.X, name="made"), policy=policy_named(policy), **options)


def federation_of(study: Study) -> Federation:
    rows = {f"s{b}": TABLE.X[800 * b : 800 * (b + 1)] for b in range(3)}
    return merge_sites(study, [fit_site(study, each, s) for s, each in rows.items()])


NEW = TABLE.X[2400:]


@pytest.fixture(scope="module")
def federation() -> Federation:
    return federation_of(study_of())


# Formulas


@settings(deadline=None)
@given(
    first=st.lists(st.integers(0, 4), min_size=1, max_size=30),
    seed=seeds,
)
def test_the_rand_index_of_a_table_is_that_of_the_labels(first: list[int], seed: int) -> None:
    one = np.array(first)
    other = np.random.default_rng(seed).integers(0, 4, len(one))
    table = contingency(one, other, np.ones(len(one)))
    np.testing.assert_allclose(adjusted_rand(table), adjusted_rand_score(one, other), atol=1e-12)


@settings(deadline=None)
@given(seed=seeds)
def test_the_share_has_the_error_of_the_ratio(seed: int) -> None:
    rng = np.random.default_rng(seed)
    scores = rng.multivariate_normal([-3, -5, -3.5], np.eye(3) + 2.0, 400)
    a, b = scores[:, 0] - scores[:, 1], scores[:, 2] - scores[:, 1]

    def mean(x: np.ndarray) -> Measured:
        return mean_score(x.sum(), x.std(), len(x), 0.0, 0.0)

    found = carried_share(mean(a), mean(b), mean(a - b))
    assert found is not None
    share = a.mean() / b.mean()
    assert found.value == pytest.approx(share)
    error = (a - share * b).std() / 20.0 / b.mean()
    assert found.standard_error == pytest.approx(error, rel=1e-6)
    assert carried_share(mean(a), Measured(0.01, 0.01), mean(a)) is None


def test_what_rounding_leaves_open_is_in_the_error() -> None:
    exact, told = mean_score(-50, 2.0, 10, 0, 0), mean_score(-50, 2.0, 10, 3, 0)
    assert exact == Measured(-5.0, 2.0 / np.sqrt(10))
    assert told.standard_error**2 == pytest.approx(exact.standard_error**2 + 9 / 12 / 100)
    rows = mean_score(-50, 2.0, 10, 0, 4)
    assert rows.standard_error**2 == pytest.approx(exact.standard_error**2 + 25 * 16 / 12 / 100)


@settings(deadline=None)
@given(seed=seeds)
def test_a_shift_is_pearsons_where_all_is_told(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.full(4, 5.0))
    counts = rng.multinomial(5000, shares).astype(float)
    found = share_shift(counts, shares, np.inf, 0, 0.0)
    if (5000 * shares).min() > 5:
        np.testing.assert_allclose(found[::2], tuple(chisquare(counts, 5000 * shares)))
        assert found.df == 3
    # As many rows in the model: both vary, so twice the variance.
    halved = share_shift(counts, shares, 5000.0, 0, 0.0)
    assert halved.statistic == pytest.approx(found.statistic / 2)


def test_clusters_too_rare_for_a_test_are_taken_together() -> None:
    shares = np.array([0.5, 0.48, 0.019, 0.001])
    found = share_shift(np.array([500.0, 480.0, 20.0, 0.0]), shares, np.inf, 10, 0.0)
    assert found.df == 2  # the last is in the first
    assert found.statistic == pytest.approx(1 / 501 + 1 / 19)
    assert share_shift(np.array([20.0, 0.0]), np.array([0.9, 0.1]), 1e3, 10, 5.0) == (0.0, 0, 1.0)


def test_the_test_of_shares_is_no_more_sure_than_it_should_be() -> None:
    """Rows that are shared between clusters vary less: of 400 tests few are below 5 %."""
    rng = np.random.default_rng(8)
    shares, levels = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.5, 0.8])
    p_values = []
    for _ in range(400):
        z = rng.choice(3, 600, p=shares)
        X = rng.random((600, 6)) < levels[z][:, None]
        yes = X.sum(axis=1)[:, None]
        rho = np.log(shares) + yes * np.log(levels) + (6 - yes) * np.log(1 - levels)
        r = np.exp(rho - logsumexp(rho, axis=1)[:, None])
        p_values.append(share_shift(r.sum(axis=0), shares, np.inf, 0, 0.0).p_value)
    assert 0 < np.mean(np.array(p_values) < 0.2) < 0.2
    assert np.mean(np.array(p_values) < 0.05) < 0.05


@settings(deadline=None)
@given(seed=seeds, policy=st.sampled_from([POLICIES[n] for n in ("opensafely", "ons", "ohdsi")]))
def test_fewer_rows_than_the_smallest_count_move_a_score_by_a_step_at_most(
    seed: int, policy: Policy
) -> None:
    rng = np.random.default_rng(seed)
    n, limit = int(rng.integers(20, 400)), float(rng.integers(5, 9))
    gains = rng.normal(0.3, 2.0, (3, n))

    def tell() -> Scores:
        return mechanism_for(policy).protect_scores(gains, np.full(n, 7.0), limit)

    told = tell()
    step = 2 * limit * policy.smallest
    assert nats_step(limit, policy.smallest) == step
    cut = np.clip(gains, -limit, limit)
    np.testing.assert_array_less(np.abs(told.nats - cut.sum(axis=1)), step / 2 + 1e-6)
    # Never too small, but for rows that are rounded; nor larger than steps of squares explain.
    both = np.vstack([cut, np.clip(gains[0] - gains[2], -limit, limit)])
    variance, mean = both.var(axis=1), both.mean(axis=1)
    off = np.array([1, 1, 1, 2]) * step / n
    assert np.all(told.spread[:3] ** 2 >= variance[:3] * n / told.scored - 0.02 * limit**2)
    most = (limit**2 * policy.smallest / n + variance + 2 * np.abs(mean) * off) * n / told.scored
    assert np.all(told.spread**2 <= most + 0.02 * limit**2 + mean**2 * policy.step / n)
    few = rng.choice(n, policy.smallest - 1, replace=False)
    gains[:, few] = rng.choice([-1000.0, -80.0, 80.0], (3, 1))
    moved = tell()
    assert moved.scored == told.scored
    assert np.abs(moved.nats - told.nats).max() <= step
    # By their number nothing changes once they are beyond the limit.
    gains[:, few] *= 3
    for one, other in zip(tell(), moved, strict=True):
        np.testing.assert_array_equal(one, other)


def test_without_a_policy_scores_are_exact() -> None:
    rng = np.random.default_rng(0)
    gains, weights = rng.normal(0.3, 20.0, (3, 50)), rng.uniform(0, 3, 50)
    found = exact_scores(gains, weights)
    np.testing.assert_allclose(found.nats, (gains * weights).sum(axis=1))
    for x, spread in zip([*gains, gains[0] - gains[2]], found.spread, strict=True):
        mean = np.average(x, weights=weights)
        error = np.sqrt(((weights * (x - mean)) ** 2).sum()) / weights.sum()
        assert spread / np.sqrt(found.scored) == pytest.approx(error)
    assert [limit_of(P) for P in (3, 20, 100)] == [5.0, 5.0, 25.0]


# Rows that clusters were not found from


def test_each_row_is_scored_by_what_others_have_found(federation: Federation) -> None:
    """Against plain arrays: probabilities of levels, multiplied row by row."""
    model, study = federation.model, federation.study
    rows, seed = study_rows(study, NEW), np.random.SeedSequence(5)
    n, columns = len(NEW), np.arange(12)
    at = 2 * columns + NEW

    def log_scores(weights: np.ndarray, levels: np.ndarray, part: np.ndarray) -> np.ndarray:
        each = np.log(levels)[:, at[part]].sum(axis=2)  # (K, rows)
        return np.asarray(logsumexp(each + np.log(weights)[:, None], axis=0))

    with Workers() as workers:
        found = held_out_gains(model, rows, np.random.SeedSequence(5), workers)
    alone = np.empty(n)
    order, *starts = seed.spawn(PARTS + 1)
    part_of = np.random.default_rng(order).permutation(n) % PARTS
    sums, prior = model.sums, model.prior
    empty = (prior.n_components - len(sums.T)) * prior.alpha
    kept = sums.T.sum() + prior.alpha * len(sums.T)
    blank = prior.eps / np.repeat(np.add.reduceat(prior.eps, prior.offsets[:-1]), 2)
    for number, start in enumerate(starts):
        out, known = np.flatnonzero(part_of == number), np.flatnonzero(part_of != number)
        # Weights by plain EM, with E ln phi as `assign` reads it.
        levels = mean_levels(sums, prior)
        log_levels = expectations(sums, prior).log_levels
        pooled = weights = mean_weights(sums, prior)
        each = log_levels[:, at[known]].sum(axis=2).T
        for _ in range(20):
            rho = each + np.log(weights)
            r = np.exp(rho - logsumexp(rho, axis=1)[:, None])
            weights = (pooled + r.sum(axis=0)) / (1 + len(known))
        share = kept / (kept + empty)
        wanted = log_scores(np.append(share * weights, 1 - share), np.vstack([levels, blank]), out)
        margins = np.stack([(NEW[known] == level).sum(axis=0) for level in (0, 1)], axis=1) + 0.5
        margins /= margins.sum(axis=1, keepdims=True)
        alone[out] = np.log(margins)[columns, NEW[out]].sum(axis=1)
        np.testing.assert_allclose(found[0, out], wanted - alone[out], rtol=1e-7, atol=1e-9)
        with Workers() as workers:
            own_prior = study_prior(study, study.n_components)
            own = fit_in_batches(study, rows.take(known), own_prior, start, workers, None)
        more = (own.prior.n_components - len(own.sums.T)) * own.prior.alpha
        weights = np.append(own.prior.alpha + own.sums.T, more)
        blank_own = own.prior.eps / np.repeat(
            np.add.reduceat(own.prior.eps, own.prior.offsets[:-1]), 2
        )
        levels = np.vstack([mean_levels(own.sums, own.prior), blank_own])
        wanted = log_scores(weights / weights.sum(), levels, out)
        np.testing.assert_allclose(found[2, out], wanted - alone[out], rtol=1e-7, atol=1e-9)
    wanted = score_samples(model, NEW) - alone
    np.testing.assert_allclose(found[1], wanted, rtol=1e-7, atol=1e-9)


# What it says


def test_the_same_kind_of_rows_is_fitted_as_well_as_by_own_clusters(
    federation: Federation,
) -> None:
    found = validate_site(federation.model, NEW, "new")
    assert found.carried is not None
    assert 0.95 < found.carried.value < 1.2
    assert found.adjusted_rand > 0.9
    assert found.shift.p_value > 0.01
    assert tuple(found.gains) == NAMES
    rows, study = study_rows(federation.study, NEW), federation.study
    with Workers() as workers:
        seed = np.random.SeedSequence([*b"new", study.seed])
        gains = held_out_gains(federation.model, rows, seed, workers)
    for each, gain in zip(gains, found.gains.values(), strict=True):
        assert gain.value == pytest.approx(each.mean())
        assert gain.standard_error == pytest.approx(each.std() / np.sqrt(len(NEW)))
    # A federation stands for its model.
    assert validate_site(federation, NEW, "new").to_bytes() == found.to_bytes()  # type: ignore[arg-type]


def test_other_clusters_and_other_shares_are_noticed(federation: Federation) -> None:
    rng = np.random.default_rng(1)
    few = np.flatnonzero((TABLE.labels[2400:] != 0) | (rng.random(len(NEW)) < 0.3))
    shifted = validate_site(federation.model, NEW[few], "new")
    assert shifted.shift.p_value < 1e-6
    assert shifted.carried is not None
    assert shifted.carried.value > 0.9
    assert shifted.gains["site_weights"].value > shifted.gains["model_weights"].value
    # Rows in each cluster: as `assign` counts them, and with the model's weights as they are.
    model, rows = federation.model, NEW[few]
    given_rows = assign(model, rows)
    np.testing.assert_allclose(shifted.site_rows, given_rows.probabilities.sum(axis=0))
    each = expectations(model.sums, model.prior).log_levels[:, 2 * np.arange(12) + rows].sum(axis=2)
    rho = each.T + np.log(mean_weights(model.sums, model.prior))
    r = np.exp(rho - logsumexp(rho, axis=1)[:, None])
    np.testing.assert_allclose(shifted.rows, r.sum(axis=0))
    own = np.bincount(given_rows.labels, minlength=model.n_clusters)
    np.testing.assert_allclose(shifted.labels.sum(axis=0), own, atol=1e-6)
    strange = simulate(800, 12, 3, beta=(0.3, 0.3), random_state=99).X
    other = validate_site(federation.model, strange, "new")
    assert other.carried is not None
    assert other.carried.value < 0.5
    noise = validate_site(federation.model, rng.integers(0, 2, (800, 12)), "new")
    assert noise.carried is None  # nothing to be gained there


def test_a_validation_names_its_model_whatever_clusters_are_called(federation: Federation) -> None:
    named = federation.named({0: "well"}).model
    assert named.hash == federation.model.hash
    found = validate_site(named, NEW[:100], "new")
    assert found.model_hash == named.hash
    fewer = federation.remove("s1").model
    assert fewer.hash != named.hash


def test_weights_count_rows(federation: Federation) -> None:
    study = federation.study
    twice = validate_site(federation.model, NEW[:300], "new", sample_weight=np.full(300, 2.0))
    once = validate_site(federation.model, NEW[:300], "new")
    assert twice.n_rows == 600
    # But for the prior of the levels without clusters, which weighs half as much.
    gains = [each.gains["model_weights"] for each in (once, twice)]
    assert gains[0].value == pytest.approx(gains[1].value, rel=1e-3)
    # Weights are no rows: what they say is no surer.
    assert gains[0].standard_error == pytest.approx(gains[1].standard_error, rel=1e-2)
    some = np.arange(400) < 300
    none = validate_site(federation.model, NEW[:400], "new", sample_weight=some.astype(float))
    assert none.to_bytes() == once.to_bytes()
    assert study.weight is None


# Disclosure control


@settings(max_examples=150, deadline=None)
@given(seed=seeds, policy=st.sampled_from([POLICIES[n] for n in ("opensafely", "ons", "ohdsi")]))
def test_no_sum_of_a_table_of_labels_is_small(seed: int, policy: Policy) -> None:
    rng = np.random.default_rng(seed)
    G, K = rng.integers(1, 7, 2)
    hard = rng.poisson(rng.gamma(0.3, 60.0, (G, K))).astype(float)
    hard[0, 0] += policy.smallest
    soft = hard * rng.uniform(1, 2, (G, K)) if rng.random() < 0.3 else hard
    mechanism = mechanism_for(policy)
    table, rest = _in_groups(soft, hard, mechanism)
    cells = np.concatenate([table.ravel(), table.sum(axis=0), table.sum(axis=1), [table.sum()]])
    assert mechanism.broken(cells, None) is None
    assert rest is not None
    assert table.shape[1] == K
    assert (table.sum(axis=1) > 0).all()
    assert abs(table.sum() - soft.sum()) <= max(policy.step / 2, policy.smallest - soft.sum())
    exact, none = _in_groups(soft, hard, mechanism_for(POLICIES["none"]))
    assert none is None
    np.testing.assert_allclose(exact, soft[soft.sum(axis=1) > 0], atol=1e-6)


def test_under_a_policy_all_is_rounded_and_says_nearly_the_same() -> None:
    exact = validate_site(federation_of(study_of("none")).model, NEW, "new")
    model = federation_of(study_of("opensafely")).model
    found = validate_site(model, NEW[:795], "new")
    mechanism = found.mechanism
    step = nats_step(found.limit, mechanism.smallest)
    assert step == 100.0
    steps = found.nats / step
    np.testing.assert_allclose(steps, np.round(steps), atol=1e-6)
    assert found.n_rows == 795
    for counts in (found.rows, found.site_rows, found.labels):
        assert not np.any(counts % 5)
        assert not np.any((counts > 0) & (counts < 10))
    assert exact.carried is not None
    assert found.carried is not None
    assert abs(exact.carried.value - found.carried.value) < 0.1
    assert abs(exact.adjusted_rand - found.adjusted_rand) < 0.05
    for name, score in found.gains.items():
        other = exact.gains[name]
        assert abs(score.value - other.value) < 2 * score.standard_error
        assert score.standard_error >= 0.9 * other.standard_error
    gain, n = found.gains["site_weights"], found.n_rows
    rounding = (step**2 + (5 * gain.value) ** 2) / 12 / n**2
    assert gain.standard_error**2 == pytest.approx(found.spread[0] ** 2 / n + rounding)
    note = found.to_files()["README.txt"].decode()
    assert "no count from 1 to 9" in note
    assert max(map(len, note.splitlines())) <= 88


def test_too_few_rows_are_refused_in_one_line() -> None:
    for policy, few in (("none", 4), ("opensafely", 9), ("ons", 9)):
        model = federation_of(study_of(policy)).model
        with pytest.raises(DataError, match="too small for it alone") as caught:
            validate_site(model, NEW[:few], "new")
        assert "\n" not in str(caught.value)
        found = validate_site(model, NEW[:12], "new")
        assert found.n_rows in (10.0, 12.0)
        assert found.rows.sum() == pytest.approx(found.n_rows)
        with pytest.raises(DataError, match="too small for it alone"):
            validate_site(model, NEW[:30], "new", sample_weight=np.arange(30) < few)


def test_what_is_no_validation_is_refused(federation: Federation) -> None:
    found = validate_site(federation.model, NEW[:100], "new")
    rounded = replace(found, policy=policy_named("none"))
    for field, value, word in (
        ("site_rows", found.site_rows * 2, "same rows"),
        ("model_shares", found.model_shares * 2, "shares"),
        ("nats", np.full(3, np.inf), "finite"),
        ("scored", 0.0, "scored"),
        ("limit", -1.0, "no row may add"),
        ("spread", found.spread[:3], "shape"),
        ("rest", 7, "leave"),
        ("model_rows", 0.0, "no rows"),
        ("policy", policy_named("opensafely"), "opensafely"),
        ("site", "", "text"),
    ):
        with pytest.raises(DataError, match=word):
            replace(rounded, **{field: value})
    for given_model in (None, "model", found):
        with pytest.raises(OptionError, match="GlobalModel"):
            validate_site(given_model, NEW, "new")  # type: ignore[arg-type]


def test_keys_of_the_study_hold_here_too() -> None:
    study = study_of(**LISTED)
    model = merge_sites(
        study, [fit_site(study, NEW, "hull").signed(SITES["hull"])]
    ).model  # the centre did not sign it
    with pytest.raises(DataError, match="is not signed"):
        validate_site(model, NEW, "leeds")
    with pytest.raises(DataError, match="another key"):
        validate_site(model.signed(STRANGER), NEW, "leeds")
    with pytest.raises(DataError, match="not among the sites"):
        validate_site(model.signed(CENTRE), NEW, "ripon")


# The command


@pytest.fixture
def merged(run: Run) -> Run:
    first_merge(run)
    hospital(500, 0.4, 77).to_csv("ripon.csv", index=False)
    return run


def test_the_command_shows_what_it_writes(merged: Run) -> None:
    said = merged("validate", "centre-0", "ripon.csv", "--site", "ripon", "-o", "out")
    text = words(said)
    found = Validation.load("out")
    for phrase in ("500 rows", "no ledger", "Next: fedmerdel review out"):
        assert phrase in text
    assert found.carried is not None
    assert f"{found.carried.value:.0%}" in text
    assert "SECRET" not in text + str(found.to_files())
    review = words(merged("review", "out"))
    assert f"{found.adjusted_rand:.2f}" in review
    assert "No row is inside" in review
    refused(merged("review", "out", "--html", "page.html"), "--html")
    refused(merged("validate", "centre-0", "ripon.csv", "-o", "o2"), "--site")
    small = pd.read_csv("ripon.csv").head(6)
    small.to_csv("six.csv", index=False)
    refused(merged("validate", "centre-0", "six.csv", "--site", "six", "-o", "o2"), "too small")
    assert not Path("o2").exists()
    again = ("validate", "centre-0", "ripon.csv", "-o", "out", "--site")
    done(merged(*again, "ripon"))
    refused(merged(*again, "york"), "another site", "--replace")


def test_a_site_with_its_own_file_keeps_count(merged: Run) -> None:
    own = str(agree(merged, "ripon"))
    assert "no ledger" not in words(merged("validate", "centre-0/model", own, "-o", "out"))
    home = Path("ripon-home")
    (entry,) = Ledger(home).entries()
    assert (entry.what, entry.round, entry.rows) == ("validation", 0, 500)
    assert entry.broadcast == Validation.load("out").model_hash
    done(merged("validate", "centre-0", own, "-o", "out.zip"))  # the same once more
    assert len(Ledger(home).entries()) == 1
    assert "validat" in words(merged("ledger", own))  # a narrow screen breaks the word
    done(merged("merge", "study.toml", "leeds-0", "york-0", "-o", "two"))
    refused(merged("validate", "two", own, "-o", "other"), "a validation of this table left")
    refused(merged("validate", "two", own, "-o", "other", "--site", "ripon"), "leave --site")
    assert not Path("other").exists()
    done(merged("fit", own, "-o", "ripon-0"))  # a first release is another thing
    assert [each.what for each in Ledger(home).entries()] == ["validation", "summary"]


# Claims over seeds


@pytest.mark.statistics
@pytest.mark.parametrize("policy", ["none", "opensafely"])
def test_errors_cover_and_shares_are_not_called_shifted(
    policy: str, record_property: Callable[[str, object], None]
) -> None:
    """New sites of the same kind: 200 of 300 rows each, clusters that overlap."""
    table = simulate(200 * 300 + 8000, 12, 4, beta=(1, 2), random_state=11)
    study = replace(draft_study(table.X, name="made"), policy=policy_named(policy))
    rows = {f"s{b}": table.X[2000 * b : 2000 * (b + 1)] for b in range(4)}
    federation = merge_sites(study, [fit_site(study, each, s) for s, each in rows.items()])
    fresh = table.X[8000:]
    gains, shifted, carried = [], [], []
    for at in range(0, len(fresh), 300):
        found = validate_site(federation.model, fresh[at : at + 300], "new")
        gains.append(found.gains["model_weights"])
        shifted.append(found.shift.p_value < 0.05)
        carried.append(found.gains["site_weights"].value >= found.gains["own_clusters"].value)
    values, errors = np.array(gains).T
    covered = np.abs(values - values.mean()) <= 1.96 * errors
    told = f"policy {policy}: 95 % intervals of the gain of 300 rows that cover"
    # A step is larger than the error of 300 rows: they cover as steps happen to lie.
    least, most = (0.92, 0.98) if policy == "none" else (0.85, 1.0)
    record_property(told, f"{np.mean(covered):.3f}, {least} to {most}")
    record_property(f"policy {policy}: shares called shifted", f"{np.mean(shifted):.3f}, < 0.06")
    record_property(
        f"policy {policy}: model not below own clusters", f"{np.mean(carried):.2f}, > 0.9"
    )
    assert least <= np.mean(covered) <= most
    assert np.mean(shifted) < 0.06
    assert np.mean(carried) > 0.9
