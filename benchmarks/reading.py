"""Reading and packing: what other values of the constants in `fedmerdel.records` would cost."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from importlib import import_module
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa

from benchmarks.measure import Finding, Report, in_turns, one_core
from fedmerdel import simulate
from fedmerdel.fitting.passes import Workers, count_labels, expect_and_count
from fedmerdel.records import collapse, encode, infer_codebook, open_table, packing, scan
from fedmerdel.records.packing import FEW_ROWS, FEW_STATES, PackedRows, repack
from fedmerdel.sums.expectations import Expectations, expectations
from fedmerdel.sums.prior import uniform_prior

# The package names the function alike.
collapsing = import_module("fedmerdel.records.collapse")

PASSES = 10
"""Fewer than any fit makes: what pays within these pays in a fit."""

Work = Callable[[], Any]


def run() -> Report:
    """Measure each constant against other values, everything else being equal."""
    with one_core():
        found = [*_codes(), *_blocks(), _window(), *_joined()]
    return Report(
        [
            Finding(f"`{name}`: {what}", f"at least {least}", f"{ratio:.2f}", ratio >= least)
            for name, what, least, ratio in found
        ],
        header=[],
        rows=[],
        note="Time, or memory, relative to that with the constants as they are.",
    )


def _codes() -> list[tuple[str, str, float, float]]:
    few, many = FEW_ROWS // 8, FEW_ROWS * 8
    found = []
    for name, value, n_rows, least in (
        ("FEW_ROWS", few, few, 1.3),
        ("FEW_ROWS", 2 * many, many, 1.1),
        ("FEW_STATES", FEW_STATES // 4, few, 1.1),
        ("FEW_STATES", FEW_STATES * 4, few, 1.0),
    ):
        rows, theta = _setting(n_rows)
        kept = repack(rows)
        with patch.object(packing, name, value):
            other = repack(rows)
        ratio = in_turns(_pass(kept, theta), _pass(other, theta), times=300_000 // n_rows)[2]
        found.append((name, f"{value:,} for {n_rows:,} rows", least, ratio))
    return found


def _blocks() -> list[tuple[str, str, float, float]]:
    X = simulate(50_000, 100, 12, random_state=0).X.astype(np.float64)
    frame = pa.table({f"x{j}": np.ascontiguousarray(X[:, j]) for j in range(X.shape[1])})
    lower, higher = scan.BLOCK // 16, scan.BLOCK * 16
    time = in_turns(_read(frame), _with(scan, "BLOCK", lower, _read(frame)), times=7)[2]
    memory = _peak(_with(scan, "BLOCK", higher, _read(X))) / _peak(_read(X))
    return [
        ("BLOCK", f"{lower:,} for a frame", 1.5, time),
        ("BLOCK", f"{higher:,} for an array, memory", 4.0, memory),
    ]


def _window() -> tuple[str, str, float, float]:
    years = np.random.default_rng(0).integers(1930, 2020, size=(50_000, 5))
    beyond = years + scan.HIGH
    ratio = in_turns(_read(years), _read(beyond), times=3)[2]
    return "HIGH", "years past it", 2.0, ratio


def _joined() -> list[tuple[str, str, float, float]]:
    rows, theta = _setting(20_000)
    found = []
    for share, value, least in (
        (0.5, 0.0, 1.5),
        (collapsing.WORTH_SHARE, 0.0, 1.1),
        (0.95, 1.0, 0.9),
    ):
        part = rows.take(np.arange(rows.n_rows) % int(share * rows.n_rows))

        def fit(part: PackedRows = part) -> None:
            joined = collapse(part)[0]
            for _ in range(PASSES):
                expect_and_count(joined, theta, Workers())

        ratio = in_turns(fit, _with(collapsing, "WORTH_SHARE", value, fit), times=3)[2]
        found.append(("WORTH_SHARE", f"{value:g} for {share:.0%} distinct rows", least, ratio))
    return found


def _setting(n_rows: int) -> tuple[PackedRows, Expectations]:
    simulated = simulate(n_rows, 100, 20, random_state=0)
    table = open_table(simulated.X)
    rows = encode(table, infer_codebook(table))
    prior = uniform_prior(rows.packing.n_levels, 0.01, 20)
    return rows, expectations(count_labels(rows, simulated.labels, 20, Workers()), prior)


def _pass(rows: PackedRows, theta: Expectations) -> Work:
    return lambda: expect_and_count(rows, theta, Workers())


def _read(source: Any) -> Work:
    def work() -> None:
        table = open_table(source)
        encode(table, infer_codebook(table))

    return work


def _peak(work: Work) -> int:
    tracemalloc.start()
    work()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def _with(owner: Any, name: str, value: Any, work: Work) -> Work:
    def changed() -> None:
        with patch.object(owner, name, value):
            work()

    return changed
