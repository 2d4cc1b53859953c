"""Outcomes: how often they occur in each cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fedmerdel.errors import OptionError
from fedmerdel.plot.canvas import INK, LINE, LITERAL, TEXT, axes, bare, lines, percent, text_width
from fedmerdel.plot.subject import global_model, names_of
from fedmerdel.report.colours import CYCLE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

RATE = ("share", "low", "high")


def outcomes(model: Any, outcome: str, ax: Axes | None = None) -> Axes:
    """Draw the rate of an outcome in each cluster, with its 95 % interval.

    Parameters
    ----------
    model : GlobalModel, Federation or FedMerDel
        A model, a federation or a fitted estimator.
    outcome : str
        One of the study's outcomes.
    ax : matplotlib Axes, optional
        Where to draw; None makes a figure.

    Returns
    -------
    matplotlib Axes
        A dashed line is the rate of all rows.
    """
    found = global_model(model)
    if outcome not in found.study.outcomes:
        known = ", ".join(map(repr, found.study.outcomes)) or "none"
        raise OptionError(f"outcome: {outcome!r} is not in the study, which has {known}")
    each, overall, _ = found.outcomes[outcome]
    names = names_of(found)
    ax = axes(ax, 4.0 + text_width(names), LINE * len(names) + 0.7)
    at = np.arange(len(names))
    share, low, high = (np.array([getattr(rate, end) for rate in each]) for end in RATE)
    ax.hlines(at, low, high, color=CYCLE[0], linewidth=1.6)
    # A cluster of which nothing is known has an interval alone.
    ax.plot(share, at, "o", color=CYCLE[0], markersize=4.5, markeredgewidth=0, clip_on=False)
    ax.axvline(overall.share, color=INK, linestyle=(0, (4, 3)), linewidth=0.8, zorder=1)
    ax.annotate(
        f"all rows: {100 * overall.share:.1f} %", (overall.share, 1.0), (0, 2),
        xycoords=("data", "axes fraction"), textcoords="offset points", ha="center", va="bottom",
        fontsize=7, color=INK,
    )  # fmt: skip
    bare(ax, "bottom")
    lines(ax, names)
    ax.set_xlim(0.0, min(1.05 * float(max(high.max(), overall.share, 0.01)), 1.0))
    percent(ax, "x")
    ax.grid(axis="x", color="#eceff2", linewidth=0.8)
    ax.set_axisbelow(True)
    ax.set_xlabel(f"rows with {outcome}, 95 % interval", fontsize=TEXT, **LITERAL)
    return ax
