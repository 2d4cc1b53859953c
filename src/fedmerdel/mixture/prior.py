"""The prior of the mixture: how many components, how even, and how each level is weighed.

A fit may learn parts of it from the statistics (`strengths`, `selection`); a prior then also
says what that adds to the ELBO.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from fedmerdel.mixture.special import ln_betas
from fedmerdel.study.level_prior import Expected
from fedmerdel.study.protocol import Study

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


class Prior(NamedTuple):
    """Symmetric Dirichlet on the weights, a full vector per variable on the levels.

    Attributes
    ----------
    alpha : float
        ``alpha0``, the Dirichlet parameter of each component's weight.
    n_components : int
        ``K_init``. Components emptied by a move stay in the prior, so that the
        ELBOs before and after the move compare (appendix E).
    eps : float64 array (M,)
        ``eps_jl`` for each level of each variable, one variable after the other.
    offsets : int64 array (P + 1,)
        Where each variable's levels start in ``eps``, and the end.
    constant : float
        What the learned parts add to the ELBO besides their effect on the clusters.
    strength : float64 array (P,) or None
        ``c_j`` of a learned prior.
    inclusion : float64 array (P,) or None
        ``c_j = E[gamma_j]`` of a variable selection: the share of a variable's entries
        that the clusters explain. None is all of it.
    background : float64 array (M,) or None
        ``phi_0`` of a variable selection: what explains the rest.
    """

    alpha: float
    n_components: int
    eps: FloatArray
    offsets: IntArray
    constant: float = 0.0
    strength: FloatArray | None = None
    inclusion: FloatArray | None = None
    background: FloatArray | None = None

    def explained(self, S: FloatArray) -> FloatArray:
        """Return the counts that the clusters explain: all, or each variable's share."""
        return S if self.inclusion is None else S * np.repeat(self.inclusion, self.n_levels)

    def posterior(self, S: FloatArray) -> FloatArray:
        """Return eps* (equation epsdef; with variable selection appendix B): (..., M)."""
        return self.eps + self.explained(S)

    @property
    def n_levels(self) -> IntArray:
        """Levels of each variable."""
        return np.diff(self.offsets)


def uniform_prior(n_levels: IntArray, alpha: float, n_components: int) -> Prior:
    """Return the paper's prior: ``eps_j = 1 / L_j`` on every level."""
    offsets = np.concatenate(([0], np.cumsum(n_levels))).astype(np.int64)
    return Prior(alpha, n_components, np.repeat(1.0 / n_levels, n_levels), offsets)


def sum_levels(by_level: FloatArray, offsets: IntArray) -> FloatArray:
    """Sum an array over the levels of each variable: (..., M) to (..., P)."""
    return np.add.reduceat(by_level, offsets[:-1], axis=-1)


def level_totals(by_level: FloatArray, offsets: IntArray) -> FloatArray:
    """Return at each level the sum over the levels of its variable: (..., M)."""
    return np.repeat(sum_levels(by_level, offsets), np.diff(offsets), axis=-1)


def level_means(by_level: FloatArray, offsets: IntArray) -> FloatArray:
    """Divide by the sum over each variable's levels; even where that is 0: (..., M)."""
    totals = level_totals(by_level, offsets)
    n_levels = np.diff(offsets)
    even = np.repeat(1.0 / n_levels, n_levels)
    return np.where(totals > 0, by_level / np.where(totals > 0, totals, 1.0), even)


def ln_beta(eps: FloatArray, offsets: IntArray) -> FloatArray:
    """``sum_j ln B(eps_j)``, B the multivariate beta function: (..., M) to (...)."""
    flat = np.ascontiguousarray(eps, dtype=np.float64).reshape(-1, eps.shape[-1])
    return np.asarray(ln_betas(flat, offsets).reshape(eps.shape[:-1]))


def ln_beta_by_variable(eps: FloatArray, offsets: IntArray) -> FloatArray:
    """``ln B(eps_j)`` of each variable: (..., M) to (..., P)."""
    return np.asarray(sum_levels(gammaln(eps), offsets) - gammaln(sum_levels(eps, offsets)))


def level_shares(S: FloatArray, offsets: IntArray) -> FloatArray:
    """Return the share of each level among all counts, ``1 / L_j`` where there are none: (M,)."""
    return level_means(S.reshape(-1, S.shape[-1]).sum(axis=0), offsets)


def level_prior(expected: Expected, n_levels: IntArray, alpha: float, n_components: int) -> Prior:
    """Return the prior that was asked for, before anything is learned of it."""
    prior = uniform_prior(n_levels, alpha, n_components)
    return prior if isinstance(expected, str) else prior._replace(eps=np.array(expected))


def study_prior(study: Study, n_components: int) -> Prior:
    """Return a study's prior for this many components, before anything is learned of it."""
    return level_prior(study.prior, study.codebook.n_levels, study.alpha, n_components)
