"""What each cluster of a table is worth: the ELBO without it, found by passes over the rows."""

from __future__ import annotations

import numpy as np

from fedmerdel.fitting.passes import overlaps
from fedmerdel.fitting.solution import Problem, Solution, em_step
from fedmerdel.sums.arrays import FloatArray
from fedmerdel.sums.elbo import all_pairs, merge_gains
from fedmerdel.sums.prior import Prior
from fedmerdel.sums.sums import Sums

STILL = 0.002
"""Passes end when one adds less than this share of what a cluster is worth, ..."""

LEAST = 0.05
"""... or less than so many nats."""

MOST_PASSES = 200
"""Passes for each cluster: more would change what nobody reads."""


def worth_by_passes(problem: Problem, stats: Sums, prior: Prior) -> FloatArray:
    """Return by how many nats the ELBO is lower without each cluster, at most: (K,).

    Each is taken out in two ways: its rows go wherever they fit best, or all to the cluster with
    which it loses least. The better way goes on, until passes add next to nothing. There may be
    a better clustering without it that neither leads to.

    Parameters
    ----------
    problem : Problem
        The rows, and what is learned of the prior.
    stats, prior : Sums, Prior
        What a fit found: two clusters at least.
    """
    whole = em_step(problem, stats, prior)
    pairs = all_pairs(whole.n_clusters)
    Q = overlaps(problem.rows, whole.theta, pairs, problem.workers)
    gains = merge_gains(whole.stats, whole.prior, pairs, Q)
    worth = np.empty(whole.n_clusters)
    for k in range(whole.n_clusters):
        own = np.flatnonzero((pairs == k).any(axis=1))
        best = own[gains[own].argmax()]
        a, b = pairs[best].tolist()
        ways = (whole.stats.without(k), whole.stats.merged(a, b, overlap=float(Q[best])))
        tried = (em_step(problem, each, whole.prior) for each in ways)
        found = _settled(problem, max(tried, key=lambda each: each.elbo), whole.elbo)
        worth[k] = whole.elbo - found.elbo
    return worth


def _settled(problem: Problem, found: Solution, before: float) -> Solution:
    """Pass over the rows until a pass adds next to nothing to what was lost."""
    for _ in range(MOST_PASSES):
        last, found = found, em_step(problem, found.stats, found.prior)
        if found.elbo - last.elbo < max(STILL * abs(before - found.elbo), LEAST):
            break
    return found
