"""How much rows tell of a mixture's shares and levels: scores, their outer products, their worth.

A row that may belong to several clusters tells less of each than one that surely belongs to it.
Parameters are logits: of shares against the last cluster's, of levels against the last one of
their variable. The score of a row is the derivative of its log-probability by these::

    shares   r_nk - pi_k                    k < K
    levels   r_nk ([x_nj = l] - phi_kjl)    l < L_j, 0 where the entry is missing

The sum of their outer products estimates the information: exactly so, on average, if rows come
from the model. What second derivatives of real rows tell is `observed_information`.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from fedmerdel.sums.arrays import FloatArray, IntArray
from fedmerdel.sums.levels import level_totals

PRIOR_ROWS = 1.0
"""What is known without any row, in rows: the paper's prior of a cluster's levels."""

MOST_LOST = 0.99
"""Of what is known of shares, the most that not knowing the levels may cost in `block_worth`."""

ROUNDING = 1e-9
"""What is added to the information of shares, of each one's own."""

DUST = 1e-6
"""Of a row, what belongs to a cluster and is left out by `block_worth`."""


class Mixture(NamedTuple):
    """Where information is taken.

    Attributes
    ----------
    weights : float64 array (K,)
        Share of each cluster.
    levels : float64 array (K, M)
        Probability of each level in each cluster, none of them 0.
    offsets : int64 array (P + 1,)
        Where each variable's levels start, and the end.
    """

    weights: FloatArray
    levels: FloatArray
    offsets: IntArray

    @property
    def free(self) -> IntArray:
        """The levels that are parameters: of each variable all but the last."""
        return np.delete(np.arange(self.offsets[-1]), self.offsets[1:] - 1)

    @property
    def n_parameters(self) -> int:
        """Free shares and levels."""
        return len(self.weights) * (len(self.free) + 1) - 1


class Rows(NamedTuple):
    """Some rows, made up or a table's own, as far as formulas need them.

    Attributes
    ----------
    X : int64 array (n, P)
        Level numbers; -1 where an entry is missing.
    r : float64 array (n, K)
        The probability of each cluster.
    w : float64 array (n,)
        How many rows each stands for.
    """

    X: IntArray
    r: FloatArray
    w: FloatArray


class Worth(NamedTuple):
    """How many rows surely in their clusters tell as much; inf where nothing is unsure.

    `PRIOR_ROWS` more are the prior's.

    Attributes
    ----------
    shares : float64 array (K,)
        Of each cluster's share.
    levels : float64 array (K, M)
        Of each level in each cluster.
    """

    shares: FloatArray
    levels: FloatArray

    @classmethod
    def of(cls, shares: FloatArray, levels: FloatArray, mixture: Mixture) -> Worth:
        """Return it for these variances of logits: n sure rows give ``1 / (n p (1 - p))``."""
        alone = np.repeat(np.diff(mixture.offsets) == 1, np.diff(mixture.offsets))
        pairs = ((shares, mixture.weights), (np.where(alone, 0.0, levels), mixture.levels))
        with np.errstate(divide="ignore"):
            found = [1.0 / (v * p * (1.0 - p).clip(min=0.0)) for v, p in pairs]
        return cls(*((each - PRIOR_ROWS).clip(min=0.0) for each in found))


def _deviations(rows: Rows, mixture: Mixture) -> FloatArray:
    """Return ``[x_nj = l] - phi_kjl`` at free levels, 0 where x_nj is missing: (K, n, F)."""
    free = mixture.free
    variable = np.searchsorted(mixture.offsets, free, side="right") - 1
    seen = rows.X[:, variable]
    there = (seen == free - mixture.offsets[variable]).astype(np.float64)
    phi = mixture.levels[:, None, free]
    return np.where(seen >= 0, there - phi, 0.0)


def outer_products(parts: Iterable[Rows], mixture: Mixture) -> FloatArray:
    """Return the sum over rows of the outer products of their scores, shares first."""
    size = mixture.n_parameters
    total = np.zeros((size, size))
    for rows in parts:
        total += _products(rows, _deviations(rows, mixture), mixture.weights)
    return total


def observed_information(parts: Iterable[Rows], mixture: Mixture) -> FloatArray:
    """Return minus the second derivatives of the rows' log-likelihood.

    By Louis (1982): what rows would tell if their clusters were known, less the variance of the
    score of a row over the clusters that it may be in.
    """
    size, K, n_free = mixture.n_parameters, len(mixture.weights), len(mixture.free)
    total = np.zeros((size, size))
    for rows in parts:
        deviations, counts = _deviations(rows, mixture), rows.r * rows.w[:, None]
        total += _products(rows, deviations, np.zeros(K))
        total[: K - 1, : K - 1] += rows.w.sum() * _of_shares(mixture)
        total[: K - 1, : K - 1] -= np.diag(counts.sum(axis=0)[:-1])
        for k, (deviation, count) in enumerate(zip(deviations, counts.T, strict=True)):
            at = slice(K - 1 + k * n_free, K - 1 + (k + 1) * n_free)
            total[at, at] -= deviation.T @ (count[:, None] * deviation)
            if k < K - 1:
                total[k, at] -= count @ deviation
                total[at, k] -= count @ deviation
        total += _complete(counts.T @ (rows.X >= 0), mixture)
    return total


def _products(rows: Rows, deviations: FloatArray, centre: FloatArray) -> FloatArray:
    """Return the sum of the outer products of ``r_n - centre`` and the levels' scores."""
    n, K = rows.r.shape
    levels = (rows.r.T[:, :, None] * deviations).transpose(1, 0, 2).reshape(n, -1)
    scores = np.hstack([(rows.r - centre)[:, : K - 1], levels])
    scores *= np.sqrt(rows.w)[:, None]
    return np.asarray(scores.T @ scores)


def level_squares(parts: Iterable[Rows], mixture: Mixture) -> FloatArray:
    """Return ``sum_n w_n r_nk^2 [x_nj = l]`` as expected by the rows' other entries: (K, M).

    Few rows have a rare level, or none has; what they would tell of it is known all the same.
    """
    total = np.zeros_like(mixture.levels)
    for rows in parts:
        for j, (start, end) in enumerate(pairwise(mixture.offsets)):
            some = rows.X[:, j] >= 0
            phi = mixture.levels[:, start:end].T
            others = rows.r[some] / phi[rows.X[some, j]]
            others /= others.sum(axis=1, keepdims=True)
            w = rows.w[some]
            for level, p in enumerate(phi, start):
                total[:, level] += (w / (others @ p)) @ (others * p) ** 2
    return total


def _own_information(squares: FloatArray, mixture: Mixture) -> FloatArray:
    """Return the information of each level against all others of its variable: (K, M)."""
    others = level_totals(squares, mixture.offsets) - squares
    return np.asarray(squares * (1.0 - mixture.levels) ** 2 + others * mixture.levels**2)


def steadied(products: FloatArray, squares: FloatArray, mixture: Mixture) -> FloatArray:
    """Return outer products with each level's own information as it is expected to be.

    By chance a rare level is drawn more or less often than it should be. Where more, its scores are
    made smaller; where less, what is missing is added.
    """
    size, start = len(products), len(mixture.weights) - 1
    drawn = np.diag(products)[start:]
    expected = _own_information(squares, mixture)[:, mixture.free].ravel()
    scale = np.ones(size)
    scale[start:] = np.sqrt(np.minimum(expected / np.where(drawn > 0, drawn, 1.0), 1.0))
    found = products * np.outer(scale, scale)
    found[np.arange(start, size), np.arange(start, size)] = expected
    return np.asarray(found)


def _complete(entries: FloatArray, mixture: Mixture) -> FloatArray:
    """Return what rows surely in their clusters tell of the levels; 0 for the shares."""
    K, free = len(mixture.weights), mixture.free
    found = np.zeros((mixture.n_parameters,) * 2)
    variable = np.searchsorted(mixture.offsets, free, side="right") - 1
    same = variable[:, None] == variable
    for k, phi in enumerate(mixture.levels[:, free]):
        at = K - 1 + k * len(free)
        moments = np.diag(phi) - np.where(same, np.outer(phi, phi), 0.0)
        found[at : at + len(free), at : at + len(free)] = moments * entries[k, variable]
    return found


def prior_information(mixture: Mixture) -> FloatArray:
    """Return what `PRIOR_ROWS` sure rows tell of the shares, and as many of each level."""
    K = len(mixture.weights)
    found = _complete(np.full((K, len(mixture.offsets) - 1), PRIOR_ROWS), mixture)
    found[: K - 1, : K - 1] = PRIOR_ROWS * _of_shares(mixture)
    return found


def _of_shares(mixture: Mixture) -> FloatArray:
    """Return what one sure row tells of the shares."""
    weights = mixture.weights[:-1]
    return np.asarray(np.diag(weights) - np.outer(weights, weights))


def worth(information: FloatArray, mixture: Mixture) -> Worth:
    """Return what the whole matrix of the information says of each share and level.

    Raises
    ------
    numpy.linalg.LinAlgError
        If there is a direction in which less than nothing is known.
    """
    weights, levels, offsets = mixture
    K, n_free = len(weights), len(mixture.free)
    covariance = cho_solve(cho_factor(information), np.eye(len(information)))
    J = _logits_by(weights)
    shares = np.einsum("ab,bc,ac->a", J, covariance[: K - 1, : K - 1], J)
    found = np.zeros_like(levels)
    for j, (start, end) in enumerate(pairwise(offsets)):
        n = end - start - 1
        for k in range(K):
            at = K - 1 + k * n_free + start - j
            J = _logits_by(levels[k, start:end])
            block = covariance[at : at + n, at : at + n]
            found[k, start:end] = np.einsum("ab,bc,ac->a", J, block, J)
    return Worth.of(shares, found, mixture)


def _logits_by(p: FloatArray) -> FloatArray:
    """Return the derivatives of each ``logit p_a`` by all but the last ``ln(p_b / p_last)``."""
    if len(p) == 1:
        return np.zeros((1, 0))
    rest = np.maximum(1.0 - p, np.finfo(np.float64).eps)  # the others' may be lost in rounding
    return np.asarray((np.eye(len(p)) - p)[:, :-1] / rest[:, None])


def block_worth(parts: Iterable[Rows], mixture: Mixture) -> Worth:
    """Return nearly the same without the whole matrix, for mixtures of many parameters.

    Each level is taken against all others of its variable, as if all other levels were known.
    Shares lose what not knowing the levels costs them, level by level; where that is more than
    there is, `MOST_LOST` of it.
    """
    K, phi = len(mixture.weights), mixture.levels
    squares = np.zeros_like(phi)
    # For each cluster k of (r_a - [a = k]) r_k, which is 0 for sure rows.
    counted = np.zeros((K, K - 1, phi.shape[1]))
    of_shares = PRIOR_ROWS * _of_shares(mixture)
    for rows in parts:
        shares = (rows.r - mixture.weights)[:, : K - 1]
        of_shares += shares.T @ (shares * rows.w[:, None])
        squares += level_squares([rows], mixture)
        there = np.zeros((len(rows.X), phi.shape[1]))
        n, j = np.nonzero(rows.X >= 0)
        there[n, mixture.offsets[j] + rows.X[n, j]] = 1.0
        for k, r in enumerate(rows.r.T):
            some = np.flatnonzero(r > DUST)
            unsure = rows.r[some, : K - 1] - (np.arange(K - 1) == k)
            counted[k] += (unsure * (rows.w * r)[some, None]).T @ there[some]
    own = _own_information(squares, mixture) + PRIOR_ROWS * phi * (1.0 - phi)
    of_levels = 1.0 / np.where(own > 0.0, own, 1.0)
    free, lost = mixture.free, np.zeros((K - 1, K - 1))
    for counts, p, variance in zip(counted, phi, of_levels, strict=True):
        crossed = (counts - p * level_totals(counts, mixture.offsets))[:, free]
        lost += crossed @ (variance[free, None] * crossed.T)
    J = _logits_by(mixture.weights)
    left = np.linalg.inv(_less(of_shares, lost)) if K > 1 else of_shares
    return Worth.of(np.einsum("ab,bc,ac->a", J, left, J), of_levels, mixture)


def _less(known: FloatArray, lost: FloatArray) -> FloatArray:
    """Return what is left of the information, in no direction less than 1 - `MOST_LOST` of it."""
    # Clusters that are the same leave a direction of which rounding may say less than nothing.
    root = np.linalg.cholesky(known + ROUNDING * np.diag(np.diag(known)))
    shares, directions = np.linalg.eigh(np.linalg.solve(root, np.linalg.solve(root, lost).T))
    kept = root @ directions
    return np.asarray((kept * (1.0 - np.minimum(shares, MOST_LOST))) @ kept.T)
