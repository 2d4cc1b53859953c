"""Sums that may leave, or have left."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fedmerdel.sums.arrays import IntArray
from fedmerdel.sums.sums import Sums


class Released(NamedTuple):
    """Sums that may leave.

    Attributes
    ----------
    sums : Sums
        Of all clusters; 0 where nothing is told of one.
    rest : int or None
        The cluster that is not counted but is what the others leave of the site's totals; None
        where every cluster is counted.
    """

    sums: Sums
    rest: int | None

    def take(self, clusters: IntArray) -> Released:
        """Return these clusters alone, in this order; the rest is among them."""
        place = None if self.rest is None else int(np.flatnonzero(clusters == self.rest)[0])
        return Released(self.sums.take(clusters), place)
