"""Where the axis of a chart of rates ends."""

from __future__ import annotations

from collections.abc import Sequence

LEAST_SHARE = 0.01
"""A cluster with this share of the rows is shown whole."""

NARROW = 0.2
"""So is one whose interval is no wider than this."""


def axis_end(
    rates: Sequence[tuple[float, float, float]], sizes: Sequence[float], overall: float
) -> float:
    """Return the largest rate that a chart shows.

    It is the largest end of an interval, of clusters that hold at least 1 % of the rows or have
    an interval no wider than 20 points; of all clusters if there is no such one. A longer interval,
    of a tiny cluster of which little is known, is cut there: else it would press all others
    together at the left.

    Parameters
    ----------
    rates : sequence of (float, float, float)
        Share, and ends of the interval, in each cluster; a share that is not known is nan.
    sizes : sequence of float
        Rows of each cluster.
    overall : float
        The rate among all rows, which is shown too; nan if not known.
    """
    total = sum(sizes)
    highs = [
        high
        for (_, low, high), rows in zip(rates, sizes, strict=True)
        if rows >= LEAST_SHARE * total or high - low <= NARROW
    ]
    known = [overall] if overall == overall else []
    return max(0.01, *known, *(highs or [high for _, _, high in rates]))
