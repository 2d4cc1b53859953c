"""Rounds of sums in one process: what sites with masks would do, less the masks, which add to 0."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fedmerdel.fitting.passes import Workers
from fedmerdel.records.collapse import collapse
from fedmerdel.records.packing import PackedRows, repack
from fedmerdel.site.tally_site import tally_rows
from fedmerdel.study.study import Study
from fedmerdel.summing.noise import discrete_noise
from fedmerdel.summing.question import Question
from fedmerdel.summing.rounds import Brought, Scheme, State, follow, start
from fedmerdel.summing.tally import STEPS
from fedmerdel.summing.work import scheme_of
from fedmerdel.sums.arrays import IntArray


def run_sums(
    study: Study,
    parts: list[PackedRows],
    workers: Workers,
    *,
    patient: bool,
    watch: Callable[[Brought], None] | None = None,
) -> State:
    """Let the sites of a study count, add up what they tell, and so on to the end.

    Parameters
    ----------
    study : Study
        Its promise says how much noise there is.
    parts : list of PackedRows
        The rows of each site.
    workers : Workers
        The threads to work with.
    patient : bool
        Whether all rounds of the study are made.
    watch : callable, optional
        Called with what each round has brought.
    """
    scheme = scheme_of(study, patient=patient)
    rows = [repack(collapse(part)[0]) for part in parts]
    # Not private: here all rows are in one place, and there is nobody to hide them from.
    rng = np.random.default_rng([study.seed, len(rows)])
    state = start(scheme)
    while state.question is not None:
        totals = totals_of(state.question, scheme, study.seed, rows, rng, workers)
        state = follow(scheme, state, totals, study.seed)
        if watch is not None and state.record:
            watch(state.record[-1])
    return state


def totals_of(
    asked: Question,
    scheme: Scheme,
    seed: int,
    rows: list[PackedRows],
    rng: np.random.Generator,
    workers: Workers,
) -> IntArray:
    """Return the total of what all sites count, each with its share of the noise."""

    def tell(b: int, own: Workers) -> IntArray:
        halving = [seed, asked.number, b]
        return tally_rows(asked, scheme.prior, rows[b], {}, halving, own).to_vector()

    totals = np.asarray(np.sum(workers.side_by_side(len(rows), tell), axis=0))
    scale = scheme.noise * STEPS / np.sqrt(len(rows))
    for _ in rows:
        totals += discrete_noise(scale, len(totals), rng)
    return totals
