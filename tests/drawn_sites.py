"""Sites drawn at random, with sums in parts and the people behind them, for disclosure control."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st
from scipy.special import xlogy

from fedmerdel.release.mechanism import People
from fedmerdel.release.mechanisms import mechanism_for
from fedmerdel.release.protection import Protected, protect
from fedmerdel.study.policy import POLICIES, Policy, custom_policy
from fedmerdel.sums.prior import Prior, uniform_prior
from fedmerdel.sums.sums import Sums
from tests.federations import everyone
from tests.outcome_cells import yes_no

ACTIVE = [POLICIES[name] for name in ("opensafely", "ons", "datashield", "pcornet")]
ACTIVE += [custom_policy(6, 5), custom_policy(0, 5), custom_policy(7, 3), custom_policy(1)]
"""Policies that ask for something."""


class Site(NamedTuple):
    soft: Sums
    hard: Sums
    prior: Prior
    whole: Sums

    def protect(self, policy: Policy, **more: float) -> Protected:
        return protect(self.soft, self.people, self.prior, policy, **more)  # type: ignore[arg-type]

    @property
    def people(self) -> Callable[[], People]:
        # Totals depend on the table alone: not on sums of clusters, which may lack some dust.
        found = everyone(self.hard)()._replace(rows=self.whole)
        return lambda: found._replace(everyone=everyone(self.whole)().behind)


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

    def outcome(weights: np.ndarray) -> dict[str, np.ndarray]:
        place = np.column_stack([(X[:, 0] + death) % 4 == v for v in range(3)])  # or none of them
        deaths = yes_no(weights.T @ (death == 1), weights.T @ (death >= 0))
        return {"death": deaths, "place": weights.T @ place.astype(float)}

    g = [[(xlogy(a + b, a + b) - xlogy(a, a) - xlogy(b, b)).sum() for b in r.T] for a in r.T]
    Q = np.array(g)
    Q = np.maximum((Q + Q.T) / 2, 0.0)
    np.fill_diagonal(Q, 0.0)
    one = np.ones((len(X), 1))
    return Site(
        Sums(r.sum(axis=0), levels(r), xlogy(r, r).sum(axis=0), Q, outcome(r)),
        Sums(best.sum(axis=0), levels(best), np.zeros(r.shape[1]), outcomes=outcome(best)),
        uniform_prior(n_levels, 0.01, 20),
        Sums(one.sum(axis=0), levels(one), np.zeros(1), outcomes=outcome(one)),
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
def rows_of(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.random.Generator]:
    """A table of rows, an outcome, and how many levels each variable has."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = draw(st.integers(12, 400))
    n_levels = np.array(draw(st.lists(st.integers(1, 7), min_size=1, max_size=4)))
    X = np.column_stack(
        [
            rng.choice(L, n, p=rng.dirichlet(np.full(L, draw(st.sampled_from([0.2, 1, 9])))))
            for L in n_levels
        ]
    )
    X[rng.random(X.shape) < draw(st.sampled_from([0.0, 0.02, 0.3]))] = -1
    death = rng.choice([-1, 0, 1], n, p=rng.dirichlet([0.3, 1.0, 0.3]))
    return X, death, n_levels, rng


def shares(draw: st.DrawFn, n: int, rng: np.random.Generator) -> np.ndarray:
    """Rows in clusters: from nearly sure ones to rows shared by all."""
    n_clusters = draw(st.integers(1, 8))
    r = rng.dirichlet(np.full(n_clusters, draw(st.sampled_from([0.003, 0.1, 1.0, 20.0]))), n)
    return np.eye(n_clusters)[r.argmax(axis=1)] if draw(st.booleans()) else r


@st.composite
def sites(draw: st.DrawFn, policy: Policy) -> Site:
    X, death, n_levels, rng = draw(rows_of())
    r = absorbed(shares(draw, len(X), rng), policy)
    assume(r.shape[1] > 0)
    return site_of(X, death, r, n_levels)


@st.composite
def clusterings(draw: st.DrawFn, policy: Policy) -> list[Site]:
    """One table in several clusterings, as a fit and replies have them; some clusters are small."""
    X, death, n_levels, rng = draw(rows_of())
    found = []
    for _ in range(draw(st.integers(2, 4))):
        r = shares(draw, len(X), rng)
        hard = np.bincount(r.argmax(axis=1), minlength=r.shape[1]).astype(float)
        if not too_small(r.sum(axis=0), hard, policy).all():
            found.append(site_of(X, death, r, n_levels))
    assume(len(found) > 1)
    return found
