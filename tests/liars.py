"""Honest federations of many kinds, and sites that lie in them: what no other site can check."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import adjusted_rand_score

from fedmerdel import (
    DataError,
    Federation,
    SiteSummary,
    Study,
    assign,
    fit_site,
    simulate,
)
from fedmerdel.centre.federation import merge_trusted
from fedmerdel.study.policy import POLICIES
from fedmerdel.sums.sums import Sums
from tests.federations import made_study, summary_of
from tests.outcome_cells import yes_no

LIAR = "site 00"
LEAST_ROWS = 60
"""Of a site: with fewer it would hardly take part."""


class Made(NamedTuple):
    """A study, and the rows, true clusters and summary of each site."""

    study: Study
    tables: list[np.ndarray]
    labels: list[np.ndarray]
    summaries: list[SiteSummary]

    def merged(self, lie: SiteSummary | None = None) -> Federation:
        """The federation, with a lie in place of what the liar would have sent."""
        sent = self.summaries if lie is None else [lie, *self.summaries[1:]]
        return merge_trusted(self.study, sent, "auto", "correlation")

    def accuracy(self, federation: Federation) -> float:
        """ARI of all sites but the liar."""
        found = [assign(federation.model, X).labels for X in self.tables[1:]]
        return adjusted_rand_score(np.concatenate(self.labels[1:]), np.concatenate(found))


def odd(federation: Federation) -> set[str]:
    return {doubt.site for doubt in federation.doubts}


def fitted(X: np.ndarray, labels: np.ndarray, site: np.ndarray, n_levels: Any, policy: str) -> Made:
    study = made_study(
        np.array(n_levels), policy=POLICIES[policy], max_clusters="auto", prior="learned", rounds=5
    )
    made = Made(study, [], [], [])
    for b in range(int(site.max()) + 1):
        here = site == b
        if here.sum() < LEAST_ROWS:
            continue
        try:
            summary = fit_site(study, X[here], f"site {b:02d}")
        except DataError:  # too small for its policy
            continue
        made.tables.append(X[here])
        made.labels.append(labels[here])
        made.summaries.append(summary)
    return made


def overlapping(seed: int, policy: str = "none", n_rows: int = 5000) -> Made:
    """Five sites alike, six clusters: someone who knew them would reach an ARI of about 0.67."""
    table = simulate(n_rows, 25, 6, beta=(2, 2), random_state=10_000 + seed)
    site = np.arange(n_rows) % 5
    return fitted(table.X.astype(float), table.labels, site, [2] * 25, policy)


def heterogeneous(seed: int, policy: str = "none") -> Made:
    """Scenario (c) of the paper: two clusters of its own at each site, and two everywhere."""
    table = simulate(20_000, 100, 12, random_state=20_000 + seed)
    site = np.random.default_rng(seed).permutation(np.arange(20_000) % 5)
    site = np.where(table.labels < 10, table.labels // 2, site)
    return fitted(table.X.astype(float), table.labels, site, [2] * 100, policy)


# Honest federations.


KINDS = (
    "alike", "sizes", "fifty times", "(a)", "(b)", "(c)", "own and common", "skewed",
    "very skewed", "missing", "lacks a variable", "drift", "few variables",
)  # fmt: skip


def honest(seed: int) -> Made:
    """A federation of 3 to 20 sites that are honest, of one of the kinds in turn."""
    rng = np.random.default_rng([77, seed])
    kind = KINDS[seed % len(KINDS)]
    policy = str(rng.choice(["none", "none", "opensafely", "ons"]))
    n_sites, n_clusters = int(rng.choice([3, 4, 5, 6, 8, 12, 20])), int(rng.integers(3, 13))
    levels, beta = _shape(rng, kind)
    sizes = np.full(n_sites, int(rng.choice([300, 500, 1000, 2000])))
    if kind in ("sizes", "lacks a variable", "drift"):
        sizes = np.exp(rng.uniform(np.log(200), np.log(5000), n_sites)).astype(int)
    elif kind == "fifty times":
        sizes = np.full(min(n_sites, 8), 250)
        sizes[0] *= 50
    elif kind in ("(a)", "(b)", "(c)"):
        sizes = np.full(10, 2000) if kind == "(a)" else np.full(5, 4000)
        n_clusters = 10 if kind == "(b)" else 12
    elif kind == "own and common":
        sizes = sizes[:8]
        n_clusters = 2 * len(sizes) + 2
    n_rows = int(sizes.sum())
    table = simulate(
        n_rows, len(levels), n_clusters, levels=levels, beta=beta,
        random_state=int(rng.integers(2**31)),
    )  # fmt: skip
    site, labels = rng.permutation(np.repeat(np.arange(len(sizes)), sizes)), table.labels
    if kind == "(a)":
        site[labels == 11] = 0
    elif kind == "(b)":
        site = labels // 2
    elif kind == "(c)":
        site = np.where(labels < 10, labels // 2, site)
    elif kind == "own and common":
        site = np.where(labels >= 2, (labels - 2) // 2, site)
    elif kind in ("skewed", "very skewed"):
        shares = rng.dirichlet(np.full(n_sites, 1.0 if kind == "skewed" else 0.1), n_clusters)
        site = np.array([rng.choice(n_sites, p=shares[k]) for k in labels])
    X = table.X.astype(float)
    if kind == "drift":
        X = _drifted(table.level_probabilities, labels, site, rng)
    elif kind == "missing":
        X[rng.random(X.shape) < _missing_rates(rng, len(sizes), len(levels))[site]] = np.nan
    elif kind == "lacks a variable":
        X[site == rng.integers(n_sites), rng.integers(len(levels))] = np.nan
    return fitted(X, labels, site, levels, policy)


def _shape(rng: np.random.Generator, kind: str) -> tuple[tuple[int, ...], tuple[float, float]]:
    """Levels of each variable, and what the probabilities of two levels are drawn from."""
    if kind in ("(a)", "(b)", "(c)"):
        return (2,) * 100, (1, 5)
    if kind == "few variables":
        return tuple(rng.integers(2, 4, rng.integers(2, 9)).tolist()), (0.5, 0.5)
    low, high, beta = [(10, 30, (1, 1)), (20, 50, (2, 2)), (40, 101, (1, 5)), (8, 40, (1, 1))][
        which := int(rng.integers(4))
    ]
    n_variables = int(rng.integers(low, high))
    if which == 3:
        return tuple(rng.integers(2, 5, n_variables).tolist()), beta
    return (2,) * n_variables, beta


def _drifted(
    phi: list[np.ndarray], labels: np.ndarray, site: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Rows of clusters whose levels differ a little from site to site."""
    X, spread = np.empty((len(labels), len(phi))), rng.uniform(0.1, 0.4)
    for b in np.unique(site):
        here = np.flatnonzero(site == b)
        for j, true in enumerate(phi):
            own = true * np.exp(spread * rng.standard_normal(true.shape))
            upper = np.cumsum(own / own.sum(axis=1, keepdims=True), axis=1)[:, :-1]
            X[here, j] = (rng.random(len(here))[:, None] >= upper[labels[here]]).sum(axis=1)
    return X


def _missing_rates(rng: np.random.Generator, n_sites: int, n_variables: int) -> np.ndarray:
    """The same in all variables of a site, each variable's own, or both."""
    of_site = rng.uniform(0, 0.3, (n_sites, 1))
    of_variable = rng.beta(1, 4, (n_sites, n_variables))
    return [
        np.broadcast_to(of_site, (n_sites, n_variables)),
        of_variable,
        np.minimum(5 * of_site * of_variable, 0.9),
    ][rng.integers(3)]


def dying(rows: np.ndarray, died: np.ndarray, policy: str = "none") -> Federation:
    """Sites of one cluster, of whose rows so many have an outcome; nan if nobody knows."""
    study = made_study(np.array([2, 2]), policy=POLICIES[policy], outcomes=("died",))
    sent = []
    for b, (n, each) in enumerate(zip(rows, died, strict=True)):
        S = n / 2 + np.array([[-b, b, b, -b]])  # no two are copies
        known = yes_no(*np.array([[0.0], [0.0]] if np.isnan(each) else [[each], [n]]))
        sums = Sums(np.array([n]), S, np.zeros(1))
        sent.append(summary_of(study, f"site {b:02d}", sums, {"died": known}))
    return merge_trusted(study, sent, "auto", "correlation")


# Lies: what the first site sends instead, as one that keeps its policy would.


def told(made: Made, T: np.ndarray, S: np.ndarray) -> SiteSummary:
    """Counts of hard clusters: h is 0, and overlaps are as small as may be told."""
    kept = T >= made.study.policy.smallest + made.study.policy.rounding
    sums = Sums(T[kept], S[kept], np.zeros(int(kept.sum())))
    return summary_of(made.study, LIAR, sums)


def halfway(made: Made, times: float, seed: int, of_the_others: bool = False) -> SiteSummary:
    """Clusters halfway between pairs, as many as it has, and so many times the rows.

    Between its own, each with the next around a circle, or between those of the others' model.
    """
    sums, rows = made.summaries[0].sums, made.summaries[0].n_rows
    if of_the_others:
        sums = merge_trusted(made.study, made.summaries[1:], "auto", "correlation").sums
    order = np.random.default_rng([3, seed]).permutation(sums.n_clusters)
    phi = sums.S / sums.T[:, None]
    middle = (phi[order] + phi[np.roll(order, -1)]) / 2
    T = (sums.T[order] + sums.T[np.roll(order, -1)]) / 2
    T *= times * rows / T.sum()
    return told(made, T, T[:, None] * middle)


def doubled(made: Made) -> SiteSummary:
    """Twice the rows, with the same levels."""
    sums = made.summaries[0].sums
    return told(made, 2 * sums.T, sums.S)


def invented(made: Made, n_clusters: int, seed: int) -> SiteSummary:
    """Clusters that nobody has."""
    rng, n_levels = np.random.default_rng([4, seed]), made.study.codebook.n_levels
    T = np.full(n_clusters, made.summaries[0].n_rows / n_clusters)
    parts = [rng.dirichlet(np.ones(L), n_clusters) for L in n_levels]
    return told(made, T, T[:, None] * np.concatenate(parts, axis=1))


def copied(made: Made, seed: int, but: int = 0) -> SiteSummary:
    """The next site's counts, in another order, and some of its clusters left out."""
    order = np.random.default_rng([5, seed]).permutation(made.summaries[1].n_clusters)[but:]
    sums = made.summaries[1].sums.take(order)
    least = made.summaries[1].mechanism.nats * (1 - np.eye(len(order)))
    return replace(
        made.summaries[1], site=LIAR, sums=sums._replace(h=np.zeros(len(order)), Q=least)
    )


def changed(made: Made, **parts: Callable[[Sums], np.ndarray]) -> SiteSummary:
    """Its own summary, with other h or Q."""
    own = made.summaries[0]
    arrays = {name: make(own.sums) for name, make in parts.items()}
    return replace(own, sums=own.sums._replace(**arrays))


REFUSED: dict[str, Callable[[Made], SiteSummary]] = {
    "h = -1e9": lambda made: changed(made, h=lambda s: np.full_like(s.h, -1e9)),
    "Q = 0": lambda made: changed(made, Q=lambda s: np.zeros_like(s.Q)),
    "Q = 1e15": lambda made: changed(made, Q=lambda s: 1e15 * (1 - np.eye(s.n_clusters))),
    "no h": lambda made: changed(made, h=lambda s: np.zeros_like(s.h)),
}
"""Lies that no rows can have given, by the bounds of `release.bounds`."""
