"""Several starts side by side: the same to the last bit, and one line that is shown."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest

from fedmerdel import FedMerDel, MerDel, simulate
from fedmerdel.fitting.history import History, InTurn
from fedmerdel.fitting.passes import Workers

TABLE = simulate(900, 40, 6, noisy=0.3, random_state=3)


@pytest.mark.parametrize("options", [{}, {"prior": "fixed"}, {"recipe": "paper"}])
def test_the_result_is_the_same_for_any_number_of_threads(options: dict[str, Any]) -> None:
    one, two, four = (
        MerDel(10, n_init=4, n_jobs=n, random_state=1, **options).fit(TABLE.X) for n in (1, 2, 4)
    )
    for other in (two, four):
        assert one.lower_bounds_.tobytes() == other.lower_bounds_.tobytes()
        assert one.labels_.tobytes() == other.labels_.tobytes()
        assert one.weights_.tobytes() == other.weights_.tobytes()
        assert [m.clusters for m in one.history_] == [m.clusters for m in other.history_]


def test_so_it_is_with_several_chunks_of_rows() -> None:
    X = simulate(40_000, 10, 3, levels=4, random_state=0).X
    fits = [MerDel(4, n_init=2, n_jobs=n, random_state=1).fit(X) for n in (1, 2, 5)]
    assert len({fit.lower_bounds_.tobytes() for fit in fits}) == 1


def test_so_it_is_across_sites() -> None:
    fits = [FedMerDel(8, n_batches=3, n_init=3, n_jobs=n, random_state=1).fit(TABLE.X)
            for n in (1, 3)]  # fmt: skip
    assert fits[0].lower_bound_ == fits[1].lower_bound_
    assert np.array_equal(fits[0].labels_, fits[1].labels_)


def test_tasks_keep_their_order_and_use_threads_of_their_own() -> None:
    def work(task: int, workers: Workers) -> tuple[int, int, list[int]]:
        time.sleep(0.01 * (4 - task))
        return task, workers.n_threads, list(workers.over_chunks(40_000, lambda a, b: b - a))

    chunks = [16384, 16384, 7232]
    for n_threads, each in ((1, 1), (2, 1), (4, 1), (9, 2)):
        with Workers(n_threads) as pool:
            assert pool.side_by_side(4, work) == [(task, each, chunks) for task in range(4)]


def test_an_error_in_a_task_ends_them() -> None:
    def work(task: int, _: Workers) -> None:
        raise ValueError(f"task {task}")

    with Workers(2) as pool, pytest.raises(ValueError, match="task 0"):
        pool.side_by_side(4, work)


def test_the_first_fit_under_way_is_watched_and_by_one_thread_at_a_time() -> None:
    seen, inside = [], threading.Lock()

    def watch(history: History) -> None:
        assert inside.acquire(blocking=False)
        seen.append(history.n_rows)
        inside.release()

    watched = InTurn(watch)
    with watched.part(1) as second:
        assert second is not None
        second(History(1))
        with watched.part(0) as first:
            assert first is not None
            first(History(0))
            second(History(1))
        second(History(1))
    assert seen == [1, 0, 1]

    def fit(task: int, _: Workers) -> None:
        with watched.part(task) as part:
            assert part is not None
            for _n in range(200):
                part(History(task))

    with Workers(4) as pool:
        pool.side_by_side(8, fit)
    assert set(seen) <= set(range(8))


def test_unwatched_fits_have_no_watcher() -> None:
    with InTurn(None).part(0) as part:
        assert part is None


def test_a_line_is_shown_for_starts_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    shown = MerDel(10, n_init=3, n_jobs=2, random_state=1, verbose=1).fit(TABLE.X)
    assert "clusters" in capsys.readouterr().out
    silent = MerDel(10, n_init=3, random_state=1).fit(TABLE.X)
    assert shown.lower_bound_ == silent.lower_bound_
