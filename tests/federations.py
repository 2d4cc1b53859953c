"""Made federations: all rows and all responsibilities of several sites, and what they send.

Here the tests hold what no centre ever sees, so that they can say what the truth is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple
from unittest.mock import patch

import numpy as np
from hypothesis import strategies as st
from scipy.special import log_softmax

from fedmerdel.release.cells import with_missing
from fedmerdel.release.mechanism import People
from fedmerdel.release.protection import protect
from fedmerdel.release.summary import SiteSummary
from fedmerdel.site.release import summary_fields
from fedmerdel.study.codebook import Codebook, Variable
from fedmerdel.study.policy import POLICIES
from fedmerdel.study.priors import study_prior
from fedmerdel.study.promise import Promise
from fedmerdel.study.study import Study
from fedmerdel.sums import search as search_module
from fedmerdel.sums.learning import Learned
from fedmerdel.sums.merging import LocalClusters, Merging, local_clusters
from fedmerdel.sums.prior import Prior, uniform_prior
from fedmerdel.sums.search import search_groups
from fedmerdel.sums.sums import Sums
from tests.drawn import seeds
from tests.reference import (
    Dense,
    PlainSums,
    m_step,
    overlap_matrix,
    seven_term_elbo,
    statistics_from,
)

Groups = list[np.ndarray]


class Federation(NamedTuple):
    """A study, and for each site its rows and ln r."""

    study: Study
    tables: list[Dense]
    log_r: list[np.ndarray]

    @property
    def prior(self) -> Prior:
        """The centre's: K_init summed over the sites."""
        return study_prior(self.study, len(self.tables) * self.study.n_components)

    @property
    def sites(self) -> list[str]:
        return [f"site {b}" for b in range(len(self.tables))]

    def summaries(self) -> list[SiteSummary]:
        return [
            summary_of(self.study, site, sums)
            for site, sums in zip(self.sites, self.site_sums(), strict=True)
        ]

    def site_sums(self) -> list[Sums]:
        """What each site would send: sums, overlaps included."""
        return [
            tidy(m_step(table, log_r))._replace(Q=overlaps(log_r, table.weights))
            for table, log_r in zip(self.tables, self.log_r, strict=True)
        ]

    def local(self) -> LocalClusters:
        return local_clusters(self.site_sums())

    def sums(self, groups: Groups) -> PlainSums:
        """Sums over all rows of all sites: r is block-diagonal, merged columns are summed."""
        widths = np.cumsum([0] + [r.shape[1] for r in self.log_r])
        r = np.zeros((sum(len(part) for part in self.log_r), widths[-1]))
        at = 0
        for part, start in zip(self.log_r, widths, strict=False):
            r[at : at + len(part), start : start + part.shape[1]] = np.exp(part)
            at += len(part)
        merged = np.stack([r[:, group].sum(axis=1) for group in groups], axis=1)
        table = Dense(
            np.concatenate([table.X for table in self.tables]),
            np.concatenate([table.weights for table in self.tables]),
            self.tables[0].n_levels,
        )
        with np.errstate(divide="ignore"):
            return m_step(table, np.log(merged))

    def true_elbo(self, groups: Groups, prior: Prior | None = None) -> float:
        """The ELBO under the study's prior before anything is learned of it, or another."""
        prior = self.prior if prior is None else prior
        return seven_term_elbo(self.sums(groups), prior) + prior.constant

    def true_gain(self, a: np.ndarray, b: np.ndarray, prior: Prior | None = None) -> float:
        """What merging two groups adds to the ELBO; all other clusters' terms cancel."""
        return self.true_elbo([np.concatenate([a, b])], prior) - self.true_elbo([a, b], prior)

    def learned(self) -> Federation:
        """The same rows under a study that learns its prior."""
        return self._replace(study=replace(self.study, prior="learned"))


def tidy(sums: PlainSums) -> Sums:
    found = statistics_from(sums)
    return found._replace(h=np.minimum(found.h, 0.0))


def overlaps(log_r: np.ndarray, weights: np.ndarray) -> np.ndarray:
    Q = np.triu(overlap_matrix(log_r, weights), k=1).clip(min=0.0)
    return Q + Q.T


def made_study(n_levels: np.ndarray, **options: object) -> Study:
    variables = tuple(
        Variable(f"v{j}", tuple(str(level) for level in range(L)), "integer")
        for j, L in enumerate(n_levels)
    )
    plain = {"max_clusters": 6, "policy": POLICIES["none"], "seed": 1, "prior": "fixed"}
    plain |= {"rounds": 200, "promise": Promise(trusts_centre=True)}
    return Study("made", Codebook(variables), **{**plain, **options})  # type: ignore[arg-type]


def everyone(hard: Sums, soft: Sums | None = None) -> Callable[[], People]:
    """The people behind hard clusters: each row is wholly in one, or in parts in these."""

    def whole(sums: Sums) -> Sums:
        named = {name: with_missing(sums.T, cells) for name, cells in sums.outcomes.items()}
        return sums._replace(outcomes=named)

    return lambda: People(whole(hard), hard.T, (soft or hard).total(), whole(hard.total()))


def summary_of(
    study: Study,
    site: str,
    sums: Sums,
    outcomes: dict[str, np.ndarray] | None = None,
    selected: tuple[str, ...] | None = None,
) -> SiteSummary:
    """What a site with these sums would send; overlaps are none where none are given."""
    if not len(sums.Q):
        sums = sums._replace(Q=np.zeros((sums.n_clusters,) * 2))
    sums = sums._replace(outcomes=outcomes or {})
    out = protect(sums, everyone(sums), study_prior(study, study.n_components), study.policy)
    return SiteSummary(**summary_fields(study, site, out, selected))


def evenly_shared(
    n_clusters: int, nats: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """h and Q of clusters each two of which have some rows by half, and no row is in three.

    Such a row adds ln 2 to their overlap, and half of it to -h of each.
    """
    blurred = np.sqrt(rng.exponential(1.0, n_clusters))
    Q = np.triu(rng.exponential(nats, (n_clusters, n_clusters)) * np.outer(blurred, blurred), 1)
    return -(Q + Q.T).sum(axis=1) / 2, Q + Q.T


few_sites = st.integers(1, 4)


@st.composite
def federations(
    draw: st.DrawFn, sites: st.SearchStrategy[int] = few_sites, max_rows: int = 12
) -> Federation:
    """Mixed levels, missing entries, weights; soft and hard responsibilities; any prior.

    Some rows come from two real clusters that the sites share, some are noise.
    """
    levels = np.array(draw(st.lists(st.integers(1, 4), min_size=1, max_size=5)))
    n_sites = draw(sites)
    missing = draw(st.sampled_from([0.0, 0.2]))
    weighted = draw(st.booleans())
    spread = draw(st.sampled_from([0.3, 2.0, 20.0]))
    signal = draw(st.sampled_from([0.0, 1.0, 6.0]))
    repeats = draw(st.sampled_from([1, 20]))
    alpha = draw(st.sampled_from([0.01, 0.5, 2.0]))
    sizes = [(draw(st.integers(1, max_rows)), draw(st.integers(1, 4))) for _ in range(n_sites)]
    rng = np.random.default_rng(draw(seeds))
    prior: object = "fixed"
    if draw(st.booleans()):
        prior = tuple(rng.gamma(1.0, 1.0, levels.sum()) + 1e-2)
    favourite = rng.integers(0, levels, size=(2, len(levels)))
    tables, log_r = [], []
    for n_rows, K in sizes:
        cluster = rng.integers(0, 2, n_rows)
        X = rng.integers(0, levels, size=(n_rows, len(levels)))
        if signal:
            X = np.where(rng.random(X.shape) < 0.8, favourite[cluster], X)
        X[rng.random(X.shape) < missing] = -1
        weights = rng.gamma(1.0, 2.0, n_rows) + 0.01 if weighted else np.ones(n_rows)
        logits = spread * rng.standard_normal((n_rows, K))
        logits[np.arange(n_rows), cluster % K] += signal
        tables.append(Dense(X, weights * repeats, levels))
        log_r.append(log_softmax(logits, axis=1))
    return Federation(made_study(levels, prior=prior, alpha=alpha), tables, log_r)


class Recorder:
    """Runs a search and writes down each proposal, with its gain, and each merge and its prior."""

    def __init__(self) -> None:
        self.proposals: list[tuple[frozenset[int], frozenset[int], float]] = []
        self.merges: list[tuple[np.ndarray, np.ndarray]] = []
        self.priors: list[Prior] = []

    def run(
        self,
        search: str,
        local: LocalClusters,
        prior: Prior,
        criterion: str = "kl",
        seed: int = 0,
        learned: Learned = None,
    ) -> Groups:
        recorder = self

        class Recorded(Merging):
            def gains(self, a: int, others: np.ndarray) -> np.ndarray:
                found = super().gains(a, others)
                for b, gain in zip(others, found, strict=True):
                    pair = frozenset(self.members[a].tolist()), frozenset(self.members[b].tolist())
                    recorder.proposals.append((*pair, float(gain)))
                return found

            def merge(self, a: int, b: int) -> None:
                recorder.merges.append((self.members[a].copy(), self.members[b].copy()))
                recorder.priors.append(self.prior)
                super().merge(a, b)

        rng = np.random.default_rng(seed)
        with patch.object(search_module, "Merging", Recorded):
            return search_groups(search, local, prior, learned, criterion, rng)  # type: ignore[arg-type]


def as_sets(groups: Groups) -> set[frozenset[int]]:
    return {frozenset(group.tolist()) for group in groups}


def binary(prevalences: list[list[float]], rows: list[float]) -> Sums:
    """Statistics of hard clusters of yes/no variables with these shares of yes."""
    T = np.array(rows, dtype=float)
    yes = T[:, None] * np.array(prevalences)
    S = np.stack([T[:, None] - yes, yes], axis=2).reshape(len(T), -1)
    return Sums(T, S, np.zeros(len(T)))


def hard_sites(sites: list[Sums]) -> LocalClusters:
    return local_clusters([s._replace(Q=np.zeros((s.n_clusters, s.n_clusters))) for s in sites])


def many_sites(n_sites: int, seed: int = 0) -> tuple[LocalClusters, np.ndarray, Prior]:
    """Four clear clusters, two to four of them at each site; the truth of each local cluster."""
    rng = np.random.default_rng(seed)
    true = rng.uniform(0.05, 0.95, (4, 20))
    sites, kind = [], []
    for _ in range(n_sites):
        here = rng.permutation(4)[: rng.integers(2, 5)]
        seen = (true[here] + rng.normal(0, 0.01, (len(here), 20))).clip(0.01, 0.99)
        sites.append(binary(seen.tolist(), rng.uniform(100, 300, len(here)).tolist()))
        kind.extend(here)
    return hard_sites(sites), np.array(kind), uniform_prior(np.full(20, 2), 0.01, 6 * n_sites)
