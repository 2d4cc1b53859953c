"""What all sites count in a round: the same clusters, so that their counts can be added up."""

from __future__ import annotations

import json
from typing import NamedTuple

import numpy as np

from fedmerdel.errors import DataError
from fedmerdel.summing.cells import Cells
from fedmerdel.sums.arrays import BoolArray, FloatArray
from fedmerdel.sums.components import MOST_COMPONENTS
from fedmerdel.sums.cuts import Cuts
from fedmerdel.sums.expectations import Expectations

ALIKE = 1e-9
"""Share, or nats, by which a number may differ that another machine has derived."""

MOST_CELLS = 1_000_000
"""Levels of all variables, and cells of outcomes: more than any table has."""

MAGIC = b"fedmerdel question 1\n"


class Question(NamedTuple):
    """Clusters, and what is told of each.

    Attributes
    ----------
    number : int
        0 asks for all rows as one cluster; then rounds, from 1.
    clusters : Expectations
        What an E step reads.
    cuts : Cuts
        A cut through each, along which halves are counted; none in the last round.
    uncut : bool array (K,)
        Clusters without a cut: the sites propose halves.
    eps : float64 array (M,)
        The prior of the levels, for these proposals.
    cells : Cells
        What is told: in the last round, and in round 0, of outcomes too.
    """

    number: int
    clusters: Expectations
    cuts: Cuts
    uncut: BoolArray
    eps: FloatArray
    cells: Cells

    @property
    def is_last(self) -> bool:
        """Whether no halves are asked for."""
        return len(self.uncut) == 0

    @property
    def halves(self) -> Cells | None:
        """What is told of halves; None in the last round."""
        return None if self.is_last else self.cells

    def alike(self, other: Question) -> bool:
        """Whether another asks for the same, but for the last digits of numbers."""
        same = [(a.left, a.missing, a.offsets) for a in (self.cells, other.cells)]
        return (
            self.number == other.number
            and all(np.array_equal(a, b) for a, b in zip(*same, strict=True))
            and np.array_equal(self.uncut, other.uncut)
            and all(
                a.shape == b.shape and np.allclose(a, b, rtol=ALIKE, atol=ALIKE)
                for a, b in zip(self._numbers, other._numbers, strict=True)
            )
        )

    @property
    def _numbers(self) -> tuple[FloatArray, ...]:
        return (*self.clusters, *self.cuts, self.eps)

    def to_bytes(self) -> bytes:
        """Return all of it: a line that says how much there is, then numbers, low byte first."""
        K, M = self.clusters.log_levels.shape
        head = {
            "number": self.number,
            "clusters": K,
            "levels": M,
            "last": self.is_last,
            "offsets": self.cells.offsets.tolist(),
            "left": self.cells.left.tolist(),
            "missing": self.cells.missing.tolist(),
            "uncut": self.uncut.tolist(),
        }
        text = json.dumps(head, separators=(",", ":"), sort_keys=True).encode("ascii")
        return b"".join(
            [MAGIC, text, b"\n", *(part.astype("<f8").tobytes() for part in self._numbers)]
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> Question:
        """Read what `to_bytes` returned, and nothing that is spelt otherwise."""
        try:
            magic, text, rest = data[: len(MAGIC)], *data[len(MAGIC) :].split(b"\n", 1)
            if magic != MAGIC or len(text) > 64 * MOST_CELLS:
                raise ValueError("no question")
            head = json.loads(text)
            K, M, last = int(head["clusters"]), int(head["levels"]), bool(head["last"])
            if not (1 <= K <= MOST_COMPONENTS and 1 <= M <= MOST_CELLS):
                raise ValueError("too much")
            n_cut = 0 if last else K
            shapes = [(K,), (K, M), (n_cut,), (n_cut, M), (M,)]
            sizes = [int(np.prod(shape)) for shape in shapes]
            if len(rest) != 8 * sum(sizes):
                raise ValueError("cut off")
            numbers = np.frombuffer(rest, "<f8").astype(np.float64)
            if not np.isfinite(numbers).all():
                raise ValueError("no numbers")
            weights, levels, offset, direction, eps = (
                part.reshape(shape)
                for part, shape in zip(
                    np.split(numbers, np.cumsum(sizes)[:-1]), shapes, strict=True
                )
            )
            cells = Cells(
                np.array(head["offsets"], dtype=np.int64),
                np.array(head["left"], dtype=np.int64),
                np.array(head["missing"], dtype=np.bool_),
            )
            found = cls(
                int(head["number"]),
                Expectations(weights, levels),
                Cuts(offset, direction),
                np.array(head["uncut"], dtype=np.bool_),
                eps,
                cells,
            )
            if found.to_bytes() == data:
                return found
        except (ValueError, KeyError, TypeError, OverflowError, AttributeError, IndexError):
            pass
        raise DataError("a question to the sites is damaged or was changed: ask for it again")
