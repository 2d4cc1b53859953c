"""Tables with known shares and levels, and how many of a fit's intervals hold these."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.stats import beta
from sklearn.metrics import confusion_matrix

from fedmerdel import FedMerDel, Intervals, MerDel, Prior, SimulatedTable, Sums, simulate
from fedmerdel.sums.predictive import level_intervals


class Setting(NamedTuple):
    """Rows, variables and clusters; levels are drawn from Beta(1, b)."""

    n_rows: int
    n_variables: int
    n_clusters: int
    b: float

    def __str__(self) -> str:
        return f"N = {self.n_rows:,}, P = {self.n_variables}, K = {self.n_clusters}"


WELL_APART = Setting(2_000, 60, 5, 5.0)  # best possible ARI about .87
OVERLAPPING = Setting(2_000, 30, 4, 4.5)  # about .68
MORE_ROWS = Setting(10_000, 30, 4, 4.5)


class Held(NamedTuple):
    """Shares of the intervals of levels, and of shares, that hold the truth."""

    variational: tuple[float, float]
    ours: tuple[float, float]


def drawn(setting: Setting, seed: int) -> tuple[SimulatedTable, np.ndarray]:
    """A table, and the shares of the population that its rows were drawn from."""
    rng = np.random.default_rng([seed, 1])
    pi = rng.uniform(1.0, 3.0, setting.n_clusters)
    pi /= pi.sum()
    N, P, K, b = setting
    sizes = rng.multinomial(N, pi).tolist()
    return simulate(N, P, K, beta=(1.0, b), cluster_sizes=sizes, random_state=seed), pi


def held(setting: Setting, seed: int, rounds: int | None) -> Held | None:
    """Of one table, or of its rows at four sites; None if it has another number of clusters."""
    table, pi = drawn(setting, seed)
    if rounds is None:
        one = MerDel(random_state=0).fit(table.X)
        labels, found = one.labels_, one.intervals(table.X)
        sums, prior = one._stats, one._prior
    else:
        sites = np.arange(setting.n_rows) % 4
        many = FedMerDel(rounds=rounds, random_state=0).fit(table.X, groups=sites)
        labels, found = many.labels_, many.model_.intervals()
        sums, prior = many.model_.sums, many.model_.prior
    K = setting.n_clusters
    if len(found.share_low) != K:
        return None
    together = confusion_matrix(table.labels, labels, labels=np.arange(K))
    order = linear_sum_assignment(-together)[1]
    truth = np.concatenate(table.level_probabilities, axis=1)
    return Held(
        *(_held(ends, order, truth, pi) for ends in (variational(sums, prior), found)),
    )


def variational(sums: Sums, prior: Prior) -> Intervals:
    """What the paper's posterior gives, to compare with."""
    alpha = prior.alpha + sums.T
    shares = beta.interval(0.95, alpha, alpha.sum() - alpha)
    return Intervals(*shares, *np.moveaxis(level_intervals(sums, prior, 0.95), 2, 0))


def _held(
    found: Intervals, order: np.ndarray, levels: np.ndarray, shares: np.ndarray
) -> tuple[float, float]:
    low, high, level_low, level_high = (ends[order] for ends in found)
    of_levels = (level_low <= levels) & (levels <= level_high)
    return float(of_levels.mean()), float(((low <= shares) & (shares <= high)).mean())
