"""The slow, readable oracle: the paper's formulas on dense arrays, one after the other.

Written from the paper and not from the package, which it does not import but for
`packed`, the bridge to the kernels' input. A table is an int array X (N, P) of level
numbers, -1 for missing. What belongs to the levels is a list with one array (K, L_j) a
variable. Responsibilities are (N, K), kept as logarithms so that nothing vanishes.
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import digamma, expit, gammaln, logsumexp, xlogy

from fedmerdel.records.packing import PackedRows, plan_packing
from fedmerdel.sums.expectations import Expectations
from fedmerdel.sums.prior import Prior
from fedmerdel.sums.sums import Sums


class Dense(NamedTuple):
    """A table on plain arrays: level numbers, the weight of each row, levels a variable."""

    X: np.ndarray
    weights: np.ndarray
    n_levels: np.ndarray


class PlainSums(NamedTuple):
    """T (K,), S as a list of (K, L_j), and the sum of w r ln r for each cluster (K,)."""

    T: np.ndarray
    S: list[np.ndarray]
    h: np.ndarray


# The bridge between this module's arrays and the package's.


def packed(table: Dense, max_states: int = 256) -> PackedRows:
    """Pack the rows; only columns with missing entries get a digit for them."""
    missing = table.X < 0
    packing = plan_packing(table.n_levels, missing.any(axis=0), max_states)
    codes = np.zeros((len(table.X), packing.n_codes), dtype=np.uint8)
    digits = np.where(missing, table.n_levels, table.X)
    for j in range(table.X.shape[1]):
        codes[:, packing.code[j]] += (digits[:, j] * packing.stride[j]).astype(np.uint8)
    return PackedRows(codes, table.weights, packing)


def by_variable(flat: np.ndarray, n_levels: np.ndarray) -> list[np.ndarray]:
    """Cut an array whose last axis runs over all levels of all variables."""
    return np.split(flat, np.cumsum(n_levels)[:-1], axis=-1)


def sums_of(stats: Sums, n_levels: np.ndarray) -> PlainSums:
    return PlainSums(stats.T, by_variable(stats.S, n_levels), stats.h)


def statistics_from(sums: PlainSums) -> Sums:
    return Sums(sums.T, np.concatenate(sums.S, axis=1), sums.h)


# One E step and one M step.


def log_rho(X: np.ndarray, log_weights: np.ndarray, log_levels: list[np.ndarray]) -> np.ndarray:
    """Equation rhodef: the weight's expectation and that of each level which is not missing."""
    out = np.tile(log_weights, (len(X), 1)).astype(float)
    for n, row in enumerate(X):
        for j, level in enumerate(row):
            if level >= 0:
                out[n] += log_levels[j][:, level]
    return out


def e_step(table: Dense, theta: Expectations) -> np.ndarray:
    """Return ln r (N, K)."""
    rho = log_rho(table.X, theta.log_weights, by_variable(theta.log_levels, table.n_levels))
    return rho - logsumexp(rho, axis=1, keepdims=True)


def m_step(table: Dense, log_r: np.ndarray) -> PlainSums:
    r = np.exp(log_r)
    wr = table.weights[:, None] * r
    S = []
    for j, levels in enumerate(table.n_levels):
        here = [wr[table.X[:, j] == level].sum(axis=0) for level in range(levels)]
        S.append(np.stack(here, axis=1))
    return PlainSums(wr.sum(axis=0), S, (table.weights[:, None] * xlogy(r, r)).sum(axis=0))


def hard(labels: np.ndarray, n_clusters: int) -> np.ndarray:
    """ln r of hard labels; a row labelled -1 is in no cluster."""
    with np.errstate(divide="ignore"):
        return np.log((labels[:, None] == np.arange(n_clusters)).astype(float))


# The ELBO as appendix D.2 has it.


def ln_beta(x: np.ndarray) -> np.ndarray:
    """ln B over the last axis."""
    return np.sum(gammaln(x), axis=-1) - gammaln(np.sum(x, axis=-1))


def seven_terms(sums: PlainSums, prior: Prior) -> dict[str, float]:
    """Appendix D.2, equation by equation, with q(pi) and q(phi) as the M step leaves them.

    Components that a move has removed are still there (appendix E): their rows are 0.
    """
    n_empty = prior.n_components - len(sums.T)
    eps = by_variable(prior.eps, prior.n_levels)
    T = np.append(sums.T, np.zeros(n_empty))
    S = [np.concatenate([part, np.zeros((n_empty, part.shape[1]))]) for part in sums.S]
    alpha = np.full(prior.n_components, prior.alpha)
    alpha_star = alpha + T
    ln_pi = digamma(alpha_star) - digamma(alpha_star.sum())
    term = dict.fromkeys(("X", "Z", "pi", "phi", "q(Z)", "q(pi)", "q(phi)"), 0.0)
    term["Z"] = np.sum(T * ln_pi)
    term["pi"] = -ln_beta(alpha) + np.sum((alpha - 1) * ln_pi)
    term["q(Z)"] = np.sum(sums.h)
    term["q(pi)"] = -ln_beta(alpha_star) + np.sum((alpha_star - 1) * ln_pi)
    for eps_j, S_j in zip(eps, S, strict=True):
        eps_star = eps_j + S_j  # (K, L_j)
        ln_phi = digamma(eps_star) - digamma(eps_star.sum(axis=1, keepdims=True))
        term["X"] += np.sum(S_j * ln_phi)
        term["phi"] += np.sum(-ln_beta(eps_j) + np.sum((eps_j - 1) * ln_phi, axis=1))
        term["q(phi)"] += np.sum(-ln_beta(eps_star) + np.sum((eps_star - 1) * ln_phi, axis=1))
    return term


def seven_term_elbo(sums: PlainSums, prior: Prior) -> float:
    """Equation ELBObreakdown."""
    term = seven_terms(sums, prior)
    return float(
        term["X"] + term["Z"] + term["pi"] + term["phi"]
        - term["q(Z)"] - term["q(pi)"] - term["q(phi)"]
    )  # fmt: skip


# The ELBO with variable selection (appendices A and B), and with learned strengths.


def selection_terms(
    table: Dense, log_r: np.ndarray, c: np.ndarray, prior: Prior, a: float = 2.0
) -> dict[str, float]:
    """Every expectation under q, row by row, with q(pi), q(phi), q(delta) at their updates.

    phi_0 is the share of each level among all entries, 1 / L of a variable without any.
    """
    sums = m_step(table, log_r)
    plain = seven_terms(sums, prior)
    term = {name: plain[name] for name in ("Z", "pi", "q(Z)", "q(pi)")}
    term |= dict.fromkeys(("X", "phi", "gamma", "delta", "q(phi)", "q(gamma)", "q(delta)"), 0.0)
    r = np.exp(log_r)
    n_empty = prior.n_components - len(sums.T)
    for j, eps_j in enumerate(by_variable(prior.eps, prior.n_levels)):
        counts = sums.S[j].sum(axis=0)
        even = np.full(len(eps_j), 1 / len(eps_j))
        phi_0 = counts / counts.sum() if counts.sum() > 0 else even
        S = np.concatenate([sums.S[j], np.zeros((n_empty, len(eps_j)))])
        eps_star = eps_j + c[j] * S
        ln_phi = digamma(eps_star) - digamma(eps_star.sum(axis=1, keepdims=True))
        for n in np.flatnonzero((table.X[:, j] >= 0) & (table.weights > 0)):
            level = table.X[n, j]
            each = c[j] * ln_phi[: len(sums.T), level] + (1 - c[j]) * np.log(phi_0[level])
            term["X"] += table.weights[n] * np.sum(r[n] * each)
        term["phi"] += np.sum(-ln_beta(eps_j) + np.sum((eps_j - 1) * ln_phi, axis=1))
        term["q(phi)"] += np.sum(-ln_beta(eps_star) + np.sum((eps_star - 1) * ln_phi, axis=1))
        star = np.array([c[j] + a, 1 - c[j] + a])
        ln_delta = digamma(star) - digamma(2 * a + 1)
        term["gamma"] += c[j] * ln_delta[0] + (1 - c[j]) * ln_delta[1]
        term["delta"] += -ln_beta(np.array([a, a])) + np.sum((a - 1) * ln_delta)
        term["q(gamma)"] += xlogy(c[j], c[j]) + xlogy(1 - c[j], 1 - c[j])
        term["q(delta)"] += -ln_beta(star) + np.sum((star - 1) * ln_delta)
    return term


def selection_elbo(term: dict[str, float]) -> float:
    """E[ln p] - E[ln q]."""
    return float(sum(-v if name.startswith("q") else v for name, v in term.items()))


def strength_density(strength: np.ndarray) -> float:
    """ln p of strengths around a common one, log-normal (3, 1) as they are (common, 3).

    The common strength is where that is highest; constants are left out.
    """
    ln_c = np.log(strength)

    def minus(common: float) -> float:
        return float(np.sum((ln_c - common) ** 2) / 9 + (common - np.log(3)) ** 2) / 2

    return -float(minimize_scalar(minus, bracket=(-20, 20), tol=1e-12).fun)


# What a move costs the responsibilities.


def overlap_matrix(log_r: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Q(a, b) = sum_n w_n [(x + y) ln(x + y) - x ln x - y ln y]."""
    r = np.exp(log_r)
    n_clusters = r.shape[1]
    Q = np.zeros((n_clusters, n_clusters))
    for a, b in product(range(n_clusters), repeat=2):
        x, y = r[:, a], r[:, b]
        Q[a, b] = np.sum(weights * (xlogy(x + y, x + y) - xlogy(x, x) - xlogy(y, y)))
    return Q


def delete_cost(log_r: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """sum_n w_n ln(1 - r_nk), as the log of the other clusters' share."""
    others = [logsumexp(np.delete(log_r, k, axis=1), axis=1) for k in range(log_r.shape[1])]
    return np.array([np.sum(weights * share) for share in others])


# A cut through every cluster: u are the log odds (N, K) of its first half.


def cut_in_two(log_r: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """ln(r s) and ln(r (1 - s)), s = 1 / (1 + e^-u)."""
    return log_r - np.logaddexp(0.0, -u), log_r - np.logaddexp(0.0, u)


def blur(log_r: np.ndarray, u: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Q = sum_n w_n r_nk [-s ln s - (1 - s) ln(1 - s)]."""
    s, rest = expit(u), expit(-u)
    return np.asarray(weights @ (np.exp(log_r) * (-xlogy(s, s) - xlogy(rest, rest))))


# Exact probabilities, for tables of a few rows.


def log_joint(X: np.ndarray, z: np.ndarray, prior: Prior) -> float:
    """ln p(X, z), each row given those before it: what a Polya urn would say."""
    eps = by_variable(prior.eps, prior.n_levels)
    in_cluster = np.zeros(prior.n_components)
    seen = [np.zeros((prior.n_components, len(eps_j))) for eps_j in eps]
    total = 0.0
    for row, k in zip(X, z, strict=True):
        total += np.log((prior.alpha + in_cluster[k]) / np.sum(prior.alpha + in_cluster))
        in_cluster[k] += 1
        for j, level in enumerate(row):
            if level >= 0:
                total += np.log((eps[j][level] + seen[j][k, level]) / np.sum(eps[j] + seen[j][k]))
                seen[j][k, level] += 1
    return float(total)


def log_marginal(X: np.ndarray, prior: Prior) -> float:
    """ln p(X): the sum over every assignment of the rows."""
    assignments = product(range(prior.n_components), repeat=len(X))
    return float(logsumexp([log_joint(X, np.array(z), prior) for z in assignments]))


# Plain variational inference: what VICatMix runs when no variable is selected.


def plain_variational(table: Dense, labels: np.ndarray, prior: Prior, n_passes: int) -> list[float]:
    """Return the ELBO after each E and M step, started from labels.

    The first E step knows phi from the labels and nothing of the weights: all are equal.
    """
    one_hot = [
        (table.X[:, j][:, None] == np.arange(levels)).astype(float)
        for j, levels in enumerate(table.n_levels)
    ]
    eps = by_variable(prior.eps, table.n_levels)
    start = (labels[:, None] == np.arange(prior.n_components)).astype(float)
    S = [start.T @ indicator for indicator in one_hot]
    ln_pi = np.zeros(prior.n_components)
    elbos = []
    for _ in range(n_passes):
        rho = np.tile(ln_pi, (len(table.X), 1))
        for indicator, eps_j, S_j in zip(one_hot, eps, S, strict=True):
            star = eps_j + S_j
            rho += indicator @ (digamma(star) - digamma(star.sum(axis=1, keepdims=True))).T
        r = np.exp(rho - logsumexp(rho, axis=1, keepdims=True))
        T, S = r.sum(axis=0), [r.T @ indicator for indicator in one_hot]
        ln_pi = digamma(prior.alpha + T) - digamma(np.sum(prior.alpha + T))
        elbos.append(seven_term_elbo(PlainSums(T, S, xlogy(r, r).sum(axis=0)), prior))
    return elbos
