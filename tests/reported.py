"""Models made quickly, of any size, for the tests of the report: counts drawn, nothing fitted."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedmerdel.centre.federation import Federation
from fedmerdel.release.summary import SiteSummary
from fedmerdel.study.codebook import Codebook, Variable
from fedmerdel.study.policy import POLICIES
from fedmerdel.study.study import Study
from fedmerdel.sums.sums import OutcomeCounts, Sums
from tests.federations import summary_of

DATE = "2026-02-03"

# What a name may hold, and what a page must show of it: the same text.
ODD = "<b>\"A\" & 'B'</b></script><script>x()</script>\u00e6\u05d0\U0001f600{{ 7 * 7 }}"
LONG = "a name without an end, " * 12


def conditions(n_variables: int) -> tuple[Variable, ...]:
    return tuple(Variable(f"v{j}", ("no", "yes"), "text") for j in range(n_variables))


def made_federation(
    n_clusters: int = 3,
    n_variables: int = 5,
    n_sites: int = 2,
    *,
    seed: int = 0,
    variables: tuple[Variable, ...] | None = None,
    sites: tuple[str, ...] | None = None,
    here: int | None = None,
    policy: str = "none",
    outcomes: tuple[str, ...] = (),
    **options: Any,
) -> Federation:
    """Clusters that differ in each variable; every site has some of them, or the first `here`.

    `here` is how many clusters a site has: site b those from b on, counted around.
    """
    rng = np.random.default_rng(seed)
    study = Study(
        options.pop("name", "made"), Codebook(variables or conditions(n_variables)),
        policy=POLICIES[policy], outcomes=outcomes,
        max_clusters=options.pop("max_clusters", max(20, n_clusters)), **options,
    )  # fmt: skip
    codebook = study.codebook
    parts = [rng.dirichlet(np.full(L, 0.6), n_clusters) for L in codebook.n_levels]
    parts = [0.98 * part + 0.02 / part.shape[1] for part in parts]
    rates = rng.uniform(0.05, 0.6, (len(outcomes), n_clusters))
    names = sites or tuple(f"site {b:03d}" for b in range(n_sites))
    assert list(names) == sorted(names)  # the order in which a model has them
    summaries, clusters = [], []
    for b, site in enumerate(names):
        own = (b * (here or 0) + np.arange(here or n_clusters)) % n_clusters
        T = rng.integers(150, 1500, len(own))
        told = {}
        for name, rate in zip(outcomes, rates, strict=True):
            observed = rng.binomial(T, 0.9)
            positive = rng.binomial(observed, rate[own])
            told[name] = OutcomeCounts(positive.astype(float), observed.astype(float))
        votes = None
        if study.variable_selection:
            votes = tuple(name for name in codebook.names if rng.random() < 0.9)
        S, h = _counts(T, parts, own, rng), -rng.exponential(9.0, len(T))
        sums = Sums(T.astype(float), S, h, _overlap(len(T), rng))
        summaries.append(summary_of(study, site, sums, told, votes))
        clusters.append(own)
    groups, rows = _groups(summaries, np.concatenate(clusters), n_clusters)
    by_size = np.argsort(-rows, kind="stable")
    return Federation(
        study, tuple(summaries), tuple(groups[k] for k in by_size), "exact", "correlation"
    )


def _counts(
    T: np.ndarray, parts: list[np.ndarray], own: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Rows of each cluster at each level; some entries are missing."""
    if all(part.shape[1] == 2 for part in parts):
        known = rng.binomial(T[:, None], 0.97, (len(T), len(parts)))
        yes = rng.binomial(known, np.stack([part[own, 1] for part in parts], axis=1))
        return np.stack([known - yes, yes], axis=2).reshape(len(T), -1).astype(float)
    known = rng.binomial(T, 0.97)
    return np.hstack([rng.multinomial(known, part[own]) for part in parts]).astype(float)


def _overlap(n_clusters: int, rng: np.random.Generator) -> np.ndarray:
    Q = np.triu(rng.exponential(0.5, (n_clusters, n_clusters)), 1)
    return Q + Q.T


def _groups(
    summaries: list[SiteSummary], clusters: np.ndarray, n_clusters: int
) -> tuple[list[np.ndarray], np.ndarray]:
    T = np.concatenate([summary.sums.T for summary in summaries])
    groups = [np.flatnonzero(clusters == k) for k in range(n_clusters)]
    return groups, np.array([T[group].sum() for group in groups])
