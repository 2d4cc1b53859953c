"""Fit a mixture whose weights depend on covariates: a multinomial logit for each pattern of these.

Rows of one pattern v of the covariates have weights p_k(v) of their own (`regression`), so a pass
goes over the rows pattern by pattern. The rows of each pattern in each cluster, C_vk, and the
levels S are all that the M step needs of them: the coefficients are the best for C. With their
prior and q(phi) at its optimum, a pass never lowers

    sum_vk C_vk ln p_k(v) - sum precision beta^2 / 2
        + sum_kj [ln B(eps*_kj) - ln B(eps_j)] - sum_k h_k

Clusterings of different size are compared with the coefficients integrated out (Laplace). C also
tells what a merge would lead to: C_va + C_vb are the merged cluster's rows, so the best
coefficients after it are known without a pass, and so is its gain.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fedmerdel.fitting.ascent import WINDOW
from fedmerdel.fitting.history import History
from fedmerdel.fitting.passes import Workers, expect_and_count, overlap_matrix
from fedmerdel.inference.regression import (
    Cells,
    fit_coefficients,
    log_evidence,
    log_shares,
    objective,
    prior_precision,
)
from fedmerdel.records.packing import PackedRows
from fedmerdel.sums.arrays import FloatArray
from fedmerdel.sums.elbo import all_pairs, elbo, merge_gains
from fedmerdel.sums.expectations import Expectations, expectations
from fedmerdel.sums.learning import Learning
from fedmerdel.sums.prior import Prior
from fedmerdel.sums.stretch import GROWTH, next_longest, stretched
from fedmerdel.sums.sums import Sums

MERGES_TRIED = 10
"""Pairs of clusters whose merge is looked at, the most promising by their levels first."""


class Patterns(NamedTuple):
    """Rows by the pattern of their covariates.

    Attributes
    ----------
    rows : dict of int to PackedRows
        Of each pattern that any row has.
    design : float64 array (V, q)
        Numbers of each pattern: see `dummies`.
    """

    rows: dict[int, PackedRows]
    design: FloatArray


class Covaried(NamedTuple):
    """Clusters whose weights depend on covariates.

    Attributes
    ----------
    stats : Sums
        T, S and h of the clusters.
    counts : float64 array (V, K)
        Rows of each pattern in each.
    coefficients : float64 array (q, K - 1)
        The best for these counts; against the first cluster.
    prior : Prior
        Of the levels.
    value : float
        What passes raise.
    log_levels : float64 array (K, M)
        What the E step read of the levels, ...
    log_weights : float64 array (V, K)
        ... and of the weights of each pattern.
    """

    stats: Sums
    counts: FloatArray
    coefficients: FloatArray
    prior: Prior
    value: float
    log_levels: FloatArray
    log_weights: FloatArray

    def bound(self, design: FloatArray) -> float:
        """Return the ELBO with the coefficients integrated out."""
        of_levels = _of_levels(self.stats.S, self.stats.h, self.prior)
        return of_levels + log_evidence(self.counts, design, self.coefficients)


def fit_with_covariates(
    patterns: Patterns,
    stats: Sums,
    prior: Prior,
    learning: Learning | None,
    tol: float,
    max_iter: int,
    workers: Workers,
) -> tuple[Covaried, History, bool]:
    """Go on from clusters of a mixture without covariates: passes, and merges that gain.

    Parameters
    ----------
    patterns : Patterns
        The rows.
    stats : Sums
        The clusters to begin with.
    prior, learning
        The prior of the levels, and what is learned of it.
    tol : float
        Nats that the last stretches of passes may add.
    max_iter : int
        Most passes; a move that is under way is finished.
    workers : Workers
        The threads to work with.

    Returns
    -------
    found : Covaried
        The clusters, the largest first.
    history : History
        The passes and moves that led there.
    converged : bool
        Whether it settled within the passes allowed.
    """
    history = History(sum(rows.n_rows for rows in patterns.rows.values()), None)
    ascent = _Ascent(patterns, learning, workers, history)
    sizes = np.zeros(len(patterns.design))
    sizes[list(patterns.rows)] = [rows.weights.sum() for rows in patterns.rows.values()]
    first = ascent.best(sizes[:, None] * stats.T / stats.T.sum())
    found = ascent.step(first, stats, prior)
    while True:
        found, converged = ascent.settle(found, tol, max_iter)
        merged = ascent.merge(found) if converged else None
        by_size = np.argsort(-found.stats.T, kind="stable")
        if merged is not None:
            found = merged
        elif converged and np.any(np.diff(by_size) != 1):
            # The prior is of log odds against the first cluster, so it is another one now.
            stats, first = found.stats.take(by_size), ascent.best(found.counts[:, by_size])
            found = ascent.step(first, stats, found.prior)
        else:
            return found, history, converged


class _Ascent(NamedTuple):
    """Passes and merges on the rows."""

    patterns: Patterns
    learning: Learning | None
    workers: Workers
    history: History

    def best(self, counts: FloatArray, start: FloatArray | None = None) -> FloatArray:
        """Return the coefficients that are best for rows so counted."""
        design = self.patterns.design
        precision = prior_precision(design.shape[1])
        return fit_coefficients([Cells.of_sure(design, counts)], precision, start)

    def step(self, coefficients: FloatArray, stats: Sums, prior: Prior) -> Covaried:
        """E step with these coefficients and what the sums say of levels; then the M step."""
        design, (_, log_levels) = self.patterns.design, expectations(stats, prior)
        weights = log_shares(design, coefficients)
        counts = np.zeros_like(weights)
        S, h = np.zeros_like(stats.S), np.zeros_like(stats.h)
        for v, rows in self.patterns.rows.items():
            part = expect_and_count(rows, Expectations(weights[v], log_levels), self.workers)
            counts[v] = part.T
            S += part.S
            h += part.h
        if self.learning is not None:
            prior = self.learning.learn(S, prior)
        beta, tables = self.best(counts, coefficients), [Cells.of_sure(design, counts)]
        value = objective(tables, beta, prior_precision(design.shape[1]))
        value += _of_levels(S, h, prior)
        return Covaried(
            Sums(counts.sum(axis=0), S, h), counts, beta, prior, value, log_levels, weights
        )

    def settle(self, found: Covaried, tol: float, max_iter: int) -> tuple[Covaried, bool]:
        """Make passes, each two with a stretch, until the last stretches add next to nothing."""
        longest, gains = GROWTH, [np.inf] * WINDOW
        while sum(gains) > tol and self.history.n_iter < max_iter:
            before, second = found, self._pass(found)
            third = self._pass(second)
            x0, x1, x2 = (_flat(each) for each in (before, second, third))
            x, length = stretched(x0, x1, x2, 1.0 / np.sqrt(x2 + 0.5), longest)
            counts, S = np.split(x, [third.counts.size])
            sums = third.stats._replace(S=S.reshape(third.stats.S.shape))
            first = self.best(counts.reshape(third.counts.shape), third.coefficients)
            found = self.step(first, sums, third.prior)
            went_well = found.value >= third.value
            longest = next_longest(longest, length, went_well=went_well)
            if went_well:
                self.history.add_pass(found.value, found.stats.n_clusters)
            else:
                found = third
                self.history.n_iter += 1
            gains = [*gains[1:], found.value - before.value]
        return found, bool(sum(gains) <= tol)

    def _pass(self, found: Covaried) -> Covaried:
        found = self.step(found.coefficients, found.stats, found.prior)
        self.history.add_pass(found.value, found.stats.n_clusters)
        return found

    def merge(self, found: Covaried) -> Covaried | None:
        """Return the clusters after the merge that gains most; None if none gains."""
        design, (K, prior) = self.patterns.design, (found.stats.n_clusters, found.prior)
        if K == 1:
            return None
        Q = np.zeros((K, K))
        for v, rows in self.patterns.rows.items():
            theta = Expectations(found.log_weights[v], found.log_levels)
            Q += overlap_matrix(rows, theta, self.workers)
        pairs = all_pairs(K)
        overlap = Q[pairs[:, 0], pairs[:, 1]]
        of_levels = merge_gains(found.stats._replace(T=np.zeros(K)), prior, pairs, overlap)
        likely = np.argsort(-merge_gains(found.stats, prior, pairs, overlap), kind="stable")
        now = log_evidence(found.counts, design, found.coefficients)
        gains, starts = [], []
        for at in likely[:MERGES_TRIED]:
            a, b = pairs[at].tolist()
            counts = found.counts.copy()
            counts[:, a] += counts[:, b]
            counts = np.delete(counts, b, axis=1)
            starts.append(self.best(counts, _mean_of(found, a, b)))
            gains.append(log_evidence(counts, design, starts[-1]) - now + of_levels[at])
        best = int(np.argmax(gains))
        if not gains[best] > 0:
            return None
        a, b = pairs[likely[best]].tolist()
        bound = found.bound(design)
        self.history.add_move("merge", (a, b), (bound, bound + gains[best]), (K, K - 1), 1)
        return self.step(starts[best], found.stats.merged(a, b, float(Q[a, b])), prior)


def _of_levels(S: FloatArray, h: FloatArray, prior: Prior) -> float:
    """Return the part of the ELBO that is not of the weights."""
    return elbo(Sums(np.zeros_like(h), S, h), prior)


def _flat(found: Covaried) -> FloatArray:
    return np.concatenate([found.counts.ravel(), found.stats.S.ravel()])


def _mean_of(found: Covaried, a: int, b: int) -> FloatArray:
    """Return where the coefficients of merged clusters are looked for: at their mean by rows."""
    T = found.stats.T
    whole = np.column_stack([np.zeros(len(found.coefficients)), found.coefficients])
    whole[:, a] = (T[a] * whole[:, a] + T[b] * whole[:, b]) / (T[a] + T[b])
    whole = np.delete(whole, b, axis=1)
    return np.asarray(whole[:, 1:] - whole[:, :1])
