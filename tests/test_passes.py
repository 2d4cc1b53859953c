"""A pass gives the same bits whatever the threads, and the same numbers however packed."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedmerdel.fitting import passes
from fedmerdel.fitting.fit import fit_mixture
from fedmerdel.fitting.halving import propose_halves
from fedmerdel.fitting.options import Options
from fedmerdel.fitting.passes import Workers
from fedmerdel.fitting.solution import Problem
from fedmerdel.records.packing import PackedRows, repack
from fedmerdel.sums.elbo import all_pairs
from fedmerdel.sums.prior import uniform_prior
from tests.drawn import mixed_table, random_theta
from tests.reference import packed

THREADS = [2, 3, 7]


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let tables of a few hundred rows have many chunks."""
    monkeypatch.setattr(passes, "MIN_CHUNK", 23)


def all_passes(rows: PackedRows, workers: Workers) -> dict[str, Any]:
    """Every kind of pass over the rows, from fixed expectations and labels."""
    rng = np.random.default_rng(1)
    K = 9
    theta = random_theta(rng, K, rows.packing.n_levels, 0.7)
    labels = rng.integers(-1, K, rows.n_rows)
    prior = uniform_prior(rows.packing.n_levels, 0.01, 2 * K)
    inside = labels % K
    whole = passes.count_labels(rows, inside, K, workers)
    return {
        "expect_and_count": passes.expect_and_count(rows, theta, workers)[:3],
        "count_labels": passes.count_labels(rows, labels, K, workers)[:3],
        "label_rows": [passes.label_rows(rows, theta, workers)],
        "log_evidence": [passes.log_evidence(rows, theta, workers)],
        "responsibilities": [passes.responsibilities(rows, theta, workers)],
        "overlaps": [passes.overlaps(rows, theta, all_pairs(K), workers)],
        "delete_costs": [passes.delete_costs(rows, theta, workers)],
        "halves": propose_halves(rows, inside, whole, prior, workers, rng, steps=3),
    }


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("n_threads", THREADS)
@pytest.mark.parametrize("n_rows", [1, 23, 24, 700, 1500])
def test_threads_do_not_change_a_bit(n_rows: int, n_threads: int) -> None:
    rows = packed(mixed_table(n_rows))
    one = all_passes(rows, Workers(1))
    with Workers(n_threads) as workers:
        several = all_passes(rows, workers)
    for name, expected in one.items():
        for part, same in zip(expected, several[name], strict=True):
            np.testing.assert_array_equal(part, same, err_msg=name)


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("recipe", ["default", "paper"])
def test_threads_do_not_change_a_fit(recipe: Any) -> None:
    rows = packed(mixed_table())
    prior = uniform_prior(rows.packing.n_levels, 0.01, 8)
    init: Any = "divide" if recipe == "default" else "kmodes"
    options = Options(recipe, init, 5, "correlation", tol=1e-3, max_iter=500, n_init=1)
    fits = []
    for n_threads in (1, *THREADS):
        with Workers(n_threads) as workers:
            problem = Problem(rows, prior, workers)
            fits.append(fit_mixture(problem, options, np.random.SeedSequence(3)))
    for fit in fits[1:]:
        assert fit.elbo == fits[0].elbo
        assert fit.history.elbos == fits[0].history.elbos
        for part, same in zip(fits[0].stats, fit.stats, strict=True):
            np.testing.assert_array_equal(part, same)


@given(st.integers(1, 2_000_000), st.sampled_from(THREADS))
def test_chunks_depend_on_the_rows_alone(n_rows: int, n_threads: int) -> None:
    def bounds(workers: Workers) -> list[tuple[int, int]]:
        return list(workers.over_chunks(n_rows, lambda start, stop: (start, stop)))

    chunks = bounds(Workers(1))
    with Workers(n_threads) as workers:
        assert bounds(workers) == chunks
    assert chunks[0][0] == 0
    assert chunks[-1][1] == n_rows
    assert all(left[1] == right[0] for left, right in pairwise(chunks))
    assert len(chunks) <= passes.MAX_CHUNKS
    sizes = {stop - start for start, stop in chunks[:-1]}
    assert len(sizes) <= 1
    assert all(size >= passes.MIN_CHUNK for size in sizes)


def test_an_error_in_a_chunk_is_not_lost() -> None:
    def fail(start: int, stop: int) -> None:
        raise RuntimeError("in a thread")

    with Workers(2) as workers, pytest.raises(RuntimeError, match="in a thread"):
        list(workers.over_chunks(10, fail))


@pytest.mark.parametrize("seed", range(5))
def test_packing_changes_nothing_beyond_rounding(seed: int) -> None:
    table = mixed_table(400, seed)
    large = packed(table, 256)
    small = repack(large)
    assert small.packing.n_codes > large.packing.n_codes
    expected = all_passes(large, Workers(1))
    for rows in (small, packed(table, 16), packed(table, 2)):
        found = all_passes(rows, Workers(1))
        for name, parts in expected.items():
            for part, same in zip(parts, found[name], strict=True):
                np.testing.assert_allclose(part, same, rtol=1e-9, atol=1e-9, err_msg=name)


@pytest.mark.usefixtures("small_chunks")
def test_chunks_add_up_to_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = packed(mixed_table())
    cut = all_passes(rows, Workers(1))
    monkeypatch.setattr(passes, "MIN_CHUNK", 10_000)
    whole = all_passes(rows, Workers(1))
    for name, parts in cut.items():
        for part, same in zip(parts, whole[name], strict=True):
            np.testing.assert_allclose(part, same, rtol=1e-9, atol=1e-9, err_msg=name)
