"""Where each local cluster went, and what each round has brought."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import NamedTuple

MOVES = ("", "split", "merge", "delete", "taken back")
"""What the centre may have done in a round; "" is nothing but to count."""


class Ancestor(NamedTuple):
    """Where a local cluster went.

    Attributes
    ----------
    site : str
        Its site.
    local_cluster : int
        Its number there.
    cluster : int
        The global cluster that it became part of.
    rows : float
        Its rows.
    """

    site: str
    local_cluster: int
    cluster: int
    rows: float


class Round(NamedTuple):
    """What one round has brought: a broadcast, the sites' replies, and the centre's step.

    Attributes
    ----------
    number : int
        Its number, from 1.
    elbo : float or None
        The ELBO of all rows in nats: of the replies, or with a policy that changes counts of the
        clusters that were sent out. None if sites did not reply that are needed to know it.
    gain : float or None
        Nats that it has added to the ELBO; None where that is not known, since sites have come or
        gone or the replies were taken back.
    n_clusters : int
        Clusters that the replies left.
    moved : float
        At least this share of the rows changed cluster since the last model.
    stale : tuple of str
        Sites that did not reply, and are carried with what they sent last.
    move : {"", "split", "merge", "delete", "taken back"}
        What the centre did: clusters split or deleted in what it sends out next, or merged. Taken
        back: the replies were worse than what was known, so what was sent is forgotten.
    """

    number: int
    elbo: float | None
    gain: float | None
    n_clusters: int
    moved: float
    stale: tuple[str, ...]
    move: str = ""

    @property
    def is_possible(self) -> bool:
        """Whether a step can have brought this: every part is of its kind."""
        wholes = (self.number, self.n_clusters)
        return (
            all(type(each) is int and each >= 1 for each in wholes)
            and isinstance(self.elbo, float | None)
            and isinstance(self.gain, float | None)
            and isinstance(self.moved, float)
            and self.moved >= 0
            and all(isinstance(site, str) for site in self.stale)
            and self.move in MOVES
        )


def inherited(
    names: tuple[str, ...], before: Iterable[Ancestor], after: Iterable[Ancestor]
) -> tuple[str, ...]:
    """Return the names that clusters keep when local clusters are merged anew.

    A cluster keeps a name if more than half of its rows are of local clusters that had it, and
    this is so of no other cluster: else nobody knows which of them was meant.

    Parameters
    ----------
    names : tuple of str
        Of the clusters before, one for each.
    before, after : iterable of Ancestor
        Where each local cluster went.
    """
    had = {(a.site, a.local_cluster): names[a.cluster] for a in before}
    total: dict[int, float] = defaultdict(float)
    of_name: dict[tuple[int, str], float] = defaultdict(float)
    for a in after:
        total[a.cluster] += a.rows
        of_name[a.cluster, had.get((a.site, a.local_cluster), "")] += a.rows
    most = {k: name for (k, name), rows in of_name.items() if name and rows > total[k] / 2}
    times = Counter(most.values())
    return tuple(most[k] if k in most and times[most[k]] == 1 else "" for k in sorted(total))
