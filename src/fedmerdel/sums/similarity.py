"""How alike two clusters are: the paper's criteria for proposing a merge (appendix C.1).

Each function takes eps* = eps + S of all clusters and returns a (K, K) matrix in
which a larger number means more alike.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from fedmerdel.sums.arrays import FloatArray
from fedmerdel.sums.levels import expected_log_levels
from fedmerdel.sums.prior import Prior
from fedmerdel.sums.special import ln_beta
from fedmerdel.sums.sums import Sums

Likeness = Literal["correlation", "kl", "bhattacharyya"]
"""How alike two clusters are said to be."""

MergeCriterion = Literal[Likeness, "random"]
"""How the pair to merge is chosen: one of the most alike, or any."""

MIN_CORRELATION = 0.05
"""Pairs less correlated than this are not proposed (appendix C.1)."""


def correlation(stats: Sums, prior: Prior) -> FloatArray:
    """Correlate eps* of the clusters over the variables.

    For binary variables the paper takes the level 0 of each. With more levels it
    leaves the question open: here the vector holds every level but the last of every
    variable, which is the paper's vector for binary tables and defined for any mix.
    """
    last = prior.offsets[1:] - 1
    eps = np.delete(prior.posterior(stats.S), last, axis=1)
    centred = eps - eps.sum(axis=1, keepdims=True) / max(eps.shape[1], 1)
    norm = np.sqrt(np.sum(centred**2, axis=1))
    scale = np.where(norm > 0, norm, 1.0)
    return np.asarray((centred / scale[:, None]) @ (centred / scale[:, None]).T)


def kullback_leibler(stats: Sums, prior: Prior) -> FloatArray:
    """Return minus KL(a || b) + KL(b || a), summed over the variables.

    The sum of both directions, so that a pair has one number whichever comes first.
    """
    eps = prior.posterior(stats.S)
    log_phi = expected_log_levels(eps, prior.offsets)
    # The beta functions cancel in the symmetric sum: what is left is
    # sum_jl (eps_a - eps_b)(E_a[ln phi] - E_b[ln phi]).
    own = np.sum(eps * log_phi, axis=1)
    cross = eps @ log_phi.T
    return np.asarray(cross + cross.T - own[:, None] - own[None, :])


def bhattacharyya(stats: Sums, prior: Prior) -> FloatArray:
    """Return minus the Bhattacharyya distance of q(phi), summed over the variables."""
    eps = prior.posterior(stats.S)
    single = ln_beta(eps, prior.offsets)
    middle = ln_beta((eps[:, None, :] + eps[None, :, :]) / 2, prior.offsets)
    return middle - (single[:, None] + single[None, :]) / 2


LIKENESS: dict[Likeness, Callable[[Sums, Prior], FloatArray]] = {
    "correlation": correlation,
    "kl": kullback_leibler,
    "bhattacharyya": bhattacharyya,
}
