"""How many threads a site's work may take."""

from __future__ import annotations

from numbers import Integral
from typing import Any

from fedmerdel.errors import OptionError
from fedmerdel.options import thread_count


def checked_threads(n_jobs: Any) -> int:
    """Return the threads that were asked for.

    Parameters
    ----------
    n_jobs : int or None
        Threads; None is one, and below 0 counts down from all cores.

    Raises
    ------
    OptionError
        If it is 0 or no whole number.
    """
    whole = isinstance(n_jobs, Integral) and not isinstance(n_jobs, bool)
    if n_jobs is not None and (not whole or n_jobs == 0):
        raise OptionError("n_jobs: give a whole number other than 0, or None")
    return thread_count(n_jobs)
