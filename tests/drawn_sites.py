"""Sites drawn at random, with sums in parts and the people behind them, for disclosure control."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st
from scipy.special import xlogy

from fedmerdel.release.mechanisms import mechanism_for
from fedmerdel.release.protection import Protected, protect
from fedmerdel.study.policy import POLICIES, Policy, custom_policy
from fedmerdel.sums.prior import Prior, uniform_prior
from fedmerdel.sums.sums import OutcomeCounts, Sums
from tests.federations import everyone

ACTIVE = [POLICIES[name] for name in ("opensafely", "ons", "datashield", "pcornet")]
ACTIVE += [custom_policy(6, 5), custom_policy(0, 5), custom_policy(7, 3), custom_policy(1)]
"""Policies that ask for something."""


class Site(NamedTuple):
    soft: Sums
    hard: Sums
    prior: Prior

    def protect(self, policy: Policy, **more: float) -> Protected:
        return protect(self.soft, everyone(self.hard), self.prior, policy, **more)  # type: ignore[arg-type]


def too_small(T: np.ndarray, people: np.ndarray, policy: Policy) -> np.ndarray:
    """Which clusters are, with as many people behind each as have it for their likeliest."""
    behind = Sums(people, np.zeros((len(people), 0)), np.zeros_like(people))
    return mechanism_for(policy).too_small(T, everyone(behind))


def site_of(X: np.ndarray, death: np.ndarray, r: np.ndarray, n_levels: np.ndarray) -> Site:
    """Sum rows with plain loops; -1 is missing in the table and in the outcome."""
    best = np.eye(r.shape[1])[r.argmax(axis=1)]

    def levels(weights: np.ndarray) -> np.ndarray:
        return np.column_stack(
            [weights.T @ (X[:, j] == v) for j, L in enumerate(n_levels) for v in range(L)]
        )

    def outcome(weights: np.ndarray) -> dict[str, OutcomeCounts]:
        return {"death": OutcomeCounts(weights.T @ (death == 1), weights.T @ (death >= 0))}

    g = [[(xlogy(a + b, a + b) - xlogy(a, a) - xlogy(b, b)).sum() for b in r.T] for a in r.T]
    Q = np.array(g)
    Q = np.maximum((Q + Q.T) / 2, 0.0)
    np.fill_diagonal(Q, 0.0)
    return Site(
        Sums(r.sum(axis=0), levels(r), xlogy(r, r).sum(axis=0), Q, outcome(r)),
        Sums(best.sum(axis=0), levels(best), np.zeros(r.shape[1]), outcomes=outcome(best)),
        uniform_prior(n_levels, 0.01, 20),
    )


def absorbed(r: np.ndarray, policy: Policy) -> np.ndarray:
    """Give the rows of too small clusters to the others, the smallest first."""
    while r.shape[1]:
        hard = np.bincount(r.argmax(axis=1), minlength=r.shape[1])
        small = too_small(r.sum(axis=0), hard.astype(float), policy)
        if not small.any():
            break
        r = np.delete(r, np.where(small, r.sum(axis=0), np.inf).argmin(), axis=1)
        r = (r + 1e-300) / (r + 1e-300).sum(axis=1, keepdims=True) if r.shape[1] else r
    return r


@st.composite
def sites(draw: st.DrawFn, policy: Policy) -> Site:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, n_clusters = draw(st.integers(12, 400)), draw(st.integers(1, 8))
    n_levels = np.array(draw(st.lists(st.integers(1, 7), min_size=1, max_size=4)))
    X = np.column_stack(
        [
            rng.choice(L, n, p=rng.dirichlet(np.full(L, draw(st.sampled_from([0.2, 1, 9])))))
            for L in n_levels
        ]
    )
    X[rng.random(X.shape) < draw(st.sampled_from([0.0, 0.02, 0.3]))] = -1
    death = rng.choice([-1, 0, 1], n, p=rng.dirichlet([0.3, 1.0, 0.3]))
    # From nearly sure rows to rows shared by all clusters.
    sureness = draw(st.sampled_from([0.003, 0.1, 1.0, 20.0]))
    r = rng.dirichlet(np.full(n_clusters, sureness), n)
    if draw(st.booleans()):
        r = np.eye(n_clusters)[r.argmax(axis=1)]
    r = absorbed(r, policy)
    assume(r.shape[1] > 0)
    return site_of(X, death, r, n_levels)
