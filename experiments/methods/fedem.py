"""FedEM for a mixture of categorical variables.

Dieuleveut, Fort, Moulines and Robin (2021), Federated-EM with heterogeneity mitigation and
variance reduction, NeurIPS. In each round some clients compute the expected sufficient
statistics of their rows under the server's parameters and send by how much these differ from
what the server knows of them: from its running statistics plus a control variate V_i, the
client's own direction as of when it last took part. The server moves its statistics along

    H = V + 1/p sum_(i in A) w_i Delta_i,   Delta_i = S_i - V_i - S,   V = sum_i w_i V_i

with a step size, then maximises. Control variates are what keeps clients that differ from
pulling the server to and fro. Nothing is compressed here, so that V_i may take up Delta_i
in full (the paper's alpha is 1). With all clients in each round and a step of 1, it is EM.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from experiments.methods.face import Batch, Info, Labels
from experiments.methods.modes import Floats, IntArray, level_offsets, one_hot

Doubles = NDArray[np.float64]

WINDOW = 10
"""Rounds whose gain in likelihood is looked at to stop. One alone says nothing: it depends on
who took part."""

LIKE_ITS_ROW = 0.5
"""How much a component is like the row that starts it; for the rest it is like all rows."""


class Mixture(NamedTuple):
    """Parameters of a mixture of categorical variables.

    Attributes
    ----------
    shares : float64 array (K,)
        Of each component.
    levels : float64 array (K, L)
        Probability of each level of each variable in each component.
    """

    shares: Doubles
    levels: Doubles


class Climb(NamedTuple):
    """Where one start ended.

    Attributes
    ----------
    theta : Mixture
        The server's last parameters.
    trace : list of float
        Log-likelihood after each round, in nats a row, as far as the server knows it: each
        client's as of when it last took part.
    """

    theta: Mixture
    trace: list[float]


@dataclass(frozen=True)
class FedEm:
    """FedEM; each batch is a client.

    Parameters
    ----------
    n_clusters : int
        Components.
    seed : int
        Of all that is drawn.
    participation : float
        Share of the clients that take part in a round, at least one. In the first all do, so
        that the server knows something of each.
    step : float
        Step size of the server, at most 1.
    max_rounds : int
        Most rounds of each start.
    tol : float
        Nats a row by which the likelihood must rise in `WINDOW` rounds to go on.
    smoothing : float
        Rows added to each level of each variable of each component, so that no probability
        is 0.
    n_init : int
        Starts; the best by likelihood is kept.
    """

    n_clusters: int
    seed: int = 0
    participation: float = 0.5
    step: float = 0.5
    max_rounds: int = 500
    tol: float = 1e-5
    smoothing: float = 0.01
    n_init: int = 5

    def fit(self, batches: list[Batch]) -> tuple[Labels, Info]:
        """Run rounds from each start; then every client gives its rows to components."""
        offsets = level_offsets(batches)
        clients = [one_hot(batch, offsets) for batch in batches]
        climbs = []
        for seed in np.random.SeedSequence(self.seed).spawn(self.n_init):
            rng = np.random.default_rng(seed)
            start = drawn_start(clients, self.n_clusters, offsets, rng)
            climbs.append(self.climb(clients, start, offsets, rng))
        best = max(climbs, key=lambda climb: climb.trace[-1])
        labels = np.concatenate(
            [log_joint(rows, best.theta).argmax(axis=1) for rows in clients], dtype=np.int64
        )
        rounds = sum(len(climb.trace) for climb in climbs)
        return labels, {
            "n_clusters": float(len(np.unique(labels))),
            "rounds": float(rounds),
            # Statistics and likelihood, in the rounds that a client takes part in.
            "released": rounds * self.participation * (self.n_clusters * free_levels(offsets) + 1),
            "log_likelihood": best.trace[-1] * len(labels),
        }

    def climb(
        self, clients: list[Floats], theta: Mixture, offsets: IntArray, rng: np.random.Generator
    ) -> Climb:
        """Run rounds from one start until the likelihood stands still.

        Parameters
        ----------
        clients : list of float32 arrays (N_i, L)
            One-hot rows of each client.
        theta : Mixture
            Where to begin.
        offsets : int64 array (P + 1,)
            First level of each variable, and the end.
        rng : Generator
            Where clients are drawn from.
        """
        n_rows = sum(len(rows) for rows in clients)
        w = np.array([len(rows) / n_rows for rows in clients])
        n_drawn = max(1, round(self.participation * len(clients)))
        known = np.zeros(len(clients))  # mean log-likelihood of each client when last drawn
        S, known[:] = _expectations(clients, theta)
        # Where all begin: each control variate is its client's direction, as if the server's
        # statistics were those of the first E step of all.
        running = np.tensordot(w, S, axes=1)
        V = S - running
        theta = maximise(running, n_rows, self.smoothing, offsets)
        trace = [float(w @ known)]
        while len(trace) < self.max_rounds:
            drawn = np.sort(rng.choice(len(clients), size=n_drawn, replace=False))
            S, known[drawn] = _expectations([clients[i] for i in drawn], theta)
            delta = S - V[drawn] - running
            moved = np.tensordot(w[drawn], delta, axes=1)
            H = np.tensordot(w, V, axes=1) + moved * (len(clients) / n_drawn)
            V[drawn] += delta
            running = running + self.step * H
            theta = maximise(running, n_rows, self.smoothing, offsets)
            trace.append(float(w @ known))
            if len(trace) > WINDOW and trace[-1] - trace[-1 - WINDOW] < self.tol:
                break
        return Climb(theta, trace)


def drawn_start(
    clients: list[Floats], n_clusters: int, offsets: IntArray, rng: np.random.Generator
) -> Mixture:
    """Make each component half like a row drawn from all clients, half like all rows."""
    sizes = np.array([len(rows) for rows in clients])
    mean = np.sum([rows.sum(axis=0, dtype=np.float64) for rows in clients], axis=0) / sizes.sum()
    ends = np.cumsum(sizes)
    drawn = rng.choice(ends[-1], size=n_clusters, replace=n_clusters > ends[-1])
    owner = np.searchsorted(ends, drawn, side="right")
    own = np.stack(
        [clients[i][n - ends[i] + sizes[i]] for i, n in zip(owner, drawn, strict=True)]
    ).astype(np.float64)
    # A drawn mean: where rows are drawn twice, components would stay twins for ever.
    spread = mean * rng.exponential(size=own.shape) + 1e-6
    spread /= by_variable(spread, offsets)
    levels = LIKE_ITS_ROW * own + (1 - LIKE_ITS_ROW) * spread
    return Mixture(np.full(n_clusters, 1 / n_clusters), levels)


def log_joint(rows: Floats, theta: Mixture) -> Floats:
    """Return ln p(x_n, z_n = k) for all rows and components, as float32."""
    joint: Floats = rows @ np.log(theta.levels).astype(np.float32).T
    joint += np.log(theta.shares).astype(np.float32)
    return joint


def expect(rows: Floats, theta: Mixture) -> tuple[Doubles, float]:
    """E step of one client: mean sufficient statistics and mean log-likelihood of its rows.

    Returns
    -------
    S : float64 array (K, 1 + L)
        Means over rows of r_nk, then of r_nk times the one-hot row.
    log_likelihood : float
        In nats a row.
    """
    r = log_joint(rows, theta)
    top = r.max(axis=1, keepdims=True)
    np.exp(r - top, out=r)
    total = r.sum(axis=1, keepdims=True)
    r /= total
    S = np.column_stack((r.sum(axis=0, dtype=np.float64), (r.T @ rows).astype(np.float64)))
    evidence = top[:, 0].astype(np.float64) + np.log(total[:, 0])
    return S / len(rows), float(evidence.mean())


def maximise(S: Doubles, n_rows: int, smoothing: float, offsets: IntArray) -> Mixture:
    """M step from mean statistics.

    Statistics that were moved along an estimated direction can fall below 0, which no rows
    could have; they are taken for 0.
    """
    counts = np.maximum(S * n_rows, 0.0) + smoothing
    levels = counts[:, 1:] / by_variable(counts[:, 1:], offsets)
    return Mixture(counts[:, 0] / counts[:, 0].sum(), levels)


def _expectations(clients: list[Floats], theta: Mixture) -> tuple[Doubles, Doubles]:
    found = [expect(rows, theta) for rows in clients]
    return np.stack([S for S, _ in found]), np.array([fit for _, fit in found])


def free_levels(offsets: IntArray) -> int:
    """Return how many numbers tell one component's sums: its size, and all levels but one each."""
    return int(offsets[-1]) - (len(offsets) - 1) + 1


def by_variable(levels: Doubles, offsets: IntArray) -> Doubles:
    """Return the sum over the levels of each variable, once for each level."""
    sums = np.add.reduceat(levels, offsets[:-1], axis=1)
    return np.repeat(sums, np.diff(offsets), axis=1)
