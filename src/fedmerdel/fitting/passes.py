"""Passes over the rows: fixed chunks on a thread pool, summed in the order of the rows.

The chunks depend on the number of rows alone, and each one's sums start from zero, so
a result is the same to the last bit whatever the number of threads.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import TypeVar

import numpy as np

from fedmerdel.fitting import kernels
from fedmerdel.fitting.code_tables import build_table, decode_counts
from fedmerdel.records.packing import PackedRows
from fedmerdel.sums.arrays import FloatArray, IntArray
from fedmerdel.sums.elbo import all_pairs
from fedmerdel.sums.expectations import Expectations
from fedmerdel.sums.sums import Sums

MIN_CHUNK = 16384
"""Rows a thread takes at a time: enough to pay for a table of its own."""

MAX_CHUNKS = 32
"""Bounds the memory of the chunks' tables, and the threads that can help."""

Part = TypeVar("Part")


class Workers:
    """A pool of threads for passes; one thread needs no pool."""

    def __init__(self, n_threads: int = 1) -> None:
        self.n_threads = n_threads
        self._pool = ThreadPoolExecutor(n_threads) if n_threads > 1 else None

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown()

    def over_chunks(self, n_rows: int, work: Callable[[int, int], Part]) -> Iterator[Part]:
        """Yield ``work(start, stop)`` for each chunk of the rows, in their order.

        A part that is used and dropped leaves its memory, still in the cache, to the next.
        """
        chunk = max(MIN_CHUNK, -(-n_rows // MAX_CHUNKS))
        starts = range(0, n_rows, chunk)
        stops = [min(start + chunk, n_rows) for start in starts]
        if self._pool is None:
            return map(work, starts, stops)
        return self._pool.map(work, starts, stops)

    def each_chunk(self, n_rows: int, work: Callable[[int, int], None]) -> None:
        """Call ``work(start, stop)`` for each chunk of the rows."""
        deque(self.over_chunks(n_rows, work), maxlen=0)

    def side_by_side(self, n_tasks: int, work: Callable[[int, Workers], Part]) -> list[Part]:
        """Return ``work(task, workers)`` of each task; tasks run at the same time.

        Each is given threads of its own: one of this pool that waited for another of it
        could wait for ever.
        """
        if self._pool is None or n_tasks == 1:
            return [work(task, self) for task in range(n_tasks)]
        threads = max(1, self.n_threads // n_tasks)

        def alone(task: int) -> Part:
            with Workers(threads) as workers:
                return work(task, workers)

        return list(self._pool.map(alone, range(n_tasks)))


def expect_and_count(rows: PackedRows, theta: Expectations, workers: Workers) -> Sums:
    """E step with these expectations, and the statistics of its responsibilities."""
    table = build_table(*theta, rows.packing)
    base = rows.packing.state_offsets

    def work(start: int, stop: int) -> tuple[FloatArray, FloatArray]:
        counts, h = np.zeros_like(table), np.zeros(theta.n_clusters)
        kernels.fused_pass(rows.codes, rows.weights, base, table, start, stop, counts, h)
        return counts, h

    counts, h = summed(workers.over_chunks(rows.n_rows, work))
    return decode_sums(rows, counts, h)


def count_together(rows: PackedRows, workers: Workers) -> Sums:
    """Return the statistics of one cluster that holds all rows."""
    return count_labels(rows, np.zeros(rows.n_rows, dtype=np.int64), 1, workers)


def count_labels(rows: PackedRows, labels: IntArray, n_clusters: int, workers: Workers) -> Sums:
    """Return the statistics of hard labels; rows labelled -1 are in no cluster."""
    base = rows.packing.state_offsets

    def work(start: int, stop: int) -> tuple[FloatArray, FloatArray]:
        counts = np.zeros((base[-1], n_clusters))
        kernels.count_pass(rows.codes, rows.weights, base, labels, start, stop, counts)
        return counts, np.zeros(n_clusters)

    counts, h = summed(workers.over_chunks(rows.n_rows, work))
    return decode_sums(rows, counts, h)


def label_rows(
    rows: PackedRows, theta: Expectations, workers: Workers, draws: FloatArray | None = None
) -> IntArray:
    """Return each row's most probable cluster: the first of equals, or the one drawn for it."""
    table = build_table(*theta, rows.packing)
    labels = np.empty(rows.n_rows, dtype=np.int64)
    chosen = np.zeros(rows.n_rows) if draws is None else draws

    def work(start: int, stop: int) -> None:
        base = rows.packing.state_offsets
        kernels.label_pass(rows.codes, base, table, chosen, start, stop, labels)

    workers.each_chunk(rows.n_rows, work)
    return labels


def log_evidence(rows: PackedRows, theta: Expectations, workers: Workers) -> FloatArray:
    """Return ``ln sum_k rho_nk`` of each row."""
    table = build_table(*theta, rows.packing)
    out = np.empty(rows.n_rows)

    def work(start: int, stop: int) -> None:
        base = rows.packing.state_offsets
        kernels.evidence_pass(rows.codes, base, table, start, stop, out)

    workers.each_chunk(rows.n_rows, work)
    return out


def responsibilities(rows: PackedRows, theta: Expectations, workers: Workers) -> FloatArray:
    """Return the N x K responsibilities: for people, never needed by a fit."""
    table = build_table(*theta, rows.packing)
    r = np.empty((rows.n_rows, theta.n_clusters))

    def work(start: int, stop: int) -> None:
        base = rows.packing.state_offsets
        kernels.probability_pass(rows.codes, base, table, start, stop, r)

    workers.each_chunk(rows.n_rows, work)
    return r


def overlaps(
    rows: PackedRows, theta: Expectations, pairs: IntArray, workers: Workers
) -> FloatArray:
    """Return ``Q(a, b)`` of each pair for the responsibilities of these expectations."""
    table = build_table(*theta, rows.packing)

    def work(start: int, stop: int) -> tuple[FloatArray]:
        base = rows.packing.state_offsets
        part = np.zeros(len(pairs))
        kernels.overlap_pass(rows.codes, rows.weights, base, table, pairs, start, stop, part)
        return (part,)

    return summed(workers.over_chunks(rows.n_rows, work))[0]


def overlap_matrix(rows: PackedRows, theta: Expectations, workers: Workers) -> FloatArray:
    """Return Q of every pair of clusters: (K, K), symmetric, 0 on the diagonal."""
    overlap = np.zeros((theta.n_clusters, theta.n_clusters))
    pairs = all_pairs(theta.n_clusters)
    if len(pairs):
        found = overlaps(rows, theta, pairs, workers)
        overlap[pairs[:, 0], pairs[:, 1]] = overlap[pairs[:, 1], pairs[:, 0]] = found
    return overlap


def delete_costs(rows: PackedRows, theta: Expectations, workers: Workers) -> FloatArray:
    """Return ``sum_n w_n ln(1 - r_nk)`` of each cluster."""
    table = build_table(*theta, rows.packing)

    def work(start: int, stop: int) -> tuple[FloatArray]:
        base = rows.packing.state_offsets
        part = np.zeros(theta.n_clusters)
        kernels.delete_pass(rows.codes, rows.weights, base, table, start, stop, part)
        return (part,)

    return summed(workers.over_chunks(rows.n_rows, work))[0]


def summed(parts: Iterator[tuple[FloatArray, ...]]) -> tuple[FloatArray, ...]:
    """Add the chunks' arrays to the first one's, in order."""
    totals = next(parts)
    for part in parts:
        for total, more in zip(totals, part, strict=True):
            np.add(total, more, out=total)
    return totals


def decode_sums(rows: PackedRows, counts: FloatArray, h: FloatArray) -> Sums:
    """Decode counts over states. Every row has one state of the first code: T is their sum."""
    T = counts[: rows.packing.n_states[0]].sum(axis=0)
    return Sums(T, decode_counts(counts, rows.packing), h)
