"""The number of threads: checked in one place, whoever asks for them."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fedmerdel import FedMerDel, MerDel, OptionError, simulate
from fedmerdel.options import thread_count

X = simulate(120, 4, 2, random_state=1).X
UNUSABLE = [0, "2", 1.5, True, [1], np.int64(0)]


@pytest.mark.parametrize("n_jobs", UNUSABLE)
def test_unusable_numbers_are_refused(n_jobs: Any) -> None:
    with pytest.raises(OptionError, match=r"^n_jobs: give a whole number other than 0, or None$"):
        thread_count(n_jobs)


def test_threads_are_counted_up_from_none_and_down_from_all_cores() -> None:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert cores is not None
    given = (None, 1, 3, np.int64(2), -1, -cores, -cores - 9)
    assert [thread_count(n) for n in given] == [1, 1, 3, 2, cores, 1, 1]
    assert all(type(thread_count(n)) is int for n in given)


@pytest.mark.parametrize("make", [MerDel, FedMerDel])
@pytest.mark.parametrize("method", ["predict", "predict_proba", "score_samples"])
def test_what_is_set_after_a_fit_is_checked_too(make: Callable[..., Any], method: str) -> None:
    fitted = make(4, random_state=0).fit(X)
    for n_jobs in UNUSABLE:
        fitted.set_params(n_jobs=n_jobs)
        with pytest.raises(OptionError, match="n_jobs: give a whole number other than 0"):
            getattr(fitted, method)(X)
    fitted.set_params(n_jobs=2)
    assert len(getattr(fitted, method)(X)) == 120
