"""Rounds of sums: what is told and what it stands for, and where rounds lead."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score

from fedmerdel import DataError, FedMerDel, OptionError, bayes_labels, simulate
from fedmerdel.masking.work import History, Opened
from fedmerdel.study.codebook import Codebook, Variable
from fedmerdel.study.policy import POLICIES
from fedmerdel.study.promise import Promise
from fedmerdel.study.study import Study
from fedmerdel.summing.cells import Cells
from fedmerdel.summing.moves import Noise, merges, splits
from fedmerdel.summing.question import Question
from fedmerdel.summing.rounds import follow, start
from fedmerdel.summing.tally import SHARED, STEPS, Tally, vector_size
from fedmerdel.summing.work import SumsWork, agreement_of, scheme_of
from fedmerdel.sums.halves import FirstHalves
from fedmerdel.sums.prior import uniform_prior
from fedmerdel.sums.sums import Sums
from tests.seeds import Record, over


def drawn_cells(rng: np.random.Generator) -> Cells:
    sizes = rng.integers(2, 5, rng.integers(1, 6))
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    left = offsets[:-1] + rng.integers(0, sizes)
    return Cells(offsets, left, rng.random(len(sizes)) < 0.5)


def drawn_counts(rng: np.random.Generator, cells: Cells, K: int) -> tuple[np.ndarray, np.ndarray]:
    """Whole rows in each cell; missing ones only where they are told."""
    T = rng.integers(0, 50, K).astype(float)
    parts = []
    for a, b, missing in zip(cells.offsets, cells.offsets[1:], cells.missing, strict=False):
        shares = rng.dirichlet(np.ones(b - a + 1))
        shares[-1] *= missing
        parts.append(np.array([rng.multinomial(int(t), shares / shares.sum()) for t in T])[:, :-1])
    return T, np.concatenate(parts, axis=1).astype(float)


@given(st.integers(0, 10**6))
def test_what_is_told_is_told_back(seed: int) -> None:
    rng = np.random.default_rng(seed)
    cells, K = drawn_cells(rng), int(rng.integers(1, 5))
    T, S = drawn_counts(rng, cells, K)
    numbers = cells.numbers(T, S)
    assert numbers.shape == (K, cells.width)
    for found in (cells.counts(numbers), cells.possible(numbers)):
        np.testing.assert_allclose(found[0], T, atol=1e-9)
        np.testing.assert_allclose(found[1], S, atol=1e-9)


@given(st.integers(0, 10**6))
def test_noise_makes_nothing_that_rows_cannot_be(seed: int) -> None:
    rng = np.random.default_rng(seed)
    cells = drawn_cells(rng)
    T, S = drawn_counts(rng, cells, 3)
    T, S = cells.possible(cells.numbers(T, S) + rng.normal(0, 20, (3, cells.width)))
    assert T.min() >= 0
    assert S.min() >= 0
    assert np.all(np.add.reduceat(S, cells.offsets[:-1], axis=1) <= T[:, None] + 1e-9)


def test_no_number_is_told_twice() -> None:
    """Rows of a cluster told with each variable would have their noise averaged away."""
    cells = Cells.first(np.array([0, 2, 5]), np.array([False, True]))
    rng = np.random.default_rng(0)
    T, S = drawn_counts(rng, cells, 40)
    numbers = cells.numbers(T, S)
    assert np.linalg.matrix_rank(numbers) == cells.width == 1 + 1 + 2 + 1


def test_the_commonest_cell_is_not_told_and_missing_only_where_it_is_no_noise() -> None:
    cells = Cells.first(np.array([0, 2, 4]), np.array([True, True]))
    after = cells.after(100.0, np.array([90.0, 9.0, 20.0, 60.0]), 2.0)
    assert after.left.tolist() == [0, 3]
    assert after.missing.tolist() == [False, True]


@given(st.integers(0, 10**6), st.booleans())
def test_a_tally_is_its_vector(seed: int, last: bool) -> None:
    rng = np.random.default_rng(seed)
    cells, K = drawn_cells(rng), int(rng.integers(1, 5))
    told = [cells.numbers(*drawn_counts(rng, cells, K)) for _ in range(2)]
    Q = np.triu(rng.integers(0, 9, (K, K)) * SHARED, 1)
    h, blur = -rng.integers(0, 9, K) * SHARED, rng.integers(0, 9, K) * SHARED
    tally = Tally(told[0], told[1], h, blur, Q + Q.T)
    if last:
        tally = tally._replace(halves=np.zeros((0, 0)), blur=np.zeros(0))
    halves = None if last else cells
    vector = tally.to_vector()
    assert len(vector) == vector_size(K, cells, halves)
    found = Tally.from_vector(vector, K, cells, halves)
    for one, other in zip(tally, found, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-9)


def made_study(**changed: object) -> Study:
    book = Codebook(tuple(Variable(f"v{j}", ("0", "1"), "integer") for j in range(6)))
    fields = {"promise": Promise("sums"), "rounds": 5, "policy": POLICIES["none"], **changed}
    return Study("sums", book, **fields)  # type: ignore[arg-type]


def asked_first(study: Study) -> tuple[Question, Question]:
    """The question of round 0, and of round 1 after some totals."""
    scheme = scheme_of(study)
    state = start(scheme)
    zero = state.question
    assert zero is not None
    T, S = np.array([400.0]), np.tile([300.0, 100.0], 6)[None]
    tally = Tally(
        zero.cells.numbers(T, S), np.zeros((0, 0)), np.zeros(1), np.zeros(0), np.zeros((1, 1))
    )
    one = follow(scheme, state, tally.to_vector(), 7).question
    assert one is not None
    return zero, one


def test_a_question_has_one_spelling() -> None:
    for asked in asked_first(made_study()):
        data = asked.to_bytes()
        again = Question.from_bytes(data)
        assert again.to_bytes() == data
        assert again.alike(asked)
        for bad in (data[:-1], data + b"0", data.replace(b'"number":', b'"number": '), b""):
            with pytest.raises(DataError):
                Question.from_bytes(bad)


def test_a_question_may_differ_in_last_digits_and_in_nothing_else() -> None:
    _, one = asked_first(made_study())
    levels = one.clusters.log_levels
    for off, alike in ((1e-12, True), (1e-6, False)):
        moved = one._replace(clusters=one.clusters._replace(log_levels=levels + off))
        assert one.alike(moved) is alike
    assert not one.alike(one._replace(number=2))
    assert not one.alike(one._replace(uncut=~one.uncut))


def test_the_first_clusters_are_those_of_the_seed() -> None:
    study = made_study()
    scheme = scheme_of(study)
    state = start(scheme)
    assert state.question is not None
    totals = np.zeros(vector_size(1, state.question.cells, None), dtype=np.int64)
    totals[0] = 400 * STEPS
    found = [follow(scheme, state, totals, seed).question for seed in (1, 1, 2)]
    assert all(each is not None for each in found)
    assert found[0].to_bytes() == found[1].to_bytes() != found[2].to_bytes()  # type: ignore[union-attr]


def test_noise_alone_makes_no_split_and_keeps_no_pair_apart() -> None:
    """Halves that are alike but for noise seem to gain; clusters that are alike, to lose."""
    rng = np.random.default_rng(3)
    n, P = 1000.0, 60
    offsets = np.arange(0, 2 * P + 1, 2)
    prior = uniform_prior(np.full(P, 2), 0.01, 20)
    cells = Cells(offsets, offsets[:-1], np.zeros(P, dtype=bool))
    share = rng.uniform(0.2, 0.8, P)
    S = np.column_stack([1 - share, share]).reshape(1, -1)
    prior = prior._replace(eps=20 * S[0])  # as where clusters are much alike
    noise = Noise(cells, 40.0, rng)
    whole = Sums(np.array([n]), n * S, np.zeros(1))
    raw, sure = [], []
    for _ in range(20):
        T, half = noise.on(np.array([n / 2]), n / 2 * S)
        halves = FirstHalves(T, np.minimum(half, whole.S), np.zeros(1))
        gain = splits(whole, halves, prior, noise, 0.1)
        sure.append(float(gain[0]))
        raw.append(float(splits(whole, halves, prior, noise._replace(scale=1e-9), 0.1)[0]))
    assert max(sure) < 0
    assert np.mean(raw) - np.mean(sure) > 20
    merged = 0
    for _ in range(20):
        T, pair = noise.on(np.full(2, n / 2), np.repeat(n / 2 * S, 2, axis=0))
        groups = merges(Sums(T, pair, np.zeros(2)), np.zeros((2, 2)), prior, noise, 1.0)
        merged += len(groups) == 1
    assert merged >= 18


@over(range(1), range(10))
def test_totals_alone_lead_to_the_clusters(seeds: range, record_property: Record) -> None:
    """Sites of 300 rows, too few for a fit of their own."""
    n_sites = 10 if len(seeds) == 1 else 50
    gaps, clusters = [], []
    for seed in seeds:
        table = simulate(300 * n_sites, 40, 4, beta=(1.0, 4.0), random_state=seed)
        site = np.arange(300 * n_sites) % n_sites
        found = FedMerDel(promise="sums", rounds=14, random_state=seed).fit(table.X, groups=site)
        best = adjusted_rand_score(table.labels, bayes_labels(table, site))
        gaps.append(best - adjusted_rand_score(table.labels, found.labels_))
        clusters.append(found.n_clusters_)
    record_property("ARI below the best possible after 14 rounds", f"{np.mean(gaps):.4f}, 0.01")
    record_property("tables with the true four clusters", f"{clusters.count(4)} of {len(seeds)}")
    assert np.mean(gaps) <= 0.01 * (1 if len(seeds) > 1 else 3)
    assert clusters.count(4) >= 0.9 * len(seeds)


def test_the_same_for_any_number_of_threads_and_no_longer_than_it_pays() -> None:
    table = simulate(3000, 20, 3, random_state=1)
    site = np.arange(3000) % 6
    one, two = (
        FedMerDel(promise="sums", random_state=1, n_jobs=n).fit(table.X, groups=site)
        for n in (1, 2)
    )
    assert one.lower_bound_ == two.lower_bound_
    assert one.labels_.tolist() == two.labels_.tolist()
    assert len(one.record_) < 60
    assert [each.number for each in one.record_] == list(range(1, len(one.record_) + 1))


def test_the_model_keeps_the_policy() -> None:
    table = simulate(3000, 20, 3, random_state=1)
    site = np.arange(3000) % 6
    fit = FedMerDel(promise="sums", policy="opensafely", rounds=8, random_state=1)
    rows = fit.fit(table.X, groups=site).model_.rows
    assert not np.any(rows % 5)
    with pytest.raises(DataError, match="5 at least"):
        FedMerDel(promise="sums").fit(table.X, groups=site % 4)


def test_a_study_of_sums_refuses_what_needs_a_sites_own_numbers() -> None:
    for field, value in (("site_shares", True), ("checks", True), ("weight", "w")):
        with pytest.raises(DataError, match=field):
            made_study(**{field: value})
    with pytest.raises(DataError, match="lists no keys"):
        agreement_of(made_study())
    with pytest.raises(DataError, match="promises 'counts'"):
        agreement_of(made_study(promise=Promise()))
    with pytest.raises(OptionError, match="'noise' is not for 'counts'"):
        Promise("counts", noise=1.0)
    assert made_study().hash != made_study(promise=Promise("sums", noise=3.0)).hash


def test_totals_that_no_rows_have_are_refused() -> None:
    work = SumsWork(made_study())
    first = work.question(History())
    assert first is not None
    cells = Question.from_bytes(first).cells
    T, S = np.array([400.0]), np.tile([300.0, 100.0], 6)[None]
    none = Tally(cells.numbers(T, S), np.zeros((0, 0)), np.zeros(1), np.zeros(0), np.zeros((1, 1)))
    history = History((Opened(first, none.to_vector()),), b"12345678")
    work.check_totals(history)
    second = work.question(history)
    assert second is not None
    asked = Question.from_bytes(second)
    K = asked.clusters.n_clusters
    honest = np.zeros(vector_size(K, asked.cells, asked.halves), dtype=np.int64)
    honest[: K * asked.cells.width : asked.cells.width] = 400 * STEPS // K

    def checked(totals: np.ndarray) -> None:
        work.check_totals(replace_last(history, second, totals))

    checked(honest)
    liar = honest.copy()
    liar[0] += 10**9 * STEPS
    short = honest[:-1]
    moved = honest.copy()
    moved[0] += 200 * STEPS
    for totals, said in ((liar, "above the rows"), (short, "not of what"), (moved, "not as many")):
        with pytest.raises(DataError, match=said):
            checked(totals)


def replace_last(history: History, question: bytes, totals: np.ndarray) -> History:
    return history._replace(openings=(*history.openings, Opened(question, totals)))


def test_a_scheme_has_the_outcomes_of_its_study() -> None:
    scheme = scheme_of(replace(made_study(), outcomes=("died",)))
    assert dict(scheme.tables) == {"died": 2}
    assert scheme.cells.width == 1 + 7 + 7
