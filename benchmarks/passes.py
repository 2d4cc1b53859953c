"""One fused pass against the same pass in float64 BLAS; two threads against one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.measure import Finding, Report, in_turns, one_core
from fedmerdel import simulate
from fedmerdel.fitting.passes import Workers, count_labels, expect_and_count
from fedmerdel.records import encode, infer_codebook, open_table
from fedmerdel.records.packing import PackedRows
from fedmerdel.sums.expectations import Expectations, expectations
from fedmerdel.sums.prior import uniform_prior

FASTER_THAN_BLAS = 2.5
TWO_THREADS = 1.7


def run() -> Report:
    """Measure both figures."""
    rows, X, theta = _setting(100_000)
    with one_core():
        ours, blas, ratio = in_turns(_pass(rows, theta, Workers()), _blas(X, theta), times=25)
    del X
    many, _, theta = _setting(1_000_000)
    with Workers(2) as two:
        double, single, gain = in_turns(
            _pass(many, theta, two), _pass(many, theta, Workers()), times=15
        )
    return Report(
        [
            Finding(
                "one pass, N = 100,000, P = 100, K = 20: BLAS time / ours",
                f"at least {FASTER_THAN_BLAS}",
                f"{ratio:.2f}",
                ratio >= FASTER_THAN_BLAS,
            ),
            Finding(
                "two threads, N = 1,000,000: time of one / time of two",
                f"at least {TWO_THREADS}",
                f"{gain:.2f}",
                gain >= TWO_THREADS,
            ),
        ],
        ["pass", "milliseconds"],
        [
            ["fused, packed codes, N = 100,000", f"{1e3 * ours:.1f}"],
            ["float64 BLAS in NumPy, N = 100,000", f"{1e3 * blas:.1f}"],
            ["one thread, N = 1,000,000", f"{1e3 * single:.1f}"],
            ["two threads, N = 1,000,000", f"{1e3 * double:.1f}"],
        ],
    )


def _setting(n_rows: int) -> tuple[PackedRows, NDArray[np.float64], Expectations]:
    """Rows of 12 clusters and expectations of 20: the true ones and eight near copies."""
    simulated = simulate(n_rows, 100, 12, random_state=0)
    table = open_table(simulated.X)
    rows = encode(table, infer_codebook(table))
    prior = uniform_prior(rows.packing.n_levels, 0.01, 20)
    true = count_labels(rows, simulated.labels, 12, Workers())
    copies = true.take(np.arange(8))
    theta = expectations(true.joined(copies._replace(S=0.9 * copies.S)), prior)
    dense = simulated.X.astype(np.float64) if n_rows <= 100_000 else np.empty((0, 0))
    return rows, dense, theta


def _pass(rows: PackedRows, theta: Expectations, workers: Workers) -> Callable[[], Any]:
    return lambda: expect_and_count(rows, theta, workers)


def _blas(X: NDArray[np.float64], theta: Expectations) -> Callable[[], Any]:
    """Return the same pass as two matrix products, as one would write it in NumPy."""
    zeros, ones = theta.log_levels[:, 0::2], theta.log_levels[:, 1::2]

    def work() -> tuple[NDArray[np.float64], ...]:
        log_rho = X @ (ones - zeros).T + (zeros.sum(axis=1) + theta.log_weights)
        log_rho -= log_rho.max(axis=1, keepdims=True)
        r = np.exp(log_rho)
        total = r.sum(axis=1, keepdims=True)
        r /= total
        log_rho -= np.log(total)
        T, S = r.sum(axis=0), r.T @ X
        return T, S, np.einsum("nk,nk->k", r, log_rho)

    return work
