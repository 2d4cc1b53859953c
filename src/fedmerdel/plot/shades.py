"""Cells of a table as shades, and what the shades mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from fedmerdel.plot.canvas import INK, bare, colour_map, percent
from fedmerdel.sums.arrays import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import QuadMesh
    from matplotlib.colors import Normalize

BAR = (160.0, 7.0)
"""Points that the bar is long and high which says what the shades mean."""


def shades(ax: Axes, values: FloatArray, norm: Normalize, stops: tuple[str, ...]) -> QuadMesh:
    """Draw the cells, as shapes and not as an image: sharp in print at any size."""
    edges = [np.arange(n + 1) - 0.5 for n in values.shape[::-1]]
    cmap = colour_map("fedmerdel", stops)
    bare(ax, "left", "right", "top", "bottom")
    return ax.pcolormesh(
        *edges, values, cmap=cmap, norm=norm, edgecolors="white", linewidth=0.4, rasterized=False
    )


def scale(ax: Axes, mesh: QuadMesh, meaning: str, ticks: Mapping[float, str] | None = None) -> None:
    """Draw what the shades mean, above: of the same size in any figure, and part of the Axes.

    They are shares unless ticks say otherwise.
    """
    from matplotlib.transforms import Bbox

    def above(_: Any, __: Any) -> Bbox:
        box, point = ax.get_window_extent(), ax.figure.dpi / 72
        wide, high = min(BAR[0] * point, box.width), BAR[1] * point
        bar = Bbox.from_bounds(box.x0, box.y1 + 6 * point, wide, high)
        return bar.transformed(ax.figure.transSubfigure.inverted())

    place = ax.inset_axes((0.0, 1.0, 1.0, 0.1))
    place.set_axes_locator(above)
    bar = ax.figure.colorbar(mesh, cax=place, orientation="horizontal", ticklocation="top")
    bar.outline.set_visible(False)
    place.tick_params(labelsize=7, length=2, pad=1, color=INK)
    place.set_title(meaning, fontsize=8, loc="left", pad=3)
    if ticks is not None:
        place.minorticks_off()
        bar.set_ticks(list(ticks))
        bar.set_ticklabels(list(ticks.values()))
    else:
        percent(place, "x")
