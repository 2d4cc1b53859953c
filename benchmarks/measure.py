"""How things are timed here: side by side, in turns, as ratios.

Machines are shared and noisy. A time alone says little; two things timed in turns on the
same core in the same minute give a ratio that means something.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits


class Finding(NamedTuple):
    """One figure: what was asked for, and what was measured.

    Attributes
    ----------
    name : str
        What was measured.
    target : str
        The figure to reach.
    measured : str
        The figure reached.
    reached : bool
        Whether it was.
    """

    name: str
    target: str
    measured: str
    reached: bool


class Report(NamedTuple):
    """What one benchmark found: figures against their targets, and a table behind them."""

    findings: list[Finding]
    header: list[str]
    rows: list[list[str]]
    note: str = ""


@contextmanager
def one_core() -> Iterator[None]:
    """Keep this process to a single core, and the BLAS inside it to a single thread.

    Without the second, the threads of the BLAS would wait for each other on that core.
    """
    with threadpool_limits(1):
        if not hasattr(os, "sched_setaffinity"):
            yield
            return
        cores = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {max(cores)})
        try:
            yield
        finally:
            os.sched_setaffinity(0, cores)


def seconds(work: Callable[[], Any]) -> float:
    """Return how long one call takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def in_turns(
    first: Callable[[], Any], second: Callable[[], Any], times: int
) -> tuple[float, float, float]:
    """Call both in turns; return the least seconds of each, and their ratio second/first.

    The least, since all that others do on the machine only ever adds to a time.
    """
    first()
    second()
    pairs = np.array([(seconds(first), seconds(second)) for _ in range(times)])
    least = pairs.min(axis=0)
    return float(least[0]), float(least[1]), float(least[1] / least[0])


@contextmanager
def instead(holder: Any, name: str, other: Any) -> Iterator[None]:
    """Put something else in the place of one function or number."""
    usual = getattr(holder, name)
    setattr(holder, name, other)
    try:
        yield
    finally:
        setattr(holder, name, usual)
