"""Outcomes of several levels, numbers, times to an event, in strata: as cells, and from cells."""

from __future__ import annotations

from math import exp, isnan, nan
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedmerdel import (
    DataError,
    Federation,
    GlobalModel,
    OptionError,
    Outcome,
    Study,
    fit_site,
    merge_sites,
)
from fedmerdel.inference.corrected import Estimate, SiteSums, corrected, of_cells, told_together
from fedmerdel.inference.equality import equality, joint_equality
from fedmerdel.inference.measures import (
    by_each_end,
    mean_number,
    measured,
    of_numbers,
    standardised,
    with_it,
)
from fedmerdel.site.outcome_rows import site_outcomes
from fedmerdel.study.outcome import COVARIATES
from fedmerdel.study.policy import policy_named
from tests import site_tables
from tests.drawn import seeds
from tests.federations import made_study
from tests.outcome_cells import drawn_confusion

SMOKING = Outcome("smoking", levels=("never", "former", "now"))
STAY = Outcome("stay", range=(0, 20))
DEATH = Outcome("days", event="died", ends=(30, 90))
SEX = {"name": "sex", "levels": ["F", "M"]}
WARD = {"name": "ward", "levels": ["a", "b"]}
FALL = Outcome("fell", strata=(SEX,))  # type: ignore[arg-type]
KINDS: dict[str, Any] = {"outcomes": (SMOKING, STAY, DEATH, FALL), "covariates": (WARD,)}


def people(n_rows: int, seed: int = 0, missing: float = 0.1) -> pd.DataFrame:
    """Rows of three clusters that every one of eight variables tells apart, and what befell."""
    rng = np.random.default_rng(seed)
    z = rng.integers(0, 3, n_rows)
    rows = pd.DataFrame({f"v{j}": z for j in range(8)})
    rows["cluster"] = z
    share = np.array([[0.7, 0.2, 0.1], [0.3, 0.3, 0.4], [0.2, 0.6, 0.2]])
    pick = (rng.random((n_rows, 1)) > share[z].cumsum(axis=1)).sum(axis=1)
    rows["smoking"] = np.array(["never", "former", "now"])[pick]
    rows["stay"] = rng.gamma(2.0, np.array([1.0, 3.0, 6.0])[z])
    time, lost = rng.exponential(np.array([60.0, 150.0, 400.0])[z]), rng.uniform(10, 200, n_rows)
    rows["days"], rows["died"] = np.minimum(time, lost), (time <= lost).astype(float)
    rows["sex"] = np.where(rng.random(n_rows) < np.array([0.2, 0.5, 0.8])[z], "F", "M")
    rows["fell"] = (rng.random(n_rows) < np.where(rows.sex == "F", 0.6, 0.2)).astype(float)
    rows["ward"] = rng.choice(["a", "b"], n_rows)
    for name in ("smoking", "stay", "days", "died", "sex", "fell", "ward"):
        rows.loc[rng.random(n_rows) < missing, name] = None
    return rows


def study_of(policy: str = "none") -> Study:
    return made_study(np.full(8, 3), policy=policy_named(policy), **KINDS)


def merged(rows: pd.DataFrame, policy: str, n_sites: int = 3) -> Federation:
    study = study_of(policy)
    return merge_sites(study, [fit_site(study, rows[b::n_sites], f"s{b}") for b in range(n_sites)])


# From a row to its cells.


def slow_cells(row: Any) -> dict[str, list[float]]:
    """The cells of one row, by its words."""
    stay = [0.0] * 3
    if not isnan(row.stay):
        y = min(max(row.stay / 20, 0), 1)
        stay = [(1 - y) ** 2, 2 * y * (1 - y), y**2]
    days = [0.0] * 5
    if not (isnan(row.days) or isnan(row.died)):
        if row.died:
            days[1 if row.days <= 30 else 2 if row.days <= 90 else 0] = 1.0
        else:
            days[3 if row.days < 30 else 4 if row.days < 90 else 0] = 1.0
    fell = [0.0] * 4
    if row.sex in ("F", "M") and not isnan(row.fell):
        fell[2 * (row.sex == "M") + int(row.fell)] = 1.0
    return {
        "smoking": [float(row.smoking == level) for level in SMOKING.levels],
        "stay": stay,
        "days": days,
        "fell": fell,
        COVARIATES: [float(row.ward == level) for level in ("a", "b")],
    }


def test_each_row_is_in_the_cells_that_its_words_say() -> None:
    rows = people(300)
    rows.loc[:3, "days"], rows.loc[:3, "died"] = [30.0, 30.0, 90.0, 90.0], [1.0, 0.0, 1.0, 0.0]
    found, slow = site_outcomes(study_of(), rows), [slow_cells(row) for row in rows.itertuples()]
    assert found.keys() == study_of().tables.keys()
    for name, cells in found.items():
        assert cells.shape == (300, len(study_of().tables[name]))
        np.testing.assert_allclose(cells, [each[name] for each in slow], atol=1e-12)


@pytest.mark.parametrize(
    ("column", "value", "word"),
    [
        ("days", -1.0, "times below 0"),
        ("stay", np.inf, "infinity"),
        ("smoking", "SECRET", "smoking"),
        ("died", 7.0, "not yes or no"),
    ],
)
def test_what_does_not_fit_is_named_without_its_value(column: str, value: Any, word: str) -> None:
    rows = people(50)
    rows.loc[3, column] = value
    with pytest.raises(DataError, match=word) as caught:
        site_outcomes(study_of(), rows)
    assert column in str(caught.value)
    assert "SECRET" not in str(caught.value)
    assert "\n" not in str(caught.value)


# From cells to what is told of a cluster.


@given(
    hazards=st.lists(st.tuples(st.floats(0.001, 2.0), st.floats(0.0, 2.0)), min_size=1, max_size=4)
)
def test_a_life_table_of_constant_rates_is_exact(hazards: list[tuple[float, float]]) -> None:
    """Who is lost does not change what befalls the others, however many are lost."""
    left, alive, event, lost, expected = 1.0, 1.0, [], [], []
    for dies, leaves in hazards:
        gone = left * (1 - exp(-(dies + leaves)))
        event.append(gone * dies / (dies + leaves))
        lost.append(gone * leaves / (dies + leaves))
        left, alive = left - gone, alive * exp(-dies)
        expected.append(1 - alive)
    found = by_each_end(np.array([left, *event, *lost]))
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_a_life_table_without_losses_is_the_share_of_rows() -> None:
    cells = np.array([[0.5, 0.2, 0.3, 0.0, 0.0], [1.0, 0, 0, 0, 0], [0.0, 1.0, 0, 0, 0]])
    np.testing.assert_allclose(by_each_end(cells), [[0.2, 0.5], [0, 0], [1, 1]], atol=1e-8)


def test_standardised_is_the_mean_over_the_strata_of_all_rows() -> None:
    all_rows = np.array([[0.3, 0.1], [0.2, 0.4]])  # 40 % and 60 %
    found = standardised(with_it, all_rows)
    cluster = np.array([0.72, 0.08, 0.05, 0.15])  # 10 % and 75 % within
    np.testing.assert_allclose(found(cluster), [0.4 * 0.1 + 0.6 * 0.75])
    # A stratum that the cluster has no row of is taken to be as it is in all rows.
    np.testing.assert_allclose(found(np.array([0.5, 0.5, 0.0, 0.0])), [0.4 * 0.5 + 0.6 * 2 / 3])


@given(seed=seeds, K=st.integers(1, 3))
@settings(max_examples=20, deadline=None)
def test_covariances_are_those_of_the_derivatives(seed: int, K: int) -> None:
    """Of a mean they are known: it is linear in the cells."""
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.full(3, 2.0), K)
    half = rng.normal(size=(2 * K, 2 * K)) / 50
    covariance = half @ half.T
    found = measured(Estimate(shares[:, 1:], covariance, np.ones(K)), mean_number)
    A = np.hstack([np.eye(K) / 2, np.eye(K)])
    np.testing.assert_allclose(found.values[0], shares[:, 1] / 2 + shares[:, 2])
    np.testing.assert_allclose(found.covariance, A @ covariance @ A.T, atol=1e-9)


@pytest.mark.parametrize("n_strata", [1, 2])
def test_moments_of_numbers_are_those_of_drawn_ones(n_strata: int) -> None:
    rng = np.random.default_rng(0)
    stratum = rng.integers(0, n_strata, 200_000)
    y = rng.beta(np.array([2.0, 1.0])[stratum], np.array([5.0, 3.0])[stratum])
    cells = np.zeros((len(y), n_strata, 3))
    cells[np.arange(len(y)), stratum] = np.column_stack([(1 - y) ** 2, 2 * y * (1 - y), y**2])
    known = np.column_stack([cells.reshape(len(y), -1)[:, 1:], np.ones(len(y))])
    found = of_numbers(n_strata)(known[:, :-1].mean(axis=0)[None])[0]
    np.testing.assert_allclose(found, known.T @ known / len(y), atol=2e-3)


@given(seed=seeds, strata=st.integers(1, 3), number=st.booleans(), exact=st.booleans())
@settings(max_examples=30, deadline=None)
def test_any_counts_have_rates(seed: int, strata: int, number: bool, exact: bool) -> None:
    """Also those that no rows have: hidden, rounded and summed apart, they may not fit."""
    rng = np.random.default_rng(seed)
    confusion, C = drawn_confusion(rng, 3), 3 * strata
    sums = rng.integers(0, 30, (3, C)).astype(float)
    sums[rng.random(sums.shape) < 0.5] = 0.0
    told = np.column_stack([sums[:, 1:], sums.sum(axis=1) * (1 if exact else 0.7)])
    moments = of_numbers(strata) if number else of_cells
    found = corrected([SiteSums(confusion, told, np.zeros(1))], np.full(3, 1 / 3), moments)
    finite = measured(found, standardised(mean_number, rng.dirichlet(np.ones(C)).reshape(-1, 3)))
    assert np.isfinite(finite.covariance).all()
    assert np.isfinite(finite.values).all() or not told[:, -1].sum()


@pytest.mark.parametrize("largest", range(4))
def test_what_rounding_does_to_cells_that_add_up(largest: int) -> None:
    """Against cells rounded many times; the last is of rows of which nothing is known."""
    rng = np.random.default_rng(largest)
    exact = rng.uniform(200, 400, (100_000, 4))
    exact[:, largest] += 400
    rows = exact.sum(axis=1)
    told = np.rint(exact / 10) * 10
    told[:, largest] += np.rint(rows / 5) * 5 - told.sum(axis=1)
    moved = told - exact
    drawn = np.cov(np.column_stack([moved[:, 1:3], moved[:, :3].sum(axis=1)]).T)
    alone, of_rows = np.full((1, 4), 100 / 12), np.full(1, 25 / 12)
    np.testing.assert_allclose(told_together(told[:1], alone, of_rows)[0], drawn, atol=0.3)


def test_two_levels_are_tested_as_one_rate() -> None:
    rng = np.random.default_rng(1)
    half, means = rng.normal(size=(4, 4)) / 20, rng.uniform(0.2, 0.5, 4)
    one, joint = equality(means, half @ half.T), joint_equality(means[None], half @ half.T)
    assert (one.df, joint.df) == (3, 3)
    assert one.statistic == pytest.approx(joint.statistic)
    assert joint_equality(np.array([[0.5, nan]]), np.eye(2)).p_value == 1.0


# All the way, against the same analysis of pooled rows.


def pooled(rows: pd.DataFrame, name: str) -> np.ndarray:
    """What a statistician would find in the rows of each cluster."""
    found = []
    weights = rows.dropna(subset=["sex", "fell"]).sex.value_counts(normalize=True)
    for _, own in rows.groupby("cluster"):
        if name.startswith("smoking: "):
            found.append((own.smoking.dropna() == name.removeprefix("smoking: ")).mean())
        elif name == "stay":
            found.append(own.stay.dropna().clip(0, 20).mean())
        elif name == "fell":
            known = own.dropna(subset=["sex", "fell"])
            found.append((known.groupby("sex").fell.mean() * weights).sum())
        else:
            known, alive, before = own.dropna(subset=["days", "died"]), 1.0, 0.0
            for end in (30.0, 90.0):
                seen = known[known.days >= before] if before else known
                died = (seen.died.astype(bool) & (seen.days <= end)).sum()
                left = ((seen.days > end) | ((seen.days == end) & (seen.died == 0))).sum()
                gone = len(seen) - left
                alive *= (left / len(seen)) ** (died / gone)
                before = end
                if name == f"died by {end:g}":
                    break
            found.append(1 - alive)
    return np.array(found)


@pytest.fixture(scope="module", params=["none", "opensafely"])
def federation(request: pytest.FixtureRequest) -> Federation:
    return merged(people(3000, 1), request.param)


def test_sure_clusters_have_the_rates_of_their_pooled_rows(federation: Federation) -> None:
    rows, model = people(3000, 1), federation.model
    assert model.n_clusters == 3
    exact = federation.study.policy.name == "none"
    truth = {name: pooled(rows, name) for name in federation.study.measures}
    # Clusters come in an order of their own: stays tell them apart.
    order = np.argsort([each.share for each in model.outcome_rates("stay")])
    for name, expected in truth.items():
        for k, value in zip(order, expected, strict=True):
            rate = model.outcome_rates(name)[k]
            # Counts of sites are rounded: within the interval, which allows for it.
            close = pytest.approx(value, abs=2e-4 if rate.range is None else 5e-3)
            assert rate.share == close if exact else rate.low <= value <= rate.high, name
            assert rate.low < rate.share < rate.high
            assert rate.counted == pytest.approx(rate.share, rel=0.1, abs=0.02)  # rows are sure
        assert federation.outcomes[name].fits
    assert model.outcome_test("smoking").df == 4
    assert model.outcome_test("days").df == 4
    assert model.outcome_test("stay").p_value < 1e-9
    assert model.outcome_test("fell").p_value > 1e-4  # only sex matters
    for name in federation.study.measures:
        assert len(federation.outcome_site_tests(name)) == 3
    for wrong in ("days", "cake"):
        with pytest.raises(OptionError, match="outcome"):
            model.outcome_rates(wrong)


def test_a_model_keeps_them(federation: Federation, tmp_path: Path) -> None:
    federation.model.save(tmp_path / "model")
    again = GlobalModel.load(tmp_path / "model")
    for name in federation.study.measures:
        assert again.outcome_rates(name) == federation.model.outcome_rates(name)
    for name in ("smoking", "days", "fell"):
        assert again.outcome_test(name) == federation.model.outcome_test(name)
    federation.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "clusters standardised by sex" in page
    assert "mean of all rows" in page


def test_an_outcome_in_which_sites_differ_is_marked(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    z = rng.integers(0, 2, 4000)
    levels = np.where(z[:, None] == 0, 0.3, 0.7)
    rows = pd.DataFrame((rng.random((4000, 6)) < levels).astype(int)).add_prefix("v")
    study = made_study(np.full(6, 2), outcomes=("fine", "odd"), max_clusters=2, rounds=3)
    rows["fine"] = (rng.random(4000) < np.where(z == 0, 0.1, 0.4)).astype(int)
    rows["odd"] = (rng.random(4000) < np.where(np.arange(4000) % 2, 0.5, 0.2)).astype(int)
    found = merge_sites(study, [fit_site(study, rows[b::2], f"s{b}") for b in range(2)])
    assert found.n_clusters == 2
    assert found.model.unexplained == ("odd",)
    assert found.outcomes["odd"].misfit > 3 > found.outcomes["fine"].misfit
    low, high = sorted(found.model.outcome_rates("fine"), key=lambda rate: rate.share)
    assert low.share < low.counted < high.counted < high.share  # counted, they are too much alike
    found.model.save(tmp_path / "model")
    again = GlobalModel.load(tmp_path / "model")
    assert again.unexplained == ("odd",)
    assert again.outcome_rates("fine") == found.model.outcome_rates("fine")
    again.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert (
        page.count("sites differ in it by more than chance") == 2
    )  # beside it, and in the methods
    assert f"counted {100 * low.counted:.1f} %" in page


# The study's words.


def test_a_study_keeps_them(tmp_path: Path) -> None:
    study = study_of()
    study.save(tmp_path / "study.toml")
    again = Study.load(tmp_path / "study.toml")
    assert (again.outcomes, again.covariates, again.hash) == (
        study.outcomes,
        study.covariates,
        study.hash,
    )
    others = [
        Outcome("smoking", levels=("never", "now", "former")),
        Outcome("smoking", levels=("never", "former")),
        Outcome("smoking"),
    ]
    hashes = {made_study(np.full(8, 3), outcomes=(each,)).hash for each in (SMOKING, *others)}
    assert len(hashes) == 4
    # A name alone is a yes/no outcome, in Python and in a file.
    plain = made_study(np.full(8, 3), outcomes=("smoking",))
    assert plain.outcomes == (Outcome("smoking"),)
    assert plain.outcomes[0].entry == "smoking"


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"name": ""}, "name"),
        ({"name": "a", "levels": ["x"]}, "two at least"),
        ({"name": "a", "levels": ["x", "x"]}, "twice"),
        ({"name": "a", "levels": "xy"}, "list"),
        ({"name": "a", "levels": ["x", "y"], "range": [0, 1]}, "not several"),
        ({"name": "a", "range": [1, 0]}, "rising"),
        ({"name": "a", "range": [0, 1, 2]}, "two numbers"),
        ({"name": "a", "range": [0, nan]}, "numbers"),
        ({"name": "a", "range": [False, True]}, "numbers"),
        ({"name": "a", "ends": [1]}, "not several"),
        ({"name": "a", "event": "b"}, "ends"),
        ({"name": "a", "event": "b", "ends": [0, 1]}, "above 0"),
        ({"name": "a", "event": "", "ends": [1]}, "event"),
        ({"name": "a", "levels": [str(n) for n in range(65)]}, "at most 64"),
        ({"name": "a", "strata": ["sex"]}, "name, and two levels"),
        ({"name": "a", "strata": SEX}, "list"),
        ({"name": "a", "strata": [SEX, SEX]}, "twice"),
        ({"name": "a", "strata": [{"name": "b", "levels": list(range(40))}]}, "at most 64"),
        ({"name": "a", "colour": "red"}, "may have"),
        ({"name": "v1"}, "is a variable too"),
        ({"name": "a", "event": "v1", "ends": [1]}, "is a variable too"),
    ],
)
def test_an_outcome_that_cannot_be_is_refused(options: dict[str, Any], word: str) -> None:
    with pytest.raises((OptionError, DataError), match=word) as caught:
        made_study(np.full(8, 3), outcomes=(options,))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("field", ["row_id", "weight"])
def test_who_a_row_is_cuts_no_table(field: str) -> None:
    with pytest.raises(DataError, match="is a stratum too"):
        made_study(np.full(8, 3), outcomes=(FALL,), **{field: "sex"})


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ("sex", "list"),
        ([{"name": "sex"}], "levels"),
        ([{"name": "sex", "levels": ["F"]}], "two levels"),
        ([SEX, SEX], "twice"),
        ([{"name": "v1", "levels": ["0", "1"]}], "is a variable too"),
        ([{"name": f"c{n}", "levels": list("abc")} for n in range(4)], "81 patterns"),
    ],
)
def test_covariates_that_cannot_be_are_refused(given: Any, word: str) -> None:
    with pytest.raises((OptionError, DataError), match=word):
        made_study(np.full(8, 3), covariates=given)


def merged_with(columns: dict[str, list[float]], outcome: Outcome, policy: str) -> GlobalModel:
    """The model of three sites of 400 rows with these columns."""
    agreed = site_tables.study(
        policy=policy_named(policy), max_clusters=4, outcomes=(outcome,), covariates=()
    )
    sites = []
    for b in range(3):
        table = site_tables.frame_of(site_tables.level_numbers(400, 10 + b))
        sites.append(fit_site(agreed, table.assign(**columns), f"s{b}"))
    return merge_sites(agreed, sites).model


def test_nothing_is_told_of_times_that_nobody_was_seen_at() -> None:
    """All are lost in the first interval: the share with the event by the second was 100 %."""
    timed = Outcome("t", event="e", ends=(1, 2))
    model = merged_with({"t": [0.5] * 400, "e": [0] * 400}, timed, "none")
    assert all(np.isnan(rate.share) for rate in model.outcome_rates("e by 2"))
    assert np.isnan(model.outcomes["e by 2"].overall.share)
    assert all(rate.share < 1e-5 for rate in model.outcome_rates("e by 1"))
    few = merged_with({"t": [0.5] * 380 + [5.0] * 20, "e": [0] * 400}, timed, "none")
    # None of 60 at risk: Jeffreys' interval ends at 4 %.
    assert 0.03 < few.outcomes["e by 2"].overall.high < 0.06


@pytest.mark.parametrize("outcome", [Outcome("q"), Outcome("q", range=(0, 9))])
def test_an_outcome_that_no_site_tells_of_has_no_rate(outcome: Outcome) -> None:
    """Guesses at hidden counts made a rate of 50 %, from 28 to 72 %, where nothing was known."""
    model = merged_with({"q": [1.0] * 3 + [np.nan] * 397}, outcome, "opensafely")
    assert all(np.isnan(rate.share) for rate in model.outcome_rates("q"))
    assert np.isnan(model.outcomes["q"].overall.share)


@pytest.mark.parametrize("share", [0, 1])
def test_the_interval_of_what_nobody_or_everyone_has(share: int) -> None:
    """Of 1,200 rows without it, the rate of all was said to be from 0 to 99.8 %."""
    found = merged_with({"q": [share] * 400}, Outcome("q"), "none").outcomes["q"].overall
    assert found.share == pytest.approx(share)
    assert found.high - found.low < 0.004
