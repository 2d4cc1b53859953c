"""Latent class regression on tables: how membership of clusters depends on covariates.

A row with covariates u, as numbers with a leading 1, belongs to cluster k with probability

    p_k(u) = exp(u' beta_k) / sum_l exp(u' beta_l),        beta_0 = 0,  beta_k ~ N(0, 1 / precision)

Categorical covariates have few patterns v, and rows are counted by pattern and cluster. Counts
may be of clusters that rows only seem to be in: with D_gk the mean share in g of rows that
belong to k (`confusion`), E[C_vg] = N_v sum_k D_gk p_k(v). The coefficients maximise

    sum_v sum_g C_vg ln sum_k D_gk p_k(v) - sum precision beta^2 / 2

by Fisher scoring, with steps halved until they rise. With D the identity this is the M step of a
mixture with covariates; with one cluster for each row it is Vermunt's (2010) ML method; for
rows that are shared by clusters its score is still 0 on average, and the covariance is a sandwich
that knows how rows are shared. `taken_back` makes of it the method of Bolck, Croon and Hagenaars.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import log_softmax

from fedmerdel.sums.arrays import FloatArray

SPREAD = 2.5
"""Standard deviation of a log odds ratio before any row is seen: rstanarm's."""

OPEN_SPREAD = 10.0
"""The same of an intercept, which may be far from 0 where a cluster is rare."""

MOST_STEPS = 200
"""Steps of a fit; it settles in about ten, unless rows are told apart by their patterns."""

STILL = 1e-11
"""Of the objective, the share by which the last step raises it at most."""

HALVINGS = 30
"""Of a step that does not rise."""

LONGEST = 5.0
"""Most that one step may change the log odds of any pattern."""

TINY = 1e-300
"""Least probability, so that nothing is divided by 0."""


class Cells(NamedTuple):
    """Rows by pattern and cluster, counted at one place.

    Attributes
    ----------
    design : float64 array (V, q)
        Numbers u of each pattern.
    counts : float64 array (V, G)
        Rows of each pattern in each cluster, as they seem.
    confusion : float64 array (G, K)
        D: the mean share in each, a line, of the rows that belong to each, a column.
    products : float64 array (K, G, G)
        The mean of r r' of the rows of each cluster.
    noise : float64 array (V, G, G)
        Covariance that disclosure control has added to the counts.
    """

    design: FloatArray
    counts: FloatArray
    confusion: FloatArray
    products: FloatArray
    noise: FloatArray

    @classmethod
    def of_sure(cls, design: FloatArray, counts: FloatArray) -> Cells:
        """Return counts of rows that are where they seem to be."""
        V, K = counts.shape
        own = np.eye(K)
        return cls(design, counts, own, own[:, :, None] * own[:, None, :], np.zeros((V, K, K)))


class Regression(NamedTuple):
    """Coefficients with their covariance.

    Attributes
    ----------
    coefficients : float64 array (q, K - 1)
        Of each number of the design, for each cluster but the first, against the first.
    covariance : float64 array ((K - 1) * q, (K - 1) * q)
        Of these, cluster by cluster.
    """

    coefficients: FloatArray
    covariance: FloatArray


def dummies(n_levels: Sequence[int]) -> FloatArray:
    """Return the design of all patterns of some variables, the last one changing first: (V, q).

    First 1, then for each variable whether it is at each of its levels but the first.
    """
    blocks = [np.eye(n)[:, 1:] for n in n_levels]
    lines = [np.concatenate([[1.0], *parts]) for parts in product(*blocks)]
    return np.array(lines)


def prior_precision(n_numbers: int) -> FloatArray:
    """Return the precision of each number's coefficients, of an intercept and the rest: (q,)."""
    return np.array([OPEN_SPREAD**-2] + [SPREAD**-2] * (n_numbers - 1))


def log_shares(design: FloatArray, coefficients: FloatArray) -> FloatArray:
    """Return ``ln p_k`` of each pattern: (V, K)."""
    eta = design @ coefficients
    return np.asarray(log_softmax(np.column_stack([np.zeros(len(eta)), eta]), axis=1))


def taken_back(cells: Cells) -> Cells:
    """Return counts as of rows that are where they seem to be: D^-1 C. Some may be below 0."""
    back = np.linalg.pinv(cells.confusion)
    return Cells(
        cells.design,
        cells.counts @ back.T,
        np.eye(len(back)),
        back @ cells.products @ back.T,
        back @ cells.noise @ back.T,
    )


def fit_coefficients(
    tables: Sequence[Cells], precision: FloatArray, start: FloatArray | None = None
) -> FloatArray:
    """Return the coefficients (q, K - 1) that maximise the objective; 0 in `precision` is flat."""
    q, K = tables[0].design.shape[1], tables[0].confusion.shape[1]
    beta = np.zeros((q, K - 1)) if start is None else start
    value = objective(tables, beta, precision)
    for _ in range(MOST_STEPS if K > 1 else 0):
        gradient = np.zeros((q, K - 1)) - precision[:, None] * beta
        for cells in tables:
            gradient += cells.design.T @ _scores(cells, beta)
        A = information(tables, beta, precision)
        step = _solved(A, gradient.T.ravel()).reshape(K - 1, q).T
        longest = max(np.abs(cells.design @ step).max() for cells in tables)
        step *= min(1.0, LONGEST / max(longest, TINY))
        for _ in range(HALVINGS):
            raised = objective(tables, beta + step, precision)
            if raised >= value:
                break
            step /= 2.0
        else:
            break
        beta, gain, value = beta + step, raised - value, raised
        if gain <= STILL * max(abs(value), 1.0):
            break
    return beta


def regress(tables: Sequence[Cells], precision: FloatArray) -> Regression:
    """Fit the coefficients to counts of several places, and say how sure they are."""
    beta = fit_coefficients(tables, precision)
    bread = _solved(information(tables, beta, precision), np.eye(beta.size))
    meat = np.diag(np.tile(precision, beta.shape[1]))
    for cells in tables:
        p, m, J = _at(cells, beta)
        N, weighed = cells.counts.sum(axis=1), J / np.maximum(m, TINY)[:, :, None]
        # Given N rows of a pattern, Cov C = N (sum_k p_k E[r r' | k] - m m'); J' m / m is 0.
        spread = np.einsum("v,vk,kgh->vgh", np.maximum(N, 0.0), p, cells.products) + cells.noise
        _spread_out(weighed.transpose(0, 2, 1) @ spread @ weighed, cells.design, meat)
    return Regression(beta, np.asarray(bread @ meat @ bread))


def objective(tables: Sequence[Cells], beta: FloatArray, precision: FloatArray) -> float:
    """Return the log-likelihood of the counts, and the prior's but for its constant."""
    total = -0.5 * float(precision @ (beta**2).sum(axis=1))
    for cells in tables:
        total += float((cells.counts * np.log(np.maximum(_at(cells, beta)[1], TINY))).sum())
    return total


def information(tables: Sequence[Cells], beta: FloatArray, precision: FloatArray) -> FloatArray:
    """Return what the counts tell of the coefficients, on average, and the prior."""
    total = np.diag(np.tile(precision, beta.shape[1]))
    for cells in tables:
        _, m, J = _at(cells, beta)
        N = np.maximum(cells.counts.sum(axis=1), 0.0)
        weighed = J / np.maximum(m, TINY)[:, :, None] * N[:, None, None]
        _spread_out(J.transpose(0, 2, 1) @ weighed, cells.design, total)
    return total


def log_evidence(counts: FloatArray, design: FloatArray, beta: FloatArray) -> float:
    """Return the log probability of sure rows' clusters, coefficients integrated out (Laplace).

    Parameters
    ----------
    counts : float64 array (V, K)
        Rows of each pattern in each cluster.
    design : float64 array (V, q)
        Numbers of each pattern.
    beta : float64 array (q, K - 1)
        What `fit_coefficients` found for them, under `prior_precision`.
    """
    tables, precision = [Cells.of_sure(design, counts)], prior_precision(design.shape[1])
    known = np.linalg.slogdet(information(tables, beta, precision))[1]
    before = beta.shape[1] * np.log(precision).sum()
    return float(objective(tables, beta, precision) + (before - known) / 2.0)


def _at(cells: Cells, beta: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return p (V, K), the expected shares m (V, G), and m by the log odds: (V, G, K - 1)."""
    p = np.exp(log_shares(cells.design, beta))
    m = p @ cells.confusion.T
    return p, m, (cells.confusion[None, :, 1:] - m[:, :, None]) * p[:, None, 1:]


def _scores(cells: Cells, beta: FloatArray) -> FloatArray:
    """Return the derivatives of the log-likelihood by the log odds of each pattern."""
    _, m, J = _at(cells, beta)
    return np.asarray(np.einsum("vg,vgk->vk", cells.counts / np.maximum(m, TINY), J))


def _spread_out(of_odds: FloatArray, design: FloatArray, into: FloatArray) -> None:
    """Add to a matrix of the coefficients that of each pattern's log odds (V, K - 1, K - 1)."""
    # Of many sites, each has numbers of its own: most of a design is 0.
    used, n = np.flatnonzero(design.any(axis=0)), of_odds.shape[1]
    own = design[:, used]
    found = np.einsum("vkl,vi,vj->kilj", of_odds, own, own, optimize=True)
    at = (np.arange(n)[:, None] * design.shape[1] + used).ravel()
    into[np.ix_(at, at)] += found.reshape(len(at), len(at))


def _solved(known: FloatArray, right: FloatArray) -> FloatArray:
    """Return ``known^-1 right``; 0 in directions of which nothing is known.

    Without a prior, patterns that nobody has leave such directions.
    """
    try:
        return np.asarray(cho_solve(cho_factor(known), right))
    except np.linalg.LinAlgError:
        return np.asarray(np.linalg.pinv(known, hermitian=True) @ right)
