"""Distributed EM for a mixture whose classes all sites share, each with its own proportions.

Liu, Duan, Carroll, Ning and Chen (2025), Distributed inference for heterogeneous mixture models
using multi-site data, arXiv 2512.16833. Written from its abstract and from the density ratio
tilting of Duan, Ning and Chen (2022, Biometrika), which it builds on: the text of the algorithm
was not at hand.

A lead site has its own rows, and of the other sites only gradients. It lets its rows stand for
site b's by their density ratio p_b(x) / p_lead(x), which needs b's proportions alone, and corrects
the sum of all such Q functions so that its gradient at the current parameters is the true one:

    surrogate(eta) = sum_b n_b mean_lead[ (p_b / p_lead) Q_b(x; eta) ] + (grad Q - grad Q~)' eta

For categorical variables in natural parameters eta, Q_b is linear in the sufficient statistics, so
the surrogate has a maximum in closed form: with T and S the sums over all sites of r_k and of
r_k times the one-hot row, and T~ what the lead site makes of T,

    phi_k  <-  phi_k + (S_k - T_k phi_k) / T~_k,   T~_k = sum_b n_b pi_bk mean_lead[f_k / p_lead],

a step of length T / T~ along that of EM. Sites send S_k - T_k phi_k and their proportions, which is
as much as S and T themselves: with those, the step is EM's own (`surrogate` off).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from experiments.methods.face import Batch, Info, Labels
from experiments.methods.fedem import (
    Doubles,
    Mixture,
    by_variable,
    drawn_start,
    expect,
    free_levels,
    log_joint,
)
from experiments.methods.modes import Floats, IntArray, level_offsets, one_hot

WINDOW = 10
"""Rounds whose gain in likelihood is looked at to stop, as for FedEM."""

LEAST = 1e-6
"""Least probability of a level. A surrogate whose T~ is far too small has its maximum at none."""


class Climb(NamedTuple):
    """Where one start ended.

    Attributes
    ----------
    sites : list of Mixture
        Each site's proportions with the shared level probabilities.
    trace : list of float
        Log-likelihood after each round, in nats a row.
    """

    sites: list[Mixture]
    trace: list[float]


@dataclass(frozen=True)
class SharedClasses:
    """Distributed EM with shared classes; each batch is a site, the largest one leads.

    Parameters
    ----------
    n_clusters : int
        Classes: the true number, for it does not find one.
    seed : int
        Of all that is drawn.
    surrogate : bool
        Whether the lead site makes its step by tilted rows of its own, as published; else with
        the sums of all sites.
    max_rounds : int
        Most rounds of each start.
    tol : float
        Nats a row by which the likelihood must rise in `WINDOW` rounds to go on.
    smoothing : float
        Rows added to each proportion, so that none is 0.
    n_init : int
        Starts; the best by likelihood is kept.
    """

    n_clusters: int
    seed: int = 0
    surrogate: bool = True
    max_rounds: int = 500
    tol: float = 1e-5
    smoothing: float = 0.01
    n_init: int = 5

    def fit(self, batches: list[Batch]) -> tuple[Labels, Info]:
        """Run rounds from each start; then every site gives its rows to classes."""
        offsets = level_offsets(batches)
        sites = [one_hot(batch, offsets) for batch in batches]
        rng = np.random.default_rng(self.seed)
        starts = [drawn_start(sites, self.n_clusters, offsets, rng) for _ in range(self.n_init)]
        climbs = [self.climb(sites, start, offsets) for start in starts]
        best = max(climbs, key=lambda climb: climb.trace[-1])
        given = [
            log_joint(rows, theta).argmax(axis=1)
            for rows, theta in zip(sites, best.sites, strict=True)
        ]
        labels = np.concatenate(given, dtype=np.int64)
        rounds = sum(len(climb.trace) for climb in climbs)
        return labels, {
            "n_clusters": float(len(np.unique(labels))),
            "rounds": float(rounds),
            # A gradient, the proportions and the likelihood of each round.
            "released": float(rounds * (self.n_clusters * free_levels(offsets) + 1)),
            "log_likelihood": best.trace[-1] * len(labels),
        }

    def climb(self, sites: list[Floats], start: Mixture, offsets: IntArray) -> Climb:
        """Run rounds from one start until the likelihood stands still.

        Parameters
        ----------
        sites : list of float32 arrays (N_b, L)
            One-hot rows of each site.
        start : Mixture
            Where to begin: all sites with the same proportions.
        offsets : int64 array (P + 1,)
            First level of each variable, and the end.
        """
        n = np.array([len(rows) for rows in sites], dtype=np.float64)
        lead = int(n.argmax())
        at = [start] * len(sites)
        trace: list[float] = []
        while len(trace) < self.max_rounds:
            told = [expect(rows, theta) for rows, theta in zip(sites, at, strict=True)]
            trace.append(float(n @ np.array([fit for _, fit in told]) / n.sum()))
            if len(trace) > WINDOW and trace[-1] - trace[-1 - WINDOW] < self.tol:
                break
            T = np.stack([mean[:, 0] for mean, _ in told]) * n[:, None]
            S = np.tensordot(n, np.stack([mean[:, 1:] for mean, _ in told]), axes=1)
            weight = T.sum(axis=0)
            if self.surrogate:
                # mean_lead[f_k / p_lead] is the mean responsibility over the proportion.
                ratio = T[lead] / n[lead] / at[lead].shares
                weight = ratio * (n @ np.stack([theta.shares for theta in at]))
            levels = surrogate_step(at[0].levels, S, T.sum(axis=0), weight, offsets)
            shares = (T + self.smoothing) / (T + self.smoothing).sum(axis=1, keepdims=True)
            at = [Mixture(own, levels) for own in shares]
        return Climb(at, trace)


def surrogate_step(
    levels: Doubles, S: Doubles, T: Doubles, weight: Doubles, offsets: IntArray
) -> Doubles:
    """Return the level probabilities that maximise the surrogate.

    Parameters
    ----------
    levels : float64 array (K, L)
        Where the gradients were taken.
    S, T : float64 arrays (K, L), (K,)
        Sums of all sites; the gradient is S - T phi.
    weight : float64 array (K,)
        T~, what the lead site makes of T; T itself gives the step of EM.
    offsets : int64 array (P + 1,)
        First level of each variable, and the end.
    """
    gradient = S - T[:, None] * levels
    moved = np.maximum(levels + gradient / np.maximum(weight, LEAST)[:, None], LEAST)
    return np.asarray(moved / by_variable(moved, offsets))
