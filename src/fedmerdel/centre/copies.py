"""Sites that sent the counts of another: whoever counts its own rows has counts of its own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise

import numpy as np

from fedmerdel.errors import DataError
from fedmerdel.release.cells import with_missing
from fedmerdel.release.summary import SiteSummary
from fedmerdel.sums.arrays import FloatArray

INFORMATIVE = 30.0
"""Nats of chance that equal counts must be against to be a copy: one in ten million millions."""


def check_copies(summaries: Iterable[SiteSummary]) -> None:
    """Refuse two sites that sent the same counts, in whatever order their clusters are.

    Raises
    ------
    DataError
        If the clusters that two sites share, to the last row, are half of one of them at least,
        and so many counts are not equal by chance.
    """
    known: dict[bytes, list[tuple[SiteSummary, float]]] = defaultdict(list)
    alike: dict[tuple[str, str], FloatArray] = defaultdict(lambda: np.zeros(2))
    for summary in summaries:
        told = np.column_stack([summary.sums.T, summary.sums.S])
        for key, chance in zip(told, chance_of_equal(summary), strict=True):
            if chance == 0:  # nothing, or what many sites have
                continue
            same = known[key.tobytes()]
            for other, rows in same:
                pair = alike[other.site, summary.site]
                pair += chance, key[0]
                if pair[0] > INFORMATIVE and pair[1] >= min(rows, summary.n_rows) / 2:
                    raise DataError(
                        f"sites {other.site!r} and {summary.site!r} have sent the same counts: one "
                        "is a copy of the other: ask both, and leave it out"
                    )
            same.append((summary, summary.n_rows))


def chance_of_equal(summary: SiteSummary) -> FloatArray:
    """Return the nats by which chance is against another site telling the same of each cluster.

    Other rows of the very same kind have the same count, of n, with a probability of
    ``1 / sqrt(2 pi n (1 - n / T))`` at most; and with that of any number of the policy's steps
    together, up to the rounding. A cell that is left by the others says nothing by itself.
    """
    T, offsets = summary.sums.T, summary.codebook.level_offsets
    step = max(summary.account.rounding, 1)
    found = _nats(T, step)
    for start, end in pairwise(offsets):
        cells = with_missing(T, summary.sums.S[:, start:end])
        nats = _nats(cells * (1.0 - cells / np.maximum(T, 1e-300)[:, None]), step)
        largest = cells.argmax(axis=1)
        nats[np.arange(len(T)), largest] = 0.0
        found += nats.sum(axis=1)
    return found


def _nats(variance: FloatArray, step: int) -> FloatArray:
    return np.asarray(np.log(np.maximum(np.sqrt(2 * np.pi * np.maximum(variance, 0.0)) / step, 1)))
