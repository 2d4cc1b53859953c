"""Do the recipes find the clusters that are there? Claims over fixed seeds, with margins.

One lucky data set shows nothing, and an accuracy says little without the best that was
possible: `bayes_labels`. Each claim is made twice: over a few seeds here, and over many others
in `make test-statistics`, which writes what it measured to docs/results/statistics.md. Limits
leave room for another order of additions, not for a worse search.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from fedmerdel import bayes_labels, simulate
from fedmerdel.fitting.fit import fit_mixture
from fedmerdel.fitting.options import Options
from fedmerdel.fitting.passes import Workers, label_rows
from fedmerdel.fitting.solution import Problem
from fedmerdel.records.simulate import SimulatedTable
from fedmerdel.sums.expectations import expectations
from fedmerdel.sums.prior import uniform_prior
from tests.reference import Dense, packed
from tests.seeds import Record, over


def options(recipe: Any, laps: int | None = 5, tol: float = 1e-2, **changed: Any) -> Options:
    init = "divide" if recipe == "default" else "kmodes"
    plain: dict[str, Any] = {"merge_criterion": "correlation", "max_iter": 1000, "n_init": 1}
    return Options(**{"recipe": recipe, "init": init, "laps": laps, "tol": tol, **plain, **changed})


def fitted(table: SimulatedTable, max_clusters: int, how: Options, seed: int) -> tuple[int, float]:
    """Return the clusters found, and how far the labels' ARI is from the best possible."""
    n_levels = np.array([p.shape[1] for p in table.level_probabilities])
    rows = packed(Dense(table.X.astype(int), np.ones(len(table.X)), n_levels), max_states=16)
    prior = uniform_prior(n_levels, 0.01, max_clusters)
    problem = Problem(rows, prior, Workers(1))
    fit = fit_mixture(problem, how, np.random.SeedSequence(seed))
    assert fit.converged
    labels = label_rows(rows, expectations(fit.stats, prior), problem.workers)
    best = adjusted_rand_score(table.labels, bayes_labels(table))
    return fit.stats.n_clusters, best - adjusted_rand_score(table.labels, labels)


@over(range(4), range(100, 130))
def test_default_finds_twelve_clusters(seeds: range, record_property: Record) -> None:
    tables = {seed: simulate(4000, 100, 12, random_state=seed) for seed in seeds}
    found = [fitted(table, 20, options("default"), seed) for seed, table in tables.items()]
    n_clusters, gaps = np.array(found).T
    exact = float(np.mean(n_clusters == 12))
    record_property("share of fits with 12 clusters", f"{exact:.3f}, at least 0.9")
    record_property("ARI below the best possible, mean", f"{gaps.mean():.4f}, at most 0.015")
    record_property("the same, worst", f"{gaps.max():.4f}, at most 0.03")
    assert exact >= 0.9
    assert gaps.mean() <= 0.015
    assert gaps.max() <= 0.03


@over(range(2), range(100, 112))
def test_default_finds_many_small_clusters(seeds: range, record_property: Record) -> None:
    """A hundred rows each: twenty clusters can be worth what no two of them are."""
    tables = {seed: simulate(2000, 100, 20, random_state=seed) for seed in seeds}
    found = [fitted(table, 40, options("default"), seed)[0] for seed, table in tables.items()]
    record_property("mean number of clusters where 20 are true", f"{np.mean(found):.2f}, 19 to 21")
    assert abs(np.mean(found) - 20) <= 1


@over(range(3), range(100, 120))
def test_default_finds_clusters_of_mixed_levels_and_sizes(
    seeds: range, record_property: Record
) -> None:
    levels, sizes = (2, 3, 4) * 20, (100, 900)
    tables = {
        seed: simulate(3000, 60, 8, levels=levels, size_range=sizes, random_state=seed)
        for seed in seeds
    }
    found = [fitted(table, 20, options("default"), seed) for seed, table in tables.items()]
    n_clusters, gaps = np.array(found).T
    exact = float(np.mean(n_clusters == 8))
    record_property("share of fits with 8 clusters", f"{exact:.3f}, at least 0.8")
    record_property("ARI below the best possible, mean", f"{gaps.mean():.4f}, at most 0.015")
    assert exact >= 0.8
    assert gaps.mean() <= 0.015


@over(range(1), range(100, 110))
@pytest.mark.parametrize("max_clusters", [12, 60])
def test_default_needs_no_tight_limit(
    seeds: range, max_clusters: int, record_property: Record
) -> None:
    """More room for clusters than needed, or exactly enough, changes little."""
    counts = [
        fitted(simulate(4000, 100, 12, random_state=s), max_clusters, options("default"), s)[0]
        for s in seeds
    ]
    what = f"mean number of clusters where 12 are true and {max_clusters} allowed"
    record_property(what, f"{np.mean(counts):.2f}, 11.5 to 12.5")
    assert abs(np.mean(counts) - 12) <= 0.5


UNEVEN = [50, 80, 120, 150, 200, 250, 350, 800]


@over(range(2), range(100, 115))
def test_paper_with_laps_finds_about_eight_clusters_and_without_far_more(
    seeds: range, record_property: Record
) -> None:
    """Simulation 1.2 of the paper: plain variational inference keeps too many clusters."""
    tables = {
        seed: simulate(2000, 100, 8, cluster_sizes=UNEVEN, random_state=seed) for seed in seeds
    }
    counts, gaps = {}, {}
    for laps in (5, None):
        how = options("paper", laps, tol=5e-6)
        found = [fitted(table, 20, how, seed) for seed, table in tables.items()]
        counts[laps], gaps[laps] = np.mean(found, axis=0)
    record_property("clusters with laps where 8 are true", f"{counts[5]:.2f}, 7.3 to 8.7")
    record_property("clusters without", f"{counts[None]:.2f}, above 12")
    record_property("ARI below the best possible with laps", f"{gaps[5]:.4f}, at most 0.02")
    assert abs(counts[5] - 8) <= 0.7
    assert counts[None] > 12
    assert gaps[5] <= 0.02
    assert gaps[5] < gaps[None]


@over(range(3), range(100, 130))
def test_one_cluster_is_one_cluster(seeds: range, record_property: Record) -> None:
    """Independent variables: nothing to find, and nothing is found."""
    found = [
        fitted(simulate(1000, 40, 1, random_state=s), 10, options("default"), s)[0] for s in seeds
    ]
    record_property("most clusters where there is one", f"{max(found)}, 1")
    assert max(found) == 1
