"""Outcomes: how often they occur in each cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fedmerdel.errors import OptionError
from fedmerdel.model.guides import guide_rates
from fedmerdel.model.rates import Rate
from fedmerdel.model.state import ModelState
from fedmerdel.plot.canvas import INK, LINE, LITERAL, TEXT, axes, bare, lines, percent, text_width
from fedmerdel.plot.subject import global_model, names_of
from fedmerdel.report.axis import axis_end
from fedmerdel.report.colours import CYCLE

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def outcomes(model: Any, outcome: str, ax: Axes | None = None) -> Axes:
    """Draw the rate of an outcome in each cluster, with its 95 % interval.

    The axis ends at the longest interval of clusters that hold at least 1 % of the rows or have an
    interval no wider than 20 points. Longer ones are cut there, with an arrow.

    Parameters
    ----------
    model : GlobalModel, Federation or FedMerDel
        A model, a federation or a fitted estimator.
    outcome : str
        One of the study's outcomes, as `GlobalModel.outcome_rates` names them, or a guide, which
        is marked: its rates are no validation of the clusters.
    ax : matplotlib Axes, optional
        Where to draw; None makes a figure.

    Returns
    -------
    matplotlib Axes
        A dashed line is the rate of all rows.
    """
    found = global_model(model)
    each, overall, guide = _asked(found, outcome)
    names = names_of(found)
    ax = axes(ax, 4.0 + text_width(names), LINE * len(names) + 0.7)
    at = np.arange(len(names))
    rates = [rate.on_axis for rate in each]
    share, low, high = np.array(rates).T
    middle = overall.on_axis[0]
    end = min(1.05 * axis_end(rates, found.sums.T.tolist(), middle), 1.0)
    ax.hlines(at, np.minimum(low, end), np.minimum(high, end), color=CYCLE[0], linewidth=1.6)
    # A cluster of which nothing is known has an interval alone; so has one beyond the axis.
    mark: dict[str, Any] = {"color": CYCLE[0], "markeredgewidth": 0, "clip_on": False}
    ax.plot(np.where(share <= end, share, np.nan), at, "o", markersize=4.5, **mark)
    ax.axvline(middle, color=INK, linestyle=(0, (4, 3)), linewidth=0.8, zorder=1)
    ax.annotate(
        f"all rows: {overall.text(overall.share)}", (middle, 1.0), (0, 2),
        xycoords=("data", "axes fraction"), textcoords="offset points", ha="center", va="bottom",
        fontsize=7, color=INK,
    )  # fmt: skip
    if np.any(high > end):
        cut = at[high > end]
        ax.plot(np.full(len(cut), end), cut, ">", markersize=5.0, **mark)
    bare(ax, "bottom")
    lines(ax, names)
    ax.set_xlim(0.0, end)
    percent(ax, "x")
    if overall.range is not None:
        ax.xaxis.set_major_formatter(lambda at, _: overall.tick(at))
    ax.grid(axis="x", color="#eceff2", linewidth=0.8)
    ax.set_axisbelow(True)
    what = "rows with" if overall.range is None else "mean of"
    ax.set_xlabel(f"{what} {outcome}{guide}, 95 % interval", fontsize=TEXT, **LITERAL)
    return ax


def _asked(model: ModelState, outcome: str) -> tuple[tuple[Rate, ...], Rate, str]:
    """Return the rates in each cluster and in all rows, and what must be said of a guide."""
    if outcome in model.study.measures:
        each, overall, *_ = model.outcomes[outcome]
        return each, overall, ""
    guides = guide_rates(model)
    if outcome in guides:
        each, all_rows = guides[outcome]
        return each, Rate(all_rows, all_rows, all_rows), " (guide: no validation)"
    known = ", ".join(map(repr, (*model.study.measures, *guides))) or "none"
    raise OptionError(f"outcome: {outcome!r} is not in the study, which has {known}")
