"""A study under differential privacy: what it asks, what that costs, what it finds."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from scipy.stats import norm
from sklearn.metrics import adjusted_rand_score

from fedmerdel import MerDel, OptionError, simulate
from fedmerdel.estimators.private import clusters_in, private_fit
from fedmerdel.fitting.passes import Workers, label_rows
from fedmerdel.private import rounds
from fedmerdel.private.budget import Budget, make_budget
from fedmerdel.private.rounds import follow, start
from fedmerdel.private.state import State
from fedmerdel.records.packing import PackedRows
from fedmerdel.site.private_count import count
from fedmerdel.study.study import Study
from fedmerdel.summing.noise import discrete_noise
from fedmerdel.sums.arrays import FloatArray, IntArray
from fedmerdel.sums.expectations import expectations
from fedmerdel.sums.sums import Sums
from tests.federations import made_study
from tests.private_tables import every_row, packed
from tests.seeds import Record, over

DELTA = 1e-6


def by_first_variable(levels: IntArray, seed: int) -> Sums:
    """Stand for a search: clusters are the levels of the first variable."""
    T = np.array([(levels[:, 0] == level).sum() for level in (0, 1)]) + 1.0
    S = [
        np.column_stack([(own == level).sum(axis=0) for level in (0, 1)]).ravel() + 0.5
        for own in (levels[levels[:, 0] == level] for level in (0, 1))
    ]
    return Sums(T, np.array(S, dtype=float), np.zeros(2))


def run(
    study: Study,
    rows: PackedRows,
    budget: Budget,
    rng: np.random.Generator,
    told: dict[str, FloatArray] | None = None,
) -> list[tuple[State, IntArray]]:
    """All states of a study with one site, and the totals that followed each."""
    state, course = start(study, 1, budget, 1), []
    while state.question is not None:
        noise = discrete_noise(state.question.share, state.question.size, rng)
        totals = count(state.question, rows, Workers(1), told) + noise
        course.append((state, totals))
        state = follow(state, totals, by_first_variable)
    return [*course, (state, np.zeros(0, dtype=np.int64))]


def table(n_rows: int, n_variables: int, seed: int) -> tuple[Study, PackedRows]:
    rng = np.random.default_rng(seed)
    z = rng.integers(0, 2, n_rows)
    levels = (rng.random((n_rows, n_variables)) < np.where(z, 0.8, 0.2)[:, None]).astype(np.int64)
    n_levels = np.full(n_variables, 2)
    return made_study(n_levels), packed(levels, n_levels)


def longest(question: rounds.Question, n_honest: int) -> float:
    """Noise's deviation, in steps, over what a row can change: from the formula alone."""
    if question.what == "moments":
        length = question.limit**2
    else:
        outcomes = len(question.outcomes) * question.outcome**2
        length = math.sqrt(question.limit**2 + question.row**2 + outcomes)
    steps = length / question.grid + 2.0 * math.sqrt(question.size)
    return math.sqrt(n_honest) * question.share / steps


@pytest.mark.parametrize(("n_sites", "honest"), [(1, None), (9, None), (9, 2)])
def test_all_that_is_asked_is_within_the_budget(n_sites: int, honest: int | None) -> None:
    """By dp-accounting, from the noise of each question; and not much is left over."""
    study, rows = table(400, 6, 0)
    outcome = {"died": np.eye(2)[np.arange(400) % 2]}
    study = replace(study, outcomes=("died",))
    budget = make_budget(2.0, DELTA, n_sites, honest)
    state, costs = start(study, n_sites, budget, 1), []
    kinds = []
    rng = np.random.default_rng(0)
    while state.question is not None:
        question = state.question
        kinds.append((state.stage, bool(question.outcomes)))
        costs.append(longest(question, budget.honest))
        total = count(question, rows, Workers(1), outcome)
        noise = sum(discrete_noise(question.share, question.size, rng) for _ in range(n_sites))
        assert np.isclose(state.noise, math.sqrt(n_sites) * question.share)
        state = follow(state, total + noise, by_first_variable)
    assert len(costs) == len(state.spent)
    assert kinds[0] == ("shares", False)
    assert kinds[-1] == ("refine", True)  # outcomes once, at the end
    assert sum(outcomes for _, outcomes in kinds) == 1
    parts = [pld.from_gaussian_mechanism(each, value_discretization_interval=1e-3)
             for each in costs]  # fmt: skip
    all_of_it = parts[0]
    for part in parts[1:]:
        all_of_it = all_of_it.compose(part)
    exact = all_of_it.get_epsilon_for_delta(DELTA)
    assert 0.85 * budget.epsilon < exact <= budget.epsilon
    assert exact <= state.epsilon <= budget.epsilon
    assert state.sums.outcomes["died"].shape == (state.sums.n_clusters, 2)


def test_persons_of_several_rows_take_as_many_times_the_noise() -> None:
    study, _ = table(400, 6, 0)
    one, three = (
        start(study, 4, make_budget(1.0, DELTA, 4, unit=unit), 1).noise for unit in (1, 3)
    )
    assert np.isclose(three, 3 * one)


def test_noise_of_all_sites_is_as_large_as_is_told() -> None:
    study, _ = table(400, 12, 0)
    state = start(study, 6, make_budget(1.0, DELTA, 6), 1)
    assert state.question is not None
    rng, size = np.random.default_rng(0), 400 * state.question.size
    total = sum(discrete_noise(state.question.share, size, rng) for _ in range(6))
    assert abs(np.std(total) / state.noise - 1.0) < 0.03
    least = 1.0 / (math.sqrt(2.0 * rounds.FIRST * state.budget.rho) * longest(state.question, 3))
    assert 0.999 < least <= 1.0


@over(range(25), range(1000, 2500))
def test_neighbours_can_be_told_apart_no_better_than_the_budget_says(
    seeds: range, record_property: Record
) -> None:
    """The best attack there is, over a whole study: all rows but one are known.

    With noise as at the end of the budget, a row that is as long as a row may be is told from none
    with a probability of Phi(mu / 2) in two, mu = sqrt(2 rho): the attack reaches that where the
    row is long in every round. It reached 1 without noise.
    """
    study, rows = table(60, 5, 3)
    n_levels = study.codebook.n_levels
    odd = packed(np.array([[1, 0, 1, 0, 1]]), n_levels)
    both = packed(np.vstack([_levels(rows), [[1, 0, 1, 0, 1]]]), n_levels)
    budget = Budget(6.0, DELTA, honest=1)
    right = []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        is_in = bool(rng.integers(2))
        odds = 0.0
        for state, totals in run(study, both if is_in else rows, budget, rng)[:-1]:
            assert state.question is not None
            without = count(state.question, rows, Workers(1))
            step = count(state.question, odd, Workers(1)).astype(float)
            odds += ((totals - without - 0.5 * step) @ step) / state.question.share**2
        right.append((odds > 0) == is_in)
    share, most = float(np.mean(right)), float(norm.cdf(math.sqrt(2 * budget.rho) / 2))
    slack = 3.5 * math.sqrt(most * (1 - most) / len(right))
    record_property("attacks that are right, at most", f"{share:.3f}, {most:.3f}")
    assert share <= most + slack
    assert share >= 0.5 + 0.4 * (most - 0.5) - slack  # an attack that is none would show nothing


def _levels(rows: PackedRows) -> IntArray:
    every = every_row(rows.packing.n_levels, missing=False)
    codes = packed(every, rows.packing.n_levels).codes
    return np.array([every[np.flatnonzero((codes == row).all(axis=1))[0]] for row in rows.codes])


@over(range(1), range(50, 60))
def test_clusters_are_found(seeds: range, record_property: Record) -> None:
    gaps, right = [], 0
    for seed in seeds:
        made = simulate(12_000, 24, 3, beta=(0.7, 0.7), random_state=seed)
        n_levels = np.full(24, 2)
        study = made_study(n_levels, prior="learned", max_clusters="auto", seed=seed)
        rows = packed(made.X.astype(np.int64), n_levels)
        sites = {str(b): rows.take(np.arange(b, 12_000, 4)) for b in range(4)}
        rng = np.random.default_rng(seed)
        state = private_fit(study, sites, make_budget(2.0, DELTA, 4), rng=rng)
        labels = label_rows(rows, expectations(state.sums, state.prior), Workers(1))
        private = adjusted_rand_score(made.labels, labels)
        usual = MerDel(random_state=seed).fit(made.X)
        gaps.append(adjusted_rand_score(made.labels, usual.labels_) - private)
        right += state.sums.n_clusters == usual.n_clusters_ == 3
        assert np.all(np.diff(state.sums.T) <= 0)
        assert abs(state.sums.T.sum() - 12_000) < 400
    record_property("ARI below that of all rows, worst", f"{max(gaps):.4f}, 0.02")
    assert max(gaps) < 0.02
    record_property("as many clusters", f"{right} of {len(seeds)}, 9 of 10")
    assert right >= 0.9 * len(seeds)  # noise makes one cluster more once in a while


def test_missing_entries_are_counted_as_such() -> None:
    rng = np.random.default_rng(0)
    n_levels = np.array([2, 3, 2, 4])
    levels = np.column_stack([rng.integers(0, n, 20_000) for n in n_levels])
    levels[rng.random(20_000) < 0.3, 1] = -1
    rows = packed(levels, n_levels)
    study = made_study(n_levels)
    state = private_fit(study, {"a": rows}, make_budget(3.0, DELTA, 1), rng=rng)
    assert state.coding.told.tolist() == [False, True, False, False]
    entries = state.sums.S.sum(axis=0)[2:5].sum() / state.sums.T.sum()
    assert abs(entries - 0.7) < 0.02


def test_noise_that_nobody_seeded_is_there_and_is_another_each_time() -> None:
    study, rows = table(200, 3, 0)
    budget = make_budget(5.0, DELTA, 1)
    first, second = (private_fit(study, {"a": rows}, budget).rows for _ in range(2))
    assert first != second


def test_where_nothing_can_be_seen_there_is_one_cluster() -> None:
    study, rows = table(30, 6, 0)
    state = private_fit(
        study, {"a": rows}, make_budget(0.1, DELTA, 1), rng=np.random.default_rng(0)
    )
    assert state.sums.n_clusters == 1
    assert np.isfinite(state.sums.S).all()
    assert state.finished


def test_wide_tables_start_at_random(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "MOST_WIDE", 5)
    study, rows = table(20_000, 8, 0)
    course = run(study, rows, make_budget(8.0, DELTA, 1), np.random.default_rng(0))
    assert [state.stage for state, _ in course][:2] == ["shares", "search"]
    assert course[-1][0].sums.n_clusters == 2


def test_a_state_follows_from_what_everyone_may_know() -> None:
    study, rows = table(2000, 6, 0)
    course = run(study, rows, make_budget(4.0, DELTA, 1), np.random.default_rng(0))
    again = start(study, 1, make_budget(4.0, DELTA, 1), 1)
    for state, totals in course[:-1]:
        assert again.question is not None
        assert state.question is not None
        assert np.array_equal(again.question.log_levels, state.question.log_levels)
        again = follow(again, totals, by_first_variable)
    assert np.array_equal(again.sums.S, course[-1][0].sums.S)


def test_totals_of_another_length_are_refused() -> None:
    study, _ = table(100, 3, 0)
    state = start(study, 1, make_budget(1.0, DELTA, 1), 1)
    with pytest.raises(OptionError, match="totals"):
        follow(state, np.zeros(3, dtype=np.int64), by_first_variable)


def test_studies_that_cannot_be_private_are_refused() -> None:
    study, _ = table(100, 3, 0)
    for other in (replace(study, variable_selection=True), replace(study, recipe="paper")):
        with pytest.raises(OptionError, match="promise dp"):
            start(other, 1, make_budget(1.0, DELTA, 1), 1)


def test_made_up_rows_are_searched_as_the_study_says() -> None:
    made = simulate(3000, 20, 3, beta=(0.5, 0.5), random_state=0)
    study = made_study(np.full(20, 2), prior="learned")
    found = clusters_in(study, Workers(1))(made.X.astype(np.int64), 1)
    assert found.n_clusters == 3
    assert np.isclose(found.T.sum(), 3000)
