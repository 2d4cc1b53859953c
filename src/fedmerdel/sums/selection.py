"""Variable selection as in the paper (appendices A and B): which variables tell clusters apart.

Each variable has an indicator gamma_j with q(gamma_j = 1) = c_j and a Beta(a, a) prior on its
probability delta_j; where gamma_j = 0, one distribution phi_0 serves all clusters. All updates
need the statistics alone: sum_nk r_nk E[ln phi_kj x_nj] = sum_kl S_kjl E[ln phi_kjl].

The paper's updates get stuck: q(phi) was found with c_j, so it speaks for c_j. With c_j = 1
a variable that is noise may stay in for good, though the ELBO with c_j = 0, and q(phi) at its
optimum for that, is higher. The default recipe looks at both ends, too.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import betaln, digamma, expit, xlogy

from fedmerdel.sums.arrays import FloatArray
from fedmerdel.sums.levels import expected_log_levels, level_shares, sum_levels
from fedmerdel.sums.prior import Prior
from fedmerdel.sums.special import ln_beta_by_variable

A = 2.0
"""Both parameters of the Beta prior on delta_j (appendix G.2)."""


LEAP = 9.0
"""Nats that a jump to either end must gain more than the paper's update.

A variable that tells little is taken for noise by a fixed prior that expects too much of it;
it should stay. Noise gains far more by leaving."""


class Selection(NamedTuple):
    """What selecting variables needs to know of the rows.

    Attributes
    ----------
    background : float64 array (M,)
        ``phi_0``, the maximum-likelihood estimate.
    jumps : bool
        Whether c_j may jump to 0 or 1 where that raises the ELBO most; else the updates
        are the paper's.
    """

    background: FloatArray
    jumps: bool = False

    @classmethod
    def of(cls, S: FloatArray, prior: Prior, jumps: bool = False) -> Selection:
        """Return what is needed for rows with these counts, in whatever clusters."""
        return cls(level_shares(S, prior.offsets), jumps)

    def start(self, prior: Prior) -> Prior:
        """Return the prior to begin with: every variable counts fully."""
        n_variables = len(prior.n_levels)
        return self._prior(prior, np.ones(n_variables), np.zeros(n_variables))

    def learn(self, S: FloatArray, prior: Prior) -> Prior:
        """Return the prior with c_j updated for these counts (K, M), q(phi) at its optimum."""
        assert prior.inclusion is not None
        log_levels = expected_log_levels(prior.posterior(S), prior.offsets)
        explained = sum_levels(S * log_levels, prior.offsets).sum(axis=0)
        plain = sum_levels(xlogy(S.sum(axis=0), self.background), prior.offsets)
        c = prior.inclusion
        # E[ln delta] - E[ln (1 - delta)] under q(delta) = Beta(c + a, 1 - c + a).
        odds = explained - plain + digamma(c + A) - digamma(1.0 - c + A)
        step = expit(odds)
        if self.jumps:
            ends = np.stack([step, np.zeros_like(step), np.ones_like(step)])
            values = np.stack([_elbo_parts(S, prior, c, plain) for c in ends])
            values[1:] -= LEAP
            step = ends[values.argmax(axis=0), np.arange(len(step))]
        return self._prior(prior, step, plain)

    def _prior(self, prior: Prior, c: FloatArray, plain: FloatArray) -> Prior:
        """Return the prior with these c, and q(delta) at its optimum for them.

        ``plain`` is the log-likelihood of each variable's entries under phi_0.
        The terms of gamma and delta: with q(delta) at its optimum, E[ln p(gamma | delta)]
        + E[ln p(delta)] - E[ln q(delta)] is the ratio of the normalising constants.
        """
        constant = float(_own_terms(c, plain).sum())
        return prior._replace(inclusion=c, background=self.background, constant=constant)


def _own_terms(c: FloatArray, plain: FloatArray) -> FloatArray:
    """Return what phi_0, gamma and delta of each variable add to the ELBO: (P,)."""
    delta = betaln(c + A, 1.0 - c + A) - betaln(A, A)
    entropy = -(xlogy(c, c) + xlogy(1.0 - c, 1.0 - c))
    return np.asarray((1.0 - c) * plain + delta + entropy)


def _elbo_parts(S: FloatArray, prior: Prior, c: FloatArray, plain: FloatArray) -> FloatArray:
    """Return each variable's part of the ELBO with these c, q(phi) at its optimum: (P,)."""
    eps = prior._replace(inclusion=c).posterior(S)
    at_prior = ln_beta_by_variable(prior.eps, prior.offsets)
    clusters = ln_beta_by_variable(eps, prior.offsets) - at_prior
    return np.asarray(clusters.sum(axis=0) + _own_terms(c, plain))
