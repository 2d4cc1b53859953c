"""k-FED with k-modes: each device clusters its rows, the server clusters the centres, once.

Dennis, Li and Smith (2021), Heterogeneity for the win: one-shot federated clustering. As in the
paper that this reproduces, k-modes takes the place of k-means and the Hamming distance that of
the Euclidean one. The local step of the original, a spectral projection before k-means, has no
counterpart for modes; several starts take its place.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from experiments.methods.face import Batch, Info, Labels
from experiments.methods.modes import (
    IntArray,
    cluster_modes,
    differences,
    level_offsets,
    one_hot,
)


@dataclass(frozen=True)
class KFed:
    """k-FED with k-modes.

    Parameters
    ----------
    n_clusters : int
        k, the clusters of all devices together.
    seed : int
        Of all that is drawn.
    n_local : int or None
        k', the clusters of each device. None takes k, which is right if rows are spread at
        random; k-FED is made for devices that hold few of the clusters each.
    n_init, max_iter : int
        Starts of each device's k-modes, and most passes of each.
    """

    n_clusters: int
    seed: int = 0
    n_local: int | None = None
    n_init: int = 5
    max_iter: int = 100

    def fit(self, batches: list[Batch]) -> tuple[Labels, Info]:
        """Cluster each batch, then the modes of all."""
        offsets = level_offsets(batches)
        n_local = self.n_clusters if self.n_local is None else self.n_local
        seeds = np.random.SeedSequence(self.seed).spawn(len(batches) + 1)
        local = [
            cluster_modes(
                one_hot(batch, offsets),
                offsets,
                n_local,
                np.random.default_rng(seed),
                n_init=self.n_init,
                max_iter=self.max_iter,
            )
            for batch, seed in zip(batches, seeds[1:], strict=True)
        ]
        first = int(np.random.default_rng(seeds[0]).integers(len(batches)))
        merged = merge_centres([fit.modes for fit in local], self.n_clusters, first, offsets)
        labels = np.concatenate(
            [at[fit.labels] for at, fit in zip(merged, local, strict=True)], dtype=np.int64
        )
        return labels, {
            "n_clusters": float(len(np.unique(labels))),
            "rounds": 1.0,
            "released": float(n_local * (len(offsets) - 1)),
            "local_clusters": float(sum(len(fit.modes) for fit in local)),
        }


def merge_centres(
    centres: list[IntArray], n_clusters: int, first: int, offsets: IntArray
) -> list[IntArray]:
    """Give every device's centres to global clusters: the server's part.

    The centres of one device are taken to be of different clusters. To these is added, until
    there are k, the centre that is farthest from all that are taken; if the first device has
    more than k, k of its own are taken in the same way. Then each centre goes to the nearest.

    Parameters
    ----------
    centres : list of int64 arrays (K_b, P)
        Modes of each device's clusters.
    n_clusters : int
        k.
    first : int
        The device to start with.
    offsets : int64 array (P + 1,)
        First level of each variable, and the end.

    Returns
    -------
    list of int64 arrays (K_b,)
        The global cluster of each centre.
    """
    pooled = np.concatenate(centres)
    starts = np.concatenate(([0], np.cumsum([len(device) for device in centres])))
    apart = differences(one_hot(pooled, offsets), pooled, offsets)
    own = np.arange(starts[first], starts[first + 1])
    few = len(own) <= n_clusters
    chosen = [int(at) for at in (own if few else own[:1])]
    allowed = np.full(len(pooled), few)
    allowed[own] = True
    while len(chosen) < n_clusters:
        distance = np.where(allowed, apart[:, chosen].min(axis=1), -1.0)
        farthest = int(distance.argmax())
        if distance[farthest] <= 0:  # all that is left are copies of those taken
            break
        chosen.append(farthest)
    nearest = apart[:, chosen].argmin(axis=1).astype(np.int64)
    return [nearest[start:end] for start, end in pairwise(starts)]
