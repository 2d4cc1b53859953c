"""Federations whose rows the tests hold, as no centre does, and rounds played with them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from fedmerdel import Federation, Reply, Study, reply_site, simulate
from fedmerdel.fitting.passes import Workers, count_labels
from fedmerdel.site.site_table import study_rows
from fedmerdel.sums.expectations import Expectations
from tests.federations import made_study, summary_of

Tables = dict[str, np.ndarray]


class Made(NamedTuple):
    """A study, the rows of each of its sites, and all of them with the truth."""

    study: Study
    tables: Tables
    X: np.ndarray
    labels: np.ndarray

    @property
    def site(self) -> np.ndarray:
        return np.array(sorted(self.tables))[np.arange(len(self.X)) % len(self.tables)]

    def begun(self, labels: np.ndarray) -> Federation:
        """The model whose sites sent hard clusters of these labels, merged by their labels."""
        sent, owners = [], []
        with Workers() as workers:
            for name in sorted(self.tables):
                own = labels[self.site == name]
                rows = study_rows(self.study, self.tables[name])
                stats = count_labels(rows, own, int(labels.max()) + 1, workers)
                here = np.flatnonzero(stats.T)
                sent.append(summary_of(self.study, name, stats.take(here)))
                owners.append(here)
        owner = np.concatenate(owners)
        groups = [np.flatnonzero(owner == k) for k in np.unique(owner)]
        rows_of = np.concatenate([s.sums.T for s in sent])
        groups.sort(key=lambda group: -float(rows_of[group].sum()))
        return Federation(self.study, tuple(sent), tuple(groups), "exact", "correlation")


def made(
    seed: int,
    n_rows: int = 1200,
    n_sites: int = 4,
    n_clusters: int = 4,
    levels: tuple[int, ...] = (2, 3) * 6,
    beta: tuple[float, float] = (1.0, 1.0),
    **options: Any,
) -> Made:
    P = len(levels)
    table = simulate(n_rows, P, n_clusters, levels=levels, beta=beta, random_state=seed)
    study = made_study(np.array(levels), **options)
    tables = {f"s{b:02d}": table.X[b::n_sites] for b in range(n_sites)}
    return Made(study, tables, table.X, table.labels)


def replies_of(federation: Federation, tables: Tables, **options: Any) -> list[Reply]:
    """What each site replies to the federation's broadcast."""
    study, broadcast = federation.study, federation.broadcast
    return [reply_site(study, broadcast, X, site, **options) for site, X in tables.items()]


def play(federation: Federation, tables: Tables, rounds: int = 1) -> Federation:
    """The federation after so many rounds in which every site replies."""
    for _ in range(rounds):
        federation, _ = federation.step(replies_of(federation, tables))
    return federation


def noisy(labels: np.ndarray, share: float, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    other = rng.integers(0, labels.max() + 1, len(labels))
    return np.where(rng.random(len(labels)) < share, other, labels)


BINARY = (2,) * 20


def small_sites(seed: int, n_sites: int = 15, **options: Any) -> Made:
    """1500 rows, 100 at each of fifteen sites: what one of them sees of four clusters is little."""
    plain: dict[str, Any] = {
        "levels": BINARY,
        "beta": (0.5, 1.0),
        "prior": "learned",
        "max_clusters": 8,
    }
    return made(seed, 1500, n_sites, 4, **{**plain, **options})


def nonsense(federation: Federation, seed: int) -> Federation:
    rng, shape = np.random.default_rng(seed), federation.round_state.clusters.log_levels.shape
    wild = Expectations(rng.normal(0, 3, shape[:1]), rng.normal(0, 3, shape))
    return replace(federation, next_round=federation.round_state._replace(clusters=wild))
