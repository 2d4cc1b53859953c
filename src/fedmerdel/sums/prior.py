"""The prior of the mixture: how many components, how even, and how each level is weighed.

A fit may learn parts of it from the statistics (`strengths`, `selection`); a prior then also
says what that adds to the ELBO.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from fedmerdel.sums.arrays import FloatArray, IntArray

Expected = Literal["fixed", "learned"] | tuple[float, ...]
"""What is expected of the levels: by name, or one number for each level."""

SMALLEST = 1e-9
"""Least Dirichlet parameter: below, sums with counts lose it altogether."""

LARGEST = 1e9
"""The largest: above, counts are lost in it."""

MOST_TOGETHER = 1_000_000
"""Components of a prior, of all sites together: arrays may have one number for each."""

ROUNDING = 1e-9
"""What a share may be above 1."""


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
    floor : float or None
        ``d`` of a learned prior.
    inclusion : float64 array (P,) or None
        ``c_j = E[gamma_j]`` of a variable selection: the share of a variable's entries
        that the clusters explain. None is all of it.
    background : float64 array (M,) or None
        ``phi_0`` of a variable selection: what explains the rest.
    guide : float64 array (P,) or None
        The weight of each variable in finding clusters, where outcomes guide it: its likelihood
        has this power. 1 for variables that are none; None is 1 for all.
    """

    alpha: float
    n_components: int
    eps: FloatArray
    offsets: IntArray
    constant: float = 0.0
    strength: FloatArray | None = None
    floor: float | None = None
    inclusion: FloatArray | None = None
    background: FloatArray | None = None
    guide: FloatArray | None = None

    def explained(self, S: FloatArray) -> FloatArray:
        """Return the counts that clusters are found by: all, or each variable's share of them."""
        share = self.inclusion if self.guide is None else self.guide
        return S if share is None else S * np.repeat(share, self.n_levels)

    def posterior(self, S: FloatArray) -> FloatArray:
        """Return eps* (equation epsdef; with variable selection appendix B): (..., M)."""
        return self.eps + self.explained(S)

    @property
    def described(self) -> Prior:
        """The prior under which levels are described: by all their counts, also those of a guide.

        A weight says how much an outcome has to do with which rows are together, and nothing of
        how frequent it is among them.
        """
        return self._replace(guide=None)

    @property
    def is_possible(self) -> bool:
        """Whether a fit can have ended with it; its parts fit each other, and no sum is too large.

        What is learned adds strengths to the parameters that may be given.
        """
        shapes = {
            "eps": (self.n_levels.sum(), SMALLEST, 2 * LARGEST),
            "strength": (len(self.n_levels), 0.0, LARGEST),
            "inclusion": (len(self.n_levels), 0.0, 1.0 + ROUNDING),
            "background": (self.n_levels.sum(), 0.0, 1.0 + ROUNDING),
            "guide": (len(self.n_levels), 0.0, 1.0 + ROUNDING),
        }
        for name, (size, low, high) in shapes.items():
            part = getattr(self, name)
            if part is not None and (
                part.shape != (size,) or not np.all((part >= low) & (part <= high))
            ):
                return False
        return (
            SMALLEST <= self.alpha <= LARGEST
            and 1 <= self.n_components <= MOST_TOGETHER
            and bool(np.isfinite(self.constant))
            and (self.floor is None or 0.0 < self.floor <= 1.0)
        )

    @property
    def n_levels(self) -> IntArray:
        """Levels of each variable."""
        return np.diff(self.offsets)


def uniform_prior(n_levels: IntArray, alpha: float, n_components: int) -> Prior:
    """Return the paper's prior: ``eps_j = 1 / L_j`` on every level."""
    offsets = np.concatenate(([0], np.cumsum(n_levels))).astype(np.int64)
    return Prior(alpha, n_components, np.repeat(1.0 / n_levels, n_levels), offsets)


def level_prior(
    expected: Expected,
    n_levels: IntArray,
    alpha: float,
    n_components: int,
    guide: FloatArray | None = None,
) -> Prior:
    """Return the prior that was asked for, before anything is learned of it."""
    prior = uniform_prior(n_levels, alpha, n_components)._replace(guide=guide)
    return prior if isinstance(expected, str) else prior._replace(eps=np.array(expected))
