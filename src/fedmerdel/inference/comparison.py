"""Are the levels of clusters the same, variable by variable? From counts alone.

The gain of a merge is a sum of parts (`sums.elbo`): one for the weights, the overlap, and one for
each variable,

    ln BF_j = evidence_j(S_a + S_b) - evidence_j(S_a) - evidence_j(S_b),
    evidence_j(S) = ln B(eps_j + S_j) - ln B(eps_j),

the logarithm of the odds, in the light of the counts, that the two have the same levels of
variable j against levels of their own. Above 0: the same.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import gammaln, xlogy
from scipy.stats import chi2

from fedmerdel.sums.arrays import FloatArray, IntArray
from fedmerdel.sums.levels import level_means, level_totals, sum_levels
from fedmerdel.sums.prior import Prior


class LevelTest(NamedTuple):
    """Whether groups of rows have the same levels of each variable.

    Attributes
    ----------
    log_bayes_factors : float64 array (P,)
        ``ln BF_j`` of one set of levels for all groups against one for each: above 0, the same.
    statistic : float64 array (P,)
        ``G^2 = 2 sum_bl S_bl ln(S_bl / expected)``, the likelihood ratio.
    df : int64 array (P,)
        Its degrees of freedom: of levels and groups that have any rows.
    p_values : float64 array (P,)
        Of G^2 against chi-squared, for rows that are known to be in their group.
    """

    log_bayes_factors: FloatArray
    statistic: FloatArray
    df: IntArray
    p_values: FloatArray


def variable_evidence(S: FloatArray, prior: Prior) -> FloatArray:
    """Return ``ln B(eps_j + S_j) - ln B(eps_j)`` of each variable: (..., M) to (..., P)."""
    return _ln_betas(prior.posterior(S), prior.offsets) - _ln_betas(prior.eps, prior.offsets)


def log_bayes_factors(groups: FloatArray, prior: Prior) -> FloatArray:
    """Return ``ln BF_j`` of one set of levels for all groups against one each: (B, ..., M)."""
    together = variable_evidence(groups.sum(axis=0), prior)
    return np.asarray(together - variable_evidence(groups, prior).sum(axis=0))


def most_alike(
    counts: FloatArray, least: FloatArray, most: FloatArray, offsets: IntArray
) -> FloatArray:
    """Return counts within bounds that are as alike in all groups as may be: (B, ..., M).

    Each group has the levels of all groups together, as far as its bounds allow.

    Parameters
    ----------
    counts : float64 array (B, ..., M)
        What is expected of each group at each level.
    least, most : float64 arrays (B, ..., M)
        The fewest and the most that there may be.
    offsets : int64 array (P + 1,)
        Where each variable's levels start.
    """
    shared = level_means(counts.sum(axis=0), offsets)
    return np.asarray(np.clip(shared * level_totals(counts, offsets), least, most))


def same_levels(groups: FloatArray, prior: Prior) -> LevelTest:
    """Compare the levels of some groups of rows.

    Parameters
    ----------
    groups : float64 array (B, M)
        Counts of each group at each level.
    prior : Prior
        Of the levels.
    """
    offsets = prior.offsets
    within = sum_levels(groups, offsets)
    every, total = groups.sum(axis=0), within.sum(axis=0)
    # xlogy is 0 where there are no rows.
    statistic = 2.0 * (
        sum_levels(xlogy(groups, groups).sum(axis=0), offsets)
        - xlogy(within, within).sum(axis=0)
        - sum_levels(xlogy(every, every), offsets)
        + xlogy(total, total)
    )
    statistic = np.maximum(statistic, 0.0)
    levels = np.add.reduceat((every > 0).astype(np.int64), offsets[:-1])
    df = (levels - 1).clip(min=0) * ((within > 0).sum(axis=0) - 1).clip(min=0)
    p_values = np.where(df > 0, chi2.sf(statistic, np.maximum(df, 1)), 1.0)
    return LevelTest(log_bayes_factors(groups, prior), statistic, df, p_values)


def _ln_betas(parameters: FloatArray, offsets: IntArray) -> FloatArray:
    """Return the log beta function of each variable's parameters: (..., M) to (..., P)."""
    return np.asarray(
        sum_levels(gammaln(parameters), offsets) - gammaln(sum_levels(parameters, offsets))
    )
