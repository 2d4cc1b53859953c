"""A study under differential privacy with all of its sites in one process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from fedmerdel.fitting.passes import Workers
from fedmerdel.private.budget import Budget
from fedmerdel.private.rounds import Find, follow, start
from fedmerdel.private.state import State
from fedmerdel.records.packing import PackedRows, pack_levels, plan_packing, states_that_pay
from fedmerdel.site.local_fit import fit_rows, site_options
from fedmerdel.site.private_count import count
from fedmerdel.study.priors import site_learns, study_prior
from fedmerdel.study.study import Study
from fedmerdel.summing.noise import discrete_noise
from fedmerdel.sums.arrays import FloatArray, IntArray
from fedmerdel.sums.sums import Sums


def private_fit(
    study: Study,
    sites: Mapping[str, PackedRows],
    budget: Budget,
    *,
    outcomes: Mapping[str, Mapping[str, FloatArray]] | None = None,
    workers: Workers | None = None,
    rng: np.random.Generator | None = None,
) -> State:
    """Run a study under differential privacy; return its last state.

    Parameters
    ----------
    study : Study
        The study.
    sites : mapping of str to PackedRows
        The rows of each site. A person's weights sum to at most the unit of the budget.
    budget : Budget
        What may be spent, from `make_budget`.
    outcomes : mapping of str to mapping of str to float64 array (N, C), optional
        Of each site, the share of each row in the cells of each outcome that the study counts.
    workers : Workers, optional
        Threads.
    rng : Generator, optional
        Seeds the noise, for research. **Not private**: who knows the seed can take it off.
    """
    own = workers or Workers(1)
    state, find = start(study, len(sites), budget, study.seed), clusters_in(study, own)
    while not state.finished:
        question = state.question
        assert question is not None
        totals = np.zeros(question.size, dtype=np.int64)
        for name, rows in sites.items():
            totals += count(question, rows, own, (outcomes or {}).get(name))
            totals += discrete_noise(question.share, question.size, rng)
        state = follow(state, totals, find)
    return state


def clusters_in(study: Study, workers: Workers) -> Find:
    """Return what finds clusters in rows of level numbers, as the study fits rows."""

    def find(levels: IntArray, seed: int) -> Sums:
        n_levels = study.codebook.n_levels
        lacking = np.asarray((levels < 0).any(axis=0))
        rows = pack_levels(levels, plan_packing(n_levels, lacking, states_that_pay(len(levels))))
        options = replace(site_options(study, float(len(levels))), thorough=True)
        prior = study_prior(study, study.n_components)
        seeds = np.random.SeedSequence(seed)
        return fit_rows(rows, prior, site_learns(study), options, seeds, workers).sums

    return find
