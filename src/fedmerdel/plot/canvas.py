"""Where figures are drawn: Axes, colours, and texts that fit.

matplotlib is imported where it is first needed, so that the package is complete without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from fedmerdel.errors import OptionError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.figure import Figure

INK, FAINT = "#1a1a1a", "#c9d1d9"

LONGEST = 36
"""Characters of a name in a figure; a longer one is cut."""

TEXT = 8.0
"""Points of a text that has room."""

SMALLEST_TEXT = 3.0

CHARACTER = 0.066
"""Inches that a character of this size takes, on average and with a little to spare."""

LINE = 0.19
"""Inches from one line of text to the next."""

LITERAL: dict[str, Any] = {"parse_math": False, "usetex": False}
"""For texts that people wrote: a dollar sign is a dollar sign."""


def short(text: str) -> str:
    """Return a text cut to what a figure has room for."""
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of a size in inches, of which nobody else knows.

    Raises
    ------
    OptionError
        If matplotlib is not installed.
    """
    _matplotlib("figure")  # before what is built on it: what is missing is said in one line
    from fedmerdel.plot.notebook import NotebookFigure

    return NotebookFigure(figsize=(min(width, 60.0), min(height, 60.0)), layout="constrained")


def axes(ax: Axes | None, width: float, height: float) -> Axes:
    """Return the given Axes, or those of a new figure of a size in inches."""
    if ax is not None:
        return ax
    figure = new_figure(width, height)
    from fedmerdel.plot.notebook import NotebookAxes

    return figure.add_subplot(axes_class=NotebookAxes)


def colour_map(name: str, stops: Sequence[str]) -> LinearSegmentedColormap:
    """Return colours along some stops, as those of the report."""
    made: LinearSegmentedColormap = _matplotlib("colors").LinearSegmentedColormap.from_list(
        name, list(stops)
    )
    return made


def text_width(texts: Iterable[str]) -> float:
    """Return inches that the longest of some texts takes, about."""
    return CHARACTER * max((len(short(text)) for text in texts), default=0)


def fitting(ax: Axes, n_texts: int, along: str = "y") -> float:
    """Return the points of a text of which so many stand one above the other, or side by side."""
    room = extent(ax, along) / max(n_texts, 1) / 1.25
    return max(min(TEXT, room), SMALLEST_TEXT)


def extent(ax: Axes, along: str = "y") -> float:
    """Return how long the Axes are, in points."""
    box = ax.get_window_extent()
    pixels = box.height if along == "y" else box.width
    return float(72.0 * pixels / ax.figure.dpi)


def lines(ax: Axes, texts: Sequence[str]) -> None:
    """Name the lines 0, 1, 2 and so on from top to bottom, at the left."""
    ax.set_ylim(len(texts) - 0.5, -0.5)
    ax.set_yticks(
        range(len(texts)),
        [short(text) for text in texts],
        fontsize=fitting(ax, len(texts)),
        **LITERAL,
    )
    ax.tick_params(axis="y", length=0)


def columns(ax: Axes, texts: Sequence[str]) -> None:
    """Name the columns 0, 1, 2 and so on, slanted below."""
    ax.set_xlim(-0.5, len(texts) - 0.5)
    ax.set_xticks(
        range(len(texts)),
        [short(text) for text in texts],
        fontsize=fitting(ax, len(texts), "x"),
        rotation=45,
        ha="right",
        rotation_mode="anchor",
        **LITERAL,
    )
    ax.tick_params(axis="x", length=0, pad=3)


def bare(ax: Axes, *keep: str) -> None:
    """Leave out the frame but for some sides."""
    for side, spine in ax.spines.items():
        spine.set_visible(side in keep)
        spine.set_color(FAINT)
    ax.tick_params(color=FAINT, labelsize=TEXT, labelcolor=INK)


def percent(ax: Axes, along: str) -> None:
    """Write the numbers of an axis, which are shares, in per cent."""
    ticker = _matplotlib("ticker")
    axis = ax.xaxis if along == "x" else ax.yaxis
    axis.set_major_locator(ticker.MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    axis.set_major_formatter(lambda share, _: f"{round(100 * share, 6):g} %")


def _matplotlib(part: str) -> Any:
    try:
        return import_module(f"matplotlib.{part}")
    except ModuleNotFoundError:
        raise OptionError(
            "figures need matplotlib, which is not installed: pip install 'fedmerdel[plot]'"
        ) from None
