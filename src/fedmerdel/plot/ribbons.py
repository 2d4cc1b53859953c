"""Where the local clusters went: ribbons from them to the global ones."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.optimize import isotonic_regression

from fedmerdel.centre.origins import rows_from
from fedmerdel.centre.state import FederationState
from fedmerdel.plot.canvas import (
    FAINT,
    INK,
    LINE,
    LITERAL,
    axes,
    extent,
    fitting,
    short,
    text_width,
)
from fedmerdel.plot.subject import names_of, needed_federation
from fedmerdel.report.colours import CYCLE
from fedmerdel.sums.arrays import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLOCK = 0.025
"""Width of a block, where the ribbons are as long as 1."""

BLOCKS = "#4a4a4a"
"""Colour of the blocks at the left."""

AIR = 0.25
"""Share of the height that is left free between blocks."""


class Side(NamedTuple):
    """The blocks of one side from top to bottom.

    Attributes
    ----------
    groups : list of tuple of str and int
        Names, and how many blocks each is for.
    sizes : float64 array
        Rows of each block.
    """

    groups: list[tuple[str, int]]
    sizes: FloatArray

    def tops(self, height: float) -> FloatArray:
        """Return where each block begins, with more air between groups than inside one."""
        first = np.concatenate([[1.0, *[0.0] * (n - 1)] for _, n in self.groups])
        gaps = np.where(first[1:] > 0, 1.0, 0.25)
        free = height - self.sizes.sum()
        # Few blocks need no wide gaps: they stand in the middle instead.
        gap = min(free / max(gaps.sum(), 1e-12), 0.03 * height)
        gaps = gaps * gap
        begin = (free - gaps.sum()) / 2
        return np.asarray(begin + np.concatenate([[0.0], np.cumsum(self.sizes[:-1] + gaps)]))


def lineage(model: Any, ax: Axes | None = None) -> Axes:
    """Draw what the global clusters are made of.

    Parameters
    ----------
    model : Federation or FedMerDel
        A federation or a fitted estimator.
    ax : matplotlib Axes, optional
        Where to draw; None makes a figure.

    Returns
    -------
    matplotlib Axes
        At the left the local clusters by site, or the sites alone after rounds and where there
        are more than 150 local clusters; at the right the global ones. Ribbons are as wide as the
        rows that they stand for.
    """
    found = needed_federation(model)
    left, flow = _left(found)
    right = Side([(name, 1) for name in names_of(found)], flow.sum(axis=0))
    n_lines = max(len(left.groups), len(right.groups))
    ax = axes(
        ax,
        4.2 + text_width(name for side in (left, right) for name, _ in side.groups) * 2,
        max(LINE * n_lines, 0.07 * len(left.sizes), 3.0) + 0.4,
    )
    height = float(flow.sum()) / (1 - AIR)
    ax.set_xlim(-BLOCK, 1 + BLOCK)
    ax.set_ylim(height, 0.0)
    ax.set_axis_off()
    tops = left.tops(height), right.tops(height)
    _ribbons(ax, flow, *tops)
    _blocks(ax, -BLOCK, tops[0], left.sizes, [BLOCKS] * len(left.sizes))
    _blocks(ax, 1.0, tops[1], right.sizes, [_colour(k) for k in range(len(right.sizes))])
    _names(ax, left, tops[0], -1)
    _names(ax, right, tops[1], 1)
    return ax


def _left(federation: FederationState) -> tuple[Side, FloatArray]:
    """Return the blocks at the left, and the rows that go from each to each global cluster."""
    by_site, flow = rows_from(federation.lineage, federation.site_rows, bool(federation.record))
    if by_site:
        return Side([(site, 1) for site in federation.sites], flow.sum(axis=1)), flow
    own = groupby(ancestor.site for ancestor in federation.lineage)
    return Side([(site, len(list(each))) for site, each in own], flow.sum(axis=1)), flow


def _ribbons(ax: Axes, flow: FloatArray, left: FloatArray, right: FloatArray) -> None:
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    codes = [Path.MOVETO, *[Path.CURVE4] * 3, Path.LINETO, *[Path.CURVE4] * 3, Path.CLOSEPOLY]
    used_left, used_right = left.copy(), right.copy()
    # Ribbons leave and arrive in the order of the blocks on the other side.
    for k in range(flow.shape[1]):
        for s in np.flatnonzero(flow[:, k] > 0):
            rows, y0, y1 = flow[s, k], used_left[s], used_right[k]
            used_left[s] += rows
            used_right[k] += rows
            upper = [(0.0, y0), (0.5, y0), (0.5, y1), (1.0, y1)]
            lower = [(x, y + rows) for x, y in reversed(upper)]
            path = Path([*upper, *lower, upper[0]], codes)
            ax.add_patch(PathPatch(path, facecolor=_colour(k), alpha=0.4, linewidth=0))


def _blocks(ax: Axes, x: float, tops: FloatArray, sizes: FloatArray, colours: list[str]) -> None:
    from matplotlib.patches import Rectangle

    for top, size, colour in zip(tops, sizes, colours, strict=True):
        ax.add_patch(Rectangle((x, top), BLOCK, size, facecolor=colour, linewidth=0))


def _names(ax: Axes, side: Side, tops: FloatArray, towards: int) -> None:
    """Write the names beside the blocks, apart from each other, each with a line to its own."""
    ends = np.cumsum([n for _, n in side.groups])
    starts = np.concatenate([[0], ends[:-1]])
    middles = (tops[starts] + tops[ends - 1] + side.sizes[ends - 1]) / 2
    size = fitting(ax, len(middles))
    height = ax.get_ylim()[0]
    places = spaced(middles, 1.2 * size * height / extent(ax), height)
    edge = (1 + BLOCK) if towards > 0 else -BLOCK
    for (name, _), middle, place in zip(side.groups, middles, places, strict=True):
        ax.annotate(
            short(name), (edge, middle), (edge + towards * 0.06, place),
            ha="left" if towards > 0 else "right", va="center", fontsize=size, color=INK,
            annotation_clip=False, arrowprops={
                "arrowstyle": "-", "color": FAINT, "linewidth": 0.7, "shrinkA": 1, "shrinkB": 1,
                "relpos": (0.0 if towards > 0 else 1.0, 0.5),
            }, **LITERAL,
        )  # fmt: skip


def spaced(middles: FloatArray, least: float, height: float) -> FloatArray:
    """Return places near these, in the same order, so far apart from each other at least."""
    steps = min(least, height / len(middles)) * np.arange(len(middles))
    places = np.asarray(isotonic_regression(middles - steps).x)
    return np.asarray(places.clip(0.0, max(height - steps[-1], 0.0)) + steps)


def _colour(k: int) -> str:
    return CYCLE[k % (len(CYCLE) - 1)]  # the last one is near that of the left
