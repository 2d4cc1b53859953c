"""How rows are written down for a noised sum, and what one of them may add to it."""

from __future__ import annotations

import pickle
from itertools import pairwise

import numpy as np
import pytest

from fedmerdel.fitting.passes import Workers
from fedmerdel.private.coding import first_coding
from fedmerdel.private.question import Question, read_clusters, read_moments, sensitivity
from fedmerdel.site.private_count import capped_weights, count
from tests.private_tables import (
    every_row,
    packed,
    plain_sums,
    plain_written,
    random_coding,
    random_question,
)
from tests.seeds import over

BINARY = np.full(10, 2)
MIXED = np.array([2, 3, 4])
NOBODY = np.zeros((0, 3), dtype=np.int64)


def answer(question: Question, levels: np.ndarray, **more: object) -> np.ndarray:
    rows = packed(levels, question.coding.n_levels)
    return count(question, rows, Workers(1), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(5))
def test_numbers_keep_lengths_and_lead_back(seed: int) -> None:
    coding = random_coding(MIXED, np.random.default_rng(seed))
    rows = every_row(MIXED, missing=True)
    plain = np.array([np.concatenate(plain_written(coding, row)) for row in rows])
    numbers = coding.numbers(plain / coding.weight)
    assert numbers.shape == (len(rows), coding.size)
    assert np.allclose(numbers @ numbers.T, plain @ plain.T)
    assert np.allclose(coding.deviations(numbers), plain / coding.weight)
    of_level, of_missing = coding.lengths()
    offsets = np.concatenate(([0], np.cumsum(MIXED)))
    for row, z in zip(rows, plain, strict=True):
        told = [
            of_level[offsets[j] + level] if level >= 0 else of_missing[j]
            for j, level in enumerate(row)
        ]
        assert np.isclose(sum(told), (z**2).sum())
    # Rows drawn with the shares of the centre, variable by variable.
    lengths = [
        [float((z[start:stop] ** 2).sum()) for z in plain]
        for start, stop in pairwise(coding.starts)
    ]
    mean = 0.0
    for j, (start, stop) in enumerate(pairwise(coding.starts)):
        for cell in range(stop - start):
            level = cell if cell < MIXED[j] else -1
            mean += coding.centre[start + cell] * lengths[j][np.flatnonzero(rows[:, j] == level)[0]]
    assert np.isclose(mean, coding.expected_length())


def test_before_anything_is_known_all_rows_are_as_long() -> None:
    coding = first_coding(MIXED)
    of_level, of_missing = coding.lengths()
    assert np.allclose(of_level, np.repeat(of_missing, MIXED))
    assert np.isclose(of_missing.sum(), coding.expected_length())


@pytest.mark.parametrize("seed", range(4))
def test_a_site_counts_what_the_formula_says(seed: int) -> None:
    rng = np.random.default_rng(seed)
    coding = random_coding(MIXED, rng)
    question = random_question(coding, rng, cells={"died": 2, "age": 3})
    rows = every_row(MIXED, missing=True)
    weights = rng.integers(0, 3, len(rows)).astype(float)
    told = {"died": rng.dirichlet([1, 1], len(rows)), "age": rng.dirichlet([1, 1, 1], len(rows))}
    given = packed(rows, MIXED)._replace(weights=weights)
    found = read_clusters(question, count(question, given, Workers(1), told))
    T, cells, died, age = plain_sums(question, rows, weights, told)
    close = {"atol": 2 * question.grid / min(question.row, question.outcome, 1)}
    assert np.allclose(found.T, T, **close)
    assert np.allclose(coding.deviations(found.numbers), cells / coding.weight, atol=0.02)
    assert np.allclose(found.outcomes["died"], died, **close)
    assert np.allclose(found.outcomes["age"], age, **close)


@pytest.mark.parametrize("seed", range(3))
def test_along_axes_rows_are_cut_off_by_what_they_are_there(seed: int) -> None:
    rng = np.random.default_rng(seed)
    coding = random_coding(MIXED, rng)
    question = random_question(coding, rng, n_clusters=1, n_axes=2)
    rows = every_row(MIXED, missing=True)
    plain = np.array([np.concatenate(plain_written(coding, row)) for row in rows])
    y = coding.numbers(plain / coding.weight) @ question.axes
    y *= np.minimum(1.0, question.limit / np.maximum(np.linalg.norm(y, axis=1), 1e-9))[:, None]
    found = read_clusters(question, answer(question, rows))
    assert np.allclose(found.numbers, y.sum(axis=0), atol=2 * question.grid)


@pytest.mark.parametrize("seed", range(3))
def test_moments_are_products_of_what_is_cut_off(seed: int) -> None:
    rng = np.random.default_rng(seed)
    coding = random_coding(MIXED, rng)
    question = random_question(coding, rng, moments=True)
    rows = every_row(MIXED, missing=True)
    plain = np.array([np.concatenate(plain_written(coding, row)) for row in rows])
    y = coding.numbers(plain / coding.weight)
    y *= np.minimum(1.0, question.limit / np.linalg.norm(y, axis=1))[:, None]
    assert np.allclose(read_moments(question, answer(question, rows)), y.T @ y, atol=0.02)


@pytest.mark.parametrize("kind", ["clusters", "outcomes", "axes", "moments"])
@pytest.mark.parametrize("table", ["binary", "mixed"])
@over(range(2), range(2, 32))
def test_no_row_adds_more_than_is_promised(kind: str, table: str, seeds: range) -> None:
    """All 1,024 rows of ten binary columns, and all of mixed ones with missing entries.

    In the small version, 60 of each.
    """
    n_levels, missing = (BINARY, False) if table == "binary" else (MIXED, True)
    rows, largest = every_row(n_levels, missing), 0.0
    for seed in seeds:
        rng = np.random.default_rng(seed)
        question = random_question(
            random_coding(n_levels, rng),
            rng,
            n_axes=2 if kind == "axes" else 0,
            moments=kind == "moments",
            cells={"died": 2, "age": 3} if kind == "outcomes" else None,
        )
        most = sensitivity(question, 1)
        one = {name: np.eye(cells)[:1] for name, cells in question.outcomes}
        for row in rng.permutation(rows)[: len(rows) if len(seeds) > 2 else 60]:
            alone = answer(question, row[None], outcomes=one)
            largest = max(largest, np.linalg.norm(alone) / most)
    assert largest <= 1.0
    assert largest > 0.8  # the bound is not idle


@pytest.mark.parametrize("seed", range(3))
def test_one_row_more_in_a_table_changes_sums_no_further(seed: int) -> None:
    rng = np.random.default_rng(seed)
    question = random_question(random_coding(MIXED, rng), rng, 5)
    rows = every_row(MIXED, missing=True)
    table = rows[rng.integers(0, len(rows), 5000)]
    base = answer(question, table)
    for row in rows[rng.permutation(len(rows))[:20]]:
        changed = answer(question, np.vstack([table, row])) - base
        assert np.linalg.norm(changed) <= sensitivity(question, 1)


def test_a_person_of_several_rows_changes_sums_several_times_as_much() -> None:
    rng = np.random.default_rng(0)
    question = random_question(random_coding(MIXED, rng), rng)
    rows = every_row(MIXED, missing=True)
    longest = max(rows, key=lambda row: float(np.linalg.norm(answer(question, row[None]))))
    alone = np.linalg.norm(answer(question, np.tile(longest, (3, 1))))
    assert sensitivity(question, 1) < alone <= sensitivity(question, 3)


def test_a_site_without_rows_tells_zeros() -> None:
    rng = np.random.default_rng(0)
    for axes, moments in ((0, False), (2, False), (0, True)):
        question = random_question(random_coding(MIXED, rng), rng, n_axes=axes, moments=moments)
        assert not answer(question, NOBODY).any()


def test_questions_can_be_sent() -> None:
    rng = np.random.default_rng(0)
    question = random_question(random_coding(MIXED, rng), rng)
    again = pickle.loads(pickle.dumps(question))
    rows = every_row(MIXED, missing=True)
    assert np.array_equal(answer(again, rows), answer(question, rows))
    assert len(answer(question, rows)) == question.size


def test_nobody_weighs_more_than_the_unit() -> None:
    person = np.array([0, 1, 1, 1, 2, 2])
    found = capped_weights(np.array([1.0, 1.0, 1.0, 1.0, 0.5, 4.0]), person, 2)
    assert np.allclose(found, [1.0, 2 / 3, 2 / 3, 2 / 3, 2 / 9, 16 / 9])
    assert np.allclose(np.bincount(person, found), [1, 2, 2])
