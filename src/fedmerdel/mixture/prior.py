"""The prior of the mixture: how many components, how even, and how each level is weighed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedmerdel.mixture.special import ln_betas
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
    """

    alpha: float
    n_components: int
    eps: FloatArray
    offsets: IntArray

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


def ln_beta(eps: FloatArray, offsets: IntArray) -> FloatArray:
    """``sum_j ln B(eps_j)``, B the multivariate beta function: (..., M) to (...)."""
    flat = np.ascontiguousarray(eps, dtype=np.float64).reshape(-1, eps.shape[-1])
    return np.asarray(ln_betas(flat, offsets).reshape(eps.shape[:-1]))


def study_prior(study: Study, n_components: int) -> Prior:
    """Return a study's prior for this many components."""
    prior = uniform_prior(study.codebook.n_levels, study.alpha, n_components)
    return prior if study.prior is None else prior._replace(eps=np.array(study.prior))
