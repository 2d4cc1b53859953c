"""What a fit did: every pass's ELBO, every move proposed, and when."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Literal

MoveKind = Literal["merge", "delete", "split", "swap"]


@dataclass(frozen=True)
class Move:
    """One proposed move.

    Attributes
    ----------
    kind : {"merge", "delete", "split", "swap"}
        What was proposed. A swap splits one cluster and merges two others, for when
        there are as many clusters as there may be.
    clusters : tuple of int
        The clusters that it touched, by their number at that time.
    accepted : bool
        Whether the ELBO rose.
    elbo_before, elbo_after : float
        The ELBO without and with the move, in nats.
    n_clusters : int
        Clusters after the decision.
    n_rows : int
        Rows that decided it: all, or those of a sample; identical rows may be one.
    n_iter : int
        Passes over these rows made when it was decided, its own included.
    seconds : float
        Time since the fit began.
    """

    kind: MoveKind
    clusters: tuple[int, ...]
    accepted: bool
    elbo_before: float
    elbo_after: float
    n_clusters: int
    n_rows: int
    n_iter: int
    seconds: float


@dataclass
class History:
    """The record of a fit, written as it goes; ``watch`` is called after each entry."""

    n_rows: int
    watch: Callable[[History], None] | None = None
    elbos: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    moves: list[Move] = field(default_factory=list)
    n_iter: int = 0
    n_clusters: int = 0
    began: float = field(default_factory=time.perf_counter)

    def on_sample(self, n_rows: int) -> History:
        """Return a record for a sample: its moves are kept with ours, its passes are not."""
        return History(n_rows, self.watch, moves=self.moves, began=self.began)

    def aside(self) -> History:
        """Return a record for a long trial on the same rows; `take` ends it."""
        return History(self.n_rows, self.watch, n_iter=self.n_iter, began=self.began)

    def take(self, aside: History, accepted: bool) -> bool:
        """Take a trial into the record: its passes and, if it was accepted, what it led to."""
        self.n_iter = aside.n_iter
        if accepted:
            self.moves += aside.moves
            self._keep(aside.elbos[-1])
            self.n_clusters = aside.n_clusters
        return accepted

    def add_pass(self, elbo: float, n_clusters: int) -> None:
        """Note a pass whose result was kept."""
        self.n_iter += 1
        self._keep(elbo)
        self._tell(n_clusters)

    def add_move(
        self,
        kind: MoveKind,
        clusters: tuple[int, ...],
        elbos: tuple[float, float],
        n_clusters: tuple[int, int],
        n_passes: int,
    ) -> bool:
        """Note a proposal that took ``n_passes`` passes; return whether the ELBO rose.

        The one place where a move is accepted: only if it raises the ELBO.
        """
        before, after = elbos
        accepted = bool(after > before)
        self.n_iter += n_passes
        if accepted:
            self._keep(after)
        seconds = time.perf_counter() - self.began
        now = n_clusters[accepted]
        self.moves.append(
            Move(kind, clusters, accepted, before, after, now, self.n_rows, self.n_iter, seconds)
        )
        self._tell(now)
        return accepted

    def _keep(self, elbo: float) -> None:
        self.elbos.append(elbo)
        self.seconds.append(time.perf_counter() - self.began)

    def _tell(self, n_clusters: int) -> None:
        self.n_clusters = n_clusters
        if self.watch is not None:
            self.watch(self)


Watch = Callable[[History], None]


class InTurn:
    """A watcher of fits that run side by side: sees one of them, the first under way."""

    def __init__(self, watch: Watch | None) -> None:
        self._watch = watch
        self._under_way: set[int] = set()
        self._lock = Lock()

    @contextmanager
    def part(self, number: int) -> Iterator[Watch | None]:
        """Give the watcher of one fit, for as long as it runs."""
        watch = self._watch
        if watch is None:
            yield None
            return

        def tell(history: History) -> None:
            with self._lock:
                if number == min(self._under_way):
                    watch(history)

        with self._lock:
            self._under_way.add(number)
        try:
            yield tell
        finally:
            with self._lock:
                self._under_way.remove(number)
