"""Simulated tables and federations on which the numbers that steer searches can matter."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from scipy.special import expit

from benchmarks.measure import instead
from fedmerdel import (
    Federation,
    SiteSummary,
    Study,
    draft_study,
    fit_site,
    merge_sites,
    policy_named,
    simulate,
)
from fedmerdel.fitting.passes import Workers
from fedmerdel.records.encode import encode
from fedmerdel.records.infer import infer_codebook
from fedmerdel.records.packing import PackedRows
from fedmerdel.records.simulate import SimulatedTable
from fedmerdel.records.tables import open_table
from fedmerdel.sums import special

TABLES: dict[str, dict[str, Any]] = {
    "few rows": {"n_rows": 400, "n_variables": 30, "n_clusters": 4, "beta": (0.6, 2.0)},
    "noisy": {"n_rows": 1000, "n_clusters": 10, "size_range": (50, 200), "noisy": 0.25},
    "overlapping": {
        "n_rows": 2000,
        "n_variables": 12,
        "n_clusters": 6,
        "beta": (2.0, 2.0),
        "levels": (2, 3) * 6,
    },
    "wide": {"n_rows": 1500, "n_variables": 400, "beta": (0.2, 8.0)},
    "large": {"n_rows": 20_000, "n_clusters": 20},
    "large, overlapping": {"n_rows": 20_000, "n_variables": 30, "beta": (2.0, 5.0)},
    "many": {"n_rows": 2000, "n_variables": 60, "n_clusters": 20},
    "no clusters": {"n_rows": 2000, "n_variables": 20, "n_traits": 2},
}
N_TABLES = 4
FEDERATIONS: tuple[tuple[dict[str, Any], int], ...] = (  # each with its number of sites
    ({"n_rows": 1200, "n_variables": 40, "n_clusters": 8}, 8),
    ({"n_rows": 1200, "n_variables": 30, "n_clusters": 6, "beta": (0.6, 2.0)}, 12),
    (TABLES["overlapping"], 6),
)
N_FEDERATIONS = 2


@cache
def table_of(name: str, seed: int) -> SimulatedTable:
    """Return one of the tables."""
    options = TABLES[name]
    make = _traits if "n_traits" in options else simulate
    return make(random_state=seed, **options)


def _traits(n_rows: int, n_variables: int, n_traits: int, random_state: int) -> SimulatedTable:
    """Draw rows that are no mixture but differ by degrees, as real ones do.

    Clusters of them overlap. Labels are the thirds of the first trait.
    """
    rng = np.random.default_rng(random_state)
    trait = rng.standard_normal((n_rows, n_traits))
    log_odds = trait @ rng.standard_normal((n_traits, n_variables))
    log_odds += rng.normal(-1.0, 1.0, n_variables)
    X = (rng.random(log_odds.shape) < expit(log_odds)).astype(np.uint8)
    thirds = np.digitize(trait[:, 0], np.quantile(trait[:, 0], (1 / 3, 2 / 3)))
    return SimulatedTable(X, thirds, [], np.ones(n_variables, dtype=bool))


@cache
def rows_of(name: str, seed: int) -> PackedRows:
    """Return its rows, encoded."""
    table = open_table(table_of(name, seed).X)
    return encode(table, infer_codebook(table))


Made = tuple[Study, list[SiteSummary], SimulatedTable]


@cache
def federation(policy: str, at: int) -> Made:
    """Return a study, what its sites have sent, and all rows: site b has every n-th row."""
    options, n_sites = FEDERATIONS[at // N_FEDERATIONS]
    table = simulate(random_state=at, **options)
    study = replace(
        draft_study(table.X, rounds=1000, trusts_centre=True), policy=policy_named(policy), seed=at
    )
    sent = [fit_site(study, table.X[b::n_sites], f"{b:02d}") for b in range(n_sites)]
    return study, sent, table


def each_federation(policy: str) -> Iterator[tuple[int, Made]]:
    """Yield every federation with its number."""
    for at in range(len(FEDERATIONS) * N_FEDERATIONS):
        yield at, federation(policy, at)


@cache
def one_shot(at: int) -> Federation:
    """Return what a federation's sites have sent, merged."""
    study, sent, _ = federation("none", at)
    return merge_sites(study, sent)


@contextmanager
def counted_rows() -> Iterator[list[int]]:
    """Count the rows of every pass."""
    seen: list[int] = []
    usual = Workers.over_chunks

    def over_chunks(self: Workers, n_rows: int, work: Any) -> Any:
        seen.append(n_rows)
        return usual(self, n_rows, work)

    with instead(Workers, "over_chunks", over_chunks):
        yield seen


@contextmanager
def counted_evidence() -> Iterator[list[int]]:
    """Count the clusters whose evidence is worked out, alone or joined."""
    seen: list[int] = []
    alone, joined = special.ln_betas, special.joined_ln_betas

    def ln_betas(eps: Any, offsets: Any) -> Any:
        seen.append(len(eps))
        return alone(eps, offsets)

    def joined_ln_betas(S: Any, others: Any, rows: Any, *rest: Any) -> Any:
        seen.append(len(rows))
        return joined(S, others, rows, *rest)

    with (
        instead(special, "ln_betas", ln_betas),
        instead(special, "joined_ln_betas", joined_ln_betas),
    ):
        yield seen
