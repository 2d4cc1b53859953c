"""Clusters of images as images: the mean of each, and some that the model makes up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fedmerdel.errors import OptionError
from fedmerdel.model.pixels import cluster_images
from fedmerdel.model.state import ModelState
from fedmerdel.plot.canvas import INK, LITERAL, LONGEST, new_figure
from fedmerdel.plot.subject import global_model
from fedmerdel.sums.arrays import FloatArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIDE = 0.55
"""Inches of an image."""

WIDE = 8.0
"""Inches of a figure, or of one strip if that is longer."""


def images(model: Any, shape: tuple[int, int], n_drawn: int = 3) -> Figure:
    """Draw the mean image of each cluster, and rows that the model makes up.

    Parameters
    ----------
    model : GlobalModel, Federation or FedMerDel
        A model, a federation or a fitted estimator. Its variables are pixels, off or on: where
        each name ends in a number, such as ``pixel_37``, that is its place, line by line from 0.
    shape : tuple of int
        Lines and columns of an image.
    n_drawn : int, default=3
        Rows drawn from each cluster.

    Returns
    -------
    matplotlib Figure
        Axes for each cluster, with a strip of images: the mean first.
    """
    found = global_model(model)
    shape = _checked(shape, n_drawn)
    strips = _strips(found, shape, n_drawn)
    width = SIDE * (n_drawn + 1) * shape[1] / max(shape)
    across = max(min(int(WIDE // (width + 0.2)), found.n_clusters), 1)
    down = -(-found.n_clusters // across)
    figure = new_figure(across * (width + 0.2), down * (SIDE * shape[0] / max(shape) + 0.32))
    axes = figure.subplots(
        down, across, squeeze=False, gridspec_kw={"wspace": 0.06, "hspace": 0.04}
    ).ravel()
    for ax in axes:
        ax.set_axis_off()
    # About the characters that stand above one strip.
    room = max(min(int(width / 0.06), LONGEST), 8)
    for k, strip in enumerate(strips):
        axes[k].imshow(strip, cmap="gray_r", vmin=0.0, vmax=1.0, interpolation="nearest")
        name = found.name(k)
        name = name if len(name) <= room else name[: room - 1] + "…"
        axes[k].set_title(name, fontsize=7, loc="left", pad=2, color=INK, **LITERAL)
    return figure


def _strips(model: ModelState, shape: tuple[int, int], n_drawn: int) -> list[FloatArray]:
    """Return the images of each cluster side by side, nan between them."""
    try:
        found = cluster_images(model, shape, n_drawn)
    except OptionError as error:
        raise OptionError(str(error).removeprefix("image_")) from None
    gap = np.full((shape[0], max(shape[1] // 10, 1)), np.nan)
    return [
        np.hstack([mean, *(part for image in drawn for part in (gap, image))])
        for mean, *drawn in found
    ]


def _checked(shape: Any, n_drawn: Any) -> tuple[int, int]:
    def whole(value: Any, least: int) -> bool:
        plain = isinstance(value, int | np.integer) and not isinstance(value, bool)
        return plain and value >= least

    if not isinstance(shape, tuple | list) or len(shape) != 2:
        raise OptionError("shape: give lines and columns, such as (28, 28)")
    if not all(whole(side, 1) for side in shape):
        raise OptionError("shape: give whole numbers of at least 1")
    if not whole(n_drawn, 0):
        raise OptionError("n_drawn: give a whole number of at least 0")
    return int(shape[0]), int(shape[1])
