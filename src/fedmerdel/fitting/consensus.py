"""One clustering that agrees best with those of several starts.

Two ways, each a choice among candidates. *Clusters*: clusters of different starts are grouped
by the rows that they share, and the starts vote for each row; time grows with rows times
starts. *Rows*: which rows are together how often, an N x N matrix, as in the literature.

Moving single rows from the best candidate on was tried for both. On the benchmark's tables it
lowers what is minimised here and there, but on average brings labels no closer to the truth.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.sparse import csr_array
from scipy.spatial.distance import squareform

from fedmerdel.sums.agreement import expected_vi, label_loss, similarity
from fedmerdel.sums.arrays import FloatArray, IntArray


def agree_by_clusters(starts: IntArray, weights: FloatArray) -> IntArray:
    """Return the vote, or the start, with the least expected variation of information."""
    candidates = [*_voted(starts, weights), *starts]
    return min(candidates, key=lambda labels: expected_vi(labels, starts, weights))


def agree_by_rows(starts: IntArray, weights: FloatArray, max_clusters: int) -> IntArray:
    """Return the candidate with the lowest bound of the expected variation of information.

    Besides votes and starts these are hierarchical clusterings of the rows by how often
    they are together, average and complete linkage, cut at each number of clusters.
    """
    together = similarity(starts)
    cuts = _linked(1.0 - together, ("average", "complete"), 1, max_clusters)
    candidates = [*_voted(starts, weights), *starts, *cuts]
    return min(candidates, key=lambda labels: label_loss(labels, together, weights))


def _voted(starts: IntArray, weights: FloatArray) -> Iterator[IntArray]:
    """Yield the group of clusters with the most votes for each row.

    One vote for each number of groups from the fewest to the most clusters of a start:
    beyond these, no start would agree.
    """
    n_rows = starts.shape[1]
    n_clusters = starts.max(axis=1) + 1
    numbered = starts + (np.cumsum(n_clusters) - n_clusters)[:, None]
    alike = _alike(numbered, weights)
    for group in _linked(1.0 - alike, ("average",), int(n_clusters.min()), int(n_clusters.max())):
        votes = np.zeros((n_rows, int(group.max()) + 1), dtype=np.int32)
        for cluster in numbered:
            votes[np.arange(n_rows), group[cluster]] += 1
        yield np.unique(votes.argmax(axis=1), return_inverse=True)[1]


def _alike(numbered: IntArray, weights: FloatArray) -> FloatArray:
    """Return the Jaccard similarity of every two clusters of all starts: (C, C)."""
    n_starts, n_rows = numbered.shape
    bounds = np.arange(0, numbered.size + 1, n_starts)
    shape = (n_rows, int(numbered.max()) + 1)
    member = csr_array((np.ones(numbered.size), numbered.T.ravel(), bounds), shape=shape)
    weighed = csr_array((np.repeat(weights, n_starts), numbered.T.ravel(), bounds), shape=shape)
    shared = (member.T @ weighed).toarray()
    size = shared.diagonal()
    return np.asarray(shared / (size[:, None] + size[None, :] - shared))


def _linked(
    distance: FloatArray, ways: tuple[str, ...], fewest: int, most: int
) -> Iterator[IntArray]:
    """Yield the clusters of hierarchical clusterings, for each number of clusters."""
    n_items = len(distance)
    if n_items == 1:
        yield np.zeros(1, dtype=np.int64)
        return
    np.fill_diagonal(distance, 0.0)  # rounding
    condensed = squareform(distance, checks=False)
    for way in ways:
        tree = linkage(condensed, way)
        for n_clusters in range(fewest, min(most, n_items) + 1):
            yield fcluster(tree, n_clusters, "maxclust").astype(np.int64) - 1
